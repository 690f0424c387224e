//! S29, S30: what is removed and is to be read to its end first, while things go wrong.

use std::collections::BTreeSet;

use libtest_mimic::Trial;
use timely_kafka::embedded::{EmbeddedFault, KafkaApi};

use crate::crashes::kill_all;
use crate::once;
use crate::restarts::two_clusters;
use crate::scenario::drains::{assert_in_order, orders, plan};
use crate::scenario::observed::Observed;
use crate::scenario::{Backend, Embedded, GoingOn, Plan, Run, State, World, assert_exact};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        once(
            "a_kill_in_the_middle_of_a_drain_leaves_its_end_where_it_was",
            killed,
        ),
        once("a_cluster_that_is_down_is_drained_when_it_is_back", back),
        once("what_cannot_be_drained_is_cut_by_a_person", cut),
        once("what_is_listed_again_is_read_on", listed_again),
        once("ticks_are_given_again_in_the_middle_of_a_drain", replayed),
        once("a_bounded_source_ends_with_a_drain", bounded),
    ]
}

/// More than is asked for while a test waits.
const ALL_FETCHES: usize = 100_000;

/// All 30 records of `a` are read; `b` has 30 as well, from number 100 on.
fn reading(backend: Backend) -> (World<Embedded>, Plan, Run) {
    let (world, _) = two_clusters();
    let plan = plan(&world);
    world.write("a", "orders", 3, 0..30);
    world.write("b", "orders", 3, 100..130);
    world.publish(&orders(&["a"], "drain_first"));
    let run = world.run(&plan, backend);
    run.settle(30);
    (world, plan, run)
}

/// How many splits are known to end somewhere.
fn ends(state: &State) -> usize {
    let told = state.told.iter();
    told.filter(|(_, line)| line.contains(": leaves, and ends at"))
        .count()
}

/// The ends are recorded and nothing could be read when the source is killed, and more is written before
/// it starts again.
fn killed() {
    let (world, plan, run) = reading(Backend::TwoProcesses(1));
    let a = world.brokers.cluster("a");
    a.fail_fetches(ALL_FETCHES, EmbeddedFault::NotLeader);
    world.write("a", "orders", 3, 30..60);
    world.publish(&orders(&["b"], "drain_first"));
    run.wait("it is recorded where all end", |state| ends(state) == 3);
    kill_all(&run);
    run.observed.expect("what comes waits", |state| {
        state.rows_of("b", "orders") == 0
    });

    world.write("a", "orders", 3, 200..230);
    a.fail_no_more(KafkaApi::Fetch);
    let already = crate::restarts::bound(plan.log.as_deref().expect("it has one"));
    let already = already.values().sum::<u64>();
    let again = world.run(&plan, Backend::Threads(2));
    let rest = 90 - usize::try_from(already).expect("a few");
    again.settle(rest);
    again.let_ticks_pass(100);

    again.end().with(|state| {
        assert_eq!(ends(state), 0, "nothing is asked for again");
        // Each once, and none of what was written after the end.
        let numbers: BTreeSet<_> = state.rows.iter().map(|row| row.number).collect();
        assert_eq!((state.rows.len(), numbers.len()), (rest, rest));
        assert!((30..60).chain(100..130).all(|one| numbers.contains(&one)));
        assert!(!numbers.iter().any(|one| (200..230).contains(one)));
        assert_in_order(state);
    });
}

/// What is given again stops where it did, and the drain goes on to its end.
fn replayed() {
    let (world, mut plan, run) = reading(Backend::Threads(2));
    let a = world.brokers.cluster("a");
    a.fail_fetches(ALL_FETCHES, EmbeddedFault::NotLeader);
    world.write("a", "orders", 3, 30..60);
    world.publish(&orders(&["b"], "drain_first"));
    run.wait("it is recorded where all end", |state| ends(state) == 3);
    let before = ticks(&run.end());
    a.fail_no_more(KafkaApi::Fetch);
    world.write("a", "orders", 3, 200..230);

    plan.going_on = GoingOn::Replaying(0);
    let again = world.run(&plan, Backend::Threads(4));
    again.settle(90);
    again.let_ticks_pass(100);

    let again = again.end();
    let again_ticks = ticks(&again);
    assert!(before.iter().all(|row| again_ticks.contains(row)));
    again.with(|state| {
        assert_eq!(ends(state), 0, "nothing is asked for again");
        assert_exact(state, (0..60).chain(100..130));
        assert_in_order(state);
    });
}

/// Each record and its tick.
fn ticks(observed: &Observed) -> BTreeSet<(u64, u64)> {
    observed.with(|state| {
        let rows = state.rows.iter();
        rows.map(|row| (row.number, row.tick)).collect()
    })
}

/// All that it reads is known when it is removed, so that what comes is none of it.
fn bounded() {
    let (world, _) = two_clusters();
    let mut plan = plan(&world);
    plan.bounded = true;
    let a = world.brokers.cluster("a");
    a.fail_fetches(ALL_FETCHES, EmbeddedFault::NotLeader);
    world.write("a", "orders", 3, 0..30);
    world.write("b", "orders", 3, 100..130);
    world.publish(&orders(&["a"], "drain_first"));
    let run = world.run(&plan, Backend::Threads(2));
    run.wait("all are found", |state| {
        let mut told = state.told.iter();
        told.any(|(_, line)| line.contains("none is added"))
    });

    world.publish(&orders(&["b"], "drain_first"));
    run.await_epoch(2);
    a.fail_no_more(KafkaApi::Fetch);

    run.await_end().with(|state| assert_exact(state, 0..30));
}

fn back() {
    let (world, _, run) = reading(Backend::Threads(2));
    world.write("a", "orders", 3, 30..60);
    let a = world.brokers.cluster("a");
    a.broker_down().unwrap();
    world.publish(&orders(&["b"], "drain_first"));
    run.await_epoch(2);
    run.let_ticks_pass(100);
    run.observed.expect("what comes waits", |state| {
        state.rows_of("b", "orders") == 0
    });

    a.broker_up().unwrap();
    run.settle(90);

    run.end().with(|state| {
        assert_exact(state, (0..60).chain(100..130));
        assert_in_order(state);
    });
}

fn cut() {
    let (world, _, run) = reading(Backend::Threads(2));
    let a = world.brokers.cluster("a");
    a.broker_down().unwrap();
    world.publish(&orders(&["b"], "drain_first"));
    run.wait("it is told what is waited for", |state| {
        state.said("metadata", &["a/orders/0", "it is not known where it ends"])
    });

    run.control().confirm_metadata();
    run.settle(60);

    run.end().with(|state| {
        assert_exact(state, (0..30).chain(100..130));
        assert_in_order(state);
    });
}

fn listed_again() {
    let (world, _, run) = reading(Backend::Threads(2));
    let a = world.brokers.cluster("a");
    a.fail_fetches(ALL_FETCHES, EmbeddedFault::NotLeader);
    world.write("a", "orders", 3, 30..60);
    world.publish(&orders(&["b"], "drain_first"));
    run.wait("it is recorded where all end", |state| ends(state) == 3);

    world.publish(&orders(&["a"], "drain_first"));
    run.await_epoch(3);
    a.fail_no_more(KafkaApi::Fetch);
    world.write("a", "orders", 3, 60..90);
    run.settle(90);

    run.end().with(|state| assert_exact(state, 0..90));
}
