//! A source whose log is in a folder, started again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use timely_kafka::model::StartAt;
use timely_kafka::{BindingLog, KafkaSplit, LocalLog, LogRecord};

use crate::scenario::{Backend, Described, Embedded, Plan, World, assert_exact};
use crate::{once, world};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        once("a_source_that_is_started_again_goes_on", goes_on),
        once(
            "a_cluster_that_was_away_goes_on_after_a_restart",
            comes_back,
        ),
        once(
            "a_source_starts_while_the_metadata_service_is_down",
            service_down,
        ),
        once(
            "what_was_written_before_the_first_record_was_read_is_read",
            latest,
        ),
        once("a_second_run_is_told_who_uses_the_log", second_run),
        once(
            "after_a_kill_what_is_not_bound_comes_and_nothing_else",
            || killed(1),
        ),
        once("after_a_kill_of_more_workers_too", || killed(2)),
    ]
}

pub(crate) fn two_clusters() -> (World<Embedded>, Plan) {
    let world = world();
    for cluster in ["a", "b"] {
        let cluster = world.brokers.cluster(cluster);
        cluster.create_topic("orders", 3).unwrap();
    }
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    (world, plan)
}

/// C17: also on another number of workers.
fn goes_on() {
    let (world, plan) = two_clusters();
    world.publish(&Described::orders(&["a", "b"]));
    let mut next = 0;
    for workers in [2, 4, 1, 2] {
        world.write("a", "orders", 3, next..next + 15);
        world.write("b", "orders", 3, next + 15..next + 30);

        let run = world.run(&plan, Backend::Threads(workers));
        run.settle(30);

        run.end().with(|state| {
            assert_exact(state, next..next + 30);
            assert_eq!(
                state.starts.len(),
                if next == 0 { 6 } else { 0 },
                "resolved once"
            );
        });
        next += 30;
    }
    let idle = world.run(&plan, Backend::Threads(2));
    idle.let_ticks_pass(100);
    idle.end().with(|state| assert_exact(state, 0..0));
}

/// S6, C18: a cluster that vanishes is not read again from its beginning when it is back.
///
/// To see it fail, leave out what is not listed when the log is restored, or start what comes back by its
/// rule.
fn comes_back() {
    let (world, mut plan) = two_clusters();
    // An answer that loses all that was in force is believed at once: here it is right.
    plan.unguarded = true;
    world.publish(&Described::orders(&["a"]));
    world.write("a", "orders", 3, 0..15);
    let run = world.run(&plan, Backend::Threads(2));
    run.settle(15);
    run.end().with(|state| assert_exact(state, 0..15));

    world.write("a", "orders", 3, 15..30);
    world.write("b", "orders", 3, 30..45);
    world.publish(&Described::orders(&["b"]));
    let away = world.run(&plan, Backend::Threads(4));
    away.settle(15);
    away.let_ticks_pass(100);
    away.end().with(|state| assert_exact(state, 30..45));

    world.publish(&Described::orders(&["a", "b"]));
    let back = world.run(&plan, Backend::Threads(1));
    back.settle(15);
    back.end().with(|state| assert_exact(state, 15..30));
}

/// S12.
fn service_down() {
    let (world, plan) = two_clusters();
    world.publish(&Described::orders(&["a"]));
    world.write("a", "orders", 3, 0..15);
    let run = world.run(&plan, Backend::Threads(2));
    run.settle(15);
    run.end().with(|state| assert_exact(state, 0..15));

    fs::remove_file(world.metadata()).unwrap();
    world.write("a", "orders", 3, 15..30);
    world.write("b", "orders", 3, 30..45);
    let again = world.run(&plan, Backend::Threads(2));
    again.settle(15);
    again.wait("the service is said to be down", |state| {
        state.said("metadata service", &[])
    });
    world.publish(&Described::orders(&["a", "b"]));
    again.settle(30);

    again.end().with(|state| assert_exact(state, 15..45));
}

