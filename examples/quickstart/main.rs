//! A stream moves from one Kafka cluster to another while a dataflow reads it.
//!
//! ```text
//! cargo run --release --example quickstart
//! ```
//!
//! Needs no broker, no file and no network: two clusters, A and B, run in this process. A thread
//! writes numbered records, and two workers count them per key. Meanwhile the file that says where
//! the stream lives is rewritten, as a person would do it who moves the stream: A, then A and B,
//! then B. In the end every number must have been read, and none of them twice.
//!
//! `RUST_LOG=timely_kafka=debug` tells, on standard error, what the source does about it. The exit
//! status is 1 if the verdict is bad.

mod ledger;
mod show;
mod stage;

use std::collections::BTreeMap;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use clap::Parser;
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::channels::pact::Exchange;
use timely_kafka::timely::dataflow::operators::{Inspect, Operator};
use timely_kafka::{BatchStream, FileMetadataService, KafkaSource, Read, RecordRef, Subscription};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use self::ledger::{Event, Ledger, Order};
use self::show::Show;
use self::stage::Stage;

const WORKERS: usize = 2;

/// How many records are read before the next thing happens: enough to watch.
const RECORDS_A_SCENE: usize = 1_500;

/// A step that takes longer than this has failed, and the quickstart says so.
const STEP_WITHIN: Duration = Duration::from_secs(20);

/// How often what is waited for is looked at when nothing is heard.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Moves a stream from one Kafka cluster to another while a dataflow reads it.
///
/// Needs no broker, no file and no network, and takes no arguments. RUST_LOG=timely_kafka=debug
/// tells, on standard error, what the source does about the move.
#[derive(Debug, Parser)]
#[command(name = "quickstart", max_term_width = 100)]
#[expect(clippy::doc_markdown, reason = "these are the words of --help")]
struct Arguments {}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    Arguments::parse();
    // Silent unless asked for: what a person must know is told without it.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::OFF.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter.from_env_lossy())
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .init();
    let (sender, events) = mpsc::channel();
    let mut stage = Stage::set(sender.clone())?;

    // A source is built once a process, outside `execute`: its workers share the clients.
    let source = KafkaSource::builder()
        .name("quickstart")
        .metadata(FileMetadataService::new(stage.metadata_file()))
        .subscribe(Subscription::streams(["orders"]))
        .build()?;
    let control = source.control();
    let workers = timely_kafka::execute(Config::process(WORKERS), move |worker| {
        let index = worker.index();
        worker.dataflow(|scope| count_per_key(source.read(scope), index, &sender));
    })?;

    let mut watch = Watch {
        events,
        ledger: Ledger::new(WORKERS),
        show: Show::new(),
    };
    let moved = move_the_stream(&stage, &mut watch);
    stage.end_writing();
    // The last tick closes what was read. When it is durable the frontier becomes empty, and the
    // workers, which have nothing left to do then, end.
    control.stop();
    let ended = watch.until_the_end();

    let good = watch
        .show
        .verdict(&watch.ledger, moved.and_then(|()| ended.clone()));
    if ended.is_err() {
        // A worker that is stuck would be waited for for ever.
        std::process::exit(1);
    }
    for worker in workers.join() {
        worker?;
    }
    Ok(ExitCode::from(u8::from(!good)))
}

