//! One run of a source, on real workers, until it is killed, taken over or ended.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use timely_kafka::metadata::{MetadataError, MetadataOptions, MetadataService, Subscription};
use timely_kafka::model::{ClusterId, KafkaStream, Partition, StreamsMetadata, TopicName};
use timely_kafka::records::RecordBatch;
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::channels::pact::Pipeline;
use timely_kafka::timely::dataflow::operators::Inspect;
use timely_kafka::timely::dataflow::operators::generic::Operator;
use timely_kafka::timely::worker::Worker;
use timely_kafka::{
    KafkaSource, KafkaSplit, Observer, OnFailure, ReaderId, Resume, SourceControl, SourceEvent,
    Tick,
};
use timely_splits::log::ObjectLog;

use super::crash::Crash;
use super::home::{Home, PARTS, Part, Row, part};
use super::store::RunStore;
use crate::random::Random;
use crate::scenario::{Brokers, Embedded};

/// How long a tick stays open.
const TICK: Duration = Duration::from_millis(5);

/// How long nothing may happen before the next thing is done.
const STEP: Duration = Duration::from_millis(4);

/// When a run that is to be killed is killed at last.
const KILLED_WITHIN: Duration = Duration::from_millis(600);

/// Guards against hangs only.
const RUN_MAX: Duration = Duration::from_secs(60);

/// How long a source that hangs may take to say why.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What one run does.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) workers: usize,
    pub(super) resume: Resume,
    pub(super) crash: Crash,
    pub(super) faults: u64,
    pub(super) seed: u64,
    /// How many records are written meanwhile, at most.
    pub(super) writes: usize,
    /// Whether the metadata changes meanwhile.
    pub(super) changes: bool,
    /// Whether the log is compacted meanwhile, up to what is stored.
    pub(super) compacts: bool,
}

/// What the metadata lists: topics of clusters; nothing if the service is away.
type Listed = Arc<Mutex<Option<Vec<(&'static str, &'static str)>>>>;

/// What is outside the source: the clusters, the topics of one round, and what the metadata says.
#[derive(Clone)]
pub(super) struct Outside {
    brokers: Arc<Embedded>,
    /// What the names of this round's topics end with.
    round: u64,
    listed: Listed,
}

impl Outside {
    pub(super) fn new(brokers: &Arc<Embedded>, round: u64) -> Self {
        let outside = Self {
            brokers: Arc::clone(brokers),
            round,
            listed: Listed::default(),
        };
        for (cluster, topic) in topics() {
            let partitions = PARTS
                .iter()
                .filter(|part| (part.0, part.1) == (cluster, topic));
            let partitions = i32::try_from(partitions.count()).expect("there are few");
            brokers.create_topic(cluster, &outside.name(topic), partitions);
        }
        outside.list_all();
        outside
    }

    fn name(&self, topic: &str) -> String {
        format!("{topic}-{}", self.round)
    }

    pub(super) fn list_all(&self) {
        *self.listed.lock().unwrap() = Some(topics());
    }

    fn list(&self, listed: Option<Vec<(&'static str, &'static str)>>) {
        *self.listed.lock().unwrap() = listed;
    }

    fn split(&self, (cluster, topic, partition): Part) -> KafkaSplit {
        let cluster = ClusterId::new(cluster).expect("it is a name");
        let topic = TopicName::new(&self.name(topic)).expect("it is a name");
        KafkaSplit::new(cluster, topic, Partition(partition))
    }

    /// Writes so many records, each with the next number of its partition's cluster.
    pub(super) fn write(&self, home: &Home, to: Part, count: usize) {
        let numbers: Vec<u64> = home.change(|state| {
            let next: usize = state.written.values().map(Vec::len).sum();
            let numbers = next as u64..(next + count) as u64;
            state.written.entry(to).or_default().extend(numbers.clone());
            numbers.collect()
        });
        self.brokers.write(to.0, &self.name(to.1), to.2, &numbers);
    }

    fn metadata(&self) -> Result<StreamsMetadata, MetadataError> {
        let listed = self.listed.lock().unwrap().clone();
        let listed = listed.ok_or_else(|| MetadataError::unavailable("it is away on purpose"))?;
        let mut metadata = StreamsMetadata::new();
        let mut stream = KafkaStream::new();
        for cluster in ["a", "b"] {
            let of_cluster = listed.iter().filter(|(name, _)| *name == cluster);
            let names: Vec<_> = of_cluster.map(|(_, topic)| self.name(topic)).collect();
            if !names.is_empty() {
                let properties = self.brokers.properties(cluster);
                metadata = metadata
                    .with_cluster(cluster, properties)
                    .map_err(MetadataError::invalid)?;
                stream = stream
                    .with_topics(cluster, names.iter().map(String::as_str))
                    .map_err(MetadataError::invalid)?;
            }
        }
        metadata
            .with_stream("orders", stream)
            .map_err(MetadataError::invalid)
    }
}

