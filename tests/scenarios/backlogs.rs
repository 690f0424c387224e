//! Metadata that changes, or a cluster that hangs, while much is fetched and not yet emitted.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use crate::scenario::{Backend, Brokers, Described, assert_exact};
use crate::{each, world_of};

pub(crate) fn trials() -> Vec<Trial> {
    [
        each("metadata_that_changes_within_a_backlog_is_exact", backlog),
        each("a_cluster_that_hangs_is_let_go_at_once", hangs),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How long a removal may take until readers know of it, on a machine that does much else.
const TOLD_WITHIN: Duration = Duration::from_secs(20);

/// S33: the log does not answer, so that reading stops; meanwhile `b` goes and `c` comes, and `b` is
/// back when it goes on.
fn backlog(backend: Backend) {
    let world = world_of(&["a", "b", "c"]);
    for cluster in ["a", "b", "c"] {
        world.brokers.create_topic(cluster, "orders", 3);
    }
    world.publish(&Described::orders(&["a", "b"]));
    let mut plan = world.plan();
    plan.gated = true;
    let mut run = world.run(&plan, backend);
    world.write("a", "orders", 3, 0..3);
    run.wait("the log holds the first records", |state| {
        state.held.is_some()
    });
    world.write("a", "orders", 3, 3..3_000);
    world.write("b", "orders", 3, 3_000..6_000);
    world.write("c", "orders", 3, 6_000..9_000);

    world.publish(&Described::orders(&["a", "c"]));
    run.await_epoch(2);
    run.open_gate();
    run.wait("what is listed has come", |state| {
        state.rows_of("a", "orders") == 3_000 && state.rows_of("c", "orders") == 3_000
    });
    world.publish(&Described::orders(&["a", "b", "c"]));

    run.settle(9_000);
    run.end().with(|state| assert_exact(state, 0..9_000));
}

/// S14: a client that has questions out to brokers that say nothing takes its time to close. Nobody
/// waits for it.
fn hangs(backend: Backend) {
    let world = world_of(&["a", "b"]);
    for cluster in ["a", "b"] {
        world.brokers.create_topic(cluster, "orders", 3);
    }
    world.write("a", "orders", 3, 0..15);
    world.write("b", "orders", 3, 15..30);
    world.publish(&Described::orders(&["a", "b"]));
    let run = world.run(&world.plan(), backend);
    run.settle(30);
    let minute = Duration::from_secs(60);
    world.brokers.cluster("b").delay(minute).unwrap();

    let removed = Instant::now();
    world.publish(&Described::orders(&["a"]));
    run.await_epoch(2);
    world.write("a", "orders", 3, 30..45);
    run.settle(45);
    assert!(removed.elapsed() < TOLD_WITHIN, "{:?}", removed.elapsed());

    // Nor does the end.
    run.end().with(|state| assert_exact(state, 0..45));
}
