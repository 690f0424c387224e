//! Mistakes in what clusters and streams there are.

use super::refused;

#[test]
fn an_unknown_field_is_refused_with_the_nearest_name() {
    assert_eq!(
        refused(
            "yaml",
            r"cluster: {}
streams: {}
"
        ),
        "line 1, column 1: cluster: unknown field; expected 'clusters' or 'streams'; did you mean 'clusters'?"
    );
    assert_eq!(
        refused("json", r#"{"cluster": {}, "streams": {}}"#),
        "line 1, column 2: cluster: unknown field; expected 'clusters' or 'streams'; did you mean 'clusters'?"
    );
    assert_eq!(
        refused(
            "toml",
            r"[cluster]
[streams]
"
        ),
        "line 1, column 2: cluster: unknown field; expected 'clusters' or 'streams'; did you mean 'clusters'?"
    );
}

#[test]
fn a_missing_field_is_refused_where_it_belongs() {
    let words = r"2 mistakes
  line 1, column 1: 'streams' is missing; expected it here
  line 2, column 3: clusters.east: 'properties' is missing; expected it here";
    assert_eq!(
        refused(
            "yaml",
            r"clusters:
  east: {}
"
        ),
        words
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {
  "east": {}}}"#
        ),
        words
    );
    assert_eq!(
        refused(
            "toml",
            r"[clusters.east]
"
        ),
        r"2 mistakes
  line 1, column 1: 'streams' is missing; expected it here
  line 1, column 11: clusters.east: 'properties' is missing; expected it here"
    );
}

#[test]
fn an_undefined_cluster_is_refused_with_the_nearest_name() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  east:
    properties: { bootstrap.servers: "127.0.0.1:1" }
streams:
  orders:
    eats: { topics: [orders] }
"#
        ),
        "line 6, column 5: streams.orders.eats: cluster 'eats' is not described; expected 'east'"
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {"east": {"properties": {"bootstrap.servers": "127.0.0.1:1"}}},
 "streams": {"orders": {"eats": {"topics": ["orders"]}}}}"#
        ),
        "line 2, column 25: streams.orders.eats: cluster 'eats' is not described; expected 'east'"
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters.east.properties]
bootstrap.servers = "127.0.0.1:1"

[streams.orders]
eats.topics = ["orders"]
"#
        ),
        "line 5, column 1: streams.orders.eats: cluster 'eats' is not described; expected 'east'"
    );
}

#[test]
fn topics_are_at_least_one_each_once_by_names_that_kafka_allows() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  east:
    properties: { bootstrap.servers: "127.0.0.1:1" }
streams:
  empty:
    east: { topics: [] }
  orders:
    east: { topics: [a/b, c, c, [d]] }
  single:
    east: { topics: a }
"#
        ),
        r"5 mistakes
  line 6, column 13: streams.empty.east.topics: empty; expected at least one topic
  line 8, column 22: streams.orders.east.topics[0]: topic 'a/b' has the character '/'; expected letters, digits, '.', '_' or '-'
  line 8, column 30: streams.orders.east.topics[2]: topic 'c' is named twice; expected each topic once
  line 8, column 33: streams.orders.east.topics[3]: found a list; expected the name of a topic
  line 10, column 13: streams.single.east.topics: found a single value; expected a list of topics"
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {"east": {"properties": {"bootstrap.servers": "127.0.0.1:1"}}},
 "streams": {
  "empty": {"east": {"topics": []}},
  "orders": {"east": {"topics": ["a/b", "c", "c", ["d"]]}},
  "single": {"east": {"topics": "a"}}}}"#
        ),
        r"5 mistakes
  line 3, column 22: streams.empty.east.topics: empty; expected at least one topic
  line 4, column 34: streams.orders.east.topics[0]: topic 'a/b' has the character '/'; expected letters, digits, '.', '_' or '-'
  line 4, column 46: streams.orders.east.topics[2]: topic 'c' is named twice; expected each topic once
  line 4, column 51: streams.orders.east.topics[3]: found a list; expected the name of a topic
  line 5, column 23: streams.single.east.topics: found a single value; expected a list of topics"
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters.east.properties]
bootstrap.servers = "127.0.0.1:1"
[streams]
empty.east.topics = []
orders.east.topics = ["a/b", "c", "c", ["d"]]
single.east.topics = "a"
"#
        ),
        r"5 mistakes
  line 4, column 12: streams.empty.east.topics: empty; expected at least one topic
  line 5, column 23: streams.orders.east.topics[0]: topic 'a/b' has the character '/'; expected letters, digits, '.', '_' or '-'
  line 5, column 35: streams.orders.east.topics[2]: topic 'c' is named twice; expected each topic once
  line 5, column 40: streams.orders.east.topics[3]: found a list; expected the name of a topic
  line 6, column 13: streams.single.east.topics: found a single value; expected a list of topics"
    );
}

#[test]
fn two_clusters_of_one_name_are_refused() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  east:
    properties: { bootstrap.servers: "127.0.0.1:1" }
  east:
    properties: { bootstrap.servers: "127.0.0.1:2" }
streams: {}
"#
        ),
        "line 4, column 3: clusters.east: named twice, first in line 2; expected each name once"
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {
  "east": {"properties": {"bootstrap.servers": "127.0.0.1:1"}},
  "east": {"properties": {"bootstrap.servers": "127.0.0.1:2"}}},
 "streams": {}}"#
        ),
        "line 3, column 3: clusters.east: named twice, first in line 2; expected each name once"
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters.east.properties]
bootstrap.servers = "127.0.0.1:1"
[clusters.east.properties]
bootstrap.servers = "127.0.0.1:2"
[streams]
"#
        ),
        r"2 mistakes
  line 3, column 16: clusters.east.properties: named twice; expected each name once
  line 4, column 11: bootstrap.servers: named twice; expected each name once"
    );
}

