//! Where reading starts, for what embedded clusters do not know: times, and partitions that are added.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::json;
use timely_kafka::StartAt;

use super::Real;
use crate::scenario::{Backend, Brokers, Described, World, assert_exact};

pub(crate) fn millis_before_now(time: Duration) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from((now - time).as_millis()).unwrap()
}

/// Writes `numbers` to partition 0 of a topic of `a`, a millisecond apart from `first` on.
pub(crate) fn write_at(
    world: &World<Real>,
    topic: &str,
    numbers: std::ops::Range<u64>,
    first: i64,
) {
    let records = (first..).zip(numbers);
    let records = records.map(|(time, number)| (Some(time), number.to_string()));
    world.brokers.0.produce_at("a", topic, 0, records);
}

/// Commits an offset of `b/orders/0` for the group `billing`.
pub(crate) fn commit(world: &World<Real>, offset: i64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", world.brokers.0.bootstrap("b"))
        .set("group.id", "billing")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("orders", 0, Offset::Offset(offset))
        .unwrap();
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

/// Every rule is a number, once: what it would say later is not asked for. S25 with any rule.
pub(crate) fn rules(world: &World<Real>, backend: Backend) {
    let (hour_ago, now) = (
        millis_before_now(Duration::from_secs(3_600)),
        millis_before_now(Duration::ZERO),
    );
    for topic in ["timed", "late", "recent", "ended", "given"] {
        world.brokers.create_topic("a", topic, 1);
    }
    world.brokers.create_topic("b", "orders", 2);
    write_at(world, "timed", 0..10, hour_ago);
    write_at(world, "recent", 10..15, hour_ago);
    write_at(world, "recent", 15..20, now);
    write_at(world, "ended", 20..30, now);
    write_at(world, "given", 30..40, now);
    write_at(world, "late", 60..70, hour_ago);
    world.brokers.write("b", "orders", 0, &[40, 41, 42, 43]);
    world.brokers.write("b", "orders", 1, &[50, 51, 52]);
    commit(world, 3);
    let topic = |name: &str, start: serde_json::Value| json!({ "name": name, "start": start });
    let described = Described::new()
        .reading(
            "orders",
            "a",
            json!({ "topics": [
                topic("timed", json!({ "time_ms": hour_ago + 4 })),
                topic("late", json!({ "time_ms": now + 3_600_000 })),
                topic("recent", json!({ "before_now": "30m" })),
                topic("ended", json!({ "before_end": 3 })),
                topic("given", json!({ "positions": { "0": 8 }, "otherwise": "latest" })),
            ] }),
        )
        .reading(
            "orders",
            "b",
            json!({
                "topics": ["orders"],
                "start": { "group": "billing", "otherwise": { "before_end": 1 } },
            }),
        );
    world.publish(&described);
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));

    let run = world.run(&plan, backend);
    run.wait("it is known where all splits start", |state| {
        state.starts.len() == 7
    });
    run.settle(18);
    let expected = [4..10, 15..20, 27..30, 38..40, 43..44, 52..53];
    run.end()
        .with(|state| assert_exact(state, expected.into_iter().flatten()));

    write_at(world, "late", 70..75, now);
    commit(world, 0);
    let again = world.run(&plan, backend);
    again.settle(5);
    again.end().with(|state| {
        assert_exact(state, 70..75);
        assert_eq!(state.starts.len(), 0, "no start is asked for again");
    });
}

/// S24: a partition that is added begins at its beginning, whatever the rule of the stream, and a topic
/// or cluster that is added begins by that. To see it fail, let the rule for partitions that are added
/// be that of the topic.
pub(crate) fn later(world: &World<Real>, backend: Backend) {
    world.brokers.create_topic("a", "orders", 1);
    world.brokers.write("a", "orders", 0, &[0, 1, 2, 3, 4]);
    world.publish(&Described::orders(&["a"]));
    let mut plan = world.plan();
    plan.start = StartAt::Latest;
    plan.log = Some(world.folder().join("log"));
    let run = world.run(&plan, backend);
    run.wait("the first start is known", |state| state.starts.len() == 1);

    world.brokers.0.grow("a", "orders", 2);
    world.brokers.write("a", "orders", 1, &[5, 6, 7, 8, 9]);
    run.settle(5);
    world.brokers.create_topic("a", "retry", 1);
    world.brokers.create_topic("b", "orders", 1);
    world.brokers.write("a", "retry", 0, &[10, 11, 12]);
    world.brokers.write("b", "orders", 0, &[13, 14, 15]);
    let more = Described::orders(&["b"]).stream("orders", "a", &["orders", "retry"]);
    world.publish(&more);
    run.wait("all starts are known", |state| state.starts.len() == 4);
    world.brokers.write("a", "retry", 0, &[20, 21]);
    world.brokers.write("b", "orders", 0, &[22, 23]);
    run.settle(9);
    run.end()
        .with(|state| assert_exact(state, (5..10).chain(20..24)));

    world.brokers.write("b", "orders", 0, &[24, 25]);
    let again = world.run(&plan, backend);
    again.settle(2);
    again.end().with(|state| {
        assert_exact(state, 24..26);
        assert_eq!(state.starts.len(), 0, "no start is asked for again");
    });
}
