//! Partitions are added, which embedded clusters cannot do.

use super::Real;
use crate::scenario::{Backend, Brokers, Described, World, assert_exact};

/// S26.
pub(crate) fn growth(world: &World<Real>, backend: Backend) {
    for cluster in ["a", "b"] {
        world.brokers.create_topic(cluster, "orders", 3);
    }
    world.write("a", "orders", 3, 0..15);
    world.write("b", "orders", 3, 15..30);
    world.publish(&Described::orders(&["a", "b"]));
    let run = world.run(&world.plan(), backend);
    run.settle(30);

    world.brokers.0.grow("a", "orders", 5);
    world.publish(&Described::orders(&["a"]));
    world.write("a", "orders", 5, 30..60);

    run.settle(60);
    // Nobody reads it once the change is adopted, which the new partitions do not tell.
    run.await_epoch(2);
    world.write("b", "orders", 3, 100..115);
    world.write("a", "orders", 5, 60..75);
    run.settle(75);
    run.end().with(|state| {
        let partitions = state.rows.iter().map(|row| row.split.partition.0).max();
        assert_eq!(partitions, Some(4), "the new partitions are read");
        assert_exact(state, 0..75);
    });
}