/// S25, C14.
fn latest() {
    let (world, mut plan) = two_clusters();
    plan.start = StartAt::Latest;
    world.publish(&Described::orders(&["a"]));
    world.write("a", "orders", 3, 0..15);
    let run = world.run(&plan, Backend::Threads(2));
    run.wait("the starts are recorded", |state| state.starts.len() == 3);
    run.end().with(|state| assert_exact(state, 0..0));

    world.write("a", "orders", 3, 15..20);
    let again = world.run(&plan, Backend::Threads(2));
    again.settle(5);

    again.end().with(|state| assert_exact(state, 15..20));
}

fn second_run() {
    let (world, plan) = two_clusters();
    world.publish(&Described::orders(&["a"]));
    world.write("a", "orders", 3, 0..15);
    let first = world.run(&plan, Backend::Threads(1));
    first.settle(15);

    let second = world.run(&plan, Backend::Threads(1));
    let process = format!("it is in use by process {}", std::process::id());
    second.wait("the second run is refused", |state| {
        state.said("binding log", &[&process])
    });
    second.observed.with(|state| {
        assert_eq!(state.rows.len(), 0);
        assert_eq!(state.frontier(), 0, "its frontier stays where it is");
    });

    first.end().with(|state| assert_exact(state, 0..15));
}

/// C1: after a kill of all processes what comes is what the log does not bind, on any number of
/// workers; what a frontier had passed is bound.
fn killed(workers: usize) {
    let (world, plan) = two_clusters();
    let folder = plan.log.clone().unwrap();
    world.publish(&Described::orders(&["a", "b"]));
    let mut written = 0;
    for _ in 0..4 {
        for cluster in ["a", "b"] {
            world.write(cluster, "orders", 3, written..written + 300);
            written += 300;
        }
        let before = bound(&folder);
        let run = world.run(&plan, Backend::TwoProcesses(workers));
        run.wait("some records are final", |state| {
            let last = state.rows.iter().map(|row| row.tick);
            last.min().is_some_and(|tick| state.all_passed(tick))
        });
        for process in run.processes() {
            process.kill();
        }
        for process in run.processes() {
            process.await_end(Duration::from_secs(10));
        }

        let after = bound(&folder);
        run.observed.with(|state| {
            for row in &state.rows {
                let start = before.get(&row.split).copied().unwrap_or(0);
                assert!(row.offset >= start, "it was final before: {row:?}");
                let end = after.get(&row.split).copied().unwrap_or(0);
                let passed = state.all_passed(row.tick);
                assert!(
                    !passed || row.offset < end,
                    "it is final and not bound: {row:?}"
                );
            }
        });
        assert!(
            after.values().sum::<u64>() > before.values().sum(),
            "it made progress"
        );
    }

    assert_rest_comes(&world, &plan, written);
}

/// Asserts that one more run brings what the log does not bind of the first `written` records, each
/// once.
pub(crate) fn assert_rest_comes(world: &World<Embedded>, plan: &Plan, written: u64) {
    let before = bound(plan.log.as_deref().unwrap());
    let rest = usize::try_from(written - before.values().sum::<u64>()).unwrap();
    let run = world.run(plan, Backend::Threads(3));
    run.settle(rest);
    run.let_ticks_pass(100);
    run.end().with(|state| {
        assert_eq!(state.rows.len(), rest);
        let mut next = before.clone();
        let mut rows: Vec<_> = state.rows.iter().collect();
        rows.sort_by_key(|row| (&row.split, row.offset));
        for row in rows {
            let next = next.entry(row.split.clone()).or_default();
            assert_eq!(row.offset, *next, "split {}", row.split);
            *next += 1;
        }
    });
}

/// The offset after the last bound record of each split, as the log on the disk says.
pub(crate) fn bound(folder: &Path) -> BTreeMap<KafkaSplit, u64> {
    let records = LocalLog::at(folder).read_all().unwrap();
    let mut bound = BTreeMap::new();
    for record in records {
        if let LogRecord::Binding(binding) = record {
            let ranges = binding.ranges.into_iter();
            bound.extend(ranges.map(|range| (range.split, range.to.next.get())));
        }
    }
    bound
}