fn topics() -> Vec<(&'static str, &'static str)> {
    let mut topics: Vec<_> = PARTS.iter().map(|part| (part.0, part.1)).collect();
    topics.dedup();
    topics
}

struct Service(Outside);

impl MetadataService for Service {
    fn ask(&mut self, _deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        self.0.metadata()
    }

    fn interval(&self) -> Option<Duration> {
        Some(STEP)
    }
}

/// A run whose workers may be at work.
pub(super) struct Run {
    pub(super) number: u64,
    home: Home,
    outside: Outside,
    control: SourceControl,
    workers: JoinHandle<Result<(), String>>,
}

impl Run {
    /// Starts what `life` says; the sink takes from it only from here on.
    pub(super) fn start(home: &Home, outside: &Outside, life: &Life) -> Self {
        let number = home.change(|state| {
            state.begin(life.workers, life.crash, life.faults, life.resume);
            state.writer()
        });
        let store = Arc::new(RunStore::new(home, number));
        let log = ObjectLog::in_store(store, "log")
            .keep_for(Duration::MAX)
            .time_limit(Duration::from_millis(300));
        let heard = home.clone();
        let source = KafkaSource::builder()
            .metadata(Service(outside.clone()))
            .metadata_options(MetadataOptions {
                backoff_min: STEP,
                backoff_max: STEP * 4,
                ..MetadataOptions::default()
            })
            .subscribe(Subscription::streams(["orders"]))
            .tick_interval(TICK)
            .discovery_interval(Duration::from_millis(100))
            .resume(life.resume)
            // All runs are in one process.
            .on_failure(OnFailure::StandStill)
            .log(log)
            .observer(Observer::new(move |event| {
                if let SourceEvent::Released { .. } = event {
                    heard.change(|state| state.released(number));
                }
            }))
            .build()
            .expect("what is built is right");
        let control = source.control();
        let (config, seen) = (Config::process(life.workers), home.clone());
        let workers = thread::spawn(move || {
            let guards = timely_kafka::execute(config, move |worker| {
                read(worker, &source, &seen, number);
            })?;
            let joined = guards.join().into_iter();
            joined.collect()
        });
        Self {
            number,
            home: home.clone(),
            outside: outside.clone(),
            control,
            workers,
        }
    }

    /// Has things happen until the run is killed, is to be taken over, or has ended.
    ///
    /// One that ends when everything is stored waits until the run that it has `taken_over` says so.
    pub(super) fn go_on(&self, life: &Life, taken_over: Option<u64>) {
        let mut script = Script {
            random: Random::of(life.seed, 2),
            run: self,
            life,
            writes: life.writes,
        };
        let begun = Instant::now();
        while !self.workers.is_finished() {
            self.home.await_change(STEP);
            let since = begun.elapsed();
            let mut state = self.home.lock();
            if !state.lives(self.number) || !state.wrong.is_empty() {
                break;
            }
            let waits = taken_over.is_some_and(|before| state.owes_words(before));
            let complete = script.writes == 0 && !waits && state.lacks() == 0;
            // Whoever has not opened the log would take it over from the next run.
            let has_begun = state.run(self.number).passes > 2;
            drop(state);
            let millis = u64::try_from(since.as_millis()).expect("a run is short");
            match life.crash {
                _ if since > RUN_MAX => self.hangs(),
                Crash::Never if complete => self.control.stop(),
                Crash::Stopped(at) if millis >= at => self.control.stop(),
                Crash::TakenOver(at) if millis >= at && has_begun => break,
                Crash::Timed(at) if millis >= at => self.kill(),
                Crash::Never | Crash::TakenOver(_) | Crash::Stopped(_) => script.step(waits),
                _ if since > KILLED_WITHIN => self.kill(),
                _ => script.step(waits),
            }
        }
    }

    fn hangs(&self) {
        let explained = self.control.explain().recv_timeout(ANSWER_MAX);
        self.home.change(|state| {
            let (lacks, health) = (state.lacks(), state.last_health(self.number));
            let words =
                format!("it does not end: {lacks} records are lacking; {health}; {explained:?}");
            state.break_by(self.number, words);
        });
    }

    pub(super) fn kill(&self) {
        self.home.change(|state| state.kill(self.number));
    }

    /// Waits until a run that was taken over says so. Records have it append.
    pub(super) fn await_words(&self) {
        let begun = Instant::now();
        self.outside.list_all();
        loop {
            let mut state = self.home.lock();
            if !state.owes_words(self.number) || !state.wrong.is_empty() {
                return;
            }
            if begun.elapsed() > RUN_MAX {
                let health = state.last_health(self.number);
                let words = format!("it does not say that it was taken over: {health}");
                state.break_by(self.number, words);
            }
            drop(state);
            self.outside.write(&self.home, PARTS[0], 1);
            self.home.await_change(STEP);
        }
    }

