//! Offsets that show no record: markers of transactions, what was aborted, and what compaction took.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use timely_kafka::HealthStatus;

use super::Real;
use crate::scenario::{Backend, Brokers, Described, Run, World, assert_exact_but_for_holes};

/// Guards against hangs only.
const PATIENCE: Duration = Duration::from_secs(60);

/// A producer whose records belong to transactions, the first of which has begun.
fn transactional(world: &World<Real>, id: &str) -> BaseProducer {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", world.brokers.0.bootstrap("a"))
        .set("transactional.id", id)
        .create()
        .unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer.begin_transaction().unwrap();
    producer
}

/// Writes `numbers` to partition 0 of `orders` of `a` in the transaction that `producer` has begun.
fn write(producer: &BaseProducer, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let value = number.to_string();
        let record = BaseRecord::<(), _>::to("orders")
            .partition(0)
            .payload(&value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
}

/// Waits until nothing is behind the position of `a/orders/0`, as the source explains it. It says so in
/// the process that asks, so of several nothing is asked.
fn await_no_lag(run: &Run, backend: Backend) {
    if !matches!(backend, Backend::Threads(_)) {
        return;
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = run.control().explain().recv_timeout(PATIENCE);
        let explained = answer.expect("it is answered in time");
        let [split] = &explained.splits[..] else {
            panic!("one split: {explained}");
        };
        if split.lag == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{split}");
        // How far splits are behind is said once a second.
        run.let_ticks_pass(200);
    }
}

/// K1 with `read_committed`, which is the default, across a restart.
pub(crate) fn committed(world: &World<Real>, backend: Backend) {
    world.brokers.create_topic("a", "orders", 1);
    world.publish(&Described::orders(&["a"]));
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    let run = world.run(&plan, backend);
    let bound_to = |offset| {
        move |state: &crate::scenario::State| state.bound_to("a", "orders", 0) == Some(offset)
    };

    let finished = transactional(world, "finished");
    write(&finished, 0..5);
    finished.commit_transaction(PATIENCE).unwrap();
    run.wait("the position is behind the marker", bound_to(6));
    finished.begin_transaction().unwrap();
    write(&finished, 100..105);
    finished.abort_transaction(PATIENCE).unwrap();
    run.wait("the position is behind what was aborted", bound_to(12));

    let open = transactional(world, "open");
    write(&open, 5..10);
    world.brokers.write("a", "orders", 0, &[10, 11, 12]);
    run.wait("the age of the transaction is told", |state| {
        state.health.iter().any(|health| {
            let about = health
                .subject
                .starts_with("open transactions of cluster a, worker");
            let words = ["a/orders/0", "at offset 12", "8 offsets behind"];
            let says = words.iter().all(|words| health.message.contains(words));
            about && says && health.status == HealthStatus::Waiting
        })
    });
    run.observed
        .expect("nothing behind the transaction is read", |state| {
            state.rows.len() == 5 && bound_to(12)(state)
        });
    await_no_lag(&run, backend);
    run.end()
        .with(|state| assert_exact_but_for_holes(state, 0..5));

    let again = world.run(&plan, backend);
    open.commit_transaction(PATIENCE).unwrap();
    again.settle(8);
    again.wait("the position is behind its marker", bound_to(21));
    await_no_lag(&again, backend);
    again
        .end()
        .with(|state| assert_exact_but_for_holes(state, 5..13));
}

/// K1 with `read_uncommitted`: what is aborted or open is read, the markers are not.
pub(crate) fn uncommitted(world: &World<Real>, backend: Backend) {
    world.brokers.create_topic("a", "orders", 1);
    world.publish(&Described::orders(&["a"]));
    let mut plan = world.plan();
    plan.properties.set("isolation.level", "read_uncommitted");
    let aborted = transactional(world, "aborted");
    write(&aborted, 0..5);
    aborted.abort_transaction(PATIENCE).unwrap();
    let open = transactional(world, "open");
    write(&open, 5..10);
    world.brokers.write("a", "orders", 0, &[10, 11, 12]);

    let run = world.run(&plan, backend);
    run.settle(13);
    run.wait("all is bound", |state| {
        state.bound_to("a", "orders", 0) == Some(14)
    });
    open.abort_transaction(PATIENCE).unwrap();
    run.wait("the position is behind the last marker", |state| {
        state.bound_to("a", "orders", 0) == Some(15)
    });
    await_no_lag(&run, backend);

    run.end()
        .with(|state| assert_exact_but_for_holes(state, 0..13));
}

/// K2: holes at the beginning, in the middle and, as far as Kafka makes one, before the end.
pub(crate) fn compacted(world: &World<Real>, backend: Backend) {
    let settings = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("segment.ms", "100"),
        ("segment.bytes", "1048576"),
    ];
    world
        .brokers
        .0
        .create_topic_with("a", "orders", 1, &settings);
    let finished = transactional(world, "finished");
    // Two keys in turn: all but the last of each may go once its segment is closed.
    for number in 0..20 {
        write_keyed(&finished, &format!("key {}", number % 2), number);
    }
    finished.commit_transaction(PATIENCE).unwrap();
    let left = await_cleaned(world);
    // What was aborted last is a hole at the end.
    finished.begin_transaction().unwrap();
    write(&finished, 100..105);
    finished.abort_transaction(PATIENCE).unwrap();
    world.publish(&Described::orders(&["a"]));

    let run = world.run(&world.plan(), backend);
    run.settle(left.len());
    let end = end_of(world);
    run.wait("the position is at the end", |state| {
        state.bound_to("a", "orders", 0) == Some(end)
    });
    await_no_lag(&run, backend);

    run.end()
        .with(|state| assert_exact_but_for_holes(state, left));
}

