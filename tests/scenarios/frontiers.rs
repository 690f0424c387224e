//! What the frontier waits for.

use std::collections::BTreeSet;
use std::time::Duration;

use libtest_mimic::Trial;
use timely_splits::health::HealthStatus;

use crate::scenario::{Backend, Described, Output, State, assert_exact};
use crate::{each, once, world};

/// How many closed ticks may wait for the log.
const TICKS_WAITING_MAX: usize = 4;

pub(crate) fn trials() -> Vec<Trial> {
    let name = "a_log_that_does_not_answer_holds_the_frontier_at_its_tick";
    let mut trials = each(name, held_log);
    trials.push(once(&format!("{name}::2_processes_of_1"), || {
        held_log(Backend::TwoProcesses(1));
    }));
    trials
}

fn held_log(backend: Backend) {
    let world = world();
    world
        .brokers
        .cluster("a")
        .create_topic("orders", 3)
        .unwrap();
    world.write("a", "orders", 3, 0..3);
    world.publish(&Described::orders(&["a"]));
    let mut plan = world.plan();
    plan.gated = true;
    // Long enough for several rounds of writing and reading in each of the ticks that may wait.
    plan.tick = Duration::from_millis(250);
    let mut run = world.run(&plan, backend);
    run.wait("the log holds the first records", |state| {
        state.held.is_some()
    });
    let held = run
        .observed
        .with(|state| state.held.expect("it was waited for"));

    // Records keep coming, until as many ticks wait as may.
    let mut next = 3;
    while !run.observed.with(waits_for_log) {
        world.write("a", "orders", 3, next..next + 3);
        next += 3;
        let came = usize::try_from(next).unwrap();
        run.wait("they come, or too many ticks wait", |state| {
            state.rows.len() >= came || waits_for_log(state)
        });
    }
    run.wait(
        "all frontiers have come to the tick that is held",
        |state| state.frontier() == held,
    );
    // The open tick stays open, and what is read is read in it.
    world.write("a", "orders", 3, next..next + 3);
    next += 3;
    let came = usize::try_from(next).unwrap();
    run.wait("they come although too many ticks wait", |state| {
        state.rows.len() == came
    });
    run.observed.with(|state| {
        let ticks: BTreeSet<u64> = state.rows.iter().map(|row| row.tick).collect();
        assert!(
            ticks.len() > 1,
            "records came after the first tick: {ticks:?}"
        );
        assert!(ticks.len() <= TICKS_WAITING_MAX + 1, "{ticks:?}");
        assert!(ticks.first() >= Some(&held), "{ticks:?} at or after {held}");
        for worker in 0..state.workers {
            for output in [Output::Batches, Output::Bindings] {
                let at = state.frontiers[&(worker, output)];
                assert_eq!(at, Some(held), "{output:?} of worker {worker}");
            }
        }
    });
    world.write("a", "orders", 3, next..next + 3);

    run.open_gate();

    run.settle(usize::try_from(next).unwrap() + 3);
    run.end().with(|state| assert_exact(state, 0..next + 3));
}

/// Whether ticks wait for the log so that no other ends.
fn waits_for_log(state: &State) -> bool {
    let about_log = |health: &&timely_splits::health::Health| health.subject == "binding log";
    let last = state.health.iter().rfind(about_log);
    last.is_some_and(|health| health.status == HealthStatus::Waiting)
}
