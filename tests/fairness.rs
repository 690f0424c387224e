//! A partition that has a thousand times the records of others does not keep these waiting.
//!
//! What is counted is how much of the large one was emitted before the last record of all others: those of its own
//! cluster, and those of another one.
#![expect(clippy::unwrap_used, reason = "what fails fails the test")]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};
use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{KafkaStream, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::operators::Probe;
use timely_kafka::timely::dataflow::operators::core::Inspect;
use timely_kafka::timely::worker::Worker;
use timely_kafka::{KafkaSource, ReadOptions, RecordBatch, Subscription, TimeMap};

const PARTITIONS: i32 = 24;
/// The bytes of a value.
const SIZE: usize = 100;
/// The records of the large partition: some 4 MiB in the log, of which an embedded one holds 5.
const LARGE: usize = 32_000;
const SMALL: usize = LARGE / 1_000;
/// A small budget, so that the large partition cannot be had at once.
const MEMORY: usize = 2 << 20;
/// How many records of the large partition may come before the others have: what its client may have queued and
/// fetch, twice, of each of which it may be the first.
const BEFORE_MAX: usize = LARGE / 4;
/// Guards against hangs only.
const STEPS_MAX: usize = 100_000;

/// A cluster whose partitions have few records, but for the first, which has `first`.
fn cluster(first: usize) -> EmbeddedCluster {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", PARTITIONS).unwrap();
    for partition in 0..PARTITIONS {
        let mut left = if partition == 0 { first } else { SMALL };
        while left > 0 {
            let some = left.min(100);
            write(&cluster, partition, some);
            left -= some;
        }
    }
    cluster
}

fn write(cluster: &EmbeddedCluster, partition: i32, records: usize) {
    let record = || EmbeddedRecord::value(vec![7; SIZE]);
    let records = std::iter::repeat_with(record).take(records);
    cluster.produce("orders", partition, records).unwrap();
}

/// The clusters, the first of which has the large partition, and a source of both.
fn source() -> ([EmbeddedCluster; 2], KafkaSource) {
    let clusters = [cluster(LARGE), cluster(SMALL)];
    let mut metadata = StreamsMetadata::new();
    let mut stream = KafkaStream::new();
    for (name, cluster) in ["large", "other"].iter().zip(&clusters) {
        metadata = metadata
            .with_cluster(name, cluster.client_properties())
            .unwrap();
        stream = stream.with_topics(name, ["orders"]).unwrap();
    }
    let source = KafkaSource::builder()
        .metadata(FixedMetadataService::new(
            metadata.with_stream("orders", stream).unwrap(),
        ))
        .subscribe(Subscription::streams(["orders"]))
        .memory(MEMORY)
        .tick_interval(Duration::from_millis(10))
        .build()
        .unwrap();
    (clusters, source)
}

/// How many records came.
#[derive(Default)]
struct Seen {
    large: usize,
    others: usize,
    /// How many of the large one had come when the last of the others did.
    before: usize,
}

impl Seen {
    fn take(&mut self, batch: &RecordBatch) {
        let records = batch.iter().count();
        let split = batch.split().expect("a batch has records");
        if split.cluster.as_str() == "large" && split.partition.0 == 0 {
            self.large += records;
        } else {
            self.others += records;
            self.before = self.large;
        }
    }
}

fn step_until(worker: &mut Worker, mut is_over: impl FnMut() -> bool) {
    for _ in 0..STEPS_MAX {
        if is_over() {
            return;
        }
        worker.step_or_park(Some(Duration::from_millis(1)));
    }
    panic!("not over after {STEPS_MAX} steps");
}

/// All is there when reading begins, and more is written to one partition of each cluster once the large one is
/// being read.
#[test]
fn a_partition_with_a_thousand_times_the_records_keeps_no_other_waiting() {
    let (clusters, source) = source();
    timely_kafka::execute(Config::thread(), move |worker| {
        let (probe, control) = (ProbeHandle::new(), source.control());
        let seen: Rc<RefCell<Seen>> = Rc::default();
        let taken = Rc::clone(&seen);
        worker.dataflow(|scope| {
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&probe);
            let read = source.read_with(scope, options);
            read.batches
                .inspect_core(move |event| {
                    if let Ok((_, batch)) = event {
                        taken.borrow_mut().take(batch);
                    }
                })
                .probe_with(&probe);
        });

        let mut others = SMALL * (2 * usize::try_from(PARTITIONS).unwrap() - 1);
        step_until(worker, || seen.borrow().others == others);
        let first = seen.borrow().before;
        for cluster in &clusters {
            write(cluster, PARTITIONS / 2, SMALL);
        }
        let when = seen.borrow().large;
        others += 2 * SMALL;
        step_until(worker, || seen.borrow().others == others);
        let then = seen.borrow().before - when;
        step_until(worker, || seen.borrow().large == LARGE);
        control.stop();
        step_until(worker, || probe.done());

        println!("{first} of {LARGE} came before the others had, {then} after {when} before what was written");
        assert!(first < BEFORE_MAX, "{first} records came before the others");
        assert!(then < BEFORE_MAX, "{then} records came before what was written");
    })
    .unwrap();
}
