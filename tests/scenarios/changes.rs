//! The metadata changes, or says the same in other words.

use std::collections::{BTreeMap, BTreeSet};

use libtest_mimic::Trial;

use crate::scenario::{Backend, Described, Embedded, Service, Streams, World, assert_exact};
use crate::{each, world};

pub(crate) fn trials() -> Vec<Trial> {
    [
        each("splits_are_spread_evenly_and_each_has_one_owner", balance),
        each("a_pattern_matches_whole_names_also_later", pattern),
        each("readers_may_start_before_the_first_answer", readers_first),
        each("readers_may_start_after_the_first_answer", answer_first),
        each(
            "names_that_join_to_the_same_text_are_told_apart",
            names_that_join,
        ),
        each(
            "the_same_answer_a_thousand_times_changes_nothing",
            same_answers,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn orders_on_both(world: &World<Embedded>) {
    for (cluster, first) in [("a", 0), ("b", 15)] {
        world
            .brokers
            .cluster(cluster)
            .create_topic("orders", 3)
            .unwrap();
        world.write(cluster, "orders", 3, first..first + 15);
    }
}

/// S2, here with any number of workers.
fn balance(backend: Backend) {
    let world = world();
    orders_on_both(&world);
    world.publish(&Described::orders(&["a", "b"]));

    let run = world.run(&world.plan(), backend);

    run.settle(30);
    run.end().with(|state| {
        let mut owners: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for row in &state.rows {
            owners
                .entry(row.split.to_string())
                .or_default()
                .insert(row.worker);
        }
        assert!(
            owners.values().all(|workers| workers.len() == 1),
            "{owners:?}"
        );
        let mut counts = vec![0; backend.workers()];
        for workers in owners.values() {
            counts[*workers.first().expect("each has one")] += 1;
        }
        let (least, most) = (counts.iter().min(), counts.iter().max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{counts:?}");
        assert_exact(state, 0..30);
    });
}

/// S8.
fn pattern(backend: Backend) {
    let world = world();
    let topics = ["orders-1", "orders-2", "orders-3", "reorders-1"];
    for (topic, first) in topics.iter().zip([0, 10, 20, 100]) {
        world.brokers.cluster("a").create_topic(topic, 3).unwrap();
        world.write("a", topic, 3, first..first + 10);
    }
    let describe = |streams: &[&str]| {
        streams.iter().fold(Described::new(), |described, name| {
            described.stream(name, "a", &[name])
        })
    };
    world.publish(&describe(&["orders-1", "orders-2"]));
    let mut plan = world.plan();
    plan.streams = Streams::Matching("orders-.+".to_owned());
    let run = world.run(&plan, backend);
    run.settle(20);

    world.publish(&describe(&topics));

    run.settle(30);
    // What is wrongly read would come with the next round at the latest.
    run.let_ticks_pass(1_000);
    run.end().with(|state| assert_exact(state, 0..30));
}

/// S10.
fn readers_first(backend: Backend) {
    let world = world();
    orders_on_both(&world);
    let run = world.run(&world.plan(), backend);
    run.let_ticks_pass(100);

    world.publish(&Described::orders(&["a", "b"]));

    run.settle(30);
    run.end().with(|state| assert_exact(state, 0..30));
}

/// S10.
fn answer_first(backend: Backend) {
    let world = world();
    orders_on_both(&world);
    world.publish(&Described::orders(&["a", "b"]));
    let mut plan = world.plan();
    plan.late_readers = true;

    let run = world.run(&plan, backend);

    run.settle(30);
    run.end().with(|state| assert_exact(state, 0..30));
}

/// S17.
fn names_that_join(backend: Backend) {
    let world = World::new(Embedded::start(&["a", "a-t"]));
    world.brokers.cluster("a").create_topic("t-b", 3).unwrap();
    world.brokers.cluster("a-t").create_topic("b", 3).unwrap();
    world.write("a", "t-b", 3, 0..15);
    world.write("a-t", "b", 3, 15..30);
    let described = Described::new().stream("orders", "a", &["t-b"]);
    world.publish(&described.stream("orders", "a-t", &["b"]));

    let run = world.run(&world.plan(), backend);

    run.settle(30);
    run.end().with(|state| {
        assert_eq!(
            (state.rows_of("a", "t-b"), state.rows_of("a-t", "b")),
            (15, 15)
        );
        assert_exact(state, 0..30);
    });
}

/// S18.
fn same_answers(backend: Backend) {
    let world = world();
    orders_on_both(&world);
    let described = Described::orders(&["a", "b"]);
    // Keys in the other order, and a topic twice as it were: by another notation.
    let properties = |cluster| {
        use crate::scenario::Brokers;
        let properties = world.brokers.properties(cluster);
        let line = |(name, value)| format!("      {name}: \"{value}\"\n");
        let mut lines: Vec<_> = properties.iter().map(line).collect();
        lines.reverse();
        format!("  {cluster}:\n    properties:\n{}", lines.concat())
    };
    let permuted = format!(
        "streams:\n  orders:\n    b: {{ topics: [orders] }}\n    a: {{ topics: [orders] }}\n\
         clusters:\n{}{}",
        properties("b"),
        properties("a")
    );
    let mut plan = world.plan();
    plan.service = Service::Alternating(vec![
        world.write_file("one.json", &world.describe(&described)),
        world.write_file("other.yaml", &permuted),
    ]);
    let run = world.run(&plan, backend);
    run.settle(30);

    run.wait("it was asked a thousand times", |state| {
        state.asked >= 1_000
    });
    world.write("a", "orders", 3, 30..45);

    run.settle(45);
    run.end().with(|state| {
        let told = |start: &str| {
            state
                .told
                .iter()
                .filter(|(_, line)| line.starts_with(start))
                .count()
        };
        assert_eq!(told("metadata epoch"), 1, "{:?}", state.told);
        let assigned = state
            .told
            .iter()
            .filter(|(_, line)| line.contains(": assigned to"));
        assert_eq!(assigned.count(), 6, "{:?}", state.told);
        assert_exact(state, 0..45);
    });
}
