//! The scenarios that embedded clusters cannot vouch for, on real Kafka.
//!
//! Each runs with two workers in this process and with two processes. Those start this program
//! again, which is why it has a `main` of its own.

#![allow(clippy::unwrap_used, reason = "the whole program is a test")]

#[path = "support/kafka.rs"]
mod kafka;
#[path = "real_scenarios/mod.rs"]
mod real;
#[path = "support/scenario/mod.rs"]
mod scenario;

use libtest_mimic::Trial;

use kafka::RealKafka;
use real::Real;
use scenario::shared::Scenario;
use scenario::{Backend, World};

fn main() {
    scenario::child::run_if_asked();
    let arguments = scenario::arguments();
    let mut scenarios = scenario::shared::all::<Real>();
    scenarios.push((
        "a_topic_grows_while_a_cluster_is_removed",
        real::growth::growth,
    ));
    scenarios.push((
        "records_to_give_again_that_are_gone_are_told_first",
        real::replays::gone,
    ));
    scenarios.push((
        "each_rule_for_a_start_is_a_number_once",
        real::starts::rules,
    ));
    scenarios.push((
        "what_appears_later_starts_by_its_own_rule",
        real::starts::later,
    ));
    scenarios.push((
        "a_bounded_source_ends_behind_whatever_shows_no_record",
        real::stops::transactions,
    ));
    scenarios.push((
        "a_bounded_source_does_not_wait_for_a_topic_that_is_deleted",
        real::stops::removed,
    ));
    scenarios.push(("each_rule_for_a_stop_is_a_number_once", real::stops::rules));
    scenarios.extend(real::losses::all());
    scenarios.push((
        "only_what_is_committed_is_read_and_the_rest_is_passed",
        real::transactions::committed,
    ));
    scenarios.push((
        "what_is_not_committed_is_read_if_that_is_asked_for",
        real::transactions::uncommitted,
    ));
    scenarios.push((
        "what_compaction_has_left_is_read_to_the_end",
        real::transactions::compacted,
    ));
    let mut trials: Vec<_> = scenarios.into_iter().flat_map(on_both).collect();
    trials.extend(real::undisturbed::trials());
    trials.extend(real::offsets::trials());
    trials.extend(real::shapes::trials());
    trials.extend(once());
    libtest_mimic::run(&arguments, trials).exit();
}

/// Those that run once, on brokers of their own.
fn once() -> Vec<Trial> {
    let tests: [(&str, fn()); 5] = [
        (
            "a_log_that_is_cut_off_is_read_on_as_another_split",
            real::cut_off::while_read,
        ),
        (
            "a_log_that_was_cut_off_while_nothing_ran_is_read_on_as_another_split",
            real::cut_off::while_down,
        ),
        (
            "a_topic_that_is_created_again_while_it_is_read_is_never_bound",
            real::replaced::topic,
        ),
        (
            "a_cluster_that_is_replaced_while_it_is_read_is_never_bound",
            real::replaced::cluster,
        ),
        (
            "a_cluster_that_is_replaced_by_a_shorter_one_is_stopped",
            real::replaced::shorter_cluster,
        ),
    ];
    let trial = |(name, test): (&'static str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    tests.map(trial).into()
}

fn world() -> World<Real> {
    // Two clusters share a process, which starts faster and differs in nothing that is tested here.
    World::new(Real(RealKafka::start_with(&["a", "b"], &["--one-process"])))
}

fn on_both((name, scenario): (&'static str, Scenario<Real>)) -> Vec<Trial> {
    let backends = [
        ("2_workers", Backend::Threads(2)),
        ("2_processes", Backend::TwoProcesses(1)),
    ];
    let trial = |(suffix, backend)| {
        Trial::test(format!("{name}::{suffix}"), move || {
            scenario(&world(), backend);
            Ok(())
        })
    };
    backends.into_iter().map(trial).collect()
}
