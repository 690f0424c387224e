//! What is around the source in one round: topics, metadata, and who writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};

use crate::child::STREAM;
use crate::kafka::RealKafka;
use crate::plan::Change;
use crate::random::Random;

/// The two clusters.
pub(crate) const CLUSTERS: [&str; 2] = ["a", "b"];

/// How many keys there are.
const KEYS: u64 = 61;

/// How often something is written, and how many records at most.
const WRITE_EVERY: Duration = Duration::from_millis(10);
const WRITE_MOST: u64 = 24;

/// A partition, as the stored rows name its split.
pub(crate) type Split = (String, String, i32);

pub(crate) fn name_of((cluster, topic, partition): &Split) -> String {
    format!("{cluster}/{topic}/{partition}")
}

/// The topics and the metadata of one round.
pub(crate) struct World<'a> {
    kafka: &'a RealKafka,
    bootstraps: BTreeMap<String, String>,
    /// The name of a topic in its cluster, with so many partitions; the last one is listed later.
    topics: Vec<(&'static str, String, i32)>,
    pub(crate) metadata: PathBuf,
    lists_b: bool,
    lists_late: bool,
}

impl<'a> World<'a> {
    /// Makes the topics of a round and the metadata that lists all but the last of them.
    pub(crate) fn new(kafka: &'a RealKafka, round: &str, folder: &Path) -> Self {
        let topics = vec![
            ("a", format!("orders-{round}"), 3),
            ("b", format!("bills-{round}"), 2),
            ("b", format!("late-{round}"), 2),
        ];
        for (cluster, topic, partitions) in &topics {
            kafka.create_topic(cluster, topic, *partitions);
        }
        let bootstraps = CLUSTERS
            .iter()
            .map(|cluster| ((*cluster).to_owned(), kafka.bootstrap(cluster)))
            .collect();
        let world = Self {
            kafka,
            bootstraps,
            topics,
            metadata: folder.join("streams.yaml"),
            lists_b: true,
            lists_late: false,
        };
        world.write();
        world
    }

    pub(crate) fn splits(&self) -> Vec<Split> {
        let splits = self.topics.iter().flat_map(|(cluster, topic, partitions)| {
            (0..*partitions).map(|partition| ((*cluster).to_owned(), topic.clone(), partition))
        });
        splits.collect()
    }

    /// Begins to write to all partitions.
    pub(crate) fn produce(&self, seed: u64) -> Production {
        Production::start(self.bootstraps.clone(), self.splits(), seed)
    }

    /// Makes a change; killing a broker takes the seconds until it is back.
    pub(crate) fn change(&mut self, change: Change, broker: &str) {
        match change {
            Change::ClusterRemoved => self.lists_b = false,
            Change::ClusterAdded => self.lists_b = true,
            Change::TopicAdded => (self.lists_b, self.lists_late) = (true, true),
            Change::MetadataBack => {}
            Change::MetadataBroken => {
                fs::write(&self.metadata, "clusters: [").expect("the folder is writable");
                return;
            }
            Change::MetadataGone => {
                // It may be gone already.
                fs::remove_file(&self.metadata).ok();
                return;
            }
            Change::BrokerKilled => {
                self.kafka.kill(broker);
                self.kafka.start_again(broker);
                return;
            }
        }
        self.write();
    }

    /// Lists everything.
    pub(crate) fn heal(&mut self) {
        (self.lists_b, self.lists_late) = (true, true);
        self.write();
    }

    fn write(&self) {
        self.write_to(&self.metadata, self.lists_b, self.lists_late);
    }

    /// Writes another metadata file, which lists everything, into a folder.
    pub(crate) fn write_all(&self, folder: &Path) -> PathBuf {
        let path = folder.join("streams.yaml");
        self.write_to(&path, true, true);
        path
    }

