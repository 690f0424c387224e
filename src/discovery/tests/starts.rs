use std::collections::BTreeMap;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::TopicPartitionList;
use timely_splits::discovery::{Appeared, FoundSplit};
use timely_splits::discovery::{DiscoveryRequest, SplitDiscovery};
use timely_splits::epoch::RequestId;
use timely_splits::health::HealthStatus;

use super::{Event, SOON, TRANSIENT, Watched, latest, options, orders, split};
use crate::discovery::{DiscoveryOptions, EVENTS_MAX};
use crate::embedded::{EmbeddedCluster, EmbeddedFault, EmbeddedRecord, KafkaApi};
use crate::model::{KafkaStream, StartAt, StartRules, StreamsMetadata};

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
            starts: latest(),
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
            appeared: Appeared::AtFirst,
        });
    }
    let mut starts = BTreeMap::new();
    watched.until(|event| {
        if let Event::Resolved {
            request,
            split,
            start,
            ..
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

/// A partition with one record, which was found, and whose reading starts at its end by the rule.
fn one_record_and_latest() -> (EmbeddedCluster, Watched) {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    east.produce("orders", 0, [EmbeddedRecord::value("v")])
        .unwrap();
    let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
    let mut watched = Watched::start(
        &metadata,
        DiscoveryOptions {
            starts: latest(),
            ..options()
        },
    );
    watched.discover(&metadata);
    watched.found("east");
    (east, watched)
}

/// A partition that is found in a topic that is known begins where it begins: what was written between
/// its creation and its discovery was lost.
#[test]
fn a_partition_that_was_added_later_starts_at_its_beginning() {
    let (_east, mut watched) = one_record_and_latest();

    for (number, appeared) in [(1, Appeared::AtFirst), (2, Appeared::InGroup)] {
        watched.discovery.request(DiscoveryRequest::Resolve {
            request: RequestId(number),
            split: split("east", "orders", 0),
            appeared,
        });
        let start = watched.until(|event| match event {
            Event::Resolved { request, start, .. } => Some((*request, start.next.get())),
            _ => None,
        });
        assert_eq!(start, (RequestId(number), 2 - number));
    }
}

/// A start is never made up: while the cluster cannot be asked there is none.
#[test]
fn a_start_is_looked_up_again_until_the_cluster_answers() {
    let (east, mut watched) = one_record_and_latest();
    east.broker_down().unwrap();

    watched.discovery.request(DiscoveryRequest::Resolve {
        request: RequestId(7),
        split: split("east", "orders", 0),
        appeared: Appeared::AtFirst,
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

/// A metadata of the topic `orders` of one cluster, which starts by `start`.
fn orders_from(east: &EmbeddedCluster, start: StartAt) -> StreamsMetadata {
    let stream = KafkaStream::new()
        .with_topic_start("east", "orders", start)
        .unwrap();
    StreamsMetadata::new()
        .with_cluster("east", east.client_properties())
        .and_then(|metadata| metadata.with_stream("orders", stream))
        .unwrap()
}

/// A start that could not be found became `latest`: for each rule, whatever its cluster does not
/// answer. To see it fail, let an error in `resolve` go on with the rule behind it, or with the end.
#[test]
fn no_rule_becomes_another_one_while_the_cluster_cannot_be_asked() {
    const OFFSET_FETCH: KafkaApi = KafkaApi::Other(9);
    let group = StartAt::committed("billing", StartAt::Latest).unwrap();
    let nobody = StartAt::committed("nobody", StartAt::Earliest).unwrap();
    for (rule, api, expected) in [
        (StartAt::BeforeEnd { records: 2 }, KafkaApi::ListOffsets, 5),
        (group, OFFSET_FETCH, 3),
        (nobody, KafkaApi::ListOffsets, 0),
        (
            StartAt::Time { record_time_ms: 1 },
            KafkaApi::ListOffsets,
            7,
        ),
        (
            StartAt::positions([(7, 1)], StartAt::BeforeEnd { records: 1 }),
            KafkaApi::ListOffsets,
            6,
        ),
    ] {
        let words = rule.to_string();
        let east = EmbeddedCluster::start().unwrap();
        east.create_topic("orders", 1).unwrap();
        let records = vec![EmbeddedRecord::value("v"); 7];
        east.produce("orders", 0, records).unwrap();
        commit(&east, 3);
        let metadata = orders_from(&east, rule);
        let mut watched = Watched::start(&metadata, options());
        watched.discover(&metadata);
        watched.found("east");
        east.fail(api, 10_000, EmbeddedFault::Storage);

        watched.discovery.request(DiscoveryRequest::Resolve {
            request: RequestId(7),
            split: split("east", "orders", 0),
            appeared: Appeared::AtFirst,
        });
        watched.health("offsets of cluster east", TRANSIENT);
        let resolved = |event: &Event| matches!(event, Event::Resolved { .. });
        assert!(!watched.said.iter().any(resolved), "{words}");
        east.fail_no_more(api);
        let start = watched.until(|event| match event {
            Event::Resolved { start, .. } => Some(start.next.get()),
            _ => None,
        });

        // The embedded clusters know no times: to them there is no record since any.
        assert_eq!(start, expected, "{words}");
    }
}

/// Commits an offset of the topic `orders` for the group `billing`.
fn commit(east: &EmbeddedCluster, offset: i64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", east.bootstrap_servers())
        .set("group.id", "billing")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("orders", 0, rdkafka::Offset::Offset(offset))
        .unwrap();
    consumer.commit(&list, CommitMode::Sync).unwrap();
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
            appeared: Appeared::AtFirst,
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

/// S24.
#[test]
fn what_appears_later_starts_by_the_rule_of_its_kind() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    let records = vec![EmbeddedRecord::value("v"); 7];
    east.produce("orders", 0, records).unwrap();
    let before_end = |count| Some(StartAt::BeforeEnd { records: count });
    let each = StartRules {
        new_partitions: before_end(1),
        new_topics: before_end(2),
        new_clusters: before_end(3),
        ..latest()
    };
    for (rules, expected) in [(each, [7, 6, 5, 4]), (latest(), [7, 0, 7, 7])] {
        let metadata = orders(&[("east", east.client_properties(), &["orders"])]);
        let options = DiscoveryOptions {
            starts: rules,
            ..options()
        };
        let mut watched = Watched::start(&metadata, options);
        watched.discover(&metadata);
        watched.found("east");
        let kinds = [
            Appeared::AtFirst,
            Appeared::InGroup,
            Appeared::WithGroup,
            Appeared::WithPlace,
        ];
        for ((number, appeared), offset) in (1..).zip(kinds).zip(expected) {
            let asked = RequestId(number);
            watched.discovery.request(DiscoveryRequest::Resolve {
                request: asked,
                split: split("east", "orders", 0),
                appeared,
            });
            let found = watched.until(|event| match event {
                Event::Resolved { request, start, .. } if *request == asked => {
                    Some(start.next.get())
                }
                _ => None,
            });
            assert_eq!(found, offset, "{appeared:?}");
        }
    }
}
