//! What an answer of the metadata service says of where reading starts, and which answers are believed.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::json;
use timely_kafka::{Health, OriginKind, SplitLife};

use crate::scenario::{Backend, Brokers, Described, State, Streams, assert_exact};
use crate::{each, once, world};

pub(crate) fn trials() -> Vec<Trial> {
    [
        each("clusters_of_one_stream_start_each_by_its_rule", start_apart),
        each(
            "a_start_that_is_not_there_is_no_other_start",
            start_not_there,
        ),
        each("a_topic_that_comes_back_goes_on", comes_back),
        each("a_stream_that_comes_back_goes_on", stream_comes_back),
        each(
            "a_topic_that_comes_back_is_read_again_if_its_stream_says_so",
            read_again,
        ),
        each(
            "streams_that_contradict_each_other_are_refused",
            contradiction,
        ),
    ]
    .into_iter()
    .flatten()
    .chain([
        once(
            "an_empty_answer_removes_nothing_until_it_is_confirmed",
            held_back,
        ),
        once("what_appears_later_starts_by_its_own_rule_once", new_ones),
        once("a_source_explains_what_it_reads", explains),
    ])
    .collect()
}

/// S3.
fn start_apart(backend: Backend) {
    let world = world();
    for cluster in ["a", "b"] {
        world.brokers.create_topic(cluster, "orders", 3);
    }
    world.write("a", "orders", 3, 0..15);
    world.write("b", "orders", 3, 100..115);
    let described = Described::new()
        .stream_from("orders", "a", &["orders"], "earliest")
        .stream_from("orders", "b", &["orders"], "latest");
    world.publish(&described);
    let run = world.run(&world.plan(), backend);
    run.wait("all starts are recorded", |state| state.starts.len() == 6);

    world.write("a", "orders", 3, 15..30);
    world.write("b", "orders", 3, 115..130);

    run.settle(45);
    run.end()
        .with(|state| assert_exact(state, (0..30).chain(115..130)));
}

/// Readers of Kafka go on at the end where the offset that they start at is not there.
///
/// To see it fail, let the client reset offsets to `latest`: then what is written last is read.
fn start_not_there(backend: Backend) {
    let world = world();
    world.brokers.create_topic("a", "orders", 1);
    world.brokers.create_topic("b", "orders", 1);
    world.write("a", "orders", 1, 0..10);
    world.write("b", "orders", 1, 100..110);
    let given = json!({ "positions": { "0": 40 }, "otherwise": "latest" });
    let described = Described::orders(&["b"]);
    world.publish(&described.reading(
        "orders",
        "a",
        json!({ "topics": ["orders"], "start": given }),
    ));
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));

    for first in [10, 30] {
        let run = world.run(&plan, backend);
        run.wait("the split is stopped there", |state| {
            let behind = "its position 40 is behind its end 10";
            first > 10
                || state
                    .errors
                    .iter()
                    .any(|(_, one)| one.message.contains(behind))
        });
        // More than it takes for the offset to be there, in the end: it was not there when it was to be.
        world.write("a", "orders", 1, first..first + 20);
        world.write("b", "orders", 1, 100 + first..120 + first);
        run.wait("the other is read", |state| {
            state.rows_of("b", "orders") as u64 >= if first > 10 { 20 } else { 30 }
        });
        run.let_ticks_pass(200);
        run.end().with(|state| {
            assert_eq!(state.rows_of("a", "orders"), 0);
            assert_eq!(state.errors.len(), usize::from(first == 10));
        });
    }
}

/// A stream is what its topics are, and goes and comes like them.
fn stream_comes_back(backend: Backend) {
    let world = world();
    for (topic, first) in [("orders-1", 0), ("orders-2", 100)] {
        world.brokers.create_topic("a", topic, 3);
        world.write("a", topic, 3, first..first + 15);
    }
    let described = |streams: &[&str]| {
        let streams = streams.iter();
        streams.fold(Described::new(), |all, name| all.stream(name, "a", &[name]))
    };
    world.publish(&described(&["orders-1", "orders-2"]));
    let mut plan = world.plan();
    plan.streams = Streams::Matching("orders-.+".to_owned());
    let run = world.run(&plan, backend);
    run.settle(30);

    world.publish(&described(&["orders-2"]));
    run.await_epoch(2);
    world.write("a", "orders-1", 3, 15..30);
    world.write("a", "orders-2", 3, 115..130);
    run.settle(45);
    run.let_ticks_pass(200);
    run.observed.expect("it is not read", |state| {
        state.rows_of("a", "orders-1") == 15
    });
    world.publish(&described(&["orders-1", "orders-2"]));

    run.settle(60);
    run.end()
        .with(|state| assert_exact(state, (0..30).chain(100..130)));
}

/// Reads `t1`, then `t2`, then both, with `rule` for what comes back: so many records come, and `check`
/// is right about them.
fn there_and_back(backend: Backend, rule: Option<&str>, all: usize, check: fn(&State)) {
    let world = world();
    for (topic, first) in [("t1", 0), ("t2", 100)] {
        world.brokers.create_topic("a", topic, 3);
        world.write("a", topic, 3, first..first + 15);
    }
    let orders = |topics: &[&str]| {
        let described = Described::new().stream("orders", "a", topics);
        match rule {
            Some(rule) => described.rule("orders", "on_return", rule),
            None => described,
        }
    };
    world.publish(&orders(&["t1"]));
    let run = world.run(&world.plan(), backend);
    run.settle(15);
    world.publish(&orders(&["t2"]));
    run.settle(30);
    world.write("a", "t1", 3, 15..30);

    world.publish(&orders(&["t1", "t2"]));

    run.settle(all);
    run.let_ticks_pass(100);
    run.end().with(check);
}