    fn write_to(&self, path: &Path, lists_b: bool, lists_late: bool) {
        let mut text = "clusters:\n".to_owned();
        for (cluster, bootstrap) in &self.bootstraps {
            if cluster != "b" || lists_b {
                text += &format!(
                    "  {cluster}:\n    properties: {{ bootstrap.servers: '{bootstrap}', \
                     reconnect.backoff.max.ms: 500 }}\n"
                );
            }
        }
        text += &format!(
            "streams:\n  {STREAM}:\n    a: {{ topics: [{}] }}\n",
            self.topics[0].1
        );
        if lists_b {
            let late = if lists_late {
                format!(", {}", self.topics[2].1)
            } else {
                String::new()
            };
            text += &format!("    b: {{ topics: [{}{late}] }}\n", self.topics[1].1);
        }
        let next = path.with_extension("next");
        fs::write(&next, text)
            .and_then(|()| fs::rename(&next, path))
            .expect("the folder is writable");
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            for (cluster, topic, _) in &self.topics {
                self.kafka.delete_topic(cluster, topic);
            }
        }
    }
}

/// A thread that writes the numbers from zero to each partition, and knows how many.
pub(crate) struct Production {
    end: Sender<()>,
    thread: JoinHandle<BTreeMap<String, u64>>,
}

/// Counts what could not be written.
struct Deliveries(Arc<Mutex<Option<String>>>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        if let Err((error, _)) = result {
            let mut failed = self.0.lock().expect("nobody panics with the lock");
            failed.get_or_insert_with(|| error.to_string());
        }
    }
}

impl Production {
    fn start(bootstraps: BTreeMap<String, String>, splits: Vec<Split>, seed: u64) -> Self {
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || write(&bootstraps, &splits, seed, &ended));
        Self { end, thread }
    }

    /// Ends writing: how many records each split has, each acknowledged.
    pub(crate) fn end(self) -> BTreeMap<String, u64> {
        drop(self.end);
        self.thread.join().expect("all records are acknowledged")
    }
}

fn write(
    bootstraps: &BTreeMap<String, String>,
    splits: &[Split],
    seed: u64,
    ended: &Receiver<()>,
) -> BTreeMap<String, u64> {
    let failed = Arc::new(Mutex::new(None));
    let producers: BTreeMap<&str, BaseProducer<Deliveries>> = bootstraps
        .iter()
        .map(|(cluster, bootstrap)| {
            let producer = ClientConfig::new()
                .set("bootstrap.servers", bootstrap)
                .set("client.id", "campaign")
                // Nothing is written twice and nothing out of order, also if a broker dies.
                .set("enable.idempotence", "true")
                .set("linger.ms", "2")
                .set("reconnect.backoff.max.ms", "500")
                .create_with_context(Deliveries(Arc::clone(&failed)));
            (cluster.as_str(), producer.expect("the settings are valid"))
        })
        .collect();
    let mut random = Random::of(seed, 2);
    let mut written = vec![0_u64; splits.len()];
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(WRITE_EVERY) {
        for _ in 0..random.below(WRITE_MOST) {
            let index = random.index(splits.len());
            let (cluster, topic, partition) = &splits[index];
            let number = written[index].to_string();
            let key = format!("key-{}", random.below(KEYS));
            let record = BaseRecord::to(topic)
                .partition(*partition)
                .key(&key)
                .payload(&number);
            producers[cluster.as_str()]
                .send(record)
                .map_err(|(error, _)| error)
                .expect("the queue of the producer has room for a broker that is down");
            written[index] += 1;
        }
        for producer in producers.values() {
            producer.poll(Duration::ZERO);
        }
    }
    for producer in producers.values() {
        producer
            .flush(Duration::from_secs(60))
            .expect("records are acknowledged in time");
    }
    let failed = failed.lock().expect("nobody panics with the lock").take();
    assert_eq!(failed, None, "writing records");
    splits.iter().map(name_of).zip(written).collect()
}
