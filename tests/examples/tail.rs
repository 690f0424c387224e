//! `tail` prints what it reads, says what is wrong, and ends when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};

use crate::support::{Example, LINE_WITHIN};

/// What is promised, and what a busy machine may need on top.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(5);

pub(crate) struct Clusters {
    folder: TempDir,
    clusters: BTreeMap<&'static str, EmbeddedCluster>,
}

impl Clusters {
    /// Clusters with a topic `orders` of two partitions, of which the file describes `homes`.
    pub(crate) fn start(names: &[&'static str], homes: &[&str]) -> Self {
        let start = |name: &&'static str| {
            let cluster = EmbeddedCluster::start().unwrap();
            cluster.create_topic("orders", 2).unwrap();
            (*name, cluster)
        };
        let clusters = Self {
            folder: tempfile::tempdir().unwrap(),
            clusters: names.iter().map(start).collect(),
        };
        clusters.describe(homes);
        clusters
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("streams.json")
    }

    fn describe(&self, homes: &[&str]) {
        let properties = |cluster: &EmbeddedCluster| {
            let properties = cluster.client_properties();
            let all = properties.iter();
            all.map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let clusters = self.clusters.iter();
        let clusters: BTreeMap<_, _> = clusters
            .map(|(name, cluster)| (name, json!({ "properties": properties(cluster) })))
            .collect();
        let homes = homes
            .iter()
            .map(|name| (*name, json!({ "topics": ["orders"] })));
        let orders: BTreeMap<_, _> = homes.collect();
        let text = json!({ "clusters": clusters, "streams": { "orders": orders } }).to_string();
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, self.file()).unwrap();
    }

    fn write(
        &self,
        cluster: &str,
        partition: i32,
        records: impl IntoIterator<Item = EmbeddedRecord>,
    ) {
        self.clusters[cluster]
            .produce("orders", partition, records)
            .unwrap();
    }
}

pub(crate) fn tail(file: &Path, more: &[&str]) -> Example {
    Example::start("tail", &arguments(file, more))
}

fn arguments<'a>(file: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["--metadata", file.to_str().unwrap(), "--stream", "orders"];
    arguments.extend(more);
    arguments
}

fn numbered(numbers: std::ops::Range<u64>) -> impl Iterator<Item = EmbeddedRecord> {
    numbers.map(|number| EmbeddedRecord::new("key", number.to_string()))
}

