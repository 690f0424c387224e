//! Another cluster takes the place of one while it is read, or another name of it.

use std::time::Duration;

use libtest_mimic::Trial;
use timely_kafka::Aftermath;

use crate::front::Front;
use crate::scenario::replays::copy_of;
use crate::scenario::{Backend, Brokers, Described, State, assert_exact};
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
