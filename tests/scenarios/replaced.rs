//! Another cluster takes the place of one while it is read, or another name of it.

use std::time::Duration;

use libtest_mimic::Trial;
use timely_kafka::Aftermath;
use timely_kafka::embedded::{EmbeddedCluster, EmbeddedFault, KafkaApi};
use timely_kafka::model::ClientProperties;

use crate::front::Front;
use crate::scenario::drains::{orders, plan};
use crate::scenario::replays::copy_of;
use crate::scenario::{Backend, Brokers, Described, Embedded, State, World, assert_exact};
use crate::{each, world, world_of};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = each(
        "a_cluster_that_is_replaced_while_it_is_read_is_never_bound",
        replaced,
    );
    trials.extend(each(
        "a_cluster_keeps_its_name_whichever_name_answers_first",
        two_names,
    ));
    trials.extend(each(
        "a_cluster_without_the_topic_ends_no_bounded_source",
        bounded,
    ));
    trials.extend(each("a_cluster_without_the_topic_ends_no_drain", drained));
    trials
}

/// K8: a cluster of the same name, address and topics, with more records than were read of the first. It
/// is read on without an error.
///
/// To see it fail, set `identify_every` to a minute: then what is read of it becomes final.
fn replaced(backend: Backend) {
    let world = world();
    for cluster in ["a", "b"] {
        world.brokers.create_topic(cluster, "orders", 1);
    }
    world.write("a", "orders", 1, 0..30);
    world.write("b", "orders", 1, 1_000..1_100);
    let front = Front::start(&world.brokers.cluster("a").bootstrap_servers());
    let properties = world.brokers.properties("a");
    let properties = properties.with("bootstrap.servers", front.address());
    world.publish(&Described::orders(&["a"]).cluster("a", properties));
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    // The discovery must not be what notices it.
    plan.discovery = Duration::from_secs(600);
    let run = world.run(&plan, backend);
    run.settle(30);

    front.turn_to(&world.brokers.cluster("b").bootstrap_servers());
    let split = ["split a/orders/0", "the id of its cluster was"];
    run.wait("it is said that it goes no further", |state| {
        state.said("source", &split)
    });
    run.observed.with(|state| {
        let is_final = |tick| state.all_passed(tick);
        let mut of_the_other = state.rows.iter().filter(|row| row.number >= 1_000);
        assert!(of_the_other.all(|row| !is_final(row.tick)));
        assert_eq!(state.bound_to("a", "orders", 0), Some(30));
    });

    // What comes after it reads nothing of the other cluster, and says so at its tick. It has a copy of the
    // log: in one process the first run keeps its own.
    let log = plan.log.take().unwrap();
    plan.log = Some(copy_of(&log, world.folder().join("copy")));
    let again = world.run(&plan, backend);
    again.wait("both ids are said", |state| {
        let words = ["another Kafka cluster answers at its address"];
        state.said("cluster a", &words) && stopped(state)
    });
    again.let_ticks_pass(200);
    again.end().with(|state| {
        assert!(state.rows.is_empty(), "{:?}", state.rows);
        let (_, error) = state.errors.first().expect("one was waited for");
        assert_eq!(
            (error.position.next.get(), &error.then),
            (30, &Aftermath::Stays)
        );
    });
}

/// More than is asked for while a test waits.
const ALL_FETCHES: usize = 100_000;

/// Another cluster is at the address of `a` before its records can be read, and has no topic.
///
/// To see it fail, let `Findings` note what a foreign cluster lacks, or let `identity::ask` believe a
/// client of which cluster it is that lacks a topic: then nothing is read, and nothing said.
fn bounded(backend: Backend) {
    let world = world();
    world.brokers.create_topic("a", "orders", 1);
    world.write("a", "orders", 1, 0..30);
    let (a, front) = fronted(&world);
    a.fail_fetches(ALL_FETCHES, EmbeddedFault::NotLeader);
    let described = Described::orders(&["a"]);
    world.publish(&described.cluster("a", properties(&world, &front)));
    let mut plan = world.plan();
    plan.bounded = true;
    let run = world.run(&plan, backend);
    run.wait("all are found", |state| told(state, "none is added"));

    front.turn_to(&world.brokers.cluster("b").bootstrap_servers());
    run.wait("it is said that it is another one", is_another);
    run.let_ticks_pass(300);
    run.observed
        .expect("it is waited for", |state| state.ended == 0);
    a.fail_no_more(KafkaApi::Fetch);
    front.turn_to(&a.bootstrap_servers());

    run.await_end().with(|state| assert_exact(state, 0..30));
}

