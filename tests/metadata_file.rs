//! Metadata files that are good, and files that change, through the public interface.

#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot arrange is a failed test"
)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use timely_kafka::metadata::{FileMetadataService, MetadataError, MetadataService};
use timely_kafka::model::{
    ClientProperties, KafkaStream, OnRemoval, OnReturn, StartAt, StartRules, StopAt,
    StreamsMetadata, TopicName,
};

const YAML: &str = "\
clusters:
  east:
    properties: { bootstrap.servers: \"127.0.0.1:21000\" }
  west:
    properties: { bootstrap.servers: \"127.0.0.1:21003\", client.rack: b }
streams:
  orders:
    east: { topics: [orders, orders-retry] }
    west: { topics: [orders], start: latest, stop: never }
";

const JSON: &str = r#"{
  "clusters": {
    "east": {"properties": {"bootstrap.servers": "127.0.0.1:21000"}},
    "west": {"properties": {"bootstrap.servers": "127.0.0.1:21003", "client.rack": "b"}}
  },
  "streams": {
    "orders": {
      "east": {"topics": ["orders", "orders-retry"]},
      "west": {"topics": ["orders"], "start": "latest", "stop": "never"}
    }
  }
}"#;

const TOML: &str = r#"
[clusters.east.properties]
bootstrap.servers = "127.0.0.1:21000"

[clusters.west]
properties = { "bootstrap.servers" = "127.0.0.1:21003", client.rack = "b" }

[streams.orders]
east.topics = ["orders", "orders-retry"]
west = { topics = ["orders"], start = "latest", stop = "never" }
"#;

fn sample() -> StreamsMetadata {
    let servers = |address| ClientProperties::new().with("bootstrap.servers", address);
    let mut orders = KafkaStream::new()
        .with_topics("east", ["orders", "orders-retry"])
        .and_then(|stream| stream.with_topics("west", ["orders"]))
        .and_then(|stream| stream.with_start("west", StartAt::Latest))
        .unwrap();
    orders.clusters.get_mut("west").unwrap().stop = Some(StopAt::Never);
    StreamsMetadata::new()
        .with_cluster("east", servers("127.0.0.1:21000"))
        .and_then(|metadata| {
            let west = servers("127.0.0.1:21003").with("client.rack", "b");
            metadata.with_cluster("west", west)
        })
        .and_then(|metadata| metadata.with_stream("orders", orders))
        .unwrap()
}

fn ask(service: &mut FileMetadataService) -> Result<StreamsMetadata, MetadataError> {
    service.ask(Instant::now() + Duration::from_secs(30))
}

fn read(end: &str, text: &str) -> Result<StreamsMetadata, MetadataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("streams.{end}"));
    fs::write(&path, text).unwrap();
    ask(&mut FileMetadataService::new(&path))
}

fn properties(end: &str, text: &str) -> Vec<(String, String)> {
    let metadata = read(end, text).unwrap();
    let properties = metadata.clusters["east"].properties.iter();
    properties
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn the_three_notations_say_the_same() {
    assert_eq!(read("yaml", YAML).unwrap(), sample());
    assert_eq!(read("yml", YAML).unwrap(), sample());
    assert_eq!(read("yaml", JSON).unwrap(), sample());
    assert_eq!(read("json", JSON).unwrap(), sample());
    assert_eq!(read("toml", TOML).unwrap(), sample());
    assert_eq!(read("json", &format!("\u{feff}{JSON}")).unwrap(), sample());
}

#[test]
fn values_keep_their_spelling() {
    let expected = |list: &[(&str, &str)]| -> Vec<_> {
        let own = |(name, value): &(&str, &str)| (format!("client.{name}"), (*value).to_owned());
        let servers = ("bootstrap.servers".to_owned(), "h".to_owned());
        std::iter::once(servers)
            .chain(list.iter().map(own))
            .collect()
    };

    let yaml = properties(
        "yaml",
        "streams: {}\nclusters: { east: { properties: { bootstrap.servers: h, client.id: 0123, client.rack: no } } }",
    );
    assert_eq!(yaml, expected(&[("id", "0123"), ("rack", "no")]));
    let text = properties(
        "yaml",
        "streams: {}\nclusters: { east: { properties: { bootstrap.servers: h, client.id: 'null', client.rack: 1.10 } } }",
    );
    assert_eq!(text, expected(&[("id", "null"), ("rack", "1.10")]));
    let json = properties(
        "json",
        r#"{"streams": {}, "clusters": {"east": {"properties":
            {"bootstrap.servers": "h", "client.id": 1.10, "client.rack": true}}}}"#,
    );
    assert_eq!(json, expected(&[("id", "1.10"), ("rack", "true")]));
    let toml = properties(
        "toml",
        "streams = {}\n[clusters.east.properties]\nbootstrap.servers = 'h'\nclient.id = 0x1_F\nclient.rack = 1.10",
    );
    assert_eq!(toml, expected(&[("id", "0x1_F"), ("rack", "1.10")]));
}

