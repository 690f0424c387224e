use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Headers;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

use super::{EmbeddedCluster, EmbeddedError, EmbeddedFault, EmbeddedRecord, KafkaApi};

/// Long enough for a machine that does many other things.
const WHILE: Duration = Duration::from_secs(20);

fn consumer(cluster: &EmbeddedCluster) -> BaseConsumer {
    let mut config = ClientConfig::new();
    for (name, value) in cluster.client_properties().iter() {
        config.set(name, value);
    }
    config
        .set("group.id", "test")
        .set("enable.metrics.push", "false");
    config.create().unwrap()
}

fn read(consumer: &BaseConsumer, topic: &str, count: usize) -> Vec<rdkafka::message::OwnedMessage> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(0))
        .unwrap();
    consumer.assign(&list).unwrap();
    (0..count)
        .map(|_| consumer.poll(WHILE).unwrap().unwrap().detach())
        .collect()
}

#[test]
fn records_come_back_as_they_were_written() {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", 1).unwrap();

    let written = [
        EmbeddedRecord::new("k", "v").at(1_700_000_000_000),
        EmbeddedRecord::tombstone("k"),
        EmbeddedRecord::value("")
            .with_header("a", Some(b"1"))
            .with_header("a", None),
    ];
    cluster.produce("orders", 0, written).unwrap();

    assert_eq!(cluster.end_offset("orders", 0).unwrap().get(), 3);
    let read = read(&consumer(&cluster), "orders", 3);
    assert_eq!(read[0].key(), Some(&b"k"[..]));
    assert_eq!(read[0].payload(), Some(&b"v"[..]));
    assert_eq!(read[0].timestamp().to_millis(), Some(1_700_000_000_000));
    assert_eq!(read[1].payload(), None);
    assert_eq!(read[2].key(), None);
    assert_eq!(read[2].payload(), Some(&b""[..]));
    let headers = read[2].headers().unwrap();
    assert_eq!(headers.get(0).value, Some(&b"1"[..]));
    assert_eq!(headers.get(1).key, "a");
    assert_eq!(headers.get(1).value, None);
}

#[test]
fn writing_to_a_partition_that_is_not_there_is_refused() {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", 1).unwrap();

    let refused = cluster.produce("orders", 7, [EmbeddedRecord::value("v")]);

    let Err(EmbeddedError::Produce { partition: 7, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(cluster.create_topic("orders", 2).is_err());
}

#[test]
fn brokers_that_were_down_have_kept_their_records() {
    let cluster = EmbeddedCluster::start_with(2).unwrap();
    cluster.create_topic("orders", 3).unwrap();
    cluster
        .produce("orders", 0, [EmbeddedRecord::value("before")])
        .unwrap();

    cluster.broker_down().unwrap();
    cluster.broker_up().unwrap();
    cluster
        .produce("orders", 0, [EmbeddedRecord::value("after")])
        .unwrap();

    let read = read(&consumer(&cluster), "orders", 2);
    assert_eq!(read[1].payload(), Some(&b"after"[..]));
}

#[test]
fn requests_are_written_down_by_kind() {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", 1).unwrap();
    cluster
        .produce("orders", 0, [EmbeddedRecord::value("v")])
        .unwrap();
    cluster.track_requests();

    cluster
        .produce("orders", 0, [EmbeddedRecord::value("w")])
        .unwrap();
    let own = cluster.request_counts();
    read(&consumer(&cluster), "orders", 2);
    let others = cluster.request_counts();

    assert_eq!(own.get(&KafkaApi::Produce), Some(&1));
    assert_eq!(own.get(&KafkaApi::ApiVersions), None, "connected before");
    assert!(others[&KafkaApi::ApiVersions] >= 1, "the consumer connects");
    assert!(others[&KafkaApi::Fetch] >= 1);
    assert!(
        cluster
            .requests()
            .windows(2)
            .all(|pair| pair[0].at <= pair[1].at)
    );
}

#[test]
fn a_fetch_fails_as_it_is_told_to() {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", 1).unwrap();
    cluster
        .produce("orders", 0, [EmbeddedRecord::value("v")])
        .unwrap();
    cluster.fail_fetches(1, EmbeddedFault::TopicAuthorizationFailed);
    let consumer = consumer(&cluster);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("orders", 0, Offset::Offset(0))
        .unwrap();

    consumer.assign(&list).unwrap();

    let failed = consumer.poll(WHILE).unwrap().unwrap_err().to_string();
    assert!(failed.contains("authorization failed"), "{failed}");
}
