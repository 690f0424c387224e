mod changes;
mod commits;
mod conformance;
mod flapping;
mod foreign;
mod growth;
mod identities;
mod starts;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit, SplitDiscovery};
use timely_splits::epoch::MetadataEpoch;
use timely_splits::health::{FailureKind, Health, HealthStatus};

use super::{DiscoveryOptions, KafkaDiscovery};
use crate::embedded::EmbeddedCluster;
use crate::metadata::{FixedMetadataService, MetadataService, Subscription};
use crate::model::{
    ClientProperties, ClusterId, KafkaSplit, KafkaStream, Partition, StartAt, StartRules,
    StreamsMetadata, TopicName,
};

/// A guard against hangs alone.
const SOON: Duration = Duration::from_secs(40);

type Event = DiscoveryEvent<KafkaSplit>;

/// A discovery, all it said so far, and how it wakes.
struct Watched {
    discovery: KafkaDiscovery,
    woken: Receiver<()>,
    said: Vec<Event>,
    epoch: MetadataEpoch,
}

impl Watched {
    fn start(metadata: &StreamsMetadata, options: DiscoveryOptions) -> Self {
        Self::subscribed(Subscription::all(), metadata, options)
    }

    fn subscribed(
        subscription: Subscription,
        metadata: &StreamsMetadata,
        options: DiscoveryOptions,
    ) -> Self {
        let service = FixedMetadataService::new(metadata.clone());
        Self::asking(service, subscription, options)
    }

    fn asking(
        service: impl MetadataService,
        subscription: Subscription,
        mut options: DiscoveryOptions,
    ) -> Self {
        options.metadata.backoff_min = Duration::from_millis(1);
        let (wake, woken) = bounded(1);
        let discovery = KafkaDiscovery::start(
            Box::new(service),
            subscription,
            options,
            Box::new(move || {
                // A wake-up that is there already stands for this one.
                wake.try_send(()).ok();
            }),
        );
        Self {
            discovery,
            woken,
            said: Vec::new(),
            epoch: MetadataEpoch::default(),
        }
    }

    /// Asks for the splits of `metadata` under the next epoch.
    fn discover(&mut self, metadata: &StreamsMetadata) -> MetadataEpoch {
        self.epoch = self.epoch.next();
        self.discovery.request(DiscoveryRequest::Discover {
            epoch: self.epoch,
            metadata: metadata.clone().into(),
        });
        self.epoch
    }

    /// Polls until `wanted` picks something of an event.
    fn until<T>(&mut self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let deadline = Instant::now() + SOON;
        loop {
            while let Some(event) = self.discovery.poll() {
                self.said.push(event.clone());
                if let Some(found) = wanted(&event) {
                    return found;
                }
            }
            let woken = self.woken.recv_deadline(deadline);
            assert!(woken.is_ok(), "not said in time; said: {:#?}", self.said);
        }
    }

    /// The splits of one cluster that were found under the current epoch, as soon as there are any.
    fn found(&mut self, cluster: &str) -> Vec<FoundSplit<KafkaSplit>> {
        let now = self.epoch;
        self.until(|event| match event {
            Event::Found { epoch, splits } if *epoch == now => splits
                .first()
                .filter(|found| found.split.cluster.as_str() == cluster)
                .map(|_| splits.clone()),
            _ => None,
        })
    }

    fn health(&mut self, subject: &str, status: HealthStatus) -> Health {
        self.until(|event| match event {
            Event::Health(health) if health.subject == subject && health.status == status => {
                Some(health.clone())
            }
            _ => None,
        })
    }
}

/// Rules of a source that starts at the end.
fn latest() -> StartRules {
    StartRules {
        start: Some(StartAt::Latest),
        ..StartRules::default()
    }
}

fn options() -> DiscoveryOptions {
    DiscoveryOptions {
        interval: Duration::from_millis(20),
        timeout: SOON,
        ..DiscoveryOptions::default()
    }
}

const TRANSIENT: HealthStatus = HealthStatus::Failing(FailureKind::Transient);
const DEFINITE: HealthStatus = HealthStatus::Failing(FailureKind::Definite);

/// One stream, `orders`, over clusters with topics.
fn orders(clusters: &[(&str, ClientProperties, &[&str])]) -> StreamsMetadata {
    let mut metadata = StreamsMetadata::new();
    let mut stream = KafkaStream::new();
    for (name, properties, topics) in clusters {
        metadata = metadata.with_cluster(name, properties.clone()).unwrap();
        stream = stream.with_topics(name, topics.iter().copied()).unwrap();
    }
    metadata.with_stream("orders", stream).unwrap()
}

