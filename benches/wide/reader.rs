//! The process that is measured.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Lines, StdinLock, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};
use timely_kafka::metadata::{MetadataError, MetadataService};
use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::operators::Probe;
use timely_kafka::timely::dataflow::operators::core::Inspect;
use timely_kafka::{KafkaSource, LocalLog, ReadOptions, RecordBatch, Subscription, TimeMap};

use crate::process::{Stopwatch, Usage};
use crate::{DEADLINE, NAME, Outcome, Way, topic};

/// More partitions than are read.
const PARTITIONS_MAX: usize = 1 << 17;

/// What the process is told, a line each; it answers each by a line.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Reads these clusters, of so many topics of so many partitions each, until there were so many
    /// records of so many partitions.
    Read {
        clusters: Vec<String>,
        topics: usize,
        partitions: i32,
        await_partitions: usize,
        await_records: u64,
        linger_seconds: f64,
    },
    /// Does nothing for so many seconds.
    Idle(f64),
    /// Ends reading.
    Close,
}

/// A process that reads. It ends with this value.
#[derive(Debug)]
pub(crate) struct Reader {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What is read, and what is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) clusters: &'a [String],
    pub(crate) topics: usize,
    pub(crate) partitions: i32,
    /// Over all that was read by this process.
    pub(crate) await_partitions: usize,
    pub(crate) await_records: u64,
    /// How much longer it is measured.
    pub(crate) linger: Duration,
}

impl Reader {
    pub(crate) fn start(way: Way, workers: usize) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--role", "read", "--way", way.name()])
            .args(["--workers", &workers.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self {
            input: process.stdin.take().ok_or("no input")?,
            output: BufReader::new(process.stdout.take().ok_or("no output")?),
            process,
        })
    }

