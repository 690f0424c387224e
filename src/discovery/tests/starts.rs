use std::collections::BTreeMap;

use timely_splits::discovery::FoundSplit;
use timely_splits::discovery::{DiscoveryRequest, SplitDiscovery};
use timely_splits::epoch::RequestId;
use timely_splits::health::HealthStatus;

use super::{Event, SOON, TRANSIENT, Watched, options, orders, split};
use crate::discovery::{DiscoveryOptions, EVENTS_MAX};
use crate::embedded::{EmbeddedCluster, EmbeddedRecord};
use crate::model::{KafkaStream, StartAt, StreamsMetadata};

#[test]
fn starts_are_looked_up_by_the_rule_of_the_topic_or_of_the_source() {
    let east = EmbeddedCluster::start().unwrap();
    for topic in ["early", "late"] {
        east.create_topic(topic, 600).unwrap();
        let records = vec![EmbeddedRecord::value("v"); 3];
        east.produce(topic, 599, records).unwrap();
    }
    let early = KafkaStream::new().with_topics("east", ["early"]).unwrap();
    let early = early.with_start("east", StartAt::Earliest).unwrap();
    let late = KafkaStream::new().with_topics("east", ["late"]).unwrap();
    let metadata = StreamsMetadata::new()
        .with_cluster("east", east.client_properties())
        .and_then(|metadata| metadata.with_stream("early", early))
        .and_then(|metadata| metadata.with_stream("late", late))
        .unwrap();
    let mut watched = Watched::start(
        &metadata,
        DiscoveryOptions {
            start: StartAt::Latest,
            ..options()
        },
    );
    watched.discover(&metadata);
    let found = watched.found("east");
    assert_eq!(found.len(), 1_200);

    for (number, FoundSplit { split, .. }) in (1..).zip(&found) {
        watched.discovery.request(DiscoveryRequest::Resolve {
            request: RequestId(number),
            split: split.clone(),
            sibling: false,
        });
    }
    let mut starts = BTreeMap::new();
    watched.until(|event| {
        if let Event::Resolved {
            request,
            split,
            start,
        } = event
        {
            let twice = starts.insert(split.clone(), (*request, start.next.get()));
            assert_eq!(twice, None);
        }
        (starts.len() == 1_200).then_some(())
    });

    assert_eq!(starts[&split("east", "early", 599)].1, 0);
    assert_eq!(starts[&split("east", "late", 599)].1, 3);
    assert_eq!(starts[&split("east", "late", 0)].1, 0);
    for (number, FoundSplit { split, .. }) in (1..).zip(&found) {
        assert_eq!(starts[split].0, RequestId(number));
    }
}

/// A partition that is found in a topic that is known begins where it begins: what was written between
/// its creation and its discovery was lost.
#[test]
fn a_partition_that_was_added_later_starts_at_its_beginning() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    east.produce("orders", 0, [EmbeddedRecord::value("v")])
        .unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let mut watched = Watched::start(
        &metadata,
        DiscoveryOptions {
            start: StartAt::Latest,
            ..options()
        },
    );
    watched.discover(&metadata);
    watched.found("east");

    for (number, sibling) in [(1, false), (2, true)] {
        watched.discovery.request(DiscoveryRequest::Resolve {
            request: RequestId(number),
            split: split("east", "orders", 0),
            sibling,
        });
        let start = watched.until(|event| match event {
            Event::Resolved { request, start, .. } => Some((*request, start.next.get())),
            _ => None,
        });
        assert_eq!(start, (RequestId(number), u64::from(!sibling)));
    }
}

/// A start is never made up: while the cluster cannot be asked there is none.
#[test]
fn a_start_is_looked_up_again_until_the_cluster_answers() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    east.produce("orders", 0, [EmbeddedRecord::value("v")])
        .unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let mut watched = Watched::start(
        &metadata,
        DiscoveryOptions {
            start: StartAt::Latest,
            ..options()
        },
    );
    watched.discover(&metadata);
    watched.found("east");
    east.broker_down().unwrap();

    watched.discovery.request(DiscoveryRequest::Resolve {
        request: RequestId(7),
        split: split("east", "orders", 0),
        sibling: false,
    });
    watched.health("offsets of cluster east", TRANSIENT);
    east.broker_up().unwrap();
    let start = watched.until(|event| match event {
        Event::Resolved { request, start, .. } => Some((*request, start.next.get())),
        _ => None,
    });

    assert_eq!(start, (RequestId(7), 1));
    watched.health("offsets of cluster east", HealthStatus::Well);
}

/// What nobody polls is bounded, and is still there when somebody does.
#[test]
fn events_that_nobody_polls_wait() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 2_000).unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let mut watched = Watched::start(&metadata, options());
    watched.discover(&metadata);
    let found = watched.found("east");

    for (number, FoundSplit { split, .. }) in (1..).zip(found) {
        watched.discovery.request(DiscoveryRequest::Resolve {
            request: RequestId(number),
            split,
            sibling: false,
        });
    }
    while watched.discovery.events.len() < EVENTS_MAX {
        watched.woken.recv_timeout(SOON).unwrap();
    }
    let mut resolved = 0;
    watched.until(|event| {
        resolved += usize::from(matches!(event, Event::Resolved { .. }));
        (resolved == 2_000).then_some(())
    });

    assert_eq!(resolved, 2_000);
}
