//! Topics and clusters that others take the place of while they are read.

use std::time::Duration;

use timely_kafka::{Aftermath, LossPolicy, PEER_LOST_STATUS, SOURCE_FAILED_STATUS};

use super::Real;
use super::losses::{await_error, create_again, offsets, only_error, recreated_topic};
use crate::kafka::RealKafka;
use crate::scenario::{Backend, Brokers, Described, Plan, Run, World};

/// How long processes have to end.
const END_MAX: Duration = Duration::from_secs(30);

/// A source of `a/orders/0` that starts over what was created again, and of which the discovery does not
/// notice that.
fn plan(world: &World<Real>) -> Plan {
    world.publish(&Described::orders(&["a"]));
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    plan.losses = recreated_topic(LossPolicy::Restart);
    plan.discovery = Duration::from_secs(600);
    plan.ends_with_failure = true;
    plan
}

/// Starts a source, and waits until it reads from the beginning of a topic that has no records.
///
/// Behind a record, the client finds what takes its place shorter for a moment, and that is noticed in
/// another way.
fn reading_nothing(world: &World<Real>, plan: &Plan) -> Run {
    world.brokers.create_topic("a", "orders", 1);
    let run = world.run(plan, Backend::TwoProcesses(1));
    run.wait("the split is read", |state| {
        let mut told = state.told.iter();
        told.any(|(_, line)| line.starts_with("split a/orders/0: assigned"))
    });
    run
}

/// Asserts that the processes end because of a split, with these words, and that nothing of what took its
/// place is bound or final.
fn assert_goes_no_further(run: &Run, words: &[&str]) {
    run.wait("it is said why", |state| state.said("source", words));
    let mut ends = run.processes().iter().map(|one| one.await_end(END_MAX));
    let (status, said) = ends.next().expect("there are two processes");
    assert_eq!(
        status.code(),
        Some(SOURCE_FAILED_STATUS),
        "{status}: {said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(words.iter().all(|words| said.contains(words)), "{said}");
    for (other, told) in ends {
        assert_eq!(other.code(), Some(PEER_LOST_STATUS), "{other}: {told}");
    }
    run.observed.with(|state| {
        let bindings = state.bindings.iter();
        let ranges = bindings.flat_map(|(_, binding)| &binding.ranges);
        assert_eq!(ranges.count(), 0, "nothing of it is bound");
        let rows = state.rows.iter().filter(|row| state.all_passed(row.tick));
        assert_eq!(rows.count(), 0, "nothing of it is final");
    });
}

/// K4, which Kafka says nothing about: no binding with a record of the new topic ever becomes durable, the
/// processes end, and the next ones do what the policy says. To see it fail, set `identify_every` to a minute.
pub(crate) fn topic() {
    let world = World::new(Real(RealKafka::start(&["a"])));
    let plan = plan(&world);
    let run = reading_nothing(&world, &plan);

    create_again(&world, 100);
    assert_goes_no_further(&run, &["split a/orders/0", "the id of its topic was"]);

    let again = world.run(&plan, Backend::Threads(2));
    await_error(&again);
    again.settle(100);
    again.end().with(|state| {
        assert_eq!(offsets(state, "a/orders/0#1"), (0..100).collect::<Vec<_>>());
        assert_eq!(state.rows.len(), 100);
    });
}

/// The id of a cluster, as the broker has it.
fn id_of(world: &World<Real>, cluster: &str) -> String {
    let listed = world.brokers.0.script_reading("", &["list", cluster]);
    let listed = listed.expect("the cluster is there");
    let id = listed.trim().split('\t').nth(4);
    id.expect("the columns of 'list'").to_owned()
}

/// Starts another cluster at the address of `a`, with a topic of that name, and returns both ids.
fn replace_cluster(world: &World<Real>) -> [String; 2] {
    let was = id_of(world, "a");
    world.brokers.0.replace("a");
    world.brokers.create_topic("a", "orders", 1);
    [was, id_of(world, "a")]
}

/// K8 while it is read: what is read of the other cluster comes without an error.
///
/// To see it fail, set `identify_every` to a minute.
pub(crate) fn cluster() {
    let world = World::new(Real(RealKafka::start(&["a"])));
    let plan = plan(&world);
    let run = reading_nothing(&world, &plan);

    let [was, is] = replace_cluster(&world);
    world.write("a", "orders", 1, 1_000..1_100);
    assert_goes_no_further(&run, &["split a/orders/0", &was, &is]);

    // No policy makes another cluster the same.
    let again = world.run(&plan, Backend::Threads(2));
    await_error(&again);
    again.let_ticks_pass(200);
    again.end().with(|state| {
        let (_, error) = only_error(state);
        assert_eq!(error.then, Aftermath::Stays);
        assert!(state.rows.is_empty(), "{:?}", state.rows);
    });
}

/// K8 while it is read, by an error: the other cluster has less than was read. The source goes on, and
/// reads nothing of it, also when it has more.
///
/// To see it fail, let the client reset offsets by itself.
pub(crate) fn shorter_cluster() {
    let world = World::new(Real(RealKafka::start(&["a"])));
    world.brokers.create_topic("a", "orders", 1);
    world.write("a", "orders", 1, 0..30);
    let plan = plan(&world);
    let run = world.run(&plan, Backend::TwoProcesses(1));
    run.settle(30);

    let [was, is] = replace_cluster(&world);
    await_error(&run);
    world.write("a", "orders", 1, 1_000..1_100);
    run.let_ticks_pass(500);

    run.end().with(|state| {
        let (_, error) = only_error(state);
        assert_eq!(
            (error.position.next.get(), &error.then),
            (30, &Aftermath::Stays)
        );
        let words = &error.message;
        assert!(words.contains(&was) && words.contains(&is), "{words}");
        assert_eq!(offsets(state, "a/orders/0"), (0..30).collect::<Vec<_>>());
        assert_eq!(state.rows.len(), 30);
    });
}
