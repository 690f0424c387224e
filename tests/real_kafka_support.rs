//! What the other tests on real Kafka rely on: clusters start, take records, tell what they saw, end.

#[path = "support/kafka.rs"]
mod kafka;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::json;

use kafka::RealKafka;

const CLIENT: &str = "reader-of-the-test";

fn reader(bootstrap: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("client.id", CLIENT)
        .set("group.id", "unused")
        .set("fetch.wait.max.ms", "50")
        .set("reconnect.backoff.max.ms", "500")
        .create()
        .expect("the settings are valid")
}

fn assign(consumer: &BaseConsumer, topic: &str, partition: i32, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset))
        .expect("the offset is valid");
    consumer.assign(&list).expect("the list is valid");
}

/// The next `count` values. Errors on the way are the client's own affair: it tries again.
fn read(consumer: &BaseConsumer, count: usize) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut values = Vec::new();
    while values.len() < count {
        assert!(
            Instant::now() < deadline,
            "read {values:?}, expected {count}"
        );
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            let payload = message.payload().unwrap_or_default();
            values.push(String::from_utf8_lossy(payload).into_owned());
        }
    }
    values
}

/// As seen: asked for what is being appended, a broker has nothing that may be read, logs its size, and is asked again.
#[test]
fn an_answer_at_the_high_watermark_has_no_records() {
    let fetch = |offset: i64, high_watermark: i64| {
        let asked =
            json!([{"topicId": "t", "partitions": [{"partition": 0, "fetchOffset": offset}]}]);
        let partition =
            json!({"partitionIndex": 0, "highWatermark": high_watermark, "recordsSizeInBytes": 72});
        let entry = json!({
            "connection": "127.0.0.1:9092-127.0.0.1:5-0-1",
            "requestHeader": {"requestApiKeyName": "FETCH", "clientId": "c"},
            "request": {"topics": asked},
            "response": {"responses": [{"topicId": "t", "partitions": [partition]}]},
        });
        format!("Completed request:{entry}\n")
    };
    let log = fetch(2_240, 2_241) + &fetch(2_241, 2_241) + &fetch(2_241, 2_243);

    let requests = kafka::parse_log(&log, &["127.0.0.1:9092"]);

    let fetched = requests.iter().flat_map(|request| &request.fetched);
    let fetched: Vec<_> = fetched.map(|one| (one.offset, one.bytes)).collect();
    assert_eq!(fetched, [(2_240, 72), (2_241, 0), (2_241, 72)]);
}

#[test]
fn what_is_written_is_read_in_order() {
    let kafka = RealKafka::start(&["east", "west"]);
    kafka.create_topic("east", "orders", 1);
    kafka.create_topic("west", "orders", 1);
    kafka.produce("east", "orders", 0, ["a", "b"]);
    kafka.produce("west", "orders", 0, ["z"]);
    kafka.grow("east", "orders", 2);
    kafka.produce("east", "orders", 1, ["c"]);

    let consumer = reader(&kafka.bootstrap("east"));
    assign(&consumer, "orders", 0, 0);
    assert_eq!(read(&consumer, 2), ["a", "b"]);
    assign(&consumer, "orders", 1, 0);
    assert_eq!(read(&consumer, 1), ["c"]);

    drop(consumer);
    kafka.delete_topic("west", "orders");
    kafka.create_topic("west", "orders", 3);
}

#[test]
fn the_request_log_tells_a_steady_client_from_one_that_started_over() {
    let kafka = RealKafka::start(&["east"]);
    kafka.create_topic("east", "orders", 1);
    kafka.produce(
        "east",
        "orders",
        0,
        (0..10).map(|number| number.to_string()),
    );
    let steady = reader(&kafka.bootstrap("east"));
    assign(&steady, "orders", 0, 0);
    read(&steady, 10);
    let connections = kafka.connections("east", CLIENT);
    assert!(!connections.is_empty(), "{:?}", kafka.requests("east"));

    kafka.produce("east", "orders", 0, ["more"]);
    assert_eq!(read(&steady, 1), ["more"]);

    assert_eq!(kafka.connections("east", CLIENT), connections);
    let offsets = kafka.fetched_offsets("east", CLIENT, "orders", 0);
    assert!(offsets.is_sorted(), "{offsets:?}");
    assert!(offsets.contains(&10), "{offsets:?}");

    drop(steady);
    let again = reader(&kafka.bootstrap("east"));
    assign(&again, "orders", 0, 0);
    read(&again, 11);

    assert!(kafka.connections("east", CLIENT).len() > connections.len());
    let all = kafka.fetched_offsets("east", CLIENT, "orders", 0);
    assert!(!all.is_sorted(), "{all:?}");
}

