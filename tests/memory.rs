//! What a source takes of the machine's memory while its user stops, against what it was given.
//!
//! Each case reads in a process of its own, whose memory is that of the source alone: the cluster is in
//! this one. More than four times the budget is there to be read, and the user keeps all that comes until
//! nothing comes any more. Then the user goes on, slower than the records could be fetched, and every one
//! must come.
//!
//! Seen to fail with small records, at 229 MiB for a budget of 32, when a queue of the client was consumed in
//! part: see `KafkaFetcher::drain`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails fails the test, and its process says what it measured"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};
use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::operators::Probe;
use timely_kafka::timely::dataflow::operators::core::Inspect;
use timely_kafka::timely::worker::Worker;
use timely_kafka::{KafkaSource, ReadOptions, RecordBatch, Subscription, TimeMap};

/// Set in the process that reads: where the cluster is, and the size of a value.
const CHILD: &str = "TIMELY_KAFKA_MEMORY_TEST";

const MEMORY: usize = 32 << 20;
const PARTITIONS: i32 = 36;
/// The bytes of the values of a partition: an embedded one holds 5 MiB.
const PARTITION_BYTES: usize = 4 << 20;

/// The bytes that are written at once, and so are one batch of Kafka's. An embedded cluster answers a fetch
/// with a whole one of each partition, however little was asked for.
const BATCH_BYTES: usize = 128 << 10;

/// What the process takes besides the budget: threads and code that were not there when it was measured
/// first, and what allocators keep.
const FIXED_BYTES: usize = 16 << 20;
/// What a cluster takes besides: a client and a control client, with their threads and sockets.
const CLUSTER_BYTES: usize = 8 << 20;
/// What a partition takes besides.
const PARTITION_FIXED_BYTES: usize = 64 << 10;

/// Ticks for which nothing more may be read before it counts as stopped.
const TICKS: usize = 40;
/// Guards against hangs only.
const STEPS_MAX: usize = 300_000;

fn main() -> ExitCode {
    if let Ok(task) = std::env::var(CHILD) {
        let (servers, size) = task.split_once(' ').unwrap();
        read(servers, size.parse().unwrap());
        return ExitCode::SUCCESS;
    }
    let trials = vec![
        Trial::test(
            "a_user_who_stops_is_given_no_more_than_the_budget_of_small_records",
            || case(100),
        ),
        Trial::test(
            "a_user_who_stops_is_given_no_more_than_the_budget_of_large_records",
            || case(900_000),
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn records_of_a_partition(size: usize) -> usize {
    // Small ones take some twenty bytes more in the log.
    PARTITION_BYTES / (size + 22)
}

/// Has a process read values of `size` bytes.
fn case(size: usize) -> Result<(), Failed> {
    let cluster = EmbeddedCluster::start()?;
    cluster.create_topic("orders", PARTITIONS)?;
    for partition in 0..PARTITIONS {
        let mut left = records_of_a_partition(size);
        while left > 0 {
            let record = || EmbeddedRecord::value(vec![7; size]);
            let some = left.min((BATCH_BYTES / size).max(1));
            cluster.produce(
                "orders",
                partition,
                std::iter::repeat_with(record).take(some),
            )?;
            left -= some;
        }
    }
    let output = Command::new(std::env::current_exe()?)
        .env(CHILD, format!("{} {size}", cluster.bootstrap_servers()))
        .output()?;
    let words = String::from_utf8_lossy(&output.stdout);
    println!("values of {size} bytes: {words}");
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("the reading process: {}\n{words}{errors}", output.status).into())
}

/// The resident memory of this process, and the most that it ever was, in bytes.
fn resident() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let number: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        number << 10
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// What the user does not let go of.
#[derive(Default)]
struct Stash {
    released: bool,
    batches: Vec<RecordBatch>,
    next: BTreeMap<i32, u64>,
    records: usize,
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
        }
        if !self.released {
            self.batches.push(batch.clone());
        }
    }
}

fn source(servers: &str) -> KafkaSource {
    let properties = ClientProperties::new()
        .with("bootstrap.servers", servers)
        .with("fetch.wait.max.ms", "10");
    let stream = KafkaStream::new().with_topics("here", ["orders"]).unwrap();
    let metadata = StreamsMetadata::new()
        .with_cluster("here", properties)
        .and_then(|metadata| metadata.with_stream("orders", stream))
        .unwrap();
    KafkaSource::builder()
        .metadata(FixedMetadataService::new(metadata))
        .subscribe(Subscription::streams(["orders"]))
        .memory(MEMORY)
        .tick_interval(Duration::from_millis(10))
        .build()
        .unwrap()
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

/// Reads all there is with a user who keeps what comes until nothing does.
fn read(servers: &str, size: usize) {
    let (before, _) = resident();
    let source = source(servers);
    let all = records_of_a_partition(size) * usize::try_from(PARTITIONS).unwrap();
    timely_kafka::execute(Config::thread(), move |worker| {
        let stash: Rc<RefCell<Stash>> = Rc::default();
        let probe = ProbeHandle::new();
        let control = source.control();
        let kept = Rc::clone(&stash);
        worker.dataflow(|scope| {
            let read = source.read_with(scope, ReadOptions::new(TimeMap::identity()));
            read.batches
                .inspect_core(move |event| {
                    if let Ok((_, batch)) = event {
                        kept.borrow_mut().take(batch);
                    }
                })
                .probe_with(&probe);
        });

        // Reading stops, with most of it still to be read, and ticks go on.
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
            ticks >= TICKS
        });
        let stopped_at = records * size;
        assert!(stopped_at < MEMORY, "{stopped_at} bytes of values came");

        // Then it goes on, and all comes.
        stash.borrow_mut().released = true;
        stash.borrow_mut().batches.clear();
        step_until(worker, || stash.borrow().records >= all);
        control.stop();
        step_until(worker, || probe.done());
        assert_eq!(stash.borrow().records, all);

        let most = resident().1 - before;
        let parts = PARTITION_FIXED_BYTES * usize::try_from(PARTITIONS).unwrap();
        let allowed = MEMORY + MEMORY / 4 + FIXED_BYTES + CLUSTER_BYTES + parts;
        let (most_mib, allowed_mib, stopped) = (most >> 20, allowed >> 20, stopped_at >> 20);
        println!("stopped at {stopped} MiB; {most_mib} MiB resident at most, of {allowed_mib}");
        assert!(
            most <= allowed,
            "{most_mib} MiB were resident, expected {allowed_mib} at most"
        );
    })
    .unwrap();
}
