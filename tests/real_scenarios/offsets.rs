//! What Kafka's tools see of a source that commits offsets, on brokers that keep groups as Kafka does.

use std::time::Instant;

use libtest_mimic::Trial;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::Real;
use crate::kafka::RealKafka;
use crate::scenario::offsets::{GROUP, Tool, committing, down, follow, held};
use crate::scenario::{Backend, Brokers, Described, World, assert_exact};
use crate::world;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    vec![
        trial("tools_see_where_a_source_is_and_what_is_left", || {
            let world = world();
            follow(&world, Backend::TwoProcesses(1));
            let tool = Tool::new(&world.brokers.properties("a"));
            assert_eq!(tool.members(), Some(0), "the group stays empty");
        }),
        trial(
            "kafka_consumer_groups_shows_the_offsets_and_the_lag",
            || {
                described(&world());
            },
        ),
        trial("what_is_not_bound_is_not_committed", || {
            held(&world(), Backend::Threads(2));
        }),
        trial("a_cluster_that_takes_no_commits_stops_nothing", || {
            // Each in a process of its own, so that one can be killed.
            let world = World::new(Real(RealKafka::start(&["a", "b"])));
            let kafka = &world.brokers.0;
            down(&world, || kafka.kill("a"), || kafka.start_again("a"));
        }),
        trial("a_group_that_somebody_else_has_joined_is_said", taken),
    ]
}

/// What `kafka-consumer-groups --describe` prints of the group on cluster `a`, for each partition.
fn table(kafka: &RealKafka) -> Vec<[String; 5]> {
    let arguments = ["groups", "a", "--describe", "--group", GROUP];
    let printed = kafka.script_reading("", &arguments);
    let printed = printed.unwrap_or_else(|message| panic!("{message}"));
    let mut lines = printed.lines().map(|line| line.split_whitespace());
    let names = lines.find_map(|mut line| {
        let names: Vec<_> = line.by_ref().collect();
        names.contains(&"CURRENT-OFFSET").then_some(names)
    });
    let names = names.unwrap_or_else(|| panic!("no table in: {printed}"));
    let wanted = [
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
    ];
    let places = wanted.map(|name| names.iter().position(|found| *found == name));
    let mut rows: Vec<_> = lines
        .map(Iterator::collect::<Vec<_>>)
        .filter(|cells| !cells.is_empty())
        .map(|cells| {
            places.map(|place| {
                let cell = place.and_then(|place| cells.get(place));
                cell.unwrap_or_else(|| panic!("a column is missing: {printed}"))
                    .to_string()
            })
        })
        .collect();
    rows.sort();
    rows
}

/// What the manual promises of Kafka's own tool, by that tool: while the source runs, and when it has
/// ended and more was written.
fn described(world: &World<Real>) {
    world.brokers.create_topic("a", "orders", 3);
    world.publish(&Described::orders(&["a"]));
    world.write("a", "orders", 3, 0..15);
    let run = world.run(&committing(world), Backend::Threads(2));
    run.settle(15);
    Tool::new(&world.brokers.properties("a")).await_told(&[(5, 0); 3]);
    let row = |partition: &str, offset: &str, end: &str, lag: &str| {
        ["orders", partition, offset, end, lag].map(str::to_owned)
    };

    let running = table(&world.brokers.0);

    let caught_up = ["0", "1", "2"].map(|partition| row(partition, "5", "5", "0"));
    assert_eq!(running, caught_up);
    run.end().with(|state| assert_exact(state, 0..15));
    world.write("a", "orders", 3, 15..21);
    let ended = table(&world.brokers.0);
    let behind = ["0", "1", "2"].map(|partition| row(partition, "5", "7", "2"));
    assert_eq!(ended, behind);
}

/// Kafka refuses offsets from outside for a group with members: they would move under their feet.
fn taken() {
    let world = world();
    world.brokers.create_topic("a", "orders", 3);
    world.publish(&Described::orders(&["a"]));
    let member: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", world.brokers.0.bootstrap("a"))
        .set("group.id", GROUP)
        .create()
        .unwrap();
    member.subscribe(&["orders"]).unwrap();
    let deadline = Instant::now() + std::time::Duration::from_secs(60);
    while member.assignment().unwrap().count() == 0 {
        assert!(Instant::now() < deadline, "the group has a member in time");
        member.poll(std::time::Duration::from_millis(100));
    }

    world.write("a", "orders", 3, 0..15);
    let run = world.run(&committing(&world), Backend::Threads(2));
    run.settle(15);
    run.wait("it is said", |state| {
        member.poll(std::time::Duration::ZERO);
        state.said("committed offsets of cluster a", &[GROUP, "failed"])
    });

    run.end().with(|state| assert_exact(state, 0..15));
}
