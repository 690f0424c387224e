//! Against librdkafka's mock cluster.

mod clients;
mod conformance;
mod lives;
mod moves;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use timely_splits::epoch::{MetadataEpoch, SplitEpoch};
use timely_splits::fetcher::{Fetched, FetcherDown, Polled, Prepared, SplitFetcher};
use timely_splits::health::Health;

use super::client::Life;
use super::drain::KafkaFetched;
use super::{ClientPool, KafkaFetcher, Settings};
use crate::memory::MemoryBudget;
use crate::model::{
    ClientProperties, ClusterId, ClusterMetadata, KafkaPosition, KafkaSplit, KafkaStream, Offset,
    Partition, SharedMetadata, StreamId, StreamTopics, StreamsMetadata, TopicName, WALKS,
};

/// Guards against hangs only.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster in the process, and a producer for it.
struct Broker {
    producer: BaseProducer,
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl Broker {
    fn with_topic(topic: &str, partitions: i32) -> Self {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic(topic, partitions, 1).unwrap();
        let producer = ClientConfig::new()
            .set("bootstrap.servers", cluster.bootstrap_servers())
            .set("linger.ms", "0")
            .create()
            .unwrap();
        Self { producer, cluster }
    }

    /// Writes `count` records, each with its number as its value, and waits until they are there.
    fn write(&self, topic: &str, partition: i32, count: usize) {
        for number in 0..count {
            let value = number.to_string();
            let record = BaseRecord::<(), _>::to(topic)
                .partition(partition)
                .payload(&value);
            self.producer.send(record).unwrap();
        }
        settle(&self.producer);
    }

    fn properties(&self) -> ClientProperties {
        // The mock sleeps an empty fetch out, whatever arrives meanwhile.
        ClientProperties::new()
            .with("bootstrap.servers", &self.cluster.bootstrap_servers())
            .with("fetch.wait.max.ms", "10")
    }
}

/// Waits until what was sent is there; `flush` would look every 100 ms only.
fn settle(producer: &BaseProducer) {
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(1));
    }
}

fn pool() -> Arc<ClientPool> {
    ClientPool::new(Settings {
        source: "test".to_owned(),
        properties: ClientProperties::new(),
        memory: MemoryBudget::new(256 << 20),
    })
    .unwrap()
}

/// Metadata that lists `topic` in each of `clusters`.
fn metadata(topic: &str, clusters: &[(&str, ClientProperties)]) -> StreamsMetadata {
    let mut all = StreamsMetadata::default();
    let mut stream = KafkaStream::default();
    for (name, properties) in clusters {
        let cluster = ClusterId::new(name).unwrap();
        let described = ClusterMetadata {
            properties: properties.clone(),
        };
        all.clusters.insert(cluster.clone(), described);
        let topics = StreamTopics {
            topics: [TopicName::new(topic).unwrap()].into(),
            ..StreamTopics::default()
        };
        stream.clusters.insert(cluster, topics);
    }
    all.streams.insert(StreamId::new("s").unwrap(), stream);
    all
}

fn split(cluster: &str, topic: &str, partition: i32) -> KafkaSplit {
    KafkaSplit::new(
        ClusterId::new(cluster).unwrap(),
        TopicName::new(topic).unwrap(),
        Partition(partition),
    )
}

fn at(offset: u64) -> KafkaPosition {
    KafkaPosition::at(Offset::new(offset))
}

/// A reader as far as a fetcher can tell: it checks that pieces join.
struct Worker {
    fetcher: KafkaFetcher,
    bell: Receiver<()>,
    /// What is assigned, under which epoch and how far it was read.
    assigned: BTreeMap<KafkaSplit, (SplitEpoch, KafkaPosition)>,
    /// The offsets and values of each split, in the order in which they came.
    records: BTreeMap<KafkaSplit, Vec<(u64, String)>>,
    downs: Vec<FetcherDown<KafkaSplit>>,
    health: Vec<Health>,
    prepared: BTreeSet<KafkaSplit>,
    late: usize,
}

