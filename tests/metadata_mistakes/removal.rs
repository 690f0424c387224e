//! What becomes of what is removed, said wrongly.

use super::refused;

#[test]
fn a_rule_is_one_of_three_words() {
    assert_eq!(
        refused(
            "yaml",
            r"clusters: { east: { properties: { bootstrap.servers: h } } }
streams:
  orders: { on_removal: dran, east: { topics: [a] } }
  retry: { on_removal: [drain], east: { topics: [a], on_removal: cut } }
"
        ),
        r"3 mistakes
  line 3, column 25: streams.orders.on_removal: unknown value 'dran'; expected 'cut', 'drain' or 'drain_first'; did you mean 'drain'?
  line 4, column 12: streams.retry.on_removal: found a list; expected 'cut', 'drain' or 'drain_first'
  line 4, column 54: streams.retry.east.on_removal: unknown field; expected 'topics', 'start', 'new_partitions', 'new_topics', 'new_clusters' or 'stop'"
    );
}
