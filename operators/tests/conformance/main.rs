//! The conformance kit, run against what keeps the contracts and against what breaks them.

mod discovery;
mod fetcher;
mod follow_logs;
mod log;
#[expect(dead_code, reason = "the kit needs less of it than the source does")]
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use timely_splits::conformance::{ConformanceReport, Kit};

/// A kit that gives up soon: what it tests here has no reason to be late.
fn kit() -> Kit {
    Kit::new().patience(Duration::from_millis(500))
}

/// Asserts that `number` is told to be broken, among what follows from it.
fn assert_broken(report: &ConformanceReport, number: &str) {
    assert!(
        report.broken().contains(&number),
        "expected {number} to be broken\n{report}"
    );
}
