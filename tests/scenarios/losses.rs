//! One of two processes is killed.

use std::time::Duration;

use libtest_mimic::Trial;
use timely_kafka::PEER_LOST_STATUS;

use crate::scenario::{Backend, Described};
use crate::{once, world};

/// How long the other process may run on.
const END_MAX: Duration = Duration::from_secs(5);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        once("killing_the_first_process_ends_the_second", || kill(0)),
        once("killing_the_second_process_ends_the_first", || kill(1)),
    ]
}

fn kill(killed: usize) {
    let world = world();
    world
        .brokers
        .cluster("a")
        .create_topic("orders", 3)
        .unwrap();
    world.write("a", "orders", 3, 0..30);
    world.publish(&Described::orders(&["a"]));
    let run = world.run(&world.plan(), Backend::TwoProcesses(2));
    run.settle(30);

    run.processes()[killed].kill();
    let (status, said) = run.processes()[1 - killed].await_end(END_MAX);

    assert_eq!(status.code(), Some(PEER_LOST_STATUS), "{status}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("another process of this dataflow was lost"),
        "{said}"
    );
}
