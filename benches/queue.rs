//! Reads records that wait in librdkafka's queue, for `scripts/hot-path`, which counts the instructions.
//!
//! How many of them a record takes depends on how many come at a time. So here all wait before the first is taken: when the
//! source reads each partition, its worker stands still until records are written and the client has all of them. What is
//! counted is [`read_waiting`], in which the worker does all that is its own: from the queue to an operator that counts.
#![expect(clippy::print_stdout, reason = "what a benchmark is for")]

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord, EmbeddedRequest, KafkaApi};
use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::container::CapacityContainerBuilder;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::channels::pact::Pipeline;
use timely_kafka::timely::dataflow::operators::{Operator, Probe};
use timely_kafka::timely::worker::Worker;
use timely_kafka::{KafkaSource, ReadOptions, Subscription, TimeMap};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The name of the cluster, of the stream and of its topic.
const NAME: &str = "bench";

const PARTITIONS: i32 = 8;

/// All lead partitions, the controller too.
const BROKERS: [i32; 2] = [0, 1];

/// How many records of a partition come one behind the other: nearly a full batch.
const RUN: u64 = 2_500;

/// The bytes of a value; there is no key.
const VALUE_BYTES: usize = 100;

/// Longer than the benchmark takes: how often something happens that time makes happen must not be counted.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// How long to wait before looking again.
const A_MOMENT: Duration = Duration::from_millis(5);

/// Reads records that wait.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// How many, a multiple of 2,500 and 300,000 at most: an embedded partition has room for 5 MiB.
    #[arg(long, default_value_t = 40_000)]
    records: u64,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Outcome<()> {
    let records = Arguments::parse().records;
    let cluster = EmbeddedCluster::start()?;
    cluster.create_topic(NAME, PARTITIONS)?;
    for partition in 0..PARTITIONS {
        write(&cluster, partition, 1)?;
    }
    let source = source(&cluster)?;
    let guards = timely_kafka::execute(Config::process(1), move |worker| {
        let (counted, control) = (count(worker, &source), source.control());
        read(worker, &counted, u64::from(PARTITIONS.unsigned_abs()));
        counted.set(0);
        let waiting = fill(&cluster, records).map_err(|error| error.to_string());
        if waiting.is_ok() {
            read_waiting(worker, &counted, records);
        }
        control.stop();
        waiting
    })?;
    for ended in guards.join() {
        ended??;
    }
    println!("{records} records were read");
    Ok(())
}

/// A source whose client has all that there is.
fn source(cluster: &EmbeddedCluster) -> Outcome<KafkaSource> {
    let properties = ClientProperties::new()
        .with("fetch.max.bytes", "100000000")
        .with("fetch.message.max.bytes", "10000000")
        .with("queued.max.messages.kbytes", "100000")
        .with("queued.min.messages", "1000000");
    let metadata = StreamsMetadata::new()
        .with_cluster(NAME, cluster.client_properties())?
        .with_stream(NAME, KafkaStream::new().with_topics(NAME, [NAME])?)?;
    Ok(KafkaSource::builder()
        .name(NAME)
        .metadata(FixedMetadataService::new(metadata))
        .subscribe(Subscription::streams([NAME]))
        .properties(properties)
        .tick_interval(NEVER)
        .discovery_interval(NEVER)
        .build()?)
}

/// Has the source read into an operator that counts; how many there were.
fn count(worker: &mut Worker, source: &KafkaSource) -> Rc<Cell<u64>> {
    let counted = Rc::new(Cell::new(0));
    let here = Rc::clone(&counted);
    let probe = ProbeHandle::new();
    worker.dataflow(|scope| {
        let options = ReadOptions::new(TimeMap::identity()).with_probe(&probe);
        source
            .read_with(scope, options)
            .batches
            .unary::<CapacityContainerBuilder<Vec<u64>>, _, _, _>(Pipeline, "Count", move |_, _| {
                move |input, output| {
                    input.for_each(|time, batch| {
                        let mut bytes = 0;
                        for record in batch.iter() {
                            here.set(here.get() + 1);
                            bytes += record.value().map_or(0, <[u8]>::len) as u64;
                        }
                        output.session(&time).give(bytes);
                    });
                }
            })
            .probe_with(&probe);
    });
    counted
}

/// How often each broker was asked for something.
fn asked(cluster: &EmbeddedCluster, api: KafkaApi) -> [usize; BROKERS.len()] {
    let requests = cluster.requests();
    BROKERS.map(|broker| {
        let same = |request: &&EmbeddedRequest| request.broker == broker && request.api == api;
        requests.iter().filter(same).count()
    })
}

fn write(cluster: &EmbeddedCluster, partition: i32, records: u64) -> Outcome<()> {
    let value = [b'v'; VALUE_BYTES];
    let records = (0..records).map(|_| EmbeddedRecord::value(value));
    Ok(cluster.produce(NAME, partition, records)?)
}

/// Has the client fetch records of all partitions in turn.
fn fill(cluster: &EmbeddedCluster, records: u64) -> Outcome<()> {
    wait(cluster, 0);
    let runs = usize::try_from(records / RUN)?;
    for partition in (0..PARTITIONS).cycle().take(runs) {
        cluster.track_requests();
        write(cluster, partition, RUN)?;
        let batches = asked(cluster, KafkaApi::Produce).into_iter().sum();
        wait(cluster, batches);
    }
    Ok(())
}

/// Waits until the client has so many batches more, and knows that there is nothing behind them.
fn wait(cluster: &EmbeddedCluster, batches: usize) {
    // A fetch brings one batch, or that there is none, and is sent when what the one before it brought is on the queue.
    cluster.track_requests();
    while asked(cluster, KafkaApi::Fetch).into_iter().min() < Some(batches + 2) {
        thread::park_timeout(A_MOMENT);
    }
}

fn read(worker: &mut Worker, counted: &Cell<u64>, records: u64) {
    while counted.get() < records {
        worker.step_or_park(None);
    }
}

/// Reads what waits, and is not inlined, so that it can be found.
#[inline(never)]
fn read_waiting(worker: &mut Worker, counted: &Cell<u64>, records: u64) {
    read(worker, counted, records);
}
