//! Counts the records of each key with differential dataflow, and keeps the counts up to date.
//!
//! ```text
//! cargo run --release --example counts
//! ```
//!
//! Every record becomes an update at the tick in which it was read. Differential dataflow turns what
//! comes in into what changes: when a tick is complete, the counts that it changed are printed, each
//! once, however many records of its key were read. A cluster runs in this process; in the end the
//! counts are compared with what was written, and the exit status is 1 if they differ.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use clap::Parser;
use differential_dataflow::AsCollection;
use differential_dataflow::operators::CountTotal;
use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};
use timely_kafka::model::{KafkaStream, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::channels::pact::Pipeline;
use timely_kafka::timely::dataflow::operators::{Inspect, Operator};
use timely_kafka::{FixedMetadataService, KafkaSource, Read, Subscription};

const WORKERS: usize = 2;
const PARTITIONS: usize = 3;
const KEYS: [&str; 4] = ["apples", "figs", "lemons", "plums"];

/// How many times records are written, and how many records each time.
const ROUNDS: usize = 5;
const RECORDS_A_ROUND: usize = 300;

/// A round that takes longer than this has failed.
const ROUND_WITHIN: Duration = Duration::from_secs(20);

/// A change of the count of a key, as differential has it: at a time, a key with its count comes
/// (1) or goes (-1).
type Change = ((String, isize), u64, isize);

/// Counts the records of each key with differential dataflow, and keeps the counts up to date.
///
/// Needs no broker, no file and no network, and takes no arguments.
#[derive(Debug, Parser)]
#[command(name = "counts", max_term_width = 100)]
struct Arguments {}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    Arguments::parse();
    let cluster = EmbeddedCluster::start()?;
    cluster.create_topic("orders", i32::try_from(PARTITIONS)?)?;
    let metadata = StreamsMetadata::new()
        .with_cluster("here", cluster.client_properties())?
        .with_stream(
            "orders",
            KafkaStream::new().with_topics("here", ["orders"])?,
        )?;
    let source = KafkaSource::builder()
        .name("counts")
        .metadata(FixedMetadataService::new(metadata))
        .subscribe(Subscription::streams(["orders"]))
        .build()?;

    let (sender, changes) = mpsc::channel();
    let control = source.control();
    let workers = timely_kafka::execute(Config::process(WORKERS), move |worker| {
        worker.dataflow(|scope| maintain_counts(source.read(scope), &sender));
    })?;

    let mut written = BTreeMap::new();
    let mut counts = Counts::default();
    for round in 0..ROUNDS {
        write_round(&cluster, round, &mut written)?;
        if !counts.reach(&written, &changes)? {
            break;
        }
    }
    control.stop();
    for worker in workers.join() {
        worker?;
    }
    // The workers are gone and the channel with them: these are the changes of the last ticks.
    for change in changes {
        counts.apply(&[change])?;
    }
    counts.verdict(&written)
}

/// The dataflow, on one worker: a collection of keys, one for each record, and its counts.
fn maintain_counts(read: Read<'_, u64>, changes: &Sender<Change>) {
    let changes = changes.clone();
    read.batches
        .unary(Pipeline, "Updates", |_, _| {
            |input, output| {
                input.for_each(|capability, batch| {
                    let Some(tick) = capability.least().copied() else {
                        return;
                    };
                    let updates = batch.iter().map(|record| {
                        let key = String::from_utf8_lossy(record.key().unwrap_or_default());
                        (key.into_owned(), tick, 1_isize)
                    });
                    output.session(&capability).give_iterator(updates);
                });
            }
        })
        .container::<Vec<_>>()
        .as_collection()
        // Ticks are totally ordered, and that is cheaper to count at than any order.
        .count_total()
        .inner
        .inspect(move |change: &Change| {
            // Nobody listens any more when a round has failed.
            changes.send(change.clone()).ok();
        });
}

/// Writes some records of each key, and adds them to `written`.
fn write_round(
    cluster: &EmbeddedCluster,
    round: usize,
    written: &mut BTreeMap<String, isize>,
) -> Result<(), Box<dyn Error>> {
    let mut partitions = vec![Vec::new(); PARTITIONS];
    for number in 0..RECORDS_A_ROUND {
        // The later the round, the more keys take part.
        let key = KEYS[number % (round + 1).min(KEYS.len())];
        *written.entry(key.to_owned()).or_default() += 1;
        // In Kafka all records of a key are in one partition; no count depends on it.
        partitions[number % PARTITIONS].push(EmbeddedRecord::new(key, number.to_string()));
    }
    for (partition, records) in (0..).zip(partitions) {
        cluster.produce("orders", partition, records)?;
    }
    Ok(())
}

/// The collection of counts, put together from its changes.
#[derive(Default)]
struct Counts {
    /// How often each key is there with each count: once with one, if all is well.
    present: BTreeMap<(String, isize), isize>,
    last_tick: u64,
}

impl Counts {
    /// Takes changes until the counts are those of `wanted`; whether they were in time.
    fn reach(
        &mut self,
        wanted: &BTreeMap<String, isize>,
        changes: &Receiver<Change>,
    ) -> Result<bool, io::Error> {
        let deadline = Instant::now() + ROUND_WITHIN;
        while self.counts() != *wanted {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(first) = changes.recv_timeout(left) else {
                return Ok(false);
            };
            let mut some = vec![first];
            some.extend(changes.try_iter());
            self.apply(&some)?;
        }
        Ok(true)
    }

    /// Prints and applies changes.
    fn apply(&mut self, changes: &[Change]) -> Result<(), io::Error> {
        let mut output = io::stdout().lock();
        for ((key, count), tick, difference) in changes {
            if *tick > self.last_tick {
                self.last_tick = *tick;
                writeln!(output, "tick {tick}")?;
            }
            let word = if *difference > 0 {
                "is now"
            } else {
                "is no longer"
            };
            writeln!(output, "  {key} {word} {count}")?;
            let entry = (key.clone(), *count);
            *self.present.entry(entry.clone()).or_default() += difference;
            if self.present[&entry] == 0 {
                self.present.remove(&entry);
            }
        }
        Ok(())
    }

    /// The counts by key, without those that are being changed.
    fn counts(&self) -> BTreeMap<String, isize> {
        let present = self.present.keys();
        present.map(|(key, count)| (key.clone(), *count)).collect()
    }

    /// Says whether the counts are right.
    fn verdict(&self, written: &BTreeMap<String, isize>) -> Result<ExitCode, Box<dyn Error>> {
        let once = self.present.values().all(|times| *times == 1);
        let good = once && self.present.len() == written.len() && self.counts() == *written;
        let mut output = io::stdout().lock();
        writeln!(output, "\nkey         written  counted")?;
        for (key, records) in written {
            let counted = self.counts().get(key).copied().unwrap_or_default();
            writeln!(output, "{key:10}  {records:7}  {counted:7}")?;
        }
        writeln!(output, "verdict: {}", if good { "good" } else { "bad" })?;
        Ok(if good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
