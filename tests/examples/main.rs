//! The examples do what their first lines say.

#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot arrange is a failed test"
)]

mod exact_sink;
mod supervise;
mod support;
mod tail;
mod tail_starts;

use std::time::Duration;

use support::Example;

/// Hangs only are guarded against: each takes some seconds.
const WITHIN: Duration = Duration::from_secs(60);

#[test]
fn the_quickstart_moves_the_stream_and_ends_with_a_good_verdict() {
    let mut quickstart = Example::start("quickstart", &[]);

    let status = quickstart.status(WITHIN);

    let said = quickstart.rest_of_output();
    assert_eq!(status, Some(0), "{said:#?}");
    let verdict = |name: &str| {
        let line = said.iter().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.unwrap_or_default().replace(',', "")
    };
    assert!(verdict("written").parse::<u64>().unwrap() > 1_000);
    assert_eq!(verdict("read"), verdict("written"));
    assert_eq!(verdict("missing"), "0");
    assert_eq!(verdict("twice"), "0");
    assert_eq!(verdict("verdict"), "good");
    assert!(
        said.iter().any(|line| line.starts_with("frontier passed")),
        "{said:#?}"
    );
    // No terminal, so nothing of what only a terminal understands.
    assert!(!said.concat().contains('\x1b'), "{said:#?}");
}

#[test]
fn an_example_that_takes_no_arguments_says_so() {
    for name in ["quickstart", "counts"] {
        let mut asked = Example::start(name, &["--help"]);
        let mut unknown = Example::start(name, &["--worker", "2"]);

        assert_eq!(asked.status(WITHIN), Some(0));
        assert_eq!(unknown.status(WITHIN), Some(2));

        let help = asked.rest_of_output().join("\n");
        let said = unknown.rest_of_errors().join("\n");
        assert!(help.contains(&format!("Usage: {name}")), "{help}");
        assert!(said.contains("unexpected argument '--worker'"), "{said}");
    }
}

/// What a person follows a migration by.
#[test]
fn the_log_of_the_quickstart_tells_the_story_of_the_migration() {
    // No terminal, so no colours, without saying so.
    let log = [("RUST_LOG", "timely_kafka=debug")];
    let mut quickstart = Example::start_with("quickstart", &[], &log);

    let status = quickstart.status(WITHIN);

    let story = quickstart.rest_of_errors();
    assert_eq!(status, Some(0));
    assert!(!story.concat().contains('\x1b'), "{story:#?}");
    let mut lines = story.iter();
    for chapter in [
        "metadata epoch 1: orders = A[orders]",
        "split A/orders/0: assigned",
        "metadata epoch 2: orders = A[orders] + B[orders]",
        "split B/orders/0: assigned",
        "metadata epoch 3: orders = B[orders]",
        "split A/orders/0: released",
        "the source has ended",
    ] {
        let found = lines.any(|line| line.contains(chapter));
        assert!(found, "no '{chapter}' after the one before it: {story:#?}");
    }
}

#[test]
fn the_counts_are_those_of_what_was_written() {
    let mut counts = Example::start("counts", &[]);

    let status = counts.status(WITHIN);

    let said = counts.rest_of_output();
    assert_eq!(status, Some(0), "{said:#?}");
    assert_eq!(said.last().unwrap(), "verdict: good");
    assert!(said.iter().any(|line| line.starts_with("tick ")));
    assert!(said.iter().any(|line| line.contains("apples is no longer")));
}
