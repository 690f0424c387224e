//! What was expected is named once, and no more of it than a person reads.

use super::refused;

#[test]
fn a_name_that_is_all_there_is_is_expected_and_not_guessed_too() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  east:
    properties: { bootstrap.servers: "127.0.0.1:1" }
    propertys: {}
streams:
  orders:
    eest: { topics: [orders], stop: nevr }
"#
        ),
        "3 mistakes
  line 4, column 5: clusters.east.propertys: unknown field; expected 'properties'
  line 7, column 5: streams.orders.eest: cluster 'eest' is not described; expected 'east'
  line 7, column 37: streams.orders.eest.stop: unknown value 'nevr'; expected 'never' or 'end', or a map with one of 'time_ms', 'group' and 'positions'; did you mean 'never'?"
    );
}

#[test]
fn a_cluster_that_is_not_described_is_told_with_those_that_are() {
    let cluster = "properties: { bootstrap.servers: '127.0.0.1:1' }";
    let streams = "streams: { orders: { eest: { topics: [orders] } } }";

    let two = format!("clusters:\n  east: {{ {cluster} }}\n  west: {{ {cluster} }}\n{streams}\n");
    let none = format!("clusters: {{}}\n{streams}\n");

    assert_eq!(
        refused("yaml", &two),
        "line 4, column 22: streams.orders.eest: cluster 'eest' is not described; \
         expected one of 'east', 'west'; did you mean 'east'?"
    );
    assert_eq!(
        refused("yaml", &none),
        "line 2, column 22: streams.orders.eest: cluster 'eest' is not described; \
         'clusters' describes none"
    );
}

/// A file with thousands of mistakes was told in thousands of lines, of which the first went by.
#[test]
fn of_many_mistakes_the_first_are_listed_and_the_rest_counted() {
    let mistakes: String = (0..5_000).map(|number| format!("a{number}: 1\n")).collect();
    let text = format!("{mistakes}clusters: {{}}\nstreams: {{}}\n");

    let words = refused("yaml", &text);

    let lines: Vec<_> = words.lines().collect();
    assert_eq!(lines.len(), 22);
    assert_eq!(lines[0], "5000 mistakes");
    assert!(
        lines[20].starts_with("  line 20, column 1: a19: "),
        "{words}"
    );
    assert_eq!(lines[21], "  and 4980 more");
}
