//! Many partitions over many clusters: what is asked of each cluster, and that all of it ends in time.
//!
//! What it costs is a matter for `benches/wide`. Time limits guard against hangs only, but for the one of
//! closing, which is that of the pool.
#![expect(clippy::unwrap_used, reason = "what fails fails the test")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord, KafkaApi};
use timely_kafka::metadata::{MetadataError, MetadataService};
use timely_kafka::model::{KafkaSplit, KafkaStream, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::operators::Probe;
use timely_kafka::timely::dataflow::operators::core::Inspect;
use timely_kafka::timely::worker::Worker;
use timely_kafka::{KafkaSource, KafkaSourceBuilder, ReadOptions, Subscription, TimeMap};

/// Guards against hangs only.
const LIMIT: Duration = Duration::from_secs(120);

const TOPICS: [&str; 4] = ["bills", "orders", "returns", "visits"];
/// The partitions of each topic.
const PARTITIONS: i32 = 25;
/// The partitions of each cluster.
const ALL: usize = TOPICS.len() * PARTITIONS as usize;

/// The brokers of each cluster: three, and the controller, which leads partitions like them.
const BROKERS: usize = 4;

/// Where partitions begin is asked of a broker for all topics at once: in one question, or in a few if that is
/// wanted of some partitions before it is wanted of the others, which follows from how threads run.
const FEW_POSITIONS: usize = TOPICS.len() * BROKERS;

/// What else is asked is librdkafka's own, for three clients: it asks again for metadata and for the group as it
/// connects, so how often is not a matter of design. It follows brokers and topics: 18 to 28 of the most frequent
/// kind were counted, with 100 partitions.
const FEW: usize = 10 * BROKERS;

/// So many clusters, with a record in each partition.
fn start(count: usize) -> Vec<EmbeddedCluster> {
    let start = || {
        let cluster = EmbeddedCluster::start_with(3).unwrap();
        for topic in TOPICS {
            cluster.create_topic(topic, PARTITIONS).unwrap();
            for partition in 0..PARTITIONS {
                let record = EmbeddedRecord::value("one");
                cluster.produce(topic, partition, [record]).unwrap();
            }
        }
        cluster.track_requests();
        cluster
    };
    let starting: Vec<_> = (0..count).map(|_| thread::spawn(start)).collect();
    let started = starting.into_iter().map(|thread| thread.join().unwrap());
    started.collect()
}

/// A service that says what it is told to.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<StreamsMetadata>>);

impl Told {
    fn tell(&self, clusters: &[EmbeddedCluster]) {
        let mut metadata = StreamsMetadata::new();
        let mut stream = KafkaStream::new();
        for (index, cluster) in clusters.iter().enumerate() {
            let name = format!("cluster-{index}");
            let properties = cluster.client_properties();
            metadata = metadata.with_cluster(&name, properties).unwrap();
            stream = stream.with_topics(&name, TOPICS).unwrap();
        }
        *self.0.lock().unwrap() = metadata.with_stream("all", stream).unwrap();
    }
}

impl MetadataService for Told {
    fn ask(&mut self, _: Instant) -> Result<StreamsMetadata, MetadataError> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn interval(&self) -> Option<Duration> {
        Some(Duration::from_millis(20))
    }
}

/// A source that reads on this thread.
struct Reading<'a> {
    worker: &'a mut Worker,
    probe: ProbeHandle<u64>,
    /// How many records came of each split.
    seen: Rc<RefCell<BTreeMap<KafkaSplit, usize>>>,
}

impl Reading<'_> {
    fn step_until(&mut self, what: &str, mut is_over: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !is_over(self) {
            assert!(begun.elapsed() < LIMIT, "not over after {LIMIT:?}: {what}");
            (self.worker).step_or_park(Some(Duration::from_millis(1)));
        }
    }

    /// Reads until a record of each of so many partitions came, and the frontier has passed it.
    fn read(&mut self, partitions: usize) {
        let all = |reading: &Self| reading.seen.borrow().len() == partitions;
        self.step_until("a record of each partition comes", all);
        let now = self.frontier();
        self.step_until("the frontier passes", |reading| reading.frontier() > now);
        let seen = self.seen.borrow();
        assert!(seen.values().all(|count| *count == 1), "each comes once");
    }

    fn frontier(&self) -> Option<u64> {
        self.probe
            .with_frontier(|frontier| frontier.first().copied())
    }

    /// Goes on for so many ticks.
    fn pass(&mut self, ticks: u64) {
        for _ in 0..ticks {
            let now = self.frontier();
            self.step_until("a tick is durable", |reading| reading.frontier() > now);
        }
    }
}