    fn order(&mut self, order: &Order) -> Outcome<Usage> {
        writeln!(self.input, "{}", serde_json::to_string(order)?)?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Reads this, and no longer what was read before.
    pub(crate) fn read(&mut self, reading: Reading<'_>) -> Outcome<Usage> {
        self.order(&Order::Read {
            clusters: reading.clusters.to_vec(),
            topics: reading.topics,
            partitions: reading.partitions,
            await_partitions: reading.await_partitions,
            await_records: reading.await_records,
            linger_seconds: reading.linger.as_secs_f64(),
        })
    }

    pub(crate) fn idle(&mut self, time: Duration) -> Outcome<Usage> {
        self.order(&Order::Idle(time.as_secs_f64()))
    }

    pub(crate) fn close(mut self) -> Outcome<Usage> {
        self.order(&Order::Close)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It has ended by itself, unless something failed.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// What was read until here.
#[derive(Debug, Default)]
struct Seen {
    /// Hashed, so that a partition of a cluster that comes is found as fast whatever else was read.
    partitions: HashSet<(String, String, i32)>,
    records: u64,
}

#[derive(Debug, Default)]
struct Progress {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Progress {
    fn note(&self, cluster: &str, topic: &str, partition: i32, records: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.records += records;
        let key = (cluster.to_owned(), topic.to_owned(), partition);
        seen.partitions.insert(key);
        drop(seen);
        self.changed.notify_one();
    }

    fn wait(&self, partitions: usize, records: u64) -> Outcome<()> {
        let missing =
            |seen: &mut Seen| seen.partitions.len() < partitions || seen.records < records;
        let all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(all, DEADLINE, missing);
        let (seen, over) = waited.unwrap_or_else(PoisonError::into_inner);
        if over.timed_out() {
            let of = seen.partitions.len();
            return Err(format!("{} records of {of} partitions came", seen.records).into());
        }
        Ok(())
    }
}

/// Reads as it is told on the input.
pub(crate) fn serve(way: Way, workers: usize) -> Outcome<()> {
    let progress = Arc::new(Progress::default());
    let mut seen = (progress.seen.lock()).unwrap_or_else(PoisonError::into_inner);
    // It does not grow while something is measured.
    seen.partitions.reserve(PARTITIONS_MAX);
    drop(seen);
    let orders = std::io::stdin().lines();
    match way {
        Way::Source => read_with_source(orders, &progress, workers),
        Way::Bare => read_bare(orders, &progress),
    }
}

fn idle(seconds: f64) -> Outcome<Usage> {
    let watch = Stopwatch::start()?;
    thread::park_timeout(Duration::from_secs_f64(seconds));
    watch.stop()
}

fn answer(usage: &Usage) -> Outcome<()> {
    println!("{}", serde_json::to_string(usage)?);
    Ok(())
}

/// What the metadata service is to say, and whether it has not said so.
#[derive(Debug, Default)]
struct Answer {
    metadata: Mutex<(StreamsMetadata, bool)>,
    changed: Condvar,
}

impl Answer {
    fn say(&self, metadata: StreamsMetadata) {
        let mut said = (self.metadata.lock()).unwrap_or_else(PoisonError::into_inner);
        *said = (metadata, true);
        self.changed.notify_one();
    }
}

/// A metadata service that says what it is told to, as soon as it is told.
#[derive(Debug, Default)]
struct Told(Arc<Answer>);

impl MetadataService for Told {
    fn ask(&mut self, deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        let before = (self.0.metadata.lock()).unwrap_or_else(PoisonError::into_inner);
        let wait = deadline.saturating_duration_since(Instant::now()) / 2;
        let waited = (self.0.changed).wait_timeout_while(before, wait, |(_, is_new)| !*is_new);
        let (mut said, _) = waited.unwrap_or_else(PoisonError::into_inner);
        said.1 = false;
        Ok(said.0.clone())
    }

    fn interval(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

fn metadata(clusters: &[String], topics: usize) -> Outcome<StreamsMetadata> {
    let mut metadata = StreamsMetadata::new();
    let mut stream = KafkaStream::new();
    let topics: Vec<String> = (0..topics).map(topic).collect();
    for servers in clusters {
        // By its address, so that a cluster keeps its name when others come and go.
        let name = format!("at-{}", servers.replace([':', ','], "-"));
        let properties = ClientProperties::new().with("bootstrap.servers", servers);
        metadata = metadata.with_cluster(&name, properties)?;
        stream = stream.with_topics(&name, topics.iter().map(String::as_str))?;
    }
    Ok(metadata.with_stream(NAME, stream)?)
}

fn read_with_source(
    orders: Lines<StdinLock<'static>>,
    progress: &Arc<Progress>,
    workers: usize,
) -> Outcome<()> {
    // On the disk of the build, since that of temporary files may be memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let told = Arc::new(Answer::default());
    let mut running = None;
    for order in orders {
        match serde_json::from_str(&order?)? {
            Order::Read {
                clusters,
                topics,
                await_partitions,
                await_records,
                linger_seconds,
                ..
            } => {
                let metadata = metadata(&clusters, topics)?;
                let watch = Stopwatch::start()?;
                told.say(metadata);
                if running.is_none() {
                    let source = KafkaSource::builder()
                        .name(NAME)
                        .metadata(Told(Arc::clone(&told)))
                        .subscribe(Subscription::streams([NAME]))
                        .log(LocalLog::at(folder.path().join("log")))
                        .build()?;
                    let threads = run(source.clone(), Arc::clone(progress), workers)?;
                    running = Some((source, threads));
                }
                progress.wait(await_partitions, await_records)?;
                thread::park_timeout(Duration::from_secs_f64(linger_seconds));
                answer(&watch.stop()?)?;
            }
            Order::Idle(seconds) => answer(&idle(seconds)?)?,
            Order::Close => {
                let watch = Stopwatch::start()?;
                if let Some((source, threads)) = running.take() {
                    source.control().stop();
                    threads.join().map_err(|_| "a worker panicked")?;
                    let left = source.close();
                    if left > 0 {
                        eprintln!("{left} clients did not close in time");
                    }
                }
                let usage = watch.stop()?;
                // Whoever hears the answer ends this process.
                folder.close()?;
                return answer(&usage);
            }
        }
    }
    Ok(())
}

/// Reads on threads until the source is stopped.
fn run(
    source: KafkaSource,
    progress: Arc<Progress>,
    workers: usize,
) -> Outcome<thread::JoinHandle<()>> {
    let guards = timely_kafka::execute(Config::process(workers), move |worker| {
        let progress = Arc::clone(&progress);
        let probe = ProbeHandle::new();
        worker.dataflow(|scope| {
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&probe);
            let batches = source.read_with(scope, options).batches;
            batches
                .inspect_core(move |event| {
                    if let Ok((_, batch)) = event {
                        note(&progress, batch);
                    }
                })
                .probe_with(&probe);
        });
    })?;
    Ok(thread::spawn(move || {
        guards.join();
    }))
}

fn note(progress: &Progress, batch: &RecordBatch) {
    if let Some(split) = batch.split() {
        let records = batch.iter().count() as u64;
        let (cluster, topic) = (split.cluster.as_str(), split.topic.as_str());
        progress.note(cluster, topic, split.partition.0, records);
    }
}

/// Reads with one client a cluster and nothing else.
fn read_bare(orders: Lines<StdinLock<'static>>, progress: &Arc<Progress>) -> Outcome<()> {
    let mut clients: Vec<Arc<BaseConsumer>> = Vec::new();
    for order in orders {
        match serde_json::from_str(&order?)? {
            Order::Read {
                clusters,
                topics,
                partitions,
                await_partitions,
                await_records,
                ..
            } => {
                let watch = Stopwatch::start()?;
                let over = Arc::new(AtomicBool::new(false));
                let mut threads = Vec::new();
                let number = clusters.len();
                for servers in clusters {
                    let client = Arc::new(client(&servers, number)?);
                    clients.push(Arc::clone(&client));
                    let (progress, over) = (Arc::clone(progress), Arc::clone(&over));
                    threads.push(thread::spawn(move || {
                        let list = assignment(topics, partitions);
                        client.assign(&list).map_err(|error| error.to_string())?;
                        while !over.load(Ordering::Relaxed) {
                            if let Some(Ok(message)) = client.poll(Duration::from_millis(100)) {
                                progress.note(&servers, message.topic(), message.partition(), 1);
                            }
                        }
                        Ok::<_, String>(())
                    }));
                }
                progress.wait(await_partitions, await_records)?;
                let usage = watch.stop()?;
                over.store(true, Ordering::Relaxed);
                for thread in threads {
                    thread.join().map_err(|_| "a thread panicked")??;
                }
                answer(&usage)?;
            }
            Order::Idle(seconds) => answer(&idle(seconds)?)?,
            Order::Close => {
                let watch = Stopwatch::start()?;
                clients.clear();
                return answer(&watch.stop()?);
            }
        }
    }
    Ok(())
}

/// A client with the properties that the source gives its own where so many `clients` read.
fn client(servers: &str, clients: usize) -> Outcome<BaseConsumer> {
    let source = KafkaSource::builder()
        .name(NAME)
        .metadata(Told::default())
        .subscribe(Subscription::streams([NAME]))
        .build()?;
    let cluster = ClientProperties::new().with("bootstrap.servers", servers);
    let mut config = ClientConfig::new();
    for (name, value) in source.client_properties(&cluster, clients).iter() {
        config.set(name, value);
    }
    Ok(config.create()?)
}

fn assignment(topics: usize, partitions: i32) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for index in 0..topics {
        for partition in 0..partitions {
            list.add_partition_offset(&topic(index), partition, Offset::Offset(0))
                .expect("zero is an offset");
        }
    }
    list
}
