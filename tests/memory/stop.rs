//! A user who stops, and goes on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libtest_mimic::Failed;
use timely_kafka::embedded::{EmbeddedCluster, KafkaApi};
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::operators::Probe;
use timely_kafka::timely::dataflow::operators::core::Inspect;
use timely_kafka::timely::dataflow::{ProbeHandle, Scope};
use timely_kafka::timely::worker::Worker;
use timely_kafka::{
    KafkaSource, MemoryBudget, Observer, ReadOptions, RecordBatch, SourceEvent, Subscription,
    TimeMap,
};

use crate::fill::{Content, PARTITIONS};
use crate::{MEMORY, Shape, assert_resident, in_a_process, metadata, resident, step_until};

/// Ticks for which nothing more may be read before it counts as stopped.
const TICKS: usize = 40;
const TICK: Duration = Duration::from_millis(10);
/// What these take at least.
const STOPPED_FOR: Duration = Duration::from_millis(400);

/// Has a process read `content` by `workers` from a cluster here.
pub(crate) fn case(workers: usize, brokers: u16, content: Content) -> Result<(), Failed> {
    // The controller is one more.
    let cluster = EmbeddedCluster::start_with(brokers.saturating_sub(1).max(1))?;
    content.fill(&cluster, "orders")?;
    cluster.track_requests();
    in_a_process(&format!(
        "stop {workers} {brokers} {} {}",
        cluster.bootstrap_servers(),
        content.name()
    ))?;

    // While the user stops, nothing is fetched, be it again.
    let requests = cluster.requests().into_iter();
    let fetches = requests.filter(|request| request.api == KafkaApi::Fetch);
    let times: Vec<Duration> = fetches.map(|fetch| fetch.at).collect();
    let gaps = times.windows(2).map(|two| two[1].saturating_sub(two[0]));
    let longest = gaps.max().unwrap_or_default();
    if longest < STOPPED_FOR / 2 {
        return Err(format!("the longest time without a fetch was {longest:?}").into());
    }
    Ok(())
}

/// What a user does not let go of.
#[derive(Default)]
pub(crate) struct Stash {
    /// How many records all workers have.
    all: Arc<AtomicUsize>,
    pub(crate) released: bool,
    batches: Vec<RecordBatch>,
    next: BTreeMap<i32, u64>,
    pub(crate) records: usize,
    /// The memory of what it has.
    pub(crate) bytes: usize,
}

impl Stash {
    fn take(&mut self, batch: &RecordBatch) {
        for record in batch {
            let next = self.next.entry(record.split().partition.0).or_default();
            assert_eq!(
                record.offset().get(),
                *next,
                "each record comes once, in order"
            );
            *next += 1;
            self.records += 1;
            self.all.fetch_add(1, Ordering::Relaxed);
        }
        if !self.released {
            self.bytes += batch.memory_bytes();
            self.batches.push(batch.clone());
        }
    }

    pub(crate) fn release(&mut self) {
        self.released = true;
        self.batches.clear();
        self.bytes = 0;
    }
}

/// A source of one topic.
pub(crate) fn source(topic: &str, servers: &str, memory: &MemoryBudget) -> KafkaSource {
    KafkaSource::builder()
        .name(topic)
        .metadata(metadata(topic, &[servers]))
        .subscribe(Subscription::streams([topic]))
        .memory(memory)
        .tick_interval(TICK)
        .observer(Observer::new(|event| {
            // A person would be told that something is read again.
            if let SourceEvent::FetcherDown { split, message, .. } = event {
                panic!("{split}: {message}");
            }
        }))
        .build()
        .unwrap()
}

/// Reads a source into a stash.
pub(crate) fn read_into(
    source: &KafkaSource,
    scope: Scope<'_, u64>,
    probe: &ProbeHandle<u64>,
) -> Rc<RefCell<Stash>> {
    let stash: Rc<RefCell<Stash>> = Rc::default();
    let kept = Rc::clone(&stash);
    let read = source.read_with(scope, ReadOptions::new(TimeMap::identity()));
    read.batches
        .inspect_core(move |event| {
            if let Ok((_, batch)) = event {
                kept.borrow_mut().take(batch);
            }
        })
        .probe_with(probe);
    stash
}

/// Steps until nothing has come for `ticks`.
pub(crate) fn step_until_stopped(
    worker: &mut Worker,
    stash: &RefCell<Stash>,
    probe: &ProbeHandle<u64>,
    ticks_max: usize,
) {
    step_until(worker, || stash.borrow().records > 0);
    let (mut records, mut last, mut ticks) = (0, None, 0);
    step_until(worker, || {
        let now = stash.borrow().records;
        if now > records {
            (records, ticks) = (now, 0);
        }
        let tick = probe.with_frontier(|frontier| frontier.first().copied());
        ticks += usize::from(tick != last);
        last = tick;
        ticks >= ticks_max
    });
}

/// Reads all there is with a user who keeps what comes until nothing does.
pub(crate) fn read(workers: usize, brokers: usize, servers: &str, content: Content) {
    let (before, _) = resident();
    let source = source("orders", servers, &MemoryBudget::new(MEMORY));
    let partitions = usize::try_from(PARTITIONS).unwrap();
    let all = content.records() * partitions;
    let asked = std::env::var("TIMELY_KAFKA_STOP_TICKS").ok();
    let ticks_max = asked.map_or(TICKS, |ticks| ticks.parse().unwrap());
    let (records, stopped) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let shape = Shape {
        workers,
        clusters: 1,
        brokers,
        partitions,
    };
    timely_kafka::execute(Config::process(workers), move |worker| {
        let probe = ProbeHandle::new();
        let control = source.control();
        let stash = worker.dataflow(|scope| read_into(&source, scope, &probe));
        stash.borrow_mut().all = Arc::clone(&records);
        let came = || records.load(Ordering::Relaxed);

        // Reading stops, with most of it still to be read, and ticks go on.
        step_until_stopped(worker, &stash, &probe, ticks_max);
        stopped.fetch_add(1, Ordering::Relaxed);
        step_until(worker, || stopped.load(Ordering::Relaxed) >= workers);
        let stopped_at = came() * content.size();
        stopped.fetch_add(1, Ordering::Relaxed);
        step_until(worker, || stopped.load(Ordering::Relaxed) == 2 * workers);
        println!("stopped at {} MiB", stopped_at >> 20);
        assert!(stopped_at < MEMORY, "{stopped_at} bytes of values came");

        // Then it goes on, and all comes.
        stash.borrow_mut().release();
        step_until(worker, || came() >= all);
        control.stop();
        step_until(worker, || probe.done());
        assert_eq!(came(), all);
        if worker.index() == 0 {
            assert_resident(before, &shape);
        }
    })
    .unwrap()
    .join();
}
