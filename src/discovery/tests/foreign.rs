//! Names that reach another Kafka cluster than they did, or that of another name.

use crossbeam_channel::RecvTimeoutError;
use timely_splits::discovery::{Appeared, DiscoveryRequest, SplitDiscovery};
use timely_splits::epoch::RequestId;
use timely_splits::health::HealthStatus;

use super::commits::{at, await_committed, committing, tool};
use super::{DEFINITE, Event, SOON, Watched, names, options, orders, split};
use crate::embedded::{EmbeddedCluster, EmbeddedFault};
use crate::model::{KafkaClusterId, KafkaIdentity, StreamsMetadata};

impl Watched {
    /// The log knows the first partition of `orders` of `cluster`, in a Kafka cluster that nobody reaches.
    fn known_elsewhere(&mut self, cluster: &str) {
        let identity = KafkaIdentity {
            cluster: Some(KafkaClusterId("elsewhere".to_owned())),
            topic: None,
        };
        (self.discovery).known(&split(cluster, "orders", 0), &identity);
    }
}

fn two_partitions() -> EmbeddedCluster {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 2).unwrap();
    east
}

/// Tools saw positions of one cluster as those of another.
#[test]
fn nothing_is_committed_to_another_cluster_at_the_address() {
    let east = two_partitions();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let (mut watched, ended) = committing(&metadata);
    watched.known_elsewhere("east");
    watched.discovery.bound(&split("east", "orders", 0), &at(5));

    watched.discover(&metadata);
    watched.health("cluster east", DEFINITE);
    watched.discover(&StreamsMetadata::new());
    watched.discovery.bound(&split("east", "orders", 1), &at(7));
    drop(watched);

    let last = ended.recv_timeout(SOON);
    assert_eq!(last, Err(RecvTimeoutError::Disconnected));
    await_committed(&tool(&east), &[None, None]);
}

#[test]
fn nothing_is_committed_under_the_second_name_of_a_cluster() {
    let east = two_partitions();
    let one = ("one", east.client_properties(), &["orders"][..]);
    let other = ("other", east.client_properties(), &["orders"][..]);
    let both = orders(&[one.clone(), other]);
    let (mut watched, ended) = committing(&both);
    watched.discover(&orders(&[one]));
    watched.found("one");

    watched
        .discovery
        .bound(&split("other", "orders", 1), &at(7));
    watched.discover(&both);
    watched.health("cluster other", DEFINITE);
    watched.discovery.bound(&split("one", "orders", 0), &at(5));
    let tool = tool(&east);
    await_committed(&tool, &[Some(5), None]);
    drop(watched);

    let last = ended.recv_timeout(SOON);
    assert_eq!(last, Err(RecvTimeoutError::Disconnected));
    await_committed(&tool, &[Some(5), None]);
}

/// It was claimed before it was compared, so that the name that it is meant by was refused.
#[test]
fn a_cluster_that_another_name_reaches_by_mistake_is_read_by_its_own() {
    let east = two_partitions();
    let mistaken = ("mistaken", east.client_properties(), &["orders"][..]);
    let meant = ("meant", east.client_properties(), &["orders"][..]);
    let first = orders(std::slice::from_ref(&mistaken));
    let mut watched = Watched::start(&first, options());
    watched.known_elsewhere("mistaken");
    watched.discover(&first);
    watched.health("cluster mistaken", DEFINITE);

    watched.discover(&orders(&[mistaken, meant]));
    let found = watched.found("meant");

    assert_eq!(names(&found), ["meant/orders/0", "meant/orders/1"]);
}

/// Drains and bounded sources were over as if all had been read: what is gone has no more to be read.
///
/// To see it fail, let `Findings` note what a foreign cluster lacks, or let it be complete.
#[test]
fn what_another_cluster_at_the_address_lacks_is_not_gone() {
    let east = two_partitions();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let mut watched = Watched::start(&metadata, options());
    watched.discover(&metadata);
    let before = watched.found("east");
    watched.known_elsewhere("east");
    let health = watched.health("cluster east", DEFINITE);

    let unknown = EmbeddedFault::UnknownTopicOrPartition;
    east.fail_topic("orders", Some(unknown)).unwrap();
    let epoch = watched.discover(&metadata);
    watched.health("topic east/orders", HealthStatus::Waiting);
    // The next round of the same cluster finds that it is the one that is meant after all.
    east.fail_topic("orders", None).unwrap();
    watched.health("topic east/orders", HealthStatus::Well);
    let is_meant = &before[0];
    (watched.discovery).known(&is_meant.split, &is_meant.identity);
    watched.health("cluster east", HealthStatus::Well);
    let meanwhile = watched.said.len();
    let all_found = |event: &Event| matches!(event, Event::AllFound { epoch: of } if *of == epoch);
    watched.until(|event| all_found(event).then_some(()));

    assert!(
        health.message.starts_with("another Kafka cluster answers"),
        "{health}"
    );
    let said = &watched.said;
    assert!(!said[..meanwhile].iter().any(all_found), "{said:#?}");
    let gone = |event: &Event| matches!(event, Event::Gone { .. });
    assert!(!said.iter().any(gone), "{said:#?}");
    let last = said.iter().rev().find_map(|event| match event {
        Event::Found { splits, .. } => Some(splits),
        _ => None,
    });
    assert_eq!(last, Some(&before));
}

/// Reading would start, for good, at offsets of another cluster.
#[test]
fn nothing_starts_where_another_cluster_at_the_address_says() {
    let east = two_partitions();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let mut watched = Watched::start(&metadata, options());
    watched.known_elsewhere("east");
    watched.discover(&metadata);
    watched.health("cluster east", DEFINITE);

    watched.discovery.request(DiscoveryRequest::Resolve {
        request: RequestId(1),
        split: split("east", "orders", 1),
        appeared: Appeared::AtFirst,
    });

    let waits = watched.until(|event| match event {
        Event::Health(health) if health.subject == "offsets of cluster east" => {
            Some(health.status == HealthStatus::Waiting)
        }
        Event::Resolved { .. } => Some(false),
        _ => None,
    });
    assert!(waits, "{:#?}", watched.said);
}