#[test]
fn yaml_anchors_and_merge_keys_are_read() {
    let text = "\
clusters:
  west:
    properties: &west { bootstrap.servers: h, client.id: a, client.rack: w }
  east:
    properties:
      <<: *west
      client.rack: e
streams:
  orders:
    west: &orders { topics: [orders] }
    east: *orders
";

    let metadata = read("yaml", text).unwrap();

    let east = ClientProperties::new()
        .with("bootstrap.servers", "h")
        .with("client.id", "a")
        .with("client.rack", "e");
    assert_eq!(metadata.clusters["east"].properties, east);
    let orders = &metadata.streams["orders"].clusters;
    assert_eq!(orders["east"], orders["west"]);
}

#[test]
fn what_yaml_can_hide_is_refused_with_words() {
    let refused = |text: &str| {
        let words = read("yaml", text).unwrap_err().to_string();
        words.split_once(".yaml: ").unwrap().1.to_owned()
    };

    assert_eq!(
        refused("clusters: {}\nstreams: *s\n"),
        "line 2, column 10: alias of an anchor that is not before it; expected quotes if it is a text"
    );
    assert_eq!(
        refused("clusters: &c\n  east: { properties: *c }\nstreams: {}\n"),
        "line 2, column 23: alias stands inside what it names; expected it after the anchored value"
    );
    assert_eq!(
        refused("clusters: {}\nstreams: {}\n---\nstreams: {}\n"),
        "line 3, column 1: second document; expected one document in a file"
    );
    assert_eq!(
        refused("clusters: !c {}\nstreams: { <<: a }\n"),
        "2 mistakes\n  line 1, column 11: unknown tag; expected none, or quotes if it is a text\n  \
         line 2, column 16: <<: merge key has a single value; expected a map or a list of maps"
    );
    assert_eq!(
        refused("? [a]\n: b\nclusters: {}\nstreams: {}\n"),
        "line 1, column 3: key is a list; expected a name"
    );
}

/// Each anchor names ten of the one before.
#[test]
fn aliases_cannot_fill_the_memory() {
    let mut text = "clusters: {}\nstreams:\n  s0: &a0 [a, a, a, a, a, a, a, a, a, a]\n".to_owned();
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("  s{level}: &a{level} [{aliases}]\n"));
    }

    let words = read("yaml", &text).unwrap_err().to_string();

    assert!(words.contains("alias makes the file too large; expected at most 100000 copies"));
}