fn split(cluster: &str, topic: &str, partition: i32) -> KafkaSplit {
    KafkaSplit::new(
        ClusterId::new(cluster).unwrap(),
        TopicName::new(topic).unwrap(),
        Partition(partition),
    )
}

fn names(splits: &[FoundSplit<KafkaSplit>]) -> Vec<String> {
    splits.iter().map(|found| found.split.to_string()).collect()
}

/// Properties with an address at which nobody listens.
///
/// A port that was free a moment ago could have become that of a cluster of another test.
fn nobody() -> ClientProperties {
    ClientProperties::new().with("bootstrap.servers", "127.0.0.1:1")
}

#[test]
fn partitions_are_found_with_the_ids_of_their_cluster_and_topic() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 2).unwrap();
    east.create_topic("retry", 1).unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders", "retry"])]);
    let mut watched = Watched::start(&metadata, options());
    let told = watched.until(|event| match event {
        Event::Metadata(told) => Some(told.clone()),
        _ => None,
    });

    watched.discover(&told);
    let found = watched.found("east");

    assert_eq!(*told, metadata);
    assert_eq!(
        names(&found),
        ["east/orders/0", "east/orders/1", "east/retry/0"]
    );
    let clusters: BTreeSet<_> = found
        .iter()
        .map(|found| found.identity.cluster.clone())
        .collect();
    let topics: BTreeSet<_> = found.iter().map(|found| found.identity.topic).collect();
    assert_eq!(clusters.len(), 1);
    assert!(!clusters.contains(&None));
    assert_eq!(topics.len(), 2);
    assert!(!topics.contains(&None));
}

/// K15. Rounds that find what the one before found say nothing.
#[test]
fn a_topic_that_does_not_exist_is_waited_for_and_found_when_it_is_created() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders", "later"])]);
    let mut watched = Watched::start(&metadata, options());
    watched.discover(&metadata);

    let waiting = watched.health("topic east/later", HealthStatus::Waiting);
    assert_eq!(names(&watched.found("east")), ["east/orders/0"]);
    east.create_topic("later", 2).unwrap();
    let found = watched.found("east");

    assert_eq!(
        waiting.message,
        "it does not exist; it is read as soon as somebody creates it"
    );
    assert_eq!(
        names(&found),
        ["east/later/0", "east/later/1", "east/orders/0"]
    );
    let said: Vec<_> = watched
        .said
        .iter()
        .filter_map(|event| match event {
            Event::Health(health) => Some(health.status),
            _ => None,
        })
        .collect();
    assert_eq!(said, [HealthStatus::Waiting, HealthStatus::Well]);
}

/// S16.
#[test]
fn a_cluster_that_cannot_be_asked_is_told_apart_from_one_that_has_nothing() {
    let empty = EmbeddedCluster::start().unwrap();
    let full = EmbeddedCluster::start().unwrap();
    full.create_topic("orders", 1).unwrap();
    // Accepts connections and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let bootstrap = |address: &str| ClientProperties::new().with("bootstrap.servers", address);
    let metadata = orders(&[
        ("a-refused", nobody(), &["orders"]),
        (
            "b-unresolved",
            bootstrap("no-such-host.invalid:9092"),
            &["orders"],
        ),
        (
            "c-mute",
            bootstrap(&mute.local_addr().unwrap().to_string()),
            &["orders"],
        ),
        ("d-empty", empty.client_properties(), &["orders"]),
        ("e-full", full.client_properties(), &["orders"]),
        (
            "f-wrong",
            bootstrap("127.0.0.1:9").with("bootstrap.server", "x"),
            &["orders"],
        ),
    ]);
    let mut watched = Watched::start(
        &metadata,
        DiscoveryOptions {
            timeout: Duration::from_secs(4),
            ..options()
        },
    );
    watched.discover(&metadata);

    let mut healths = BTreeMap::new();
    let mut found = false;
    watched.until(|event| {
        match event {
            Event::Health(health) => {
                let said = (health.status, health.message.clone());
                healths.entry(health.subject.clone()).or_insert(said);
            }
            Event::Found { splits, .. } => {
                found |= names(splits) == ["e-full/orders/0"];
                assert!(splits.len() <= 1, "{splits:?}");
            }
            _ => {}
        }
        (found && healths.len() == 5).then_some(())
    });

    let expected = [
        ("cluster a-refused", TRANSIENT, "Connection refused"),
        (
            "cluster b-unresolved",
            TRANSIENT,
            "Failed to resolve 'no-such-host.invalid:9092'",
        ),
        ("cluster c-mute", TRANSIENT, "no answer in 4000 ms"),
        ("topic d-empty/orders", HealthStatus::Waiting, "not exist"),
        (
            "cluster f-wrong",
            DEFINITE,
            "No such configuration property: \"bootstrap.server\"",
        ),
    ];
    for (subject, status, words) in expected {
        let said = healths.get(subject);
        let (is, message) = said.unwrap_or_else(|| panic!("{subject}: {healths:#?}"));
        assert_eq!(*is, status, "{subject}: {message}");
        assert!(message.contains(words), "{subject}: {message}");
    }
}

