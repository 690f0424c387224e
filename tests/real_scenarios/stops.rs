//! Where reading stops, for what embedded clusters do not know: transactions, times and committed offsets.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::util::Timeout;
use serde_json::json;

use super::Real;
use super::starts::{commit, millis_before_now, write_at};
use crate::scenario::{
    Backend, Brokers, Described, World, assert_exact, assert_exact_but_for_holes,
};

/// How long a transaction may take.
const SOON: Duration = Duration::from_secs(30);

/// How a transaction ends.
#[derive(Clone, Copy)]
enum End {
    Committed,
    Aborted,
}

/// Writes `numbers` to partition 0 of a topic of `a` in a transaction that has not ended.
fn begin(
    world: &World<Real>,
    id: &str,
    topic: &str,
    numbers: std::ops::Range<u64>,
) -> BaseProducer {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", world.brokers.0.bootstrap("a"))
        .set("transactional.id", id)
        .create()
        .unwrap();
    producer.init_transactions(SOON).unwrap();
    producer.begin_transaction().unwrap();
    for number in numbers {
        let value = number.to_string();
        let record = BaseRecord::<(), str>::to(topic)
            .partition(0)
            .payload(&value);
        producer.send(record).unwrap();
    }
    producer.flush(Timeout::After(SOON)).unwrap();
    producer
}

fn transact(world: &World<Real>, topic: &str, numbers: std::ops::Range<u64>, end: End) {
    let producer = begin(world, topic, topic, numbers);
    match end {
        End::Committed => producer.commit_transaction(SOON).unwrap(),
        End::Aborted => producer.abort_transaction(SOON).unwrap(),
    }
}

/// S28: the end is behind a marker, behind records of a transaction that was aborted, and before those of
/// one that is open. A topic that does not exist is waited for by nobody. To see it fail, do not move the
/// position by ends of partitions, or ask for the end without the isolation.
pub(crate) fn transactions(world: &World<Real>, backend: Backend) {
    for topic in ["marker", "aborted", "all-aborted", "open", "empty"] {
        world.brokers.create_topic("a", topic, 1);
    }
    transact(world, "marker", 0..5, End::Committed);
    world.brokers.write("a", "aborted", 0, &[5, 6, 7]);
    transact(world, "aborted", 8..12, End::Aborted);
    transact(world, "all-aborted", 12..15, End::Aborted);
    world.brokers.write("a", "open", 0, &[15, 16]);
    let open = begin(world, "open", "open", 17..20);
    world.brokers.write("a", "open", 0, &[20, 21]);
    let topics = [
        "marker",
        "aborted",
        "all-aborted",
        "open",
        "empty",
        "missing",
    ];
    world.publish(&Described::new().stream("orders", "a", &topics));
    let mut plan = world.plan();
    plan.bounded = true;
    plan.log = Some(world.folder().join("log"));

    let ended = world.run(&plan, backend).await_end();

    let expected = || (0..8).chain(15..17);
    ended.with(|state| {
        assert_exact_but_for_holes(state, expected());
        assert_eq!(state.starts.len(), 5);
    });
    // What is committed afterwards was not there, and what was read is not read again.
    open.commit_transaction(SOON).unwrap();
    let again = world.run(&plan, backend).await_end();
    again.with(|state| {
        assert_exact(state, 0..0);
        assert_eq!(state.starts.len(), 0, "no stop is asked for again");
    });
}

/// S28: a topic that is deleted before it was read to its stop. To see it fail, do not take what an earlier
/// run knew and this one does not find for gone.
pub(crate) fn removed(world: &World<Real>, backend: Backend) {
    for topic in ["kept", "removed"] {
        world.brokers.create_topic("a", topic, 1);
    }
    world.brokers.write("a", "kept", 0, &[0, 1, 2]);
    world.brokers.write("a", "removed", 0, &[10, 11, 12]);
    world.publish(&Described::new().stream("orders", "a", &["removed"]));
    let mut plan = world.plan();
    plan.bounded = true;
    plan.log = Some(world.folder().join("log"));
    // It is killed when the start is in the log, before anything is read.
    plan.starts_held = true;
    let run = world.run(&plan, Backend::TwoProcesses(1));
    run.wait("the start is recorded", |state| state.starts.len() == 1);
    run.abandon();

    world.brokers.0.delete_topic("a", "removed");
    world.publish(&Described::new().stream("orders", "a", &["kept", "removed"]));
    plan.starts_held = false;
    let ended = world.run(&plan, backend).await_end();

    ended.with(|state| assert_exact(state, 0..3));
}

/// Every rule is a number, once, and a bounded source ends at none that is behind the end.
pub(crate) fn rules(world: &World<Real>, backend: Backend) {
    let (hour_ago, now) = (
        millis_before_now(Duration::from_secs(3_600)),
        millis_before_now(Duration::ZERO),
    );
    for topic in ["timed", "late", "given", "beyond"] {
        world.brokers.create_topic("a", topic, 1);
    }
    world.brokers.create_topic("b", "orders", 2);
    write_at(world, "timed", 0..10, hour_ago);
    write_at(world, "late", 10..20, hour_ago);
    write_at(world, "given", 20..30, now);
    write_at(world, "beyond", 30..40, now);
    world.brokers.write("b", "orders", 0, &[40, 41, 42, 43]);
    world.brokers.write("b", "orders", 1, &[50, 51, 52]);
    commit(world, 3);
    let topic = |name: &str, stop: serde_json::Value| json!({ "name": name, "stop": stop });
    let given = |offset: u64| json!({ "positions": { "0": offset }, "otherwise": "never" });
    let described = Described::new()
        .reading(
            "orders",
            "a",
            json!({ "topics": [
                topic("timed", json!({ "time_ms": hour_ago + 4 })),
                topic("late", json!({ "time_ms": now + 3_600_000 })),
                topic("given", given(8)),
                topic("beyond", given(800)),
            ] }),
        )
        .reading(
            "orders",
            "b",
            json!({ "topics": ["orders"], "stop": { "group": "billing", "otherwise": "end" } }),
        );
    world.publish(&described);
    let mut plan = world.plan();
    plan.bounded = true;
    plan.log = Some(world.folder().join("log"));

    let ended = world.run(&plan, backend).await_end();

    let expected = || {
        [0..4, 10..20, 20..28, 30..40, 40..43, 50..53]
            .into_iter()
            .flatten()
    };
    ended.with(|state| assert_exact(state, expected()));
    write_at(world, "late", 60..65, now);
    commit(world, 4);
    let again = world.run(&plan, backend).await_end();
    again.with(|state| {
        assert_exact(state, 0..0);
        assert_eq!(state.starts.len(), 0, "no stop is asked for again");
    });
}