/// Has `test` read what `told` says, and ends the source; says how long the latter took.
fn with_source(
    told: &Told,
    set: impl FnOnce(KafkaSourceBuilder) -> KafkaSourceBuilder,
    test: impl Fn(&mut Reading<'_>) + Send + Sync + 'static,
) -> Duration {
    let builder = KafkaSource::builder()
        .metadata(told.clone())
        .subscribe(Subscription::streams(["all"]));
    let source = set(builder).build().unwrap();
    let of_worker = source.clone();
    let closing = timely_kafka::execute(Config::thread(), move |worker| {
        let probe = ProbeHandle::new();
        let seen: Rc<RefCell<BTreeMap<KafkaSplit, usize>>> = Rc::default();
        let noted = Rc::clone(&seen);
        worker.dataflow(|scope| {
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&probe);
            let read = of_worker.read_with(scope, options);
            read.batches
                .inspect_core(move |event| {
                    let Ok((_, batch)) = event else { return };
                    for record in batch {
                        *(noted.borrow_mut())
                            .entry(record.split().clone())
                            .or_default() += 1;
                    }
                })
                .probe_with(&probe);
        });
        let mut reading = Reading {
            worker,
            probe,
            seen,
        };
        test(&mut reading);
        let closing = Instant::now();
        of_worker.control().stop();
        reading.step_until("the source ends", |reading| reading.probe.done());
        closing
    });
    let mut closing = closing.unwrap().join().into_iter();
    let closing = closing.next().unwrap().unwrap();
    source.close();
    closing.elapsed()
}

fn count(cluster: &EmbeddedCluster, api: KafkaApi) -> usize {
    cluster.request_counts().get(&api).copied().unwrap_or(0)
}

/// Two thousand partitions, and two clusters of twenty dead when the source ends: one is down, one hangs.
#[test]
fn many_partitions_end_in_time_though_clusters_are_dead() {
    let clusters = Arc::new(start(20));
    let told = Told::default();
    told.tell(&clusters);
    let dying = Arc::clone(&clusters);

    let closed = with_source(
        &told,
        // No other round is due meanwhile.
        |builder| builder.discovery_interval(2 * LIMIT),
        move |reading| {
            reading.read(dying.len() * ALL);
            dying[0].broker_down().unwrap();
            dying[1].delay(LIMIT).unwrap();
            reading.pass(3);
        },
    );

    assert!(closed < Duration::from_secs(6), "it took {closed:?}");
    for cluster in &clusters[2..] {
        let mut counts = cluster.request_counts();
        counts.remove(&KafkaApi::Fetch);
        // librdkafka checks each position by itself that it is given with a leader epoch.
        let checked = counts.remove(&KafkaApi::OffsetForLeaderEpoch);
        assert!(
            checked <= Some(2 * ALL),
            "{checked:?} positions are checked"
        );
        let positions = counts.remove(&KafkaApi::ListOffsets);
        let few = positions.is_some_and(|positions| positions < FEW_POSITIONS);
        assert!(few, "{positions:?} questions");
        assert!(counts.values().all(|count| *count < FEW), "{counts:?}");
    }
}

/// Seen to fail when a cluster began a round at each metadata epoch: each was asked twice.
#[test]
fn a_cluster_that_comes_and_goes_has_nothing_asked_of_the_others() {
    let clusters = Arc::new(start(4));
    let told = Told::default();
    let (extra, others) = clusters.split_last().unwrap();
    told.tell(others);
    let (telling, read) = (told.clone(), Arc::clone(&clusters));

    with_source(
        &told,
        // No other round is due meanwhile.
        |builder| builder.discovery_interval(2 * LIMIT),
        move |reading| {
            let most = &read[..read.len() - 1];
            reading.read(most.len() * ALL);
            // What the clients ask by themselves after their start is over.
            reading.pass(20);
            most.iter().for_each(EmbeddedCluster::track_requests);
            telling.tell(&read);
            reading.read(read.len() * ALL);
            telling.tell(most);
            reading.pass(10);
        },
    );

    assert!(count(extra, KafkaApi::Fetch) > 0);
    let mut by_themselves = 0;
    for cluster in others {
        let mut counts = cluster.request_counts();
        assert!(counts.remove(&KafkaApi::Fetch) > Some(0));
        // librdkafka asks for metadata now and then, and looks at positions again after it.
        by_themselves += counts.remove(&KafkaApi::Metadata).unwrap_or(0);
        counts.remove(&KafkaApi::OffsetForLeaderEpoch);
        assert_eq!(counts, BTreeMap::new());
    }
    assert!(
        by_themselves < others.len(),
        "{by_themselves} questions for metadata"
    );
}

/// All were asked in the same 35 ms, again and again.
#[test]
fn clusters_that_were_found_together_are_asked_again_by_and_by() {
    let clusters = Arc::new(start(8));
    let told = Told::default();
    told.tell(&clusters);
    let asked = Arc::clone(&clusters);
    let interval = Duration::from_secs(4);

    with_source(
        &told,
        |builder| builder.discovery_interval(interval),
        move |reading| {
            reading.read(asked.len() * ALL);
            reading.pass(10);
            asked.iter().for_each(EmbeddedCluster::track_requests);
            let again = |cluster: &EmbeddedCluster| count(cluster, KafkaApi::Metadata) > 0;
            reading.step_until("all are asked again", |_| asked.iter().all(again));
        },
    );

    let first = |cluster: &EmbeddedCluster| {
        let requests = cluster.requests().into_iter();
        let mut rounds = requests.filter(|request| request.api == KafkaApi::Metadata);
        rounds.next().unwrap().at
    };
    let mut times: Vec<Duration> = clusters.iter().map(first).collect();
    times.sort();
    let apart = times[times.len() - 1] - times[0];
    assert!(apart > interval / 8, "all are asked within {apart:?}");
}
