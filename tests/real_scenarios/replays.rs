//! Records that are to be given again are gone, which embedded clusters cannot show.

use timely_splits::health::{FailureKind, HealthStatus};

use super::Real;
use crate::scenario::replays::{copy_of, past};
use crate::scenario::{Backend, GoingOn, World};

/// It is told before anything is given, with cluster, topic, partition and range, and no frontier moves
/// to a tick that is not given.
pub(crate) fn gone(world: &World<Real>, backend: Backend) {
    let past = past(world, backend);
    world.brokers.0.delete_records("b", "orders", 1, 150);
    let from = *past.given.keys().next().unwrap();
    let log = past.plan.log.clone().unwrap();
    let mut plan = past.plan.clone();
    plan.log = Some(copy_of(&log, world.folder().join("copy")));
    plan.going_on = GoingOn::Replaying(from);

    let run = world.run(&plan, backend);
    run.wait("it is told what is gone", |state| {
        state.health.iter().any(|health| {
            health.status == HealthStatus::Failing(FailureKind::Definite)
                && health
                    .message
                    .contains("split b/orders/1, 0..800: records from 0 on are gone")
                && health.message.contains("the first that is left is at 150")
        })
    });

    run.observed.with(|state| {
        assert_eq!(state.rows.len(), 0);
        assert!(state.frontier() <= from, "{}", state.frontier());
    });

    // What is still there can be given: from a tick on whose ranges are.
    let later = past.bindings.iter().find(|binding| {
        let mut ranges = binding.ranges.iter();
        ranges.any(|range| range.split.to_string() == "b/orders/1" && range.from.next.get() >= 150)
    });
    let after = later.expect("more than that was read").tick.0;
    plan.log = Some(copy_of(&log, world.folder().join("another")));
    plan.going_on = GoingOn::Replaying(after);
    let expected: usize = past.given.range(after..).map(|(_, rows)| rows.len()).sum();
    let again = world.run(&plan, backend);
    again.settle(expected);
    again
        .end()
        .with(|state| assert_eq!(state.rows.len(), expected));
}
