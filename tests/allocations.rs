//! A worker allocates for batches, steps and ticks, and not for records.
#![expect(clippy::unwrap_used, reason = "what fails fails the test")]
#![expect(
    unsafe_code,
    reason = "an allocator that counts; each block says why it is sound"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};
use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{KafkaStream, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::operators::Probe;
use timely_kafka::timely::dataflow::operators::core::Inspect;
use timely_kafka::{KafkaSource, ReadOptions, Subscription, TimeMap};

const PARTITIONS: i32 = 8;
/// The records of a partition, some 1.2 MiB in the log, twice of which an embedded one holds.
const RECORDS: usize = 12_500;
/// The bytes of a value.
const SIZE: usize = 100;
/// How many records more there have to be at least for one allocation more.
const RECORDS_AN_ALLOCATION: u64 = 50;
/// Guards against hangs only.
const STEPS_MAX: usize = 100_000;

thread_local! {
    /// How often this thread has allocated.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: all is done by the system's allocator; to count allocates nothing, as the counter is made without
// and has nothing to drop.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: what it asks for is what the system's allocator does.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller promises it.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as above; what there is was allocated by the system's allocator.
    unsafe fn dealloc(&self, allocated: *mut u8, layout: Layout) {
        // SAFETY: the caller promises it.
        unsafe { System.dealloc(allocated, layout) }
    }
}

/// A cluster with so many records in each partition.
fn cluster(records: usize) -> EmbeddedCluster {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", PARTITIONS).unwrap();
    for partition in 0..PARTITIONS {
        for _ in 0..records / 500 {
            let record = || EmbeddedRecord::value(vec![7; SIZE]);
            let some = std::iter::repeat_with(record).take(500);
            cluster.produce("orders", partition, some).unwrap();
        }
    }
    cluster
}

/// What came of reading: records, bytes of values, and how often the worker allocated.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    records: usize,
    bytes: usize,
    allocations: u64,
}

/// Reads so many records of each partition, until they are final.
fn read(records: usize) -> Seen {
    let cluster = cluster(records);
    let stream = KafkaStream::new().with_topics("here", ["orders"]).unwrap();
    let metadata = StreamsMetadata::new()
        .with_cluster("here", cluster.client_properties())
        .and_then(|metadata| metadata.with_stream("all", stream))
        .unwrap();
    let source = KafkaSource::builder()
        .metadata(FixedMetadataService::new(metadata))
        .subscribe(Subscription::streams(["all"]))
        .build()
        .unwrap();
    let all = records * usize::try_from(PARTITIONS).unwrap();
    timely_kafka::execute(Config::thread(), move |worker| {
        let before = ALLOCATIONS.get();
        let (probe, control) = (ProbeHandle::new(), source.control());
        let seen: Rc<RefCell<Seen>> = Rc::default();
        let counted = Rc::clone(&seen);
        worker.dataflow(|scope| {
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&probe);
            let batches = source.read_with(scope, options).batches;
            batches
                .inspect_core(move |event| {
                    if let Ok((_, batch)) = event {
                        let mut sum = counted.borrow_mut();
                        for value in batch.values() {
                            sum.records += 1;
                            sum.bytes += value.map_or(0, <[u8]>::len);
                        }
                        if sum.records >= all {
                            control.stop();
                        }
                    }
                })
                .probe_with(&probe);
        });
        for _ in 0..STEPS_MAX {
            if probe.done() {
                let allocations = ALLOCATIONS.get() - before;
                return Seen {
                    allocations,
                    ..*seen.borrow()
                };
            }
            worker.step_or_park(Some(Duration::from_millis(1)));
        }
        panic!("not over after {STEPS_MAX} steps: {:?}", seen.borrow());
    })
    .unwrap()
    .join()
    .remove(0)
    .unwrap()
}

/// Seen to fail, at an allocation a record, when a value was made a vector before it is pushed to a batch.
#[test]
fn a_worker_that_reads_twice_the_records_allocates_no_more_for_each() {
    let (once, twice) = (read(RECORDS), read(2 * RECORDS));

    let all = RECORDS * usize::try_from(PARTITIONS).unwrap();
    println!("{once:?}, {twice:?}");
    assert_eq!((once.records, once.bytes), (all, all * SIZE));
    assert_eq!((twice.records, twice.bytes), (2 * all, 2 * all * SIZE));
    let more = twice.allocations.saturating_sub(once.allocations);
    let most = u64::try_from(all).unwrap() / RECORDS_AN_ALLOCATION;
    assert!(
        more < most,
        "{more} allocations more for {all} records more"
    );
}
