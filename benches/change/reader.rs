//! The process that reads, and in which the change takes place.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use timely_kafka::metadata::{MetadataError, MetadataService};
use timely_kafka::model::{ClientProperties, KafkaStream, NameError, StartAt, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::container::CapacityContainerBuilder;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::channels::pact::Pipeline;
use timely_kafka::timely::dataflow::operators::{Operator, Probe};
use timely_kafka::{
    KafkaSource, LocalLog, Observer, ReadOptions, ReaderId, SourceControl, Subscription, TimeMap,
};

use crate::seen::Seen;
use crate::{Arguments, Change, NAME, Outcome, partitions};

/// Guards against hangs only.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long after the last partition came nothing is moved for balance any more.
const CALM: Duration = Duration::from_secs(3);

/// How long after the beginning of a measurement the change is.
const CHANGE_AFTER: Duration = Duration::from_millis(500);

/// The clusters that are read before a change.
const BEFORE: [&str; 4] = ["a", "b", "c", "d"];

const WORKERS: usize = 2;

/// Each client may fetch half a mebibyte at once: what is written in 20 ms to the partitions of a broker.
const MEMORY: usize = 1 << 30;

/// Reads, is changed when it is told to go, and says what that came to.
pub(crate) fn read(
    arguments: &Arguments,
    servers: &BTreeMap<String, String>,
    change: Change,
) -> Outcome<()> {
    // On the disk of the build, since that of temporary files may be memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let clusters = Clusters {
        servers,
        fetch_wait: arguments.fetch_wait.to_string(),
    };
    let before = clusters.listed(&BEFORE, None)?;
    let (answers, answered) = mpsc::channel();
    let heard = Arc::clone(&seen);
    let source = KafkaSource::builder()
        .name(NAME)
        .metadata(Answers {
            in_force: before,
            answers: answered,
            seen: Arc::clone(&seen),
        })
        .subscribe(Subscription::streams([NAME]))
        // What is written is soon more than a partition holds.
        .start(StartAt::Latest)
        .memory(MEMORY)
        .log(LocalLog::at(folder.path().join("log")))
        .observer(Observer::new(move |event| lock(&heard).event(event)))
        .build()?;
    let control = source.control();
    let shared = Arc::clone(&seen);
    let running = thread::spawn(move || run(source, &shared));

    let expected: i32 = BEFORE.iter().map(|one| partitions(one)).sum();
    await_splits(&seen, usize::try_from(expected)?)?;
    wait(CALM);
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;

    lock(&seen).begin(Instant::now())?;
    wait(CHANGE_AFTER);
    apply(change, &clusters, &answers, &seen, &control)?;
    wait(Duration::from_secs(arguments.seconds).saturating_sub(CHANGE_AFTER));
    let read = lock(&seen).end(change, Instant::now())?;
    println!("{}", serde_json::to_string(&read)?);
    control.stop();
    drop(answers);
    match running.join() {
        Ok(ended) => Ok(ended?),
        Err(_) => Err("the source panicked".into()),
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait(time: Duration) {
    // Nothing is ever sent.
    let (_sender, receiver) = mpsc::channel::<()>();
    receiver.recv_timeout(time).ok();
}

/// Waits until a record of so many partitions came.
fn await_splits(seen: &Mutex<Seen>, expected: usize) -> Outcome<()> {
    let deadline = Instant::now() + DEADLINE;
    while lock(seen).splits() < expected {
        if Instant::now() >= deadline {
            let splits = lock(seen).splits();
            return Err(format!("{splits} of {expected} partitions are read").into());
        }
        wait(Duration::from_millis(20));
    }
    Ok(())
}

/// The clusters that there are.
struct Clusters<'a> {
    servers: &'a BTreeMap<String, String>,
    fetch_wait: String,
}

impl Clusters<'_> {
    /// A stream of some of them, with this `client.id` for `c` if any.
    fn listed(&self, listed: &[&str], id_of_c: Option<&str>) -> Result<StreamsMetadata, NameError> {
        let mut stream = KafkaStream::new();
        let mut all = StreamsMetadata::new();
        for cluster in listed {
            let address = self.servers.get(*cluster).map_or("", String::as_str);
            let mut properties = ClientProperties::new()
                .with("bootstrap.servers", address)
                // The embedded cluster waits a fetch out that finds nothing, whatever arrives meanwhile.
                .with("fetch.wait.max.ms", &self.fetch_wait);
            if let Some(id) = id_of_c.filter(|_| *cluster == "c") {
                properties.set("client.id", id);
            }
            all = all.with_cluster(cluster, properties)?;
            stream = stream.with_topics(cluster, [NAME])?;
            if *cluster == "e" {
                stream = stream.with_start(cluster, StartAt::Earliest)?;
            }
        }
        all.with_stream(NAME, stream)
    }
}

/// Makes the change.
fn apply(
    change: Change,
    clusters: &Clusters<'_>,
    answers: &Sender<StreamsMetadata>,
    seen: &Mutex<Seen>,
    control: &SourceControl,
) -> Outcome<()> {
    let answer = match change {
        Change::None => return Ok(()),
        Change::Move => {
            let moves = lock(seen).moves();
            for (split, from) in moves {
                control.move_split(split, ReaderId((from + 1) % WORKERS));
            }
            return Ok(());
        }
        Change::Add => clusters.listed(&["a", "b", "c", "d", "e"], None)?,
        Change::Remove | Change::Hang => clusters.listed(&["a", "b", "d"], None)?,
        Change::RemoveHung => clusters.listed(&["a", "b", "c"], None)?,
        Change::Properties => clusters.listed(&BEFORE, Some("another"))?,
    };
    answers.send(answer)?;
    Ok(())
}

/// A metadata service that answers when it is told to.
struct Answers {
    in_force: StreamsMetadata,
    answers: Receiver<StreamsMetadata>,
    seen: Arc<Mutex<Seen>>,
}

impl MetadataService for Answers {
    fn ask(&mut self, deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        let first = lock(&self.seen).asked();
        if !first {
            let left = deadline.saturating_duration_since(Instant::now()) / 2;
            match self.answers.recv_timeout(left) {
                Ok(answer) => {
                    self.in_force = answer;
                    lock(&self.seen).answered(Instant::now());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => wait(left),
            }
        }
        Ok(self.in_force.clone())
    }

    fn interval(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }
}

/// Runs the source to its end.
fn run(source: KafkaSource, seen: &Arc<Mutex<Seen>>) -> Result<(), String> {
    let seen = Arc::clone(seen);
    let guards = timely_kafka::execute(Config::process(WORKERS), move |worker| {
        let (seen, index) = (Arc::clone(&seen), worker.index());
        let probe = ProbeHandle::new();
        worker.dataflow(|scope| {
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&probe);
            source
                .read_with(scope, options)
                .batches
                .unary_frontier::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
                    Pipeline,
                    "Watch",
                    move |_, _| {
                        move |(input, frontier), _output| {
                            input.for_each(|_, batch| {
                                lock(&seen).batch(batch, index, Instant::now());
                            });
                            let at = frontier.frontier().iter().next().copied();
                            lock(&seen).frontier(index, at, Instant::now());
                        }
                    },
                )
                .probe_with(&probe);
        });
    })?;
    guards.join().into_iter().collect()
}
