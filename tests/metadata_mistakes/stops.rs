//! Where reading stops, said wrongly.

use super::refused;

#[test]
fn a_rule_has_one_of_its_fields_and_names_the_one_behind_it() {
    assert_eq!(
        refused(
            "yaml",
            r"clusters: { east: { properties: { bootstrap.servers: h } } }
streams:
  orders:
    stop: {}
    east:
      topics: [a, { name: b, stop: { time_ms: 1, group: g } }]
      stop: { before_end: 7 }
  retry:
    stop: { group: g }
    east:
      topics: [{ name: b, stop: { time_ms: 1, otherwise: end } }]
      stop: { positions: { x: 1, 0: -1 }, otherwise: nd }
"
        ),
        r"8 mistakes
  line 4, column 5: streams.orders.stop: has none of 'time_ms', 'group' and 'positions'; expected one
  line 6, column 30: streams.orders.east.topics[1].stop: has several of 'time_ms', 'group' and 'positions'; expected one
  line 7, column 15: streams.orders.east.stop.before_end: unknown field; expected 'time_ms', 'group', 'positions' or 'otherwise'
  line 9, column 5: streams.retry.stop: 'otherwise' is missing; expected the rule of partitions for which 'group' says nothing
  line 11, column 47: streams.retry.east.topics[0].stop.otherwise: cannot be set: 'time_ms' has an answer for each partition
  line 12, column 28: streams.retry.east.stop.positions.x: no number of a partition; expected a whole number from 0
  line 12, column 37: streams.retry.east.stop.positions.0: unknown value '-1'; expected an offset, a whole number from 0 to 9223372036854775807
  line 12, column 54: streams.retry.east.stop.otherwise: unknown value 'nd'; expected 'never' or 'end', or a map with one of 'time_ms', 'group' and 'positions'; did you mean 'end'?"
    );
}