/// The same while it is drained, and what comes after it waits.
fn drained(backend: Backend) {
    let world = world_of(&["a", "b", "c"]);
    for (cluster, numbers) in [("a", 0..30), ("c", 100..130)] {
        world.brokers.create_topic(cluster, "orders", 1);
        world.write(cluster, "orders", 1, numbers);
    }
    let (a, front) = fronted(&world);
    let described = |reads| {
        let described = orders(&[reads], "drain_first");
        described.cluster("a", properties(&world, &front))
    };
    world.publish(&described("a"));
    let run = world.run(&plan(&world), backend);
    run.settle(30);
    a.fail_fetches(ALL_FETCHES, EmbeddedFault::NotLeader);
    world.write("a", "orders", 1, 30..60);
    world.publish(&described("c"));
    run.wait("it is known where it ends", |state| {
        told(state, ": leaves, and ends at")
    });

    front.turn_to(&world.brokers.cluster("b").bootstrap_servers());
    run.wait("it is said that it is another one", is_another);
    run.let_ticks_pass(300);
    run.observed.expect("what comes waits", |state| {
        state.rows_of("c", "orders") == 0
    });
    a.fail_no_more(KafkaApi::Fetch);
    front.turn_to(&a.bootstrap_servers());
    run.settle(90);

    run.end()
        .with(|state| assert_exact(state, (0..60).chain(100..130)));
}

/// Cluster `a`, and an address in front of it.
fn fronted(world: &World<Embedded>) -> (&EmbeddedCluster, Front) {
    let a = world.brokers.cluster("a");
    (a, Front::start(&a.bootstrap_servers()))
}

fn properties(world: &World<Embedded>, front: &Front) -> ClientProperties {
    let properties = world.brokers.properties("a");
    properties.with("bootstrap.servers", front.address())
}

fn told(state: &State, words: &str) -> bool {
    state.told.iter().any(|(_, line)| line.contains(words))
}

fn is_another(state: &State) -> bool {
    state.said("cluster a", &["another Kafka cluster answers"])
}

fn stopped(state: &State) -> bool {
    let mut errors = state.errors.iter();
    errors.any(|(_, error)| error.message.contains("the id of its cluster was"))
}

/// S27 across a restart: the name that has read the cluster has it, also if the other one alone can reach
/// it at first.
///
/// To see it fail, take `claim_known` out of `KafkaDiscovery::discover`: then the cluster is read anew.
fn two_names(backend: Backend) {
    let world = world_of(&["a"]);
    world.brokers.create_topic("a", "orders", 1);
    world.write("a", "orders", 1, 0..10);
    let direct = world.brokers.properties("a");
    let address = world.brokers.cluster("a").bootstrap_servers();
    let front = Front::start(&address);
    let fronted = direct.clone().with("bootstrap.servers", front.address());
    let one = || {
        let described = Described::new().cluster("name", fronted.clone());
        described.stream("orders", "name", &["orders"])
    };
    world.publish(&one());
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    let run = world.run(&plan, backend);
    run.settle(10);
    run.end();

    // Nobody listens there.
    front.turn_to("127.0.0.1:1");
    world.write("a", "orders", 1, 10..20);
    let twin = one().cluster("another-name", direct);
    world.publish(&twin.stream("orders", "another-name", &["orders"]));
    let again = world.run(&plan, backend);
    again.wait("both names are said", |state| {
        state.said(
            "cluster another-name",
            &["the same Kafka cluster as cluster name"],
        )
    });
    front.turn_to(&address);
    again.settle(10);

    again.end().with(|state| assert_exact(state, 10..20));
}
