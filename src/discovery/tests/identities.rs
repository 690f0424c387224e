//! What splits are, which ticks wait for.

use std::time::Duration;

use timely_splits::discovery::{Appeared, DiscoveryRequest, SplitDiscovery};
use timely_splits::epoch::RequestId;

use super::commits::{at, committing};
use super::{Event, TRANSIENT, Watched, options, orders, split};
use crate::discovery::DiscoveryOptions;
use crate::embedded::{EmbeddedCluster, EmbeddedFault, KafkaApi};
use crate::model::{KafkaSplit, StartAt, StartRules, StreamsMetadata};

/// More than anybody asks in a test.
const MANY: usize = 100_000;

impl Watched {
    fn ask_identity(&mut self, request: u64, one: &KafkaSplit) {
        self.discovery.request(DiscoveryRequest::Identify {
            request: RequestId(request),
            splits: vec![one.clone()],
        });
    }

    /// Whether it can be told what the split of a request is, as soon as that is answered.
    fn is_identified(&mut self, asked: u64) -> bool {
        self.until(|event| match event {
            Event::Identified { request, splits } if request.0 == asked => {
                Some(splits.iter().all(|(_, identity)| identity.is_some()))
            }
            _ => None,
        })
    }

    /// Whether anything was said about a subject.
    fn has_said(&self, subject: &str) -> bool {
        let about = |event: &Event| matches!(event, Event::Health(one) if one.subject == subject);
        self.said.iter().any(about)
    }
}

/// Nobody answered, and each tick in which it had records waited for two seconds.
#[test]
fn of_a_removed_cluster_nobody_can_tell_what_its_splits_are_and_says_so() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let mut watched = Watched::start(&metadata, options());
    watched.discover(&metadata);
    watched.found("east");
    east.broker_down().unwrap();
    let one = split("east", "orders", 0);
    watched.ask_identity(1, &one);
    watched.health("cluster east", TRANSIENT);

    watched.discover(&StreamsMetadata::new());
    watched.ask_identity(2, &one);

    assert!(!watched.is_identified(2));
    let before = watched.said.iter().any(
        |event| matches!(event, Event::Identified { request, .. } if *request == RequestId(1)),
    );
    assert!(before || !watched.is_identified(1));
}

/// The topic is not listed any more, and its cluster can still be asked.
#[test]
fn of_an_unlisted_topic_it_is_found_out_what_its_splits_are() {
    let east = EmbeddedCluster::start().unwrap();
    for topic in ["orders", "retry"] {
        east.create_topic(topic, 1).unwrap();
    }
    let both = orders(&[("east", east.client_properties(), &["orders", "retry"])]);
    let less = orders(&[("east", east.client_properties(), &["orders"])]);
    let mut watched = Watched::start(&both, options());
    watched.discover(&both);
    watched.found("east");

    let one = split("east", "retry", 0);
    watched.ask_identity(1, &one);
    watched.discover(&less);
    watched.ask_identity(2, &one);

    assert!(watched.is_identified(1) && watched.is_identified(2));
}

/// Asks again and again what `one` is until the coordinator of a group was asked for, and then once more.
/// That is answered before the health stream has anything to say about `subject`.
fn is_identified_meanwhile(watched: &mut Watched, east: &EmbeddedCluster, subject: &str) {
    let one = split("east", "orders", 0);
    let asked_for_coordinator = || {
        let counts = east.request_counts();
        counts.contains_key(&KafkaApi::FindCoordinator)
    };
    let mut number = 1;
    while !asked_for_coordinator() {
        watched.ask_identity(number, &one);
        assert!(watched.is_identified(number));
        number += 1;
    }
    watched.ask_identity(number, &one);
    assert!(watched.is_identified(number));
    assert!(!watched.has_said(subject), "it was waited for");
}

/// The thread that proves what splits are waited for the commit, and the frontier for the proof.
#[test]
fn a_commit_that_hangs_keeps_nobody_from_telling_what_splits_are() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let (mut watched, _ended) = committing(&metadata);
    watched.discover(&metadata);
    watched.found("east");
    east.track_requests();
    let fault = EmbeddedFault::CoordinatorNotAvailable;
    east.fail(KafkaApi::FindCoordinator, MANY, fault);

    let one = split("east", "orders", 0);
    watched.discovery.bound(&one, &at(5));
    let subject = "committed offsets of cluster east";
    is_identified_meanwhile(&mut watched, &east, subject);

    watched.health(subject, TRANSIENT);
}

/// The same for a start that only the coordinator of a group can tell.
#[test]
fn a_start_that_hangs_keeps_nobody_from_telling_what_splits_are() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let start = StartAt::committed("billing", StartAt::Earliest).unwrap();
    let options = DiscoveryOptions {
        starts: StartRules {
            start: Some(start),
            ..StartRules::default()
        },
        timeout: Duration::from_secs(5),
        ..options()
    };
    let mut watched = Watched::start(&metadata, options);
    watched.discover(&metadata);
    watched.found("east");
    east.track_requests();
    let fault = EmbeddedFault::CoordinatorNotAvailable;
    east.fail(KafkaApi::FindCoordinator, MANY, fault);

    watched.discovery.request(DiscoveryRequest::Resolve {
        request: RequestId(MANY as u64),
        split: split("east", "orders", 0),
        appeared: Appeared::AtFirst,
    });
    let subject = "offsets of cluster east";
    is_identified_meanwhile(&mut watched, &east, subject);

    watched.health(subject, TRANSIENT);
}
