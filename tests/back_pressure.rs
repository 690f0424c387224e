//! Reading stops when the user does not keep up, and nothing else does.
#![expect(clippy::unwrap_used, reason = "what fails fails the test")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};
use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{KafkaStream, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::container::CapacityContainerBuilder;
use timely_kafka::timely::dataflow::channels::pact::Pipeline;
use timely_kafka::timely::dataflow::operators::{Capability, Inspect, Operator, Probe};
use timely_kafka::timely::dataflow::{ProbeHandle, Stream};
use timely_kafka::timely::scheduling::Activator;
use timely_kafka::timely::worker::Worker;
use timely_kafka::{HealthStatus, KafkaSource, ReadOptions, RecordBatch, Subscription, TimeMap};

const PARTITIONS: i32 = 4;
/// The records of a partition, each of about a kibibyte: 16 MiB in all.
const RECORDS: u64 = 4_000;
const MEMORY: usize = 8 << 20;
/// Half of the memory is for what the workers emitted, and there is one.
const IN_FLIGHT: usize = MEMORY / 2;
/// What may be emitted beyond it: the batch that reached it.
const BEYOND: usize = 2 << 20;
/// Ticks for which nothing more may be read before it counts as stopped.
const TICKS: usize = 20;
/// Guards against hangs only.
const STEPS_MAX: usize = 100_000;

/// What the user does not let go of.
#[derive(Default)]
struct Stash {
    released: bool,
    batches: Vec<RecordBatch>,
    /// That of the first batch.
    time: Option<Capability<u64>>,
    /// Timely notices that a time is let go of when the operator that held it runs.
    operator: Option<Activator>,
    bytes: usize,
    offsets: BTreeMap<i32, Vec<u64>>,
}

impl Stash {
    fn take(&mut self, time: Option<Capability<u64>>, batch: &RecordBatch, keeps: Keeps) {
        self.bytes += batch.memory_bytes();
        for record in batch {
            let partition = record.split().partition.0;
            let offsets = self.offsets.entry(partition).or_default();
            offsets.push(record.offset().get());
        }
        if !self.released {
            match keeps {
                Keeps::Batches => self.batches.push(batch.clone()),
                Keeps::Time => self.time = self.time.take().or(time),
            }
        }
    }

    fn records(&self) -> usize {
        self.offsets.values().map(Vec::len).sum()
    }

    fn release(&mut self) {
        self.released = true;
        self.batches.clear();
        self.time = None;
        let operator = self.operator.as_ref().expect("the dataflow is built");
        operator.activate();
    }
}

#[derive(Clone, Copy)]
enum Keeps {
    /// The batches, in a source without a probe.
    Batches,
    /// A time, in a source with one.
    Time,
}

/// Has `stash` keep what comes of `batches`; gives nothing.
fn stash_into(
    stash: Rc<RefCell<Stash>>,
    batches: Stream<'_, u64, RecordBatch>,
    keeps: Keeps,
) -> Stream<'_, u64, Vec<()>> {
    let scope = batches.scope();
    batches.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(Pipeline, "Stash", |_, operator| {
        stash.borrow_mut().operator = Some(scope.activator_for(operator.address));
        move |input, _| {
            input.for_each(|time, batch| {
                (stash.borrow_mut()).take(time.retain_least(0), batch, keeps);
            });
        }
    })
}

fn source() -> (EmbeddedCluster, KafkaSource) {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", PARTITIONS).unwrap();
    for partition in 0..PARTITIONS {
        let record = || EmbeddedRecord::value(vec![7; 1_000]);
        let records = std::iter::repeat_with(record).take(usize::try_from(RECORDS).unwrap());
        cluster.produce("orders", partition, records).unwrap();
    }
    let stream = KafkaStream::new().with_topics("here", ["orders"]).unwrap();
    let metadata = StreamsMetadata::new()
        .with_cluster("here", cluster.client_properties())
        .and_then(|metadata| metadata.with_stream("orders", stream))
        .unwrap();
    let source = KafkaSource::builder()
        .metadata(FixedMetadataService::new(metadata))
        .subscribe(Subscription::streams(["orders"]))
        .memory(MEMORY)
        .tick_interval(Duration::from_millis(10))
        .build()
        .unwrap();
    (cluster, source)
}

/// Counts how often what `probe` sees moves on.
struct Ticks {
    probe: ProbeHandle<u64>,
    last: Option<u64>,
    count: usize,
}

impl Ticks {
    fn of(probe: ProbeHandle<u64>) -> Self {
        Self {
            probe,
            last: None,
            count: 0,
        }
    }

    fn look(&mut self) -> usize {
        let first = self
            .probe
            .with_frontier(|frontier| frontier.first().copied());
        if first != self.last {
            self.last = first;
            self.count += 1;
        }
        self.count
    }
}