/// What the README has a person do who looks at records of a cluster of his own.
#[test]
fn the_script_creates_topics_and_writes_lines_to_them() {
    let kafka = RealKafka::start(&["east"]);

    let topic = ["topic", "east", "orders", "--partitions", "2"];
    let created = kafka.script_reading("", &topic);
    let again = kafka.script_reading("", &topic).unwrap_err();
    let lines = "k\tfirst\nk\tsecond\twith a tab\nk\t\n";
    let written = kafka.script_reading(lines, &["produce", "east", "orders"]);
    let nowhere = kafka
        .script_reading("lost\n", &["produce", "east", "payments"])
        .unwrap_err();

    assert_eq!(created.as_deref(), Ok(""));
    assert_eq!(written.as_deref(), Ok(""));
    let consumer = reader(&kafka.bootstrap("east"));
    let mut list = TopicPartitionList::new();
    for partition in [0, 1] {
        list.add_partition_offset("orders", partition, Offset::Beginning)
            .expect("the offset is valid");
    }
    consumer.assign(&list).expect("the list is valid");
    // All have one key, so they are in one partition and in order.
    assert_eq!(read(&consumer, 3), ["first", "second\twith a tab", ""]);
    assert!(
        again.ends_with("scripts/kafka: topic east/orders: Topic 'orders' already exists.\n"),
        "{again}"
    );
    assert!(
        nowhere
            .contains("topic east/payments: it does not exist; 'scripts/kafka topic' creates it"),
        "{nowhere}"
    );
}

#[test]
fn a_killed_cluster_comes_back_with_what_it_stored() {
    let kafka = RealKafka::start(&["east"]);
    kafka.create_topic("east", "orders", 1);
    kafka.produce("east", "orders", 0, ["kept"]);
    let bootstrap = kafka.bootstrap("east");

    kafka.kill("east");
    kafka.start_again("east");

    assert_eq!(kafka.bootstrap("east"), bootstrap);
    let consumer = reader(&bootstrap);
    assign(&consumer, "orders", 0, 0);
    assert_eq!(read(&consumer, 1), ["kept"]);
}

#[test]
fn a_paused_cluster_goes_on_after_the_pause() {
    let kafka = RealKafka::start(&["east"]);
    kafka.create_topic("east", "orders", 1);

    kafka.pause("east");
    kafka.resume("east");

    kafka.produce("east", "orders", 0, ["after"]);
    let consumer = reader(&kafka.bootstrap("east"));
    assign(&consumer, "orders", 0, 0);
    assert_eq!(read(&consumer, 1), ["after"]);
}

#[test]
fn brokers_that_share_a_process_are_told_apart() {
    let kafka = RealKafka::start_with(&["east", "west"], &["--one-process"]);
    kafka.create_topic("west", "orders", 1);

    let created = |cluster| {
        let requests = kafka.requests(cluster);
        requests
            .iter()
            .filter(|one| one.api == "CREATE_TOPICS")
            .count()
    };
    assert_eq!((created("east"), created("west")), (0, 1));
}

#[test]
fn a_machine_without_a_jdk_gets_a_sentence_that_says_what_to_install() {
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let python = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .expect("python3 is installed");
    let python = String::from_utf8_lossy(&python.stdout).trim().to_owned();

    let output = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/kafka"))
        .args(["start", "east"])
        .env("PATH", folder.path())
        .env("TIMELY_KAFKA_CACHE", folder.path())
        .env("TIMELY_KAFKA_STATE", folder.path().join("state"))
        .output()
        .expect("python3 starts");

    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("apt-get install default-jdk-headless maven"),
        "{said}"
    );
}