impl Worker {
    fn new(pool: &Arc<ClientPool>, worker: usize) -> Self {
        let (ring, bell) = bounded(1);
        let activate = move || {
            // A bell that rings already need not be rung.
            ring.try_send(()).ok();
        };
        let fetcher = pool.fetcher(worker, Box::new(activate));
        Self {
            fetcher: fetcher.unwrap(),
            bell,
            assigned: BTreeMap::new(),
            records: BTreeMap::new(),
            downs: Vec::new(),
            health: Vec::new(),
            prepared: BTreeSet::new(),
            late: 0,
        }
    }

    fn adopt(&mut self, epoch: u64, metadata: &StreamsMetadata) {
        let metadata = metadata.clone().into();
        self.fetcher.adopt(MetadataEpoch(epoch), &metadata);
    }

    fn assign(&mut self, split: &KafkaSplit, epoch: u64, start: KafkaPosition) {
        self.fetcher.assign(split, SplitEpoch(epoch), &start);
        self.assigned
            .insert(split.clone(), (SplitEpoch(epoch), start));
    }

    /// Stops reading and says where to go on.
    fn revoke(&mut self, split: &KafkaSplit) -> KafkaPosition {
        let (epoch, next) = self.assigned.remove(split).unwrap();
        self.fetcher.unassign(split, epoch);
        next
    }

    /// Polls once; says whether there may be more.
    fn poll(&mut self, bytes_max: usize) -> Polled {
        let mut fetched = Vec::new();
        let polled = self.fetcher.poll(bytes_max, &mut fetched);
        for one in fetched {
            self.take(one);
        }
        polled
    }

    fn take(&mut self, fetched: KafkaFetched) {
        match fetched {
            Fetched::Health(health) => self.health.push(health),
            Fetched::Prepared(split) => {
                self.prepared.insert(split);
            }
            Fetched::Down(down) => {
                self.assigned.remove(&down.split);
                self.downs.push(down);
            }
            Fetched::Piece(piece) => {
                let Some((epoch, next)) = self.assigned.get_mut(&piece.split) else {
                    self.late += 1;
                    return;
                };
                if *epoch != piece.split_epoch {
                    self.late += 1;
                    return;
                }
                assert_eq!(*next, piece.start, "pieces of {} join", piece.split);
                assert!(piece.end > piece.start);
                *next = piece.end;
                let records = self.records.entry(piece.split.clone()).or_default();
                for record in piece.batch.iter().flat_map(|batch| batch.iter()) {
                    assert!(record.offset() >= piece.start.next);
                    assert!(record.offset() < piece.end.next);
                    let value = String::from_utf8(record.value().unwrap().to_vec()).unwrap();
                    records.push((record.offset().get(), value));
                }
            }
        }
    }

    /// Polls until `done`, waiting for the wake-up wherever the fetcher promises one.
    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            if self.poll(1 << 20) == Polled::Drained && !done(self) {
                self.bell
                    .recv_deadline(deadline)
                    .unwrap_or_else(|_| panic!("{what}: {:?} {:?}", self.downs, self.health));
            }
        }
    }

    /// The life of the client of its one cluster.
    fn life(&self) -> Life {
        self.fetcher.clusters.values().next().unwrap().life
    }

    /// Whether its one cluster has a client.
    fn has_queue(&self) -> bool {
        let connection = self.fetcher.clusters.values().next();
        connection.is_some_and(|connection| connection.queue.is_some())
    }

    fn count(&self, split: &KafkaSplit) -> usize {
        self.records.get(split).map_or(0, Vec::len)
    }
}

/// What a split with `count` records of [`Broker::write`] reads as.
fn written(count: usize) -> Vec<(u64, String)> {
    (0..count)
        .map(|number| (number as u64, number.to_string()))
        .collect()
}
