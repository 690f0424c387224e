//! What is removed and is to be read to its end first, on any clusters.

use super::brokers::Brokers;
use super::exactly::assert_exact;
use super::observed::State;
use super::plan::{Backend, Plan};
use super::shared::PARTITIONS;
use super::world::{Described, World};

/// The stream `orders` on `clusters`, which says what becomes of those that it loses.
pub(crate) fn orders(clusters: &[&str], on_removal: &str) -> Described {
    Described::orders(clusters).rule("orders", "on_removal", on_removal)
}

/// A plan with a log, whose answers are believed whatever they remove.
pub(crate) fn plan<B: Brokers + 'static>(world: &World<B>) -> Plan {
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    plan.unguarded = true;
    plan
}

/// Every record of `a` came before every one of `b`.
pub(crate) fn assert_in_order(state: &State) {
    let ticks = |cluster: &str| {
        let rows = state.rows.iter();
        let of_cluster = rows.filter(|row| row.split.cluster.as_str() == cluster);
        of_cluster.map(|row| row.tick).collect::<Vec<_>>()
    };
    let last = ticks("a").into_iter().max().expect("`a` was read");
    let first = ticks("b").into_iter().min().expect("`b` was read");
    assert!(last < first, "a up to tick {last}, b from {first}");
}

/// S29.
pub(crate) fn drained<B: Brokers + 'static>(world: &World<B>, backend: Backend) {
    for cluster in ["a", "b"] {
        world.brokers.create_topic(cluster, "orders", 3);
    }
    world.publish(&orders(&["a", "b"], "drain"));
    world.write("a", "orders", PARTITIONS, 0..300);
    let run = world.run(&plan(world), backend);
    run.settle(1);

    world.write("a", "orders", PARTITIONS, 300..600);
    world.publish(&orders(&["b"], "drain"));
    // The answer is the third epoch: the second has what is drained for it.
    run.await_epoch(3);
    world.write("a", "orders", PARTITIONS, 900..930);
    world.write("b", "orders", PARTITIONS, 600..630);
    run.settle(630);
    run.let_ticks_pass(100);

    run.end().with(|state| assert_exact(state, 0..630));
}

/// S30.
pub(crate) fn drained_first<B: Brokers + 'static>(world: &World<B>, backend: Backend) {
    for (cluster, first) in [("a", 0), ("b", 600)] {
        world.brokers.create_topic(cluster, "orders", 3);
        world.write(cluster, "orders", PARTITIONS, first..first + 300);
    }
    world.publish(&orders(&["a"], "drain_first"));
    let run = world.run(&plan(world), backend);
    run.settle(1);

    world.write("a", "orders", PARTITIONS, 300..600);
    world.publish(&orders(&["b"], "drain_first"));
    run.settle(900);
    run.let_ticks_pass(100);

    run.end().with(|state| {
        assert_exact(state, 0..900);
        assert_in_order(state);
    });
}