/// Steps until `is_over`.
fn step_until(worker: &mut Worker, mut is_over: impl FnMut() -> bool) {
    for _ in 0..STEPS_MAX {
        if is_over() {
            return;
        }
        worker.step_or_park(Some(Duration::from_millis(1)));
    }
    panic!("not over after {STEPS_MAX} steps");
}

/// Steps until nothing more has been read for a while; says how many bytes were.
fn step_until_stopped(worker: &mut Worker, stash: &RefCell<Stash>, mut ticks: Ticks) -> usize {
    step_until(worker, || stash.borrow().bytes >= IN_FLIGHT);
    let (mut bytes, mut since) = (stash.borrow().bytes, ticks.look());
    step_until(worker, || {
        if stash.borrow().bytes > bytes {
            (bytes, since) = (stash.borrow().bytes, ticks.look());
        }
        ticks.look() >= since + TICKS
    });
    bytes
}

/// Reads with a user who does not let go, then does; says how many bytes were read until it stopped,
/// and which offsets in all.
fn read(keeps: Keeps) -> (usize, BTreeMap<i32, Vec<u64>>) {
    let (_cluster, source) = source();
    let result = Arc::new(Mutex::new(None));
    let outcome = Arc::clone(&result);
    timely_kafka::execute(Config::thread(), move |worker| {
        let stash: Rc<RefCell<Stash>> = Rc::default();
        let (after, bound) = (ProbeHandle::new(), ProbeHandle::new());
        let control = source.control();
        let kept = Rc::clone(&stash);
        worker.dataflow(|scope| {
            let mut options = ReadOptions::new(TimeMap::identity());
            if matches!(keeps, Keeps::Time) {
                options = options.with_probe(&after);
            }
            let read = source.read_with(scope, options);
            stash_into(kept, read.batches, keeps).probe_with(&after);
            read.bindings.probe_with(&bound);
        });

        // Reading stops, and the ticks go on: the frontier of what the user has not held back.
        let watched = if matches!(keeps, Keeps::Time) {
            &bound
        } else {
            &after
        };
        let bytes = step_until_stopped(worker, &stash, Ticks::of(watched.clone()));

        // It goes on when the user lets go.
        stash.borrow_mut().release();
        let all =
            usize::try_from(PARTITIONS.unsigned_abs()).unwrap() * usize::try_from(RECORDS).unwrap();
        step_until(worker, || stash.borrow().records() >= all);
        control.stop();
        step_until(worker, || after.done() && bound.done());
        let offsets = std::mem::take(&mut stash.borrow_mut().offsets);
        *outcome.lock().unwrap() = Some((bytes, offsets));
    })
    .unwrap();
    result.lock().unwrap().take().unwrap()
}

fn assert_stopped_and_exact(keeps: Keeps) {
    let (bytes, offsets) = read(keeps);

    assert!(bytes < IN_FLIGHT + BEYOND, "{bytes} bytes were read");
    let every = Vec::from_iter(0..RECORDS);
    let expected = (0..PARTITIONS).map(|partition| (partition, every.clone()));
    assert_eq!(offsets, expected.collect());
}

#[test]
fn without_a_probe_reading_stops_while_the_user_keeps_batches() {
    assert_stopped_and_exact(Keeps::Batches);
}

#[test]
fn with_a_probe_reading_stops_while_the_user_holds_the_frontier() {
    assert_stopped_and_exact(Keeps::Time);
}

/// The time for which a window is open: 60 ticks.
const WINDOW: u64 = 600;