#[test]
fn what_json_does_not_have_is_refused_with_all_other_mistakes() {
    let text = "{\"clusters\": {}, // none\n \"streams\": {\"a\tb\": {},},\n}";

    let words = read("json", text).unwrap_err().to_string();

    let (_, mistakes) = words.split_once(".json: ").unwrap();
    assert_eq!(
        mistakes,
        "5 mistakes\n  \
         line 1, column 18: comment; expected none, since JSON has no comments\n  \
         line 2, column 14: control character in a text; expected an escape as \\n or \\t\n  \
         line 2, column 14: streams.\"a\\tb\": stream 'a\tb' has the character '\t'; \
         expected letters, digits, '.', '_' or '-'\n  \
         line 2, column 23: comma before a closing bracket; expected none\n  \
         line 2, column 25: comma before a closing bracket; expected none"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str| {
        let path = folder.path().join(name);
        let error = ask(&mut FileMetadataService::new(&path)).unwrap_err();
        error.words().replace(folder.path().to_str().unwrap(), "")
    };
    fs::write(folder.path().join("streams.yaml"), b"a\xff").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();

    assert_eq!(
        refused("folder"),
        "metadata file /folder: is a directory; expected a file"
    );
    assert_eq!(
        refused("none.yaml"),
        "metadata file /none.yaml: reading failed: No such file or directory (os error 2)"
    );
    assert_eq!(
        refused("streams.ini"),
        "metadata file /streams.ini: unknown notation; \
         expected a name that ends in .yaml, .yml, .json or .toml"
    );
    assert_eq!(
        refused("streams.yaml"),
        "metadata file /streams.yaml: line 1, column 2: not UTF-8; expected text"
    );
}

fn rename_into(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, path).unwrap();
}

#[test]
fn a_file_that_becomes_bad_is_an_error_until_it_is_good_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("streams.yaml");
    let mut service = FileMetadataService::new(&path);
    let fewer = YAML.replace(", orders-retry", "");

    assert!(ask(&mut service).is_err());
    fs::write(&path, YAML).unwrap();
    assert_eq!(ask(&mut service).unwrap(), sample());
    fs::write(&path, "clusters: {}\n").unwrap();
    assert!(ask(&mut service).is_err());
    assert!(ask(&mut service).is_err());
    rename_into(&path, &fewer);
    assert_eq!(ask(&mut service).unwrap(), read("yaml", &fewer).unwrap());
    fs::remove_file(&path).unwrap();
    assert!(ask(&mut service).is_err());
    rename_into(&path, YAML);
    assert_eq!(ask(&mut service).unwrap(), sample());
}

/// A Kubernetes `ConfigMap` swaps a link to a folder, and the file is reached through another link.
#[cfg(unix)]
#[test]
fn every_swap_of_a_link_to_the_folder_is_seen() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    symlink("..data/streams.yaml", at("streams.yaml")).unwrap();
    let mut service = FileMetadataService::new(at("streams.yaml"));
    let other = YAML.replace("client.rack: b", "client.rack: c");

    for (round, text) in [YAML, &other, YAML, &other].into_iter().enumerate() {
        let version = format!("..version-{round}");
        fs::create_dir(at(&version)).unwrap();
        fs::write(at(&version).join("streams.yaml"), text).unwrap();
        symlink(&version, at("..data_new")).unwrap();
        fs::rename(at("..data_new"), at("..data")).unwrap();

        assert_eq!(ask(&mut service).unwrap(), read("yaml", text).unwrap());
    }
}

#[test]
fn a_file_that_does_not_settle_by_the_deadline_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("streams.yaml");
    fs::write(&path, YAML).unwrap();

    let error = FileMetadataService::new(&path)
        .ask(Instant::now())
        .unwrap_err();

    assert!(
        error
            .to_string()
            .ends_with("still changing; expected two equal reads 200 ms apart")
    );
}

const RULES_YAML: &str = "\
clusters:
  east: { properties: { bootstrap.servers: h } }
  start: { properties: { bootstrap.servers: h } }
streams:
  orders:
    new_partitions: { before_now: 15m }
    new_clusters: latest
    on_return: read_again
    on_removal: drain_first
    start: { topics: [a] }
    stop: end
    east:
      stop: never
      start: { time_ms: 5 }
      new_partitions: latest
      new_topics: earliest
      topics:
        - a
        - name: b
          start:
            positions: { 0: 17, 3: 0 }
            otherwise: { group: billing, otherwise: { before_end: 10 } }
          stop: { positions: { 1: 20 }, otherwise: { group: billing, otherwise: { time_ms: 9 } } }