/// The dataflow, on one worker: counts per key, and tells the ledger what it sees.
fn count_per_key(read: Read<'_, u64>, worker: usize, events: &Sender<Event>) {
    let events = events.clone();
    let tell = move |event| {
        // Nobody listens any more once the verdict is spoken.
        events.send(event).ok();
    };
    let (tell_bound, tell_health, tell_failed) = (tell.clone(), tell.clone(), tell.clone());

    // All orders of a key go to one worker; which worker read them does not matter.
    let by_key = Exchange::new(|order: &Order| {
        let mut hasher = DefaultHasher::new();
        order.key.hash(&mut hasher);
        hasher.finish()
    });
    read.batches
        .map_records(|record| order(&record))
        .unary(by_key, "CountPerKey", |_, _| {
            let mut counts = BTreeMap::new();
            move |orders, output| {
                orders.for_each(|time, orders| {
                    let counted = orders.drain(..).map(|order: Order| {
                        let count: &mut usize = counts.entry(order.key.clone()).or_default();
                        *count += 1;
                        (order, *count)
                    });
                    output.session(&time).give_iterator(counted);
                });
            }
        })
        .container::<Vec<_>>()
        .inspect_core(move |event| {
            tell(match event {
                Ok((_, counted)) => Event::Counted(counted.clone()),
                // No more orders can come at a time before the frontier.
                Err(frontier) => Event::Frontier(worker, frontier.first().copied()),
            });
        });

    // A binding says which offsets of which partitions belong to a tick. It is what a restart
    // would read again, so its ranges must hold just the records that came out.
    read.bindings.inspect(move |binding| {
        let ranges = binding.ranges.iter();
        let records = ranges
            .map(|range| range.to.next.since(range.from.next))
            .sum();
        tell_bound(Event::Bound(binding.tick, records));
    });
    read.health
        .inspect(move |health| tell_health(Event::Told(health.to_string())));
    read.errors
        .inspect(move |error| tell_failed(Event::Failed(error.message.clone())));
}

/// An order of its own, of a record that is looked at where it lies in its batch.
fn order(record: &RecordRef<'_>) -> Order {
    let text =
        |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    Order {
        key: text(record.key()),
        cluster: record.split().cluster.to_string(),
        // What is no number was not written here, and the ledger will say so.
        number: text(record.value()).parse().unwrap_or(usize::MAX),
    }
}

/// Moves the stream from A to B, without stopping anything.
fn move_the_stream(stage: &Stage, watch: &mut Watch) -> Result<(), String> {
    watch
        .show
        .tell("clusters A and B run in this process; streams.yaml says: orders = A");
    stage.write_to(&["A"])?;
    watch.until("orders of A are read", |ledger| {
        ledger.read("A") >= RECORDS_A_SCENE
    })?;

    watch
        .show
        .tell("streams.yaml rewritten: orders = A + B; orders are written to both");
    stage.describe(&["A", "B"])?;
    stage.write_to(&["A", "B"])?;
    watch.until("orders of B are read", |ledger| {
        ledger.read("B") >= RECORDS_A_SCENE
    })?;

    // First those who write move on. What they left behind is read before its cluster goes.
    watch.show.tell("orders are written to B only");
    stage.write_to(&["B"])?;
    watch.until("all orders of A are read", |ledger| ledger.unread("A") == 0)?;

    watch
        .show
        .tell("all orders of A are read; streams.yaml rewritten: orders = B");
    stage.describe(&["B"])?;
    watch.until("nobody fetches from A", |_| stage.is_left_alone("A"))?;

    watch.show.tell("nobody fetches from A any more");
    let before = watch.ledger.read("B");
    watch.until("more orders of B are read", |ledger| {
        ledger.read("B") >= before + RECORDS_A_SCENE
    })?;
    stage.write_to(&[])?;
    watch.until("all orders of B are read", |ledger| ledger.unread("B") == 0)?;
    watch
        .show
        .tell("all orders of B are read; the source is asked to end");
    Ok(())
}

/// What happens, in the order in which it is heard of.
struct Watch {
    events: Receiver<Event>,
    ledger: Ledger,
    show: Show,
}

impl Watch {
    /// Hears what happens until `condition` holds.
    fn until(&mut self, what: &str, condition: impl Fn(&Ledger) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + STEP_WITHIN;
        loop {
            // All that has happened by now, so that the condition is not asked of the past.
            while let Ok(event) = self.events.try_recv() {
                self.hear(event);
            }
            self.show.update(&self.ledger);
            if condition(&self.ledger) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("waited {STEP_WITHIN:?} for this: {what}"));
            }
            if let Ok(event) = self.events.recv_timeout(LOOK_AGAIN) {
                self.hear(event);
            }
        }
    }

    /// Hears what happens until all are gone who could tell of anything.
    fn until_the_end(&mut self) -> Result<(), String> {
        loop {
            match self.events.recv_timeout(STEP_WITHIN) {
                Ok(event) => self.hear(event),
                Err(RecvTimeoutError::Timeout) => return Err("the dataflow does not end".into()),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.show.update(&self.ledger);
        }
    }

    fn hear(&mut self, event: Event) {
        self.show.hear(&event);
        self.ledger.enter(event);
    }
}