/// Gives the number of records in each window, at the time at which it began.
fn windows(batches: Stream<'_, u64, RecordBatch>) -> Stream<'_, u64, Vec<usize>> {
    batches.unary_frontier::<CapacityContainerBuilder<Vec<usize>>, _, _, _>(
        Pipeline,
        "Windows",
        |_, _| {
            let (mut opened, mut kept) = (None::<Capability<u64>>, Vec::new());
            move |(input, frontier), output| {
                input.for_each(|time, batch| {
                    opened = opened.take().or_else(|| time.retain_least(0));
                    kept.push(batch.clone());
                });
                let over =
                    |begun: &mut Capability<u64>| !frontier.less_than(&(*begun.time() + WINDOW));
                if let Some(time) = opened.take_if(over) {
                    let records = kept
                        .drain(..)
                        .map(|batch: RecordBatch| batch.iter().count());
                    output.session(&time).give(records.sum::<usize>());
                }
            }
        },
    )
}

/// A window keeps the time at which it began until 60 later ticks have passed. If ticks were held back while
/// there is no room, it would wait for ever; if they were counted, it would have those few that may be open.
///
/// There is four times as much as may be in flight, so that windows are cut short by that more than once.
fn assert_windows_get_all(probed: bool) {
    let (_cluster, source) = source();
    timely_kafka::execute(Config::thread(), move |worker| {
        let (after, control) = (ProbeHandle::new(), source.control());
        let counts: Rc<RefCell<Vec<usize>>> = Rc::default();
        let counted = Rc::clone(&counts);
        worker.dataflow(|scope| {
            let mut options = ReadOptions::new(TimeMap::identity());
            if probed {
                options = options.with_probe(&after);
            }
            windows(source.read_with(scope, options).batches)
                .inspect(move |records| counted.borrow_mut().push(*records))
                .probe_with(&after);
        });

        let partitions = usize::try_from(PARTITIONS).unwrap();
        let all = partitions * usize::try_from(RECORDS).unwrap();
        step_until(worker, || counts.borrow().iter().sum::<usize>() >= all);
        control.stop();
        step_until(worker, || after.done());

        let counts = counts.borrow();
        assert_eq!(counts.iter().sum::<usize>(), all);
        let most = (IN_FLIGHT + BEYOND) / 1_000;
        assert!(counts.iter().all(|records| *records < most), "{counts:?}");
    })
    .unwrap();
}

#[test]
fn with_a_probe_a_window_of_60_ticks_neither_deadlocks_nor_starves() {
    assert_windows_get_all(true);
}

#[test]
fn without_a_probe_a_window_of_60_ticks_neither_deadlocks_nor_starves() {
    assert_windows_get_all(false);
}

/// Who waited for the source, whose user holds a time for ever, did not find out why nothing came.
#[test]
fn a_person_is_told_that_nothing_is_read_for_want_of_room_and_when_it_is_again() {
    let (_cluster, source) = source();
    timely_kafka::execute(Config::thread(), move |worker| {
        let (after, control) = (ProbeHandle::new(), source.control());
        let stash: Rc<RefCell<Stash>> = Rc::default();
        let told: Rc<RefCell<Vec<(HealthStatus, String)>>> = Rc::default();
        let (kept, heard) = (Rc::clone(&stash), Rc::clone(&told));
        worker.dataflow(|scope| {
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&after);
            let read = source.read_with(scope, options);
            stash_into(kept, read.batches, Keeps::Time).probe_with(&after);
            read.health.inspect(move |line| {
                if line.subject.starts_with("worker ") {
                    let said = (line.status, line.message.clone());
                    heard.borrow_mut().push(said);
                }
            });
        });

        step_until(worker, || !told.borrow().is_empty());
        stash.borrow_mut().release();
        step_until(worker, || told.borrow().len() > 1);
        control.stop();
        step_until(worker, || after.done());

        let told = told.borrow();
        let [(waiting, why), (well, _)] = &told[..] else {
            panic!("two lines: {told:?}");
        };
        assert_eq!(
            (*waiting, *well),
            (HealthStatus::Waiting, HealthStatus::Well)
        );
        assert!(why.contains("that the probe has not passed"), "{why}");
    })
    .unwrap();
}

/// What a cluster says of itself waited for room, so a person heard that one was gone when the user went on.
#[test]
fn a_cluster_that_dies_while_the_user_stands_still_is_told_of_at_once() {
    let (cluster, source) = source();
    let cluster = Mutex::new(Some(cluster));
    timely_kafka::execute(Config::thread(), move |worker| {
        let (after, bound) = (ProbeHandle::new(), ProbeHandle::new());
        let control = source.control();
        let stash: Rc<RefCell<Stash>> = Rc::default();
        let failing: Rc<RefCell<Vec<String>>> = Rc::default();
        let (kept, heard) = (Rc::clone(&stash), Rc::clone(&failing));
        worker.dataflow(|scope| {
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&after);
            let read = source.read_with(scope, options);
            stash_into(kept, read.batches, Keeps::Time).probe_with(&after);
            read.health.inspect(move |line| {
                let fails = matches!(line.status, HealthStatus::Failing(_));
                if fails && line.subject == "cluster here" {
                    heard.borrow_mut().push(line.message.clone());
                }
            });
            read.bindings.probe_with(&bound);
        });
        let bytes = step_until_stopped(worker, &stash, Ticks::of(bound.clone()));
        assert!(failing.borrow().is_empty(), "{:?}", failing.borrow());

        drop(cluster.lock().unwrap().take());
        // By the client that reads: the discovery, which asks by another one, says what it asked for.
        let is_told = |words: &String| !words.starts_with("asking for");
        step_until(worker, || failing.borrow().iter().any(is_told));

        let mut ticks = Ticks::of(bound.clone());
        let now = ticks.look();
        step_until(worker, || ticks.look() >= now + TICKS);
        assert_eq!(stash.borrow().bytes, bytes, "nothing is read meanwhile");
        stash.borrow_mut().release();
        control.stop();
        step_until(worker, || after.done() && bound.done());
    })
    .unwrap();
}
