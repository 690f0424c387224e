//! Something cannot be asked, is wrong, or is not there; the rest goes on.

use std::net::TcpListener;
use std::time::Duration;

use libtest_mimic::Trial;
use timely_kafka::embedded::EmbeddedFault;
use timely_kafka::model::ClientProperties;
use timely_splits::health::{FailureKind, HealthStatus};

use crate::scenario::{Backend, Described, assert_exact};
use crate::{each, once, world};

pub(crate) fn trials() -> Vec<Trial> {
    [
        each("metadata_that_fails_at_first_is_waited_for", fails_at_first),
        each(
            "metadata_that_fails_later_leaves_the_last_answer",
            fails_later,
        ),
        each(
            "clusters_that_do_not_exist_hold_up_nobody",
            missing_clusters,
        ),
        each("the_frontier_goes_on_without_records", nothing_to_read),
    ]
    .into_iter()
    .flatten()
    .chain([
        once("a_cluster_that_says_nothing_holds_up_nobody", mute_cluster),
        once("reading_goes_on_while_ticks_wait_for_a_cluster", ticks_wait),
    ])
    .collect()
}

/// S11, first part.
fn fails_at_first(backend: Backend) {
    let world = world();
    world
        .brokers
        .cluster("a")
        .create_topic("orders", 3)
        .unwrap();
    world.write("a", "orders", 3, 0..15);
    let run = world.run(&world.plan(), backend);
    run.wait("it says that it waits for the file", |state| {
        state.said("metadata service", &["streams.json"])
    });
    run.let_ticks_pass(100);
    run.observed
        .expect("nothing was read", |state| state.rows.is_empty());

    world.publish(&Described::orders(&["a"]));

    run.settle(15);
    run.wait("it says that the service is well", |state| {
        let service =
            |health: &&timely_splits::health::Health| health.subject == "metadata service";
        let last = state.health.iter().rfind(service);
        last.is_some_and(|health| health.status == HealthStatus::Well)
    });
    run.end().with(|state| assert_exact(state, 0..15));
}

/// S11, second part.
fn fails_later(backend: Backend) {
    let world = world();
    for cluster in ["a", "b"] {
        world
            .brokers
            .cluster(cluster)
            .create_topic("orders", 3)
            .unwrap();
    }
    world.write("a", "orders", 3, 0..15);
    world.write("b", "orders", 3, 100..115);
    world.publish(&Described::orders(&["a"]));
    let run = world.run(&world.plan(), backend);
    run.settle(15);

    for round in 1..=3_u64 {
        // A different mistake each time, so that each of them is heard of.
        world.publish_text(&format!("{{ \"streams{round}\": {{}} }}"));
        run.wait("it says what is wrong with the file", |state| {
            state.said("metadata service", &[&format!("streams{round}")])
        });
        world.write("a", "orders", 3, 15 * round..15 * (round + 1));
        run.settle(usize::try_from(15 * (round + 1)).unwrap());
    }
    world.publish(&Described::orders(&["a", "b"]));

    run.settle(75);
    run.end().with(|state| {
        let failing = HealthStatus::Failing(FailureKind::Definite);
        let count = state
            .health
            .iter()
            .filter(|health| health.subject == "metadata service" && health.status == failing);
        assert!(count.count() >= 3, "{:?}", state.health);
        assert_exact(state, (0..60).chain(100..115));
    });
}

/// S16: refused, and not resolvable.
fn missing_clusters(backend: Backend) {
    let refusing = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    };

    beside_others(
        backend,
        &[
            ("refusing", &refusing, "Connection refused"),
            ("nowhere", "nowhere.invalid:9092", "resolve"),
        ],
    );
}

/// S16: a port on which something else listens. Once, since that takes as long as an answer may.
fn mute_cluster() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();

    beside_others(Backend::Threads(2), &[("mute", &address, "no answer in")]);
}

/// Reads a cluster that works beside some that do not: each with its name, its address, and what is
/// said of it.
fn beside_others(backend: Backend, others: &[(&str, &str, &str)]) {
    let world = world();
    world
        .brokers
        .cluster("a")
        .create_topic("orders", 3)
        .unwrap();
    world.write("a", "orders", 3, 0..15);
    let described = others.iter().fold(
        Described::orders(&["a"]),
        |described, (name, address, _)| {
            let properties = ClientProperties::new().with("bootstrap.servers", address);
            let described = described.cluster(name, properties);
            described.stream("orders", name, &["orders"])
        },
    );
    world.publish(&described);

    let run = world.run(&world.plan(), backend);

    run.settle(15);
    run.wait("it says what is wrong with each cluster", |state| {
        let said = |(name, _, words): &(&str, &str, &str)| {
            state.said(&format!("cluster {name}"), &[words])
        };
        others.iter().all(said)
    });
    world.write("a", "orders", 3, 15..30);
    run.settle(30);
    run.end().with(|state| {
        assert!(!state.said("cluster a", &[]), "{:?}", state.health);
        assert_exact(state, 0..30);
    });
}

/// Nothing was emitted while four ticks waited. So a cluster that hung stopped all reading for two seconds,
/// until it was not waited for any longer what was read of it.
fn ticks_wait() {
    let world = world();
    for cluster in ["a", "b"] {
        let created = world.brokers.cluster(cluster).create_topic("orders", 3);
        created.unwrap();
    }
    world.publish(&Described::orders(&["a", "b"]));
    let mut plan = world.plan();
    plan.identified_within = Duration::from_secs(3_600);
    let run = world.run(&plan, Backend::Threads(2));
    world.write("b", "orders", 3, 0..3);
    run.settle(3);

    let mute = |fault| world.brokers.cluster("b").fail_topic("orders", fault);
    mute(Some(EmbeddedFault::TopicAuthorizationFailed)).unwrap();
    world.write("b", "orders", 3, 3..6);
    run.wait("the others of b came", |state| state.rows.len() == 6);
    let waits = run.observed.with(|state| state.rows[5].tick);
    // Each is read in a tick of its own, if ticks end: more of them than may wait.
    for number in 6..36 {
        world.write("a", "orders", 3, number..number + 1);
        run.wait("the next one of a came", |state| {
            state.rows_of("a", "orders") == usize::try_from(number - 5).unwrap()
        });
    }

    run.observed.expect("the frontier waits for b", |state| {
        state.frontier() <= waits
    });
    mute(None).unwrap();
    run.settle(36);
    run.end().with(|state| assert_exact(state, 0..36));
}

/// S31: workers without splits, a cluster that is down, a topic without records.
fn nothing_to_read(backend: Backend) {
    let world = world();
    world.brokers.cluster("a").create_topic("idle", 1).unwrap();
    world
        .brokers
        .cluster("b")
        .create_topic("orders", 1)
        .unwrap();
    world.write("b", "orders", 1, 0..5);
    let described = Described::new().stream("orders", "a", &["idle"]);
    world.publish(&described.stream("orders", "b", &["orders"]));
    let run = world.run(&world.plan(), backend);
    run.settle(5);

    world.brokers.cluster("b").broker_down().unwrap();
    run.wait("it says that the cluster is down", |state| {
        state.said("cluster b", &[])
    });
    run.let_ticks_pass(500);
    world.brokers.cluster("b").broker_up().unwrap();
    world.write("b", "orders", 1, 5..10);

    run.settle(10);
    run.end().with(|state| assert_exact(state, 0..10));
}
