//! Where reading starts, said wrongly.

use super::refused;

/// A file whose stream says `stream` beside its only cluster, and `cluster` beside the topics of that.
fn yaml(stream: &str, topics: &str, cluster: &str) -> String {
    format!(
        "clusters: {{ east: {{ properties: {{ bootstrap.servers: h }} }} }}
streams:
  orders:
    {stream}
    east:
      topics: {topics}
      {cluster}
"
    )
}

#[test]
fn a_rule_has_one_of_its_fields() {
    assert_eq!(
        refused(
            "yaml",
            &yaml(
                "start: {}",
                "[a, { name: b, start: { time_ms: 1, before_end: 2 } }]",
                "new_partitions: { time: 7 }"
            )
        ),
        r"3 mistakes
  line 4, column 5: streams.orders.start: has none of 'time_ms', 'before_now', 'before_end', 'group' and 'positions'; expected one
  line 6, column 30: streams.orders.east.topics[1].start: has several of 'time_ms', 'before_now', 'before_end', 'group' and 'positions'; expected one
  line 7, column 25: streams.orders.east.new_partitions.time: unknown field; expected 'time_ms', 'before_now', 'before_end', 'group', 'positions' or 'otherwise'; did you mean 'time_ms'?"
    );
}

/// No rule stands behind one unless somebody says which.
#[test]
fn a_rule_that_can_have_nothing_to_say_names_the_one_behind_it() {
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {"east": {"properties": {"bootstrap.servers": "h"}}},
 "streams": {"orders": {"start": {"group": "g"},
  "east": {"topics": ["a", {"name": "b", "start": {"positions": {"0": 1}}}],
   "start": {"time_ms": 1, "otherwise": "latest"}}}}}"#
        ),
        r"3 mistakes
  line 2, column 25: streams.orders.start: 'otherwise' is missing; expected the rule of partitions for which 'group' says nothing
  line 3, column 42: streams.orders.east.topics[1].start: 'otherwise' is missing; expected the rule of partitions for which 'positions' says nothing
  line 4, column 28: streams.orders.east.start.otherwise: cannot be set: 'time_ms' has an answer for each partition"
    );
}

#[test]
fn a_value_that_is_none_is_refused_with_what_was_expected() {
    assert_eq!(
        refused(
            "yaml",
            &yaml(
                "start: { before_now: 15 }",
                "[{ name: a, start: { positions: { x: 1, 0: -1 }, otherwise: latest } }, { start: latest }]",
                "start: { group: '', otherwise: erliest }"
            )
        ),
        r"6 mistakes
  line 4, column 26: streams.orders.start.before_now: unknown value '15'; expected a whole number and one of 'ms', 's', 'm', 'h' or 'd', like '15m'
  line 6, column 49: streams.orders.east.topics[0].start.positions.x: no number of a partition; expected a whole number from 0
  line 6, column 58: streams.orders.east.topics[0].start.positions.0: unknown value '-1'; expected an offset, a whole number from 0 to 9223372036854775807
  line 6, column 87: streams.orders.east.topics[1]: 'name' is missing; expected it here
  line 7, column 23: streams.orders.east.start.group: group name is empty; expected at least one character
  line 7, column 38: streams.orders.east.start.otherwise: unknown value 'erliest'; expected 'earliest' or 'latest', or a map with one of 'time_ms', 'before_now', 'before_end', 'group' and 'positions'; did you mean 'earliest'?"
    );
    assert_eq!(
        refused(
            "toml",
            r#"clusters.east.properties."bootstrap.servers" = "h"
[streams.orders]
start = { before_end = 1.5 }
east = { topics = ["a"], start = { time_ms = "noon" } }
"#
        ),
        r"2 mistakes
  line 3, column 24: streams.orders.start.before_end: unknown value '1.5'; expected a number of records, a whole number from 0 to 9223372036854775807
  line 4, column 46: streams.orders.east.start.time_ms: unknown value 'noon'; expected milliseconds since the epoch, a whole number from 0 to 9223372036854775807"
    );
}