/// S7, by default. To see it fail, start what comes back by its rule.
fn comes_back(backend: Backend) {
    there_and_back(backend, None, 45, |state| {
        assert_exact(state, (0..30).chain(100..115));
    });
}

/// S7: what was read before the topic was away comes a second time.
fn read_again(backend: Backend) {
    there_and_back(backend, Some("read_again"), 60, |state| {
        assert_eq!(state.rows.len(), 60);
        assert_eq!(state.rows_of("a", "t1"), 45);
    });
}

/// S23.
fn contradiction(backend: Backend) {
    let world = world();
    world.brokers.create_topic("a", "orders", 3);
    world.write("a", "orders", 3, 0..15);
    let with_audit = |start| {
        Described::new()
            .stream_from("orders", "a", &["orders"], "earliest")
            .stream_from("orders-audit", "a", &["orders"], start)
    };
    world.publish(&with_audit("latest"));
    let mut plan = world.plan();
    plan.streams = Streams::Matching("orders.*".to_owned());
    let both = ["'orders'", "'orders-audit'"];

    let run = world.run(&plan, backend);
    run.wait("both streams are named", |state| {
        state.said("metadata service", &both)
    });
    run.let_ticks_pass(100);
    run.observed
        .expect("nothing is read", |state| state.rows.is_empty());

    world.publish(&with_audit("earliest"));
    run.settle(15);
    world.publish(&with_audit("latest"));
    run.wait("they are named again", |state| {
        let named = |health: &&Health| health.message.contains(both[1]);
        state.health.iter().filter(named).count() == 2
    });
    world.write("a", "orders", 3, 15..30);
    run.settle(30);
    run.end().with(|state| assert_exact(state, 0..30));
}

/// S21. To see it fail, take the guard out of `Coordinator::consider`.
fn held_back() {
    let world = world();
    world.brokers.create_topic("a", "orders", 3);
    world.write("a", "orders", 3, 0..15);
    world.publish(&Described::orders(&["a"]));
    let mut plan = world.plan();
    plan.confirmed_after = Some(Duration::from_secs(3_600));
    let run = world.run(&plan, Backend::Threads(2));
    run.settle(15);

    world.publish(&Described::new());
    let lost = ["1 of 1 topics (a/orders)", "held back"];
    run.wait("it is held back", |state| state.said("metadata", &lost));
    world.write("a", "orders", 3, 15..30);
    run.settle(30);

    run.control().confirm_metadata();
    run.await_epoch(2);
    world.write("a", "orders", 3, 30..45);
    run.let_ticks_pass(500);
    run.end().with(|state| assert_exact(state, 0..30));
}

/// S24.
fn new_ones() {
    let world = world();
    for (cluster, topic, first) in [
        ("a", "orders", 0),
        ("a", "retry", 100),
        ("b", "orders", 200),
    ] {
        world.brokers.create_topic(cluster, topic, 3);
        world.write(cluster, topic, 3, first..first + 15);
    }
    let ruled = |described: Described| {
        let described = described.rule("orders", "new_topics", "latest");
        described.rule("orders", "new_clusters", "latest")
    };
    world.publish(&ruled(Described::orders(&["a"])));
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    let run = world.run(&plan, Backend::Threads(2));
    run.settle(15);

    let all = Described::orders(&["b"]).stream("orders", "a", &["orders", "retry"]);
    world.publish(&ruled(all));
    run.wait("all starts are recorded", |state| state.starts.len() == 9);
    run.end().with(|state| assert_exact(state, 0..15));

    world.write("a", "retry", 3, 115..130);
    world.write("b", "orders", 3, 215..230);
    let again = world.run(&plan, Backend::Threads(4));
    again.settle(30);
    again.end().with(|state| {
        assert_exact(state, (115..130).chain(215..230));
        assert_eq!(state.starts.len(), 0, "no start is asked for again");
    });
}

fn explains() {
    let world = world();
    world.brokers.create_topic("a", "orders", 3);
    world.write("a", "orders", 3, 0..15);
    world.publish(&Described::orders(&["a"]));
    let run = world.run(&world.plan(), Backend::Threads(2));
    run.settle(15);

    let answer = run.control().explain();

    let within = Duration::from_secs(30);
    let explanation = answer.recv_timeout(within).expect("it is answered");
    assert_eq!(explanation.splits.len(), 3);
    for split in &explanation.splits {
        assert_eq!(split.life, SplitLife::Reading, "{split}");
        let origin = split.origin.as_ref().expect("it has started");
        assert_eq!(origin.why, OriginKind::Rule("earliest".to_owned()));
        assert_eq!(split.position.map(|position| position.next.get()), Some(5));
    }
    assert_eq!(explanation.options["tick_interval"].to_string(), "20ms");
    run.end().with(|state| assert_exact(state, 0..15));
}
