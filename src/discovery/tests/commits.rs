use std::convert::Infallible;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use timely_splits::discovery::SplitDiscovery;
use timely_splits::health::HealthStatus;

use super::{DEFINITE, SOON, Watched, options, orders, split};
use crate::discovery::{CommitOffsets, Committing, DiscoveryOptions};
use crate::embedded::{EmbeddedCluster, EmbeddedFault, KafkaApi};
use crate::model::{KafkaPosition, Offset as At, StreamsMetadata};

/// Kafka's number of the request that commits.
const OFFSET_COMMIT: KafkaApi = KafkaApi::Other(8);

const GROUP: &str = "view";

/// A watched discovery that commits, and what is disconnected when it does not any more.
pub(super) fn committing(metadata: &StreamsMetadata) -> (Watched, Receiver<Infallible>) {
    let (under_way, ended) = bounded(0);
    let offsets = CommitOffsets::to_group(GROUP).every(Duration::from_millis(10));
    let options = DiscoveryOptions {
        committing: Some(Committing {
            offsets,
            _under_way: under_way,
        }),
        ..options()
    };
    (Watched::start(metadata, options), ended)
}

pub(super) fn at(next: u64) -> KafkaPosition {
    KafkaPosition {
        next: At::new(next),
        leader_epoch: None,
    }
}

/// Whoever looks at the group, without joining it.
pub(super) fn tool(cluster: &EmbeddedCluster) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", GROUP)
        .create()
        .unwrap()
}

/// The committed offsets of the first partitions of `orders`, as soon as they are `expected`.
pub(super) fn await_committed(tool: &BaseConsumer, expected: &[Option<i64>]) {
    let deadline = Instant::now() + SOON;
    let mut list = TopicPartitionList::new();
    for (partition, _) in (0..).zip(expected) {
        list.add_partition("orders", partition);
    }
    loop {
        let told = tool.committed_offsets(list.clone(), SOON).unwrap();
        let told: Vec<_> = told
            .elements()
            .iter()
            .map(|element| match element.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            })
            .collect();
        if told == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{told:?}, expected {expected:?}");
    }
}

#[test]
fn what_is_bound_is_committed_whether_the_cluster_is_known_then_or_not() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 3).unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let (mut watched, _ended) = committing(&metadata);

    watched.discovery.bound(&split("east", "orders", 0), &at(5));
    watched.discover(&metadata);
    watched.found("east");
    watched.discovery.bound(&split("east", "orders", 1), &at(7));
    let tool = tool(&east);
    await_committed(&tool, &[Some(5), Some(7), None]);
    watched.discovery.bound(&split("east", "orders", 0), &at(6));

    await_committed(&tool, &[Some(6), Some(7), None]);
}

#[test]
fn a_commit_that_fails_is_said_once_and_the_next_one_has_the_latest() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 2).unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let (mut watched, _ended) = committing(&metadata);
    watched.discover(&metadata);
    watched.found("east");
    east.fail(
        OFFSET_COMMIT,
        1_000,
        EmbeddedFault::TopicAuthorizationFailed,
    );
    let subject = "committed offsets of cluster east";

    watched.discovery.bound(&split("east", "orders", 0), &at(5));
    let failed = watched.health(subject, DEFINITE);
    assert!(failed.message.contains("group view"), "{failed}");
    watched.discovery.bound(&split("east", "orders", 0), &at(8));
    watched.discovery.bound(&split("east", "orders", 1), &at(2));
    east.fail_no_more(OFFSET_COMMIT);

    await_committed(&tool(&east), &[Some(8), Some(2)]);
    watched.health(subject, HealthStatus::Well);
    let lines = watched.said.iter().filter(|event| {
        let said = format!("{event:?}");
        said.contains(subject)
    });
    assert_eq!(lines.count(), 2, "{:#?}", watched.said);
}

/// Splits are released when the metadata does not list them any more, and bound to there after that.
#[test]
fn what_is_bound_after_a_cluster_was_removed_is_committed_too() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let (mut watched, ended) = committing(&metadata);
    watched.discover(&metadata);
    watched.found("east");

    watched.discover(&StreamsMetadata::new());
    watched.discovery.bound(&split("east", "orders", 0), &at(9));
    drop(watched);

    let last = ended.recv_timeout(SOON);
    assert!(
        last == Err(RecvTimeoutError::Disconnected),
        "all threads have ended"
    );
    await_committed(&tool(&east), &[Some(9)]);
}