fn write_keyed(producer: &BaseProducer, key: &str, number: u64) {
    let value = number.to_string();
    let record = BaseRecord::to("orders").partition(0);
    let sent = producer.send(record.key(key).payload(&value));
    sent.map_err(|(error, _)| error).unwrap();
    producer.flush(PATIENCE).unwrap();
}

/// Writes until the cleaner has taken all records of the two keys but the last; returns all numbers
/// that are left.
fn await_cleaned(world: &World<Real>) -> Vec<u64> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", world.brokers.0.bootstrap("a"))
        .create()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    for number in 20.. {
        assert!(Instant::now() < deadline, "the cleaner comes in time");
        // Segments are closed when somebody writes after their time. These keys are never superseded.
        write_keyed(&producer, &number.to_string(), number);
        let left = read_all(world);
        if left.iter().filter(|left| **left < 20).count() == 2 {
            return left;
        }
    }
    unreachable!("numbers do not end");
}

/// The numbers that a consumer finds from the beginning to the end.
fn read_all(world: &World<Real>) -> Vec<u64> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", world.brokers.0.bootstrap("a"))
        .set("group.id", "reader")
        .set("enable.partition.eof", "true")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("orders", 0, Offset::Beginning)
        .unwrap();
    consumer.assign(&list).unwrap();
    let mut numbers = Vec::new();
    loop {
        match consumer.poll(PATIENCE).expect("Kafka answers in time") {
            Ok(record) => {
                let text = std::str::from_utf8(record.payload().unwrap()).unwrap();
                numbers.push(text.parse().unwrap());
            }
            Err(rdkafka::error::KafkaError::PartitionEOF(_)) => return numbers,
            Err(error) => panic!("reading what is left: {error}"),
        }
    }
}

fn end_of(world: &World<Real>) -> u64 {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", world.brokers.0.bootstrap("a"))
        .create()
        .unwrap();
    let (_, end) = consumer.fetch_watermarks("orders", 0, PATIENCE).unwrap();
    u64::try_from(end).unwrap()
}
