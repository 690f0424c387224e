//! Logs that are cut off: a leader is elected that lacks the last records.

use timely_kafka::LossPolicy;

use super::Real;
use super::losses::{await_error, lost_records, offsets, only_error};
use crate::kafka::RealKafka;
use crate::scenario::{Backend, Described, Plan, State, World};

/// Three brokers, of which a quorum elects whom it has, and the records 0..20 of `a/orders/0` on two of
/// them.
fn unclean() -> (World<Real>, Plan) {
    let mut start = vec!["--brokers", "3"];
    for setting in [
        "broker.session.timeout.ms=3000",
        "unclean.leader.election.enable=true",
        "min.insync.replicas=1",
    ] {
        start.extend(["--config", setting]);
    }
    let world = World::new(Real(RealKafka::start_with(&["a"], &start)));
    world.brokers.0.create_topic_on("a", "orders", &[2, 3]);
    world.write("a", "orders", 1, 0..20);
    world.publish(&Described::orders(&["a"]));
    let mut plan = world.plan();
    plan.losses = lost_records(LossPolicy::Skip);
    plan.log = Some(world.folder().join("log"));
    (world, plan)
}

/// Has the broker lead that lacks what was written since it ended: the first broker and it are a quorum.
fn elect_the_shorter(world: &World<Real>) {
    world.brokers.0.kill("a/2");
    world.brokers.0.start_again("a/3");
}

/// What was cut off was read already; the offsets are used again, so what follows is another split.
fn assert_cut_off(state: &State, before: std::ops::Range<u64>, after: std::ops::Range<u64>) {
    let (_, error) = only_error(state);
    assert_eq!(error.position.next.get(), 50);
    assert!(error.message.contains("cut off at 20"), "{}", error.message);
    assert_eq!(offsets(state, "a/orders/0"), before.collect::<Vec<_>>());
    assert_eq!(offsets(state, "a/orders/0#1"), after.collect::<Vec<_>>());
}

/// K5 while it is read, which the client notices by itself.
///
/// To see it fail, let the client reset offsets by itself.
pub(crate) fn while_read() {
    let (world, plan) = unclean();
    let run = world.run(&plan, Backend::Threads(2));
    run.settle(20);
    world.brokers.0.kill("a/3");
    world.write("a", "orders", 1, 20..50);
    run.settle(50);

    elect_the_shorter(&world);
    await_error(&run);
    world.write("a", "orders", 1, 100..110);
    run.settle(60);

    run.end().with(|state| assert_cut_off(state, 0..50, 20..30));
}

/// K5 while nothing runs: by then the log is longer than the position again.
///
/// To see it fail, leave the leader epoch out of the assignment: then it is read on in the middle.
pub(crate) fn while_down() {
    let (world, plan) = unclean();
    world.brokers.0.kill("a/3");
    world.write("a", "orders", 1, 20..50);
    let run = world.run(&plan, Backend::Threads(2));
    run.settle(50);
    run.end();

    elect_the_shorter(&world);
    world.write("a", "orders", 1, 100..150);
    let again = world.run(&plan, Backend::Threads(1));
    await_error(&again);
    again.settle(50);

    again
        .end()
        .with(|state| assert_cut_off(state, 0..0, 20..70));
}