#[test]
fn names_of_clusters_and_streams_are_as_kafka_allows_for_topics() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  "east 1":
    properties: { bootstrap.servers: "127.0.0.1:1" }
streams:
  "": {}
"#
        ),
        r#"2 mistakes
  line 2, column 3: clusters."east 1": cluster 'east 1' has the character ' '; expected letters, digits, '.', '_' or '-'
  line 5, column 3: streams."": stream name is empty; expected at least one character"#
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {"east 1": {"properties": {"bootstrap.servers": "127.0.0.1:1"}}},
 "streams": {"": {}}}"#
        ),
        r#"2 mistakes
  line 1, column 15: clusters."east 1": cluster 'east 1' has the character ' '; expected letters, digits, '.', '_' or '-'
  line 2, column 14: streams."": stream name is empty; expected at least one character"#
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters."east 1".properties]
bootstrap.servers = "127.0.0.1:1"
[streams.""]
"#
        ),
        r#"2 mistakes
  line 1, column 11: clusters."east 1": cluster 'east 1' has the character ' '; expected letters, digits, '.', '_' or '-'
  line 3, column 10: streams."": stream name is empty; expected at least one character"#
    );
}

#[test]
fn an_unknown_start_or_stop_is_refused_with_what_there_is() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  east:
    properties: { bootstrap.servers: "127.0.0.1:1" }
streams:
  orders:
    east: { topics: [a], start: earlyest, stop: latest }
"#
        ),
        r"2 mistakes
  line 6, column 33: streams.orders.east.start: unknown value 'earlyest'; expected 'earliest' or 'latest', or a map with one of 'time_ms', 'before_now', 'before_end', 'group' and 'positions'; did you mean 'earliest'?
  line 6, column 49: streams.orders.east.stop: unknown value 'latest'; expected 'never' or 'end', or a map with one of 'time_ms', 'group' and 'positions'"
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {"east": {"properties": {"bootstrap.servers": "127.0.0.1:1"}}},
 "streams": {"orders": {"east": {"topics": ["a"],
  "start": "earlyest",
  "stop": "latest"}}}}"#
        ),
        r"2 mistakes
  line 3, column 12: streams.orders.east.start: unknown value 'earlyest'; expected 'earliest' or 'latest', or a map with one of 'time_ms', 'before_now', 'before_end', 'group' and 'positions'; did you mean 'earliest'?
  line 4, column 11: streams.orders.east.stop: unknown value 'latest'; expected 'never' or 'end', or a map with one of 'time_ms', 'group' and 'positions'"
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters.east.properties]
bootstrap.servers = "127.0.0.1:1"
[streams.orders.east]
topics = ["a"]
start = "earlyest"
stop = "latest"
"#
        ),
        r"2 mistakes
  line 5, column 9: streams.orders.east.start: unknown value 'earlyest'; expected 'earliest' or 'latest', or a map with one of 'time_ms', 'before_now', 'before_end', 'group' and 'positions'; did you mean 'earliest'?
  line 6, column 8: streams.orders.east.stop: unknown value 'latest'; expected 'never' or 'end', or a map with one of 'time_ms', 'group' and 'positions'"
    );
}

#[test]
fn a_text_in_place_of_a_map_is_refused() {
    assert_eq!(
        refused(
            "yaml",
            r"clusters: east
streams:
  orders: east
"
        ),
        r"2 mistakes
  line 1, column 11: clusters: found a single value; expected a map of clusters
  line 3, column 11: streams.orders: found a single value; expected a map of clusters, each with its topics"
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": "east",
 "streams": {"orders": "east"}}"#
        ),
        r"2 mistakes
  line 1, column 14: clusters: found a single value; expected a map of clusters
  line 2, column 24: streams.orders: found a single value; expected a map of clusters, each with its topics"
    );
    assert_eq!(
        refused(
            "toml",
            r#"clusters = "east"
streams.orders = "east"
"#
        ),
        r"2 mistakes
  line 1, column 12: clusters: found a single value; expected a map of clusters
  line 2, column 18: streams.orders: found a single value; expected a map of clusters, each with its topics"
    );
}

/// An empty answer is written `{clusters: {}, streams: {}}`: a file is empty while it is being written.

#[test]
fn an_empty_file_is_refused() {
    let words = "line 1, column 1: empty; expected a map of clusters and streams";
    assert_eq!(
        refused(
            "yaml",
            r"# nothing
"
        ),
        words
    );
    assert_eq!(refused("json", ""), words);
    assert_eq!(
        refused(
            "toml",
            r"# nothing
"
        ),
        r"2 mistakes
  line 1, column 1: 'clusters' is missing; expected it here
  line 1, column 1: 'streams' is missing; expected it here"
    );
}

#[test]
fn a_file_that_does_not_parse_is_refused() {
    assert_eq!(
        refused(
            "yaml",
            r"clusters: {}
streams: [
"
        ),
        "line 2, column 10: not YAML: unclosed bracket '['"
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {},
 "streams": ["#
        ),
        "line 2, column 13: not JSON: unterminated array"
    );
    assert_eq!(
        refused(
            "toml",
            r"clusters = {}
streams = [
"
        ),
        "line 2, column 12: not TOML: unclosed array, expected `]`"
    );
}