#[test]
fn a_cluster_that_comes_back_is_well_again() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    east.broker_down().unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let mut watched = Watched::start(&metadata, options());
    watched.discover(&metadata);

    watched.health("cluster east", TRANSIENT);
    east.broker_up().unwrap();
    watched.health("cluster east", HealthStatus::Well);

    assert_eq!(names(&watched.found("east")), ["east/orders/0"]);
}

/// S15.
#[test]
fn a_cluster_that_hangs_delays_no_other_and_no_end() {
    let hung = EmbeddedCluster::start().unwrap();
    hung.create_topic("orders", 1).unwrap();
    hung.delay(Duration::from_secs(60)).unwrap();
    let west = EmbeddedCluster::start().unwrap();
    west.create_topic("orders", 1).unwrap();
    let hanging = ("hung", hung.client_properties(), &["orders"][..]);
    let before = orders(std::slice::from_ref(&hanging));
    let after = orders(&[hanging, ("west", west.client_properties(), &["orders"])]);
    let mut watched = Watched::start(&before, options());
    watched.discover(&before);

    watched.discover(&after);
    let found = watched.found("west");
    let ending = Instant::now();
    let Watched {
        discovery, said, ..
    } = watched;
    drop(discovery);

    assert_eq!(names(&found), ["west/orders/0"]);
    assert!(
        !said.iter().any(|event| matches!(event, Event::Health(_))),
        "the hung cluster was waited for: {said:?}"
    );
    assert!(ending.elapsed() < Duration::from_secs(5));
}

/// S27. To see it fail, let a name claim a cluster that another one has.
#[test]
fn two_names_of_one_cluster_are_refused_and_read_once() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    let properties = east.client_properties();
    let one = ("one", properties.clone(), &["orders"][..]);
    let other = ("other", properties, &["orders"][..]);
    let both = orders(&[one.clone(), other.clone()]);
    let mut watched = Watched::start(&both, options());
    let first = orders(&[one]);
    watched.discover(&first);
    watched.found("one");

    watched.discover(&both);
    let refused = watched.health("cluster other", DEFINITE);
    let read_twice = watched.said.iter().any(|event| {
        matches!(event, Event::Found { splits, .. }
            if splits.iter().any(|found| found.split.cluster.as_str() == "other"))
    });
    watched.discover(&orders(&[other]));
    watched.health("cluster other", HealthStatus::Well);
    // Under the epoch since which it is listed.
    let found = watched.until(|event| match event {
        Event::Found { splits, .. } => Some(splits.clone()).filter(|found| !found.is_empty()),
        _ => None,
    });

    assert!(
        refused
            .message
            .starts_with("it is the same Kafka cluster as cluster one, by its id "),
        "{refused}"
    );
    assert!(!read_twice);
    assert_eq!(names(&found), ["other/orders/0"]);
}

/// S20.
#[test]
fn changed_properties_are_used_at_once() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    let before = orders(&[("east", nobody(), &["orders"])]);
    let after = orders(&[("east", east.client_properties(), &["orders"])]);
    let mut watched = Watched::start(&before, options());
    watched.discover(&before);
    watched.health("cluster east", TRANSIENT);

    watched.discover(&after);

    assert_eq!(names(&watched.found("east")), ["east/orders/0"]);
}

/// A password that was changed in its file, for example.
#[test]
fn what_a_reference_stands_for_is_read_again_after_a_failure() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("servers");
    let old = nobody();
    std::fs::write(&path, old.value("bootstrap.servers").unwrap()).unwrap();
    let reference = format!("${{file:{}}}", path.display());
    let properties = ClientProperties::new().with("bootstrap.servers", &reference);
    let metadata = orders(&[("east", properties, &["orders"])]);
    let mut watched = Watched::start(&metadata, options());
    watched.discover(&metadata);
    watched.health("cluster east", TRANSIENT);

    std::fs::write(&path, east.bootstrap_servers()).unwrap();

    assert_eq!(names(&watched.found("east")), ["east/orders/0"]);
}
