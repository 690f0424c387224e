//! Sources that read up to somewhere, and those that end by themselves.

use libtest_mimic::Trial;
use serde_json::json;
use timely_kafka::StopAt;

use crate::scenario::{Backend, Described, Embedded, Plan, State, World, assert_exact};
use crate::{each, once, world};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(each("each_cluster_is_read_up_to_its_stop", s4));
    trials.extend(each("what_has_nothing_to_read_ends", s28_nothing));
    trials.extend(each("a_stop_beyond_the_end_is_the_end", s28_beyond));
    trials.extend(each(
        "what_was_read_before_a_restart_is_not_read_again",
        s28_restart,
    ));
    trials.extend(each("a_batch_is_cut_at_the_stop", cut));
    trials.push(once("what_is_removed_is_not_waited_for", removed));
    trials.push(once("a_cluster_that_is_down_is_waited_for", down));
    trials.push(once(
        "a_source_that_is_not_bounded_goes_on_after_its_stops",
        unbounded,
    ));
    trials.push(once("a_stop_is_not_asked_for_again", once_only));
    trials
}

/// A plan that ends by itself, with a log.
fn bounded(world: &World<Embedded>) -> Plan {
    let mut plan = world.plan();
    plan.bounded = true;
    plan.log = Some(world.folder().join("log"));
    plan
}

/// 30 records in `orders` of each cluster, of three partitions.
fn written() -> World<Embedded> {
    let world = world();
    for (cluster, numbers) in [("a", 0..30), ("b", 30..60)] {
        world
            .brokers
            .cluster(cluster)
            .create_topic("orders", 3)
            .unwrap();
        world.write(cluster, "orders", 3, numbers);
    }
    world
}

/// S4.
fn s4(backend: Backend) {
    let world = written();
    let nothing = json!({ "positions": { "0": 0, "1": 0, "2": 0 }, "otherwise": "end" });
    world.publish(&Described::orders(&["a"]).reading(
        "orders",
        "b",
        json!({ "topics": ["orders"], "stop": nothing }),
    ));

    let ended = world.run(&bounded(&world), backend).await_end();

    ended.with(|state| {
        assert_exact(state, 0..30);
        assert_eq!(state.starts.len(), 6);
    });
}

/// S28: no cluster, and partitions without a record.
fn s28_nothing(backend: Backend) {
    let world = world();
    world
        .brokers
        .cluster("a")
        .create_topic("orders", 3)
        .unwrap();
    let mut plan = bounded(&world);
    plan.log = None;
    for described in [Described::new().empty("orders"), Described::orders(&["a"])] {
        world.publish(&described);

        let ended = world.run(&plan, backend).await_end();

        ended.with(|state| assert_exact(state, 0..0));
    }
}

/// S28.
fn s28_beyond(backend: Backend) {
    let world = written();
    world.publish(&Described::orders(&["a", "b"]));
    let mut plan = bounded(&world);
    plan.stop = StopAt::positions([(0, 1_000), (1, 5)], StopAt::Never);

    let ended = world.run(&plan, backend).await_end();

    // Partition 1 of either is read up to offset 5.
    let numbers = (0..60).filter(|number| number % 3 != 1 || number % 30 < 15);
    ended.with(|state| assert_exact(state, numbers));
}

/// S28, C28: a run that has ended, and one that was ended on the way. To see it fail, let `recorded`
/// not look whether a start is at the stop, or forget the stops when the log is restored.
fn s28_restart(backend: Backend) {
    let world = written();
    world.publish(&Described::orders(&["a", "b"]));
    let plan = bounded(&world);
    let first = world.run(&plan, backend).await_end();
    first.with(|state| assert_exact(state, 0..60));

    // What is written or added later is none of what there was.
    world.write("a", "orders", 3, 60..90);
    world.brokers.cluster("a").create_topic("retry", 1).unwrap();
    world.write("a", "retry", 1, 90..95);
    world.publish(&Described::orders(&["b"]).stream("orders", "a", &["orders", "retry"]));
    let again = world.run(&plan, backend).await_end();

    again.with(|state| {
        assert_exact(state, 0..0);
        assert_eq!(state.starts.len(), 0, "nothing is asked for again");
    });
}

/// All records of a partition come in one batch, which is longer than what is to be read of it.
fn cut(backend: Backend) {
    let world = world();
    world
        .brokers
        .cluster("a")
        .create_topic("orders", 1)
        .unwrap();
    world.write("a", "orders", 1, 0..1_000);
    world.publish(&Described::orders(&["a"]));
    let mut plan = bounded(&world);
    plan.stop = StopAt::positions([(0, 417)], StopAt::End);

    let ended = world.run(&plan, backend).await_end();

    ended.with(|state| assert_exact(state, 0..417));
}

/// S28: what is waited for is removed.
fn removed() {
    let world = written();
    world.brokers.cluster("b").broker_down().unwrap();
    world.publish(&Described::orders(&["a", "b"]));
    let run = world.run(&bounded(&world), Backend::Threads(2));
    run.settle(30);
    run.observed.expect("it goes on", |state| state.ended == 0);

    world.publish(&Described::orders(&["a"]));
    let ended = run.await_end();

    ended.with(|state| assert_exact(state, 0..30));
}

/// What cannot be asked for is not taken for nothing.
fn down() {
    let world = written();
    world.brokers.cluster("b").broker_down().unwrap();
    world.publish(&Described::orders(&["a", "b"]));
    let run = world.run(&bounded(&world), Backend::Threads(2));
    run.settle(30);
    run.wait("it is said what is waited for", |state| {
        state.said("cluster b", &["asking for its topics failed"])
    });
    run.observed.expect("it goes on", |state| state.ended == 0);

    world.brokers.cluster("b").broker_up().unwrap();
    let ended = run.await_end();

    ended.with(|state| assert_exact(state, 0..60));
}

/// Splits end, and others are found and read.
fn unbounded() {
    let world = written();
    world.publish(&Described::orders(&["a"]));
    let mut plan = world.plan();
    plan.stop = StopAt::End;
    let run = world.run(&plan, Backend::Threads(2));
    run.settle(30);
    run.wait("all are finished", |state| finished(state) == 3);
    world.write("a", "orders", 3, 60..90);
    world.publish(&Described::orders(&["a", "b"]));
    run.settle(60);

    run.end().with(|state| assert_exact(state, 0..60));
}

fn finished(state: &State) -> usize {
    let told = state.told.iter();
    told.filter(|(_, line)| line.contains(": finished at"))
        .count()
}

/// A run that is ended before it has come to the stop goes on to that stop.
fn once_only() {
    let world = written();
    world.publish(&Described::orders(&["a", "b"]));
    let plan = bounded(&world);
    let run = world.run(&plan, Backend::Threads(2));
    run.wait("all starts are recorded", |state| state.starts.len() == 6);
    // Whether it comes to its end before it is told to is of no interest.
    let before = run.end().with(|state| state.rows.len());
    world.write("a", "orders", 3, 60..90);

    let again = world.run(&plan, Backend::Threads(2)).await_end();

    again.with(|state| {
        assert_eq!(before + state.rows.len(), 60);
        assert_eq!(state.starts.len(), 0, "nothing is asked for again");
    });
}
