//! Records that are no longer there, topics that were created again, and other clusters at an address.

use std::path::PathBuf;

use timely_kafka::model::KafkaSplit;
use timely_kafka::{Aftermath, LossPolicy, LossRules, SplitError};
use timely_splits::health::HealthStatus;

use super::Real;
use crate::scenario::shared::Scenario;
use crate::scenario::{Backend, Brokers, Described, GoingOn, Plan, Run, State, World};

/// Those that run on both kinds of workers.
pub(crate) fn all() -> [(&'static str, Scenario<Real>); 8] {
    [
        (
            "records_that_are_gone_are_skipped_with_their_range",
            skipped,
        ),
        ("records_that_are_gone_are_a_definite_error", failed),
        ("records_that_are_gone_are_waited_for", waited),
        (
            "a_topic_that_was_created_again_shorter_is_another_one",
            recreated_shorter,
        ),
        (
            "a_topic_that_was_created_again_as_long_is_another_one",
            recreated_as_long,
        ),
        (
            "a_topic_that_was_created_again_longer_is_another_one",
            recreated_longer,
        ),
        (
            "another_cluster_at_the_address_is_not_read",
            another_cluster,
        ),
        ("a_cluster_keeps_its_name_across_restarts", two_names),
    ]
}

/// A source of `a/orders/0` with `records` records, of which all were read and bound, and its log.
fn read(world: &World<Real>, backend: Backend, losses: LossRules, records: u64) -> (Plan, PathBuf) {
    world.brokers.create_topic("a", "orders", 1);
    world.write("a", "orders", 1, 0..records);
    world.publish(&Described::orders(&["a"]));
    let mut plan = world.plan();
    let log = world.folder().join("log");
    plan.log = Some(log.clone());
    plan.losses = losses;
    let run = world.run(&plan, backend);
    run.settle(usize::try_from(records).unwrap());
    run.end();
    (plan, log)
}

pub(super) fn lost_records(policy: LossPolicy) -> LossRules {
    LossRules {
        lost_records: Some(policy),
        recreated_topic: None,
    }
}

pub(super) fn recreated_topic(policy: LossPolicy) -> LossRules {
    LossRules {
        lost_records: None,
        recreated_topic: Some(policy),
    }
}

pub(super) fn offsets(state: &State, split: &str) -> Vec<u64> {
    let rows = state.rows.iter();
    let rows = rows.filter(|row| row.split.to_string() == split);
    rows.map(|row| row.offset).collect()
}

pub(super) fn only_error(state: &State) -> (u64, &SplitError<KafkaSplit>) {
    let [(tick, error)] = &state.errors[..] else {
        panic!("one error: {:?}", state.errors);
    };
    let bound = state.bindings.iter().find(|(bound, _)| bound == tick);
    let (_, binding) = bound.expect("an error is at a tick that is bound");
    let errors = std::slice::from_ref(error);
    assert_eq!(binding.errors, errors, "it is in the binding");
    (*tick, error)
}

/// Waits until everything up to an error is bound.
pub(super) fn await_error(run: &Run) {
    run.wait("an error is bound", |state| {
        let bound = |tick| state.bindings.iter().any(|(bound, _)| *bound == tick);
        state.errors.first().is_some_and(|(tick, _)| bound(*tick))
    });
}

/// K3 with `skip`: the exact range that is lost is an error at its tick, reading goes on behind it, and a
/// replay gives both again. To see it fail, have the coordinator assign the split where it was.
fn skipped(world: &World<Real>, backend: Backend) {
    let (mut plan, _) = read(world, backend, lost_records(LossPolicy::Skip), 30);
    world.write("a", "orders", 1, 30..60);
    world.brokers.0.delete_records("a", "orders", 0, 45);

    let run = world.run(&plan, backend);
    await_error(&run);
    run.settle(15);
    let (from, error) = run.end().with(|state| {
        let (tick, error) = only_error(state);
        assert_eq!(offsets(state, "a/orders/0"), (45..60).collect::<Vec<_>>());
        (tick, error.clone())
    });
    assert_eq!(error.position.next.get(), 30);
    let Aftermath::Skipped(to) = &error.then else {
        panic!("it goes on: {error:?}");
    };
    assert_eq!(to.next.get(), 45);
    assert!(
        error.message.contains("30..45 is lost"),
        "{}",
        error.message
    );

    // The same error at the same tick, and the same records.
    plan.going_on = GoingOn::Replaying(from);
    let again = world.run(&plan, backend);
    again.settle(15);
    again.end().with(|state| {
        assert_eq!(state.errors, [(from, error.clone())]);
        assert_eq!(offsets(state, "a/orders/0"), (45..60).collect::<Vec<_>>());
    });
}

/// K3 with `fail`, the default: nothing behind the hole is emitted, also after a restart, and the rest goes
/// on. To see it fail, let the client reset offsets by itself.
fn failed(world: &World<Real>, backend: Backend) {
    let (plan, _) = read(world, backend, LossRules::default(), 30);
    world.write("a", "orders", 1, 30..60);
    world.brokers.0.delete_records("a", "orders", 0, 45);

    let run = world.run(&plan, backend);
    await_error(&run);
    run.let_ticks_pass(100);
    run.end().with(|state| {
        let (_, error) = only_error(state);
        assert_eq!(
            (error.position.next.get(), &error.then),
            (30, &Aftermath::Stays)
        );
        assert!(error.message.contains("the first that is left is at 45"));
        assert!(state.rows.is_empty());
    });

    let again = world.run(&plan, backend);
    again.let_ticks_pass(200);
    again.end().with(|state| {
        assert!(state.rows.is_empty() && state.errors.is_empty());
    });
}

/// K3 with `wait`: nothing is bound about it, and a person has to say that it goes on.
fn waited(world: &World<Real>, backend: Backend) {
    let (plan, _) = read(world, backend, lost_records(LossPolicy::Wait), 30);
    world.write("a", "orders", 1, 30..60);
    world.brokers.0.delete_records("a", "orders", 0, 45);

    let run = world.run(&plan, backend);
    run.wait("it says that it waits", |state| {
        let waits = |health: &timely_splits::health::Health| health.status == HealthStatus::Waiting;
        let mut health = state.health.iter();
        health.any(|health| {
            waits(health) && health.message.contains("the first that is left is at 45")
        })
    });
    run.let_ticks_pass(100);
    run.end().with(|state| {
        assert!(state.rows.is_empty() && state.errors.is_empty());
    });
}

/// Deletes the topic and creates it again with so many records, whose numbers are beyond a thousand.
pub(super) fn create_again(world: &World<Real>, records: u64) {
    world.brokers.0.delete_topic("a", "orders");
    world.brokers.create_topic("a", "orders", 1);
    world.write("a", "orders", 1, 1_000..1_000 + records);
}

/// K4 while nothing runs: with fewer records than the position, with as many, and with more.
///
/// To see it fail, let no identity contradict in `Coordinator::is_replaced`; or take `verified` out of
/// `Entry::wanted`: then the longer topic is read from the old position until the discovery has found it.
fn recreated_while_down(world: &World<Real>, backend: Backend, records: u64) {
    let (mut plan, _) = read(world, backend, LossRules::default(), 30);
    create_again(world, records);

    let run = world.run(&plan, backend);
    await_error(&run);
    run.let_ticks_pass(200);
    run.end().with(|state| {
        let (_, error) = only_error(state);
        assert_eq!(
            (error.position.next.get(), &error.then),
            (30, &Aftermath::Stays)
        );
        assert!(
            error.message.contains("the id of its topic was"),
            "{}",
            error.message
        );
        assert!(state.rows.is_empty(), "{:?}", state.rows);
    });

    plan.losses = recreated_topic(LossPolicy::Restart);
    let again = world.run(&plan, backend);
    await_error(&again);
    let expected: Vec<u64> = (0..records).collect();
    again.settle(expected.len());
    again.end().with(|state| {
        assert_eq!(offsets(state, "a/orders/0#1"), expected);
        assert_eq!(state.rows.len(), expected.len());
    });

    world.write("a", "orders", 1, 2_000..2_005);
    let later = world.run(&plan, backend);
    later.settle(5);
    later.end().with(|state| {
        let rest: Vec<u64> = (records..records + 5).collect();
        assert_eq!(offsets(state, "a/orders/0#1"), rest);
        assert!(state.errors.is_empty());
    });
}

fn recreated_shorter(world: &World<Real>, backend: Backend) {
    recreated_while_down(world, backend, 10);
}

fn recreated_as_long(world: &World<Real>, backend: Backend) {
    recreated_while_down(world, backend, 30);
}

fn recreated_longer(world: &World<Real>, backend: Backend) {
    recreated_while_down(world, backend, 60);
}

/// K8: another cluster at the address, with a topic of that name. It stops with both ids, whatever the
/// policy, and nothing of it is bound; also partitions that only it has are not read.
///
/// To see it fail, let no id contradict in `Claims::contradicted`, or no identity in
/// `Coordinator::is_replaced`.
fn another_cluster(world: &World<Real>, backend: Backend) {
    let (plan, _) = read(world, backend, recreated_topic(LossPolicy::Restart), 30);
    world.brokers.create_topic("b", "orders", 2);
    world.write("b", "orders", 2, 1_000..1_100);
    // What the metadata calls `a` is reached where `b` is from here on.
    let properties = world.brokers.properties("b");
    let described = Described::new().cluster("a", properties);
    world.publish(&described.stream("orders", "a", &["orders"]));

    let run = world.run(&plan, backend);
    run.wait("both ids are said", |state| {
        state.said(
            "cluster a",
            &["another Kafka cluster answers at its address"],
        )
    });
    run.wait("the split is stopped with both ids", |state| {
        state.said("split a/orders/0", &["the id of its cluster was"])
    });
    run.let_ticks_pass(200);
    run.end().with(|state| {
        assert!(state.rows.is_empty(), "{:?}", state.rows);
        assert!(state.starts.is_empty(), "{:?}", state.starts);
    });
}

/// S27 across a restart: one name has the cluster, which is read once.
///
/// To see it fail, let a name claim a cluster that another one has.
fn two_names(world: &World<Real>, backend: Backend) {
    world.brokers.create_topic("b", "orders", 1);
    world.write("b", "orders", 1, 0..10);
    world.publish(&Described::orders(&["b"]));
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    let run = world.run(&plan, backend);
    run.settle(10);
    run.end();

    let twin = Described::orders(&["b"]).cluster("aa", world.brokers.properties("b"));
    world.publish(&twin.stream("orders", "aa", &["orders"]));
    world.write("b", "orders", 1, 10..20);
    let again = world.run(&plan, backend);
    again.settle(10);
    again.wait("both names are said", |state| {
        state.said("cluster aa", &["the same Kafka cluster as cluster b"])
    });
    again.end().with(|state| {
        assert_eq!(offsets(state, "b/orders/0"), (10..20).collect::<Vec<_>>());
        assert_eq!(state.rows.len(), 10);
    });
}