";

const RULES_JSON: &str = r#"{"clusters": {"east": {"properties": {"bootstrap.servers": "h"}},
  "start": {"properties": {"bootstrap.servers": "h"}}},
 "streams": {"orders": {"new_partitions": {"before_now": "900s"}, "new_clusters": "latest",
  "on_return": "read_again", "on_removal": "drain_first", "start": {"topics": ["a"]},
  "stop": "end", "east": {"stop": "never", "start": {"time_ms": 5}, "new_partitions": "latest",
  "new_topics": "earliest", "topics": ["a",
   {"name": "b", "start": {"positions": {"0": 17, "3": 0},
    "otherwise": {"group": "billing", "otherwise": {"before_end": 10}}},
    "stop": {"positions": {"1": 20}, "otherwise": {"group": "billing",
     "otherwise": {"time_ms": 9}}}}]}}}}"#;

const RULES_TOML: &str = r#"
clusters.east.properties."bootstrap.servers" = "h"
clusters.start.properties."bootstrap.servers" = "h"
[streams.orders]
new_partitions.before_now = "900000ms"
new_clusters = "latest"
on_return = "read_again"
on_removal = "drain_first"
start.topics = ["a"]
stop = "end"
[streams.orders.east]
stop = "never"
start.time_ms = 5
new_partitions = "latest"
new_topics = "earliest"
topics = ["a", { name = "b", start.positions = { 0 = 17, 3 = 0 }, start.otherwise.group = "billing",
  start.otherwise.otherwise.before_end = 10, stop.positions.1 = 20,
  stop.otherwise = { group = "billing", otherwise.time_ms = 9 } }]
"#;

/// Every rule, at every place that can have one; a cluster may still be called like a rule.
#[test]
fn where_reading_starts_is_read_from_each_notation() {
    let clusters = |stream: KafkaStream| {
        ["east", "start"].into_iter().fold(
            StreamsMetadata::new()
                .with_stream("orders", stream)
                .unwrap(),
            |metadata, name| {
                let properties = ClientProperties::new().with("bootstrap.servers", "h");
                metadata.with_cluster(name, properties).unwrap()
            },
        )
    };
    let group = StartAt::committed("billing", StartAt::BeforeEnd { records: 10 }).unwrap();
    let positions = StartAt::positions([(0, 17), (3, 0)], group);
    let mut stream = KafkaStream::new()
        .with_topics("east", ["a"])
        .and_then(|stream| stream.with_start("east", StartAt::Time { record_time_ms: 5 }))
        .and_then(|stream| stream.with_topic_start("east", "b", positions))
        .and_then(|stream| stream.with_topics("start", ["a"]))
        .unwrap()
        .with_starts(StartRules {
            start: None,
            new_partitions: Some(StartAt::BeforeNow(Duration::from_secs(900))),
            new_clusters: Some(StartAt::Latest),
            ..StartRules::default()
        })
        .with_return(OnReturn::ReadAgain)
        .with_removal(OnRemoval::DrainFirst);
    stream.stop = Some(StopAt::End);
    let east = stream.clusters.get_mut("east").unwrap();
    let billing = StopAt::committed("billing", StopAt::Time { record_time_ms: 9 });
    let stop = StopAt::positions([(1, 20)], billing.unwrap());
    let b = TopicName::new("b").unwrap();
    east.topic_stops.insert(b, stop);
    east.stop = Some(StopAt::Never);
    east.starts.new_partitions = Some(StartAt::Latest);
    east.starts.new_topics = Some(StartAt::Earliest);
    let expected = clusters(stream);

    assert_eq!(read("yaml", RULES_YAML).unwrap(), expected);
    assert_eq!(read("json", RULES_JSON).unwrap(), expected);
    assert_eq!(read("toml", RULES_TOML).unwrap(), expected);
}