fn object(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn json_has_every_field_as_it_was_written() {
    let clusters = Clusters::start(&["east"], &["east"]);
    let records = [
        EmbeddedRecord::new("größe", "3 \"äpfel\"\n").at(1_700_000_000_123),
        EmbeddedRecord::tombstone("gone").at(1),
        EmbeddedRecord::value("").at(2),
        EmbeddedRecord::new("k", [0, 255]).at(3),
        EmbeddedRecord::value("v")
            .at(4)
            .with_header("trace", Some(b"1"))
            .with_header("trace", None)
            .with_header("raw", Some(b"\xff")),
    ];
    clusters.write("east", 1, records);

    let tail = tail(&clusters.file(), &["--json"]);

    let expected = [
        json!({ "key": "größe", "value": "3 \"äpfel\"\n", "time": 1_700_000_000_123_u64, "headers": [] }),
        json!({ "key": "gone", "value": null, "time": 1, "headers": [] }),
        json!({ "key": null, "value": "", "time": 2, "headers": [] }),
        json!({ "key": "aw==", "value": "AP8=", "encoding": "base64", "time": 3, "headers": [] }),
        json!({ "key": null, "value": "v", "time": 4, "headers": [
            ["trace", "1"], ["trace", null], ["raw", { "encoding": "base64", "value": "/w==" }]
        ] }),
    ];
    for (offset, mut whole) in (0_u64..).zip(expected) {
        let printed = object(&tail.line());
        whole["cluster"] = json!("east");
        whole["topic"] = json!("orders");
        whole["partition"] = json!(1);
        whole["offset"] = json!(offset);
        whole["time_type"] = json!("CreateTime");
        whole["tick"] = printed["tick"].clone();
        assert!(printed["tick"].is_u64(), "{printed}");
        assert_eq!(printed, whole);
    }
}

#[test]
fn text_is_readable_and_nothing_in_it_moves_the_cursor() {
    let clusters = Clusters::start(&["east"], &["east"]);
    let records = [
        EmbeddedRecord::new("key", "value").at(1_700_000_000_123),
        EmbeddedRecord::new("null", "\x1b[2Jä\n").at(951_782_400_000),
        EmbeddedRecord::tombstone([0xff, b'a']).at(-1_000),
    ];
    clusters.write("east", 0, records);

    let tail = tail(&clusters.file(), &[]);

    let printed = [tail.line(), tail.line(), tail.line()];
    let expected = [
        r#"east/orders/0@0  2023-11-14T22:13:20.123Z  "key"  "value""#,
        r#"east/orders/0@1  2000-02-29T00:00:00.000Z  "null"  "\u{1b}[2Jä\n""#,
        r#"east/orders/0@2  1969-12-31T23:59:59.000Z  b"\xffa"  null"#,
    ];
    assert_eq!(printed, expected);
}

/// Of each split, offsets from the first one on without a gap; ticks never go back.
fn assert_in_order(objects: &[Value]) {
    let mut next: BTreeMap<(String, u64), u64> = BTreeMap::new();
    let mut last_tick = 0;
    for object in objects {
        let cluster = object["cluster"].as_str().unwrap().to_owned();
        let split = (cluster, object["partition"].as_u64().unwrap());
        let next = next.entry(split).or_default();
        assert_eq!(object["offset"], *next, "{object}");
        assert_eq!(object["value"], next.to_string(), "{object}");
        *next += 1;
        let tick = object["tick"].as_u64().unwrap();
        assert!(tick >= last_tick, "{object}");
        last_tick = tick;
    }
}

#[test]
fn sigterm_ends_in_time_with_whole_ticks_printed_while_records_keep_coming() {
    let clusters = Clusters::start(&["east"], &["east"]);
    clusters.write("east", 0, numbered(0..1_000));
    let mut tail = tail(&clusters.file(), &["--json", "-w", "2"]);
    let mut objects: Vec<_> = (0..1_000).map(|_| object(&tail.line())).collect();

    clusters.write("east", 0, numbered(1_000..3_000));
    clusters.write("east", 1, numbered(0..2_000));
    tail.terminate();
    let status = tail.status(ENDS_WITHIN);

    objects.extend(tail.rest_of_output().iter().map(|line| object(line)));
    assert_in_order(&objects);
    assert_eq!(status, Some(0));
    assert_eq!(tail.rest_of_errors(), [] as [String; 0]);
}

#[test]
fn sigusr1_has_it_said_what_is_read_from_where_on_and_why() {
    let clusters = Clusters::start(&["east"], &["east"]);
    clusters.write("east", 0, numbered(0..10));
    let tail = tail(&clusters.file(), &["-w", "2"]);
    for _ in 0..10 {
        tail.line();
    }

    tail.signal(Signal::USR1);

    tail.error_with("metadata: epoch 1, its service answered 0 s ago");
    tail.error_with("option tick_interval: 100ms");
    let said = tail.error_with("split east/orders/0: reading by reader");
    assert!(
        said.contains("; went on at 0, by the rule: earliest, at "),
        "{said}"
    );
    tail.error_with("split east/orders/1: assigned by reader");
}

#[test]
fn a_plan_says_what_another_file_would_change() {
    let clusters = Clusters::start(&["east", "west"], &["east"]);
    let before = clusters.folder.path().join("before.json");
    std::fs::copy(clusters.file(), &before).unwrap();
    clusters.describe(&["west"]);
    let after = clusters.file();

    let mut tail = tail(&before, &["--plan", after.to_str().unwrap()]);

    assert_eq!(tail.status(LINE_WITHIN), Some(0));
    assert_eq!(
        tail.rest_of_output(),
        [
            "- stream orders: topic east/orders",
            "+ stream orders: topic west/orders"
        ]
    );
}

#[test]
fn a_change_of_the_metadata_is_followed() {
    let clusters = Clusters::start(&["east", "west"], &["east"]);
    clusters.write("east", 0, numbered(0..10));
    clusters.write("west", 0, numbered(0..10));
    clusters.write("west", 1, numbered(0..10));
    let mut tail = tail(&clusters.file(), &["--json", "-w", "2"]);
    let mut objects: Vec<_> = (0..10).map(|_| object(&tail.line())).collect();

    clusters.describe(&["east", "west"]);

    objects.extend((0..20).map(|_| object(&tail.line())));
    clusters.write("east", 1, numbered(0..10));
    objects.extend((0..10).map(|_| object(&tail.line())));
    tail.terminate();
    assert_eq!(tail.status(ENDS_WITHIN), Some(0));
    assert_eq!(tail.rest_of_output(), [] as [String; 0]);
    assert_in_order(&objects);
    let last: BTreeSet<_> = objects[30..]
        .iter()
        .map(|o| o["cluster"].as_str())
        .collect();
    assert_eq!(last, BTreeSet::from([Some("east")]));
}

#[test]
fn from_latest_starts_after_what_is_there() {
    let clusters = Clusters::start(&["east"], &["east"]);
    clusters.write("east", 0, numbered(0..100));
    let file = clusters.file();
    let arguments = arguments(&file, &["--json", "--from", "latest"]);
    let log = [("RUST_LOG", "timely_kafka=debug"), ("NO_COLOR", "1")];
    let tail = Example::start_with("tail", &arguments, &log);
    tail.error_with("split east/orders/0: assigned");

    clusters.write("east", 0, numbered(100..101));

    assert_eq!(object(&tail.line())["offset"], 100);
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let clusters = Clusters::start(&["east"], &["east"]);
    clusters.write("east", 0, numbered(0..10));
    let mut tail = tail(&clusters.file(), &[]);
    tail.line();

    tail.close_output();
    // The first line after it finds that nobody listens, the next one that the pipe is closed.
    let mut number = 10;
    while tail.is_running() {
        clusters.write("east", 0, numbered(number..number + 1));
        number += 1;
        assert!(number < 10_000, "it does not notice");
    }

    assert_eq!(tail.status(ENDS_WITHIN), Some(0));
    assert_eq!(tail.rest_of_errors(), [] as [String; 0]);
}

#[test]
fn sigterm_ends_it_in_time_also_when_nobody_takes_what_it_prints() {
    let clusters = Clusters::start(&["east"], &["east"]);
    clusters.write("east", 0, numbered(0..20_000));
    let file = clusters.file();
    let (mut tail, mut pipe) = Example::start_untaken("tail", &arguments(&file, &["--json"]));
    // It prints; what it read in this tick is more than the pipe holds.
    pipe.read_exact(&mut [0; 10]).unwrap();

    tail.terminate();

    let status = tail.status(ENDS_WITHIN);
    let said = tail.rest_of_errors();
    assert_eq!(
        said,
        ["tail: not all that was read could be printed in time"]
    );
    assert_eq!(status, Some(1));
}

#[test]
fn a_cluster_that_refuses_is_told_and_does_not_hold_the_end_back() {
    let clusters = Clusters::start(&["east"], &["east"]);
    clusters.clusters["east"].broker_down().unwrap();
    let mut tail = tail(&clusters.file(), &[]);
    tail.error_with("cluster east");

    tail.terminate();

    assert_eq!(tail.status(ENDS_WITHIN), Some(0));
}

#[test]
fn a_cluster_that_hangs_does_not_hold_the_end_back() {
    let clusters = Clusters::start(&["east"], &["east"]);
    clusters.write("east", 0, numbered(0..1));
    let mut tail = tail(&clusters.file(), &[]);
    tail.line();
    clusters.clusters["east"]
        .delay(Duration::from_secs(600))
        .unwrap();

    tail.terminate();

    assert_eq!(tail.status(ENDS_WITHIN), Some(0));
    assert_eq!(tail.rest_of_errors(), [] as [String; 0]);
}

#[test]
fn two_processes_read_and_one_prints_and_a_signal_to_the_other_ends_both() {
    let clusters = Clusters::start(&["east"], &["east"]);
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners = [free(), free()];
    let hosts = listeners.map(|listener| format!("{}\n", listener.local_addr().unwrap()));
    let hostfile = clusters.folder.path().join("hosts");
    std::fs::write(&hostfile, hosts.concat()).unwrap();
    let of_both = [
        "--json",
        "-n",
        "2",
        "--hostfile",
        hostfile.to_str().unwrap(),
        "-p",
    ];
    let process = |index| tail(&clusters.file(), &[&of_both[..], &[index]].concat());
    let (mut first, mut second) = (process("0"), process("1"));
    clusters.write("east", 0, numbered(0..100));
    clusters.write("east", 1, numbered(0..100));
    let objects: Vec<_> = (0..200).map(|_| object(&first.line())).collect();

    second.terminate();

    assert_eq!(second.status(ENDS_WITHIN), Some(0));
    assert_eq!(first.status(ENDS_WITHIN), Some(0));
    assert_eq!(second.rest_of_output(), [] as [String; 0]);
    assert_in_order(&objects);
}

#[test]
fn an_unknown_stream_is_refused_with_the_known_ones() {
    let clusters = Clusters::start(&["east"], &["east"]);
    let file = clusters.file();
    let file = file.to_str().unwrap();

    let mut tail = Example::start("tail", &["--metadata", file, "--stream", "oders"]);

    assert_eq!(tail.status(LINE_WITHIN), Some(2));
    let said = tail.rest_of_errors().concat();
    let expected = format!("tail: stream 'oders' is not described by {file}; expected 'orders'");
    assert_eq!(said, expected);
}

#[test]
fn all_mistakes_of_a_file_are_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("streams.yaml");
    let text = "clusters:\n  east:\n    propertys: { bootstrap.servers: '127.0.0.1:1' }\nstreams:\n  \
                orders:\n    east: { topic: [orders] }\n";
    std::fs::write(&file, text).unwrap();

    let mut tail = tail(&file, &[]);

    assert_eq!(tail.status(LINE_WITHIN), Some(2));
    let said = tail.rest_of_errors().join("\n");
    assert!(
        said.contains("propertys") && said.contains("streams.orders.east.topic:"),
        "{said}"
    );
}