    /// Waits until the workers have ended: they were killed, or the source is over. Then its process
    /// would end, and with it the thread of a log that may still be on the way to open it.
    pub(super) fn join(self) -> Result<(), String> {
        let joined = self.workers.join();
        self.home.change(|state| state.kill(self.number));
        joined.unwrap_or_else(|_| Err("the workers' thread panicked".to_owned()))
    }
}

/// What happens beside reading.
struct Script<'a> {
    random: Random,
    run: &'a Run,
    life: &'a Life,
    writes: usize,
}

impl Script<'_> {
    /// Something happens; if somebody `waits` for another run to append, something is written.
    fn step(&mut self, waits: bool) {
        let outside = &self.run.outside;
        let more = usize::from(waits && self.writes == 0);
        if self.writes + more > 0 && self.random.chance(40) {
            let to = self.random.pick(&PARTS);
            let count = (1 + self.random.index(6)).min(self.writes + more);
            self.writes = self.writes.saturating_sub(count);
            outside.write(&self.run.home, to, count);
        }
        if self.random.chance(15) {
            let reader = ReaderId(self.random.index(self.life.workers));
            let split = outside.split(self.random.pick(&PARTS));
            self.run.control.move_split(split, reader);
        }
        if self.life.changes && self.random.chance(8) {
            let percent = self.random.pick(&[0, 50, 70, 100, 100]);
            let some = topics().into_iter().filter(|_| self.random.chance(percent));
            let some = some.collect();
            let away = self.random.chance(20);
            outside.list((!away).then_some(some));
        }
        if self.random.chance(2) {
            self.run.control.snapshot();
        }
        if self.life.compacts && self.random.chance(10) {
            let mut state = self.run.home.lock();
            let since = state.stored();
            if since > state.since {
                state.since = since;
                self.run.control.compact(Tick(since));
            }
        }
    }
}

/// Reads the source on this worker until the run is killed or over.
fn read(worker: &mut Worker, source: &KafkaSource, home: &Home, run: u64) {
    let ended = Rc::new(Cell::new(false));
    let over = Rc::clone(&ended);
    let mut sink = Sink {
        home: home.clone(),
        run,
        worker: worker.index(),
        frontier: Some(0),
        waiting: BTreeMap::new(),
    };
    let (failed, told) = (home.clone(), home.clone());
    worker.dataflow::<u64, _, _>(|scope| {
        let read = source.read(scope);
        read.batches
            .sink(Pipeline, "Sink", move |(input, frontier)| {
                // Containers in their order, which operators that sort by time do not keep.
                input.for_each(|capability, batch| {
                    let tick = capability.stamp().iter().next().copied();
                    sink.take(tick.expect("every message has a time"), batch);
                });
                sink.moved(frontier.frontier().iter().next().copied());
                over.set(sink.frontier.is_none());
            });
        read.errors.inspect(move |error| {
            failed.change(|state| state.break_by(run, format!("{error:?}")));
        });
        read.health.inspect(move |health| {
            told.change(|state| state.told(run, health.to_string()));
        });
    });
    while !ended.get() && home.lock().lives(run) {
        worker.step_or_park(Some(STEP));
    }
    for dataflow in worker.installed_dataflows() {
        worker.drop_dataflow(dataflow);
    }
}

/// What one worker stores.
struct Sink {
    home: Home,
    run: u64,
    worker: usize,
    frontier: Option<u64>,
    /// The rows of ticks that the frontier has not passed.
    waiting: BTreeMap<u64, Vec<Row>>,
}

impl Sink {
    fn take(&mut self, tick: u64, batch: &RecordBatch) {
        let Some(split) = batch.split() else {
            return;
        };
        let part = part(split);
        self.home.change(|state| {
            if self.frontier.is_none_or(|frontier| tick < frontier) {
                let frontier = self.frontier;
                state.break_by(self.run, format!("records at {tick}, behind {frontier:?}"));
            }
            let rows = self.waiting.entry(tick).or_default();
            for record in batch {
                let offset = record.offset().get();
                let value = record.value().map(String::from_utf8_lossy);
                let number = value.and_then(|value| value.parse::<u64>().ok());
                let written = state.written.get(&part);
                let index = usize::try_from(offset).expect("there are few");
                let written = written.and_then(|numbers| numbers.get(index).copied());
                if written != number || number.is_none() {
                    let words = format!("{part:?} {offset} is {number:?}, and was {written:?}");
                    state.break_by(self.run, words);
                }
                rows.push((part, offset));
            }
            state.emitted(self.run, batch.len());
        });
    }

    fn moved(&mut self, frontier: Option<u64>) {
        if frontier == self.frontier {
            return;
        }
        self.frontier = frontier;
        let later = match frontier {
            Some(at) => self.waiting.split_off(&at),
            None => BTreeMap::new(),
        };
        let over = std::mem::replace(&mut self.waiting, later);
        let passed = frontier.map(|at| at.saturating_sub(1));
        let of = (self.run, self.worker);
        self.home.change(|state| state.passed(of, passed, over));
    }
}
