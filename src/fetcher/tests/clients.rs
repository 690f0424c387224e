//! Clients come, are swapped, and go.

use std::process;

use timely_splits::fetcher::DownCause;
use timely_splits::health::{FailureKind, HealthStatus};

use super::*;
use crate::fetcher::ffi::{CLOSE_WAIT_MAX, NativeClient};

#[test]
fn a_cluster_whose_client_cannot_be_made_says_why_and_the_others_are_read() {
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 10);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let wrong = ClientProperties::new().with("bootstrap.server", "127.0.0.1:9");
    let clusters = [("east", broker.properties()), ("west", wrong)];
    worker.adopt(1, &metadata("t", &clusters));
    let (read, unread) = (split("east", "t", 0), split("west", "t", 0));
    worker.assign(&unread, 1, at(0));
    worker.assign(&read, 1, at(0));

    worker.until("records and a complaint", |worker| {
        worker.count(&read) == 10 && !worker.health.is_empty()
    });

    assert_eq!(worker.health.len(), 1, "{:?}", worker.health);
    assert_eq!(worker.health[0].subject, "cluster west");
    assert_eq!(
        worker.health[0].status,
        HealthStatus::Failing(FailureKind::Definite)
    );
    assert_eq!(
        worker.health[0].message,
        "no client can be made: client property 'bootstrap.server' is refused: \
         No such configuration property: \"bootstrap.server\""
    );
}

/// What was told of one went with the client, so that it was never told that it is over.
#[test]
fn a_transaction_that_was_told_is_told_to_be_over_when_its_client_is_swapped() {
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let at_port = |port: &str| ClientProperties::new().with("bootstrap.servers", port);
    worker.adopt(1, &metadata("t", &[("east", at_port("127.0.0.1:1"))]));
    let split = split("east", "t", 0);
    let (now, later) = (Instant::now(), Instant::now() + PATIENCE);
    let open = |of: &mut Worker, when| {
        let connection = of.fetcher.clusters.get_mut(&split.cluster).unwrap();
        let transactions = &mut connection.transactions;
        transactions
            .tell(&split.cluster, 0, when)
            .map(|told| told.status)
    };
    let connection = worker.fetcher.clusters.get_mut(&split.cluster).unwrap();
    connection.transactions.note(&split, Offset::new(1), 1, now);
    assert_eq!(open(&mut worker, later), Some(HealthStatus::Waiting));

    worker.adopt(2, &metadata("t", &[("east", at_port("127.0.0.1:2"))]));

    let told = open(&mut worker, later + PATIENCE);
    assert_eq!(told, Some(HealthStatus::Well));
}

#[test]
fn a_secret_that_is_not_there_is_named_with_its_property() {
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let properties = ClientProperties::new()
        .with("bootstrap.servers", "127.0.0.1:9")
        .with("sasl.password", "${file:/nonexistent/password}");
    worker.adopt(1, &metadata("t", &[("east", properties)]));

    worker.until("a complaint", |worker| !worker.health.is_empty());

    assert_eq!(
        worker.health[0].message,
        "no client can be made: property sasl.password: \
         reading file /nonexistent/password failed: No such file or directory (os error 2)"
    );
}

#[test]
fn brokers_that_do_not_answer_are_complained_of_once() {
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let nowhere = ClientProperties::new().with("bootstrap.servers", "127.0.0.1:9");
    worker.adopt(1, &metadata("t", &[("east", nowhere)]));
    worker.assign(&split("east", "t", 0), 1, at(0));

    worker.until("a complaint", |worker| !worker.health.is_empty());
    let mut polls = 0;
    while polls < 8 && worker.bell.recv_timeout(PATIENCE).is_ok() {
        worker.poll(1 << 20);
        polls += 1;
    }

    assert_eq!(
        worker.health[0].status,
        HealthStatus::Failing(FailureKind::Transient)
    );
    assert!(worker.health.len() <= 2, "{:?}", worker.health);
}

#[test]
fn a_cluster_whose_brokers_come_back_is_well_again_and_read_on() {
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 10);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let read = split("east", "t", 0);
    worker.adopt(1, &metadata("t", &[("east", broker.properties())]));
    worker.assign(&read, 1, at(0));
    worker.until("the first records", |worker| worker.count(&read) == 10);

    broker.cluster.broker_down(1).unwrap();
    worker.until("a complaint", |worker| !worker.health.is_empty());
    broker.cluster.broker_up(1).unwrap();
    broker.write("t", 0, 10);
    worker.until("the other records", |worker| worker.count(&read) == 20);
    while worker.health.last().unwrap().status != HealthStatus::Well {
        broker.write("t", 0, 1);
        let before = worker.count(&read);
        worker.until("one more", |worker| worker.count(&read) > before);
    }

    assert!(worker.downs.is_empty());
    assert_eq!(worker.health.last().unwrap().message, "records come again");
}

#[test]
fn a_change_of_properties_swaps_the_client_and_touches_no_other_cluster() {
    let (east, west) = (Broker::with_topic("t", 1), Broker::with_topic("t", 1));
    east.write("t", 0, 10);
    west.write("t", 0, 10);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let (changed, unchanged) = (split("east", "t", 0), split("west", "t", 0));
    let before = [("east", east.properties()), ("west", west.properties())];
    worker.adopt(1, &metadata("t", &before));
    worker.assign(&changed, 1, at(0));
    worker.assign(&unchanged, 1, at(0));
    worker.until("all records", |worker| {
        worker.count(&changed) == 10 && worker.count(&unchanged) == 10
    });
    let (epoch, next) = worker.assigned[&changed];

    let after = [
        ("east", east.properties().with("client.id", "other")),
        ("west", west.properties()),
    ];
    worker.adopt(2, &metadata("t", &after));
    worker.until("the end", |worker| !worker.downs.is_empty());
    worker.assign(&changed, epoch.0, next);
    east.write("t", 0, 5);
    west.write("t", 0, 5);
    worker.until("the new records", |worker| {
        worker.count(&changed) == 15 && worker.count(&unchanged) == 15
    });

    assert_eq!(worker.downs.len(), 1);
    assert_eq!(worker.downs[0].split, changed);
    assert_eq!(
        worker.downs[0].cause,
        DownCause::Failed(FailureKind::Transient)
    );
    assert_eq!(worker.records[&changed][9].0, 9);
    assert_eq!(worker.records[&changed][10].0, 10);
}

#[test]
fn a_cluster_that_is_not_listed_any_more_is_closed() {
    let (east, west) = (Broker::with_topic("t", 1), Broker::with_topic("t", 1));
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let both = [("east", east.properties()), ("west", west.properties())];
    worker.adopt(1, &metadata("t", &both));
    let ends = pool.ends();

    worker.adopt(2, &metadata("t", &both[..1]));

    assert_eq!(ends.len(), 2);
    assert_eq!(
        ends[1].recv_timeout(PATIENCE),
        Err(crossbeam_channel::RecvTimeoutError::Disconnected)
    );
    assert!(ends[0].try_recv().is_err_and(|error| error.is_empty()));
}

#[test]
fn closing_ends_within_its_bound_when_the_brokers_are_gone() {
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 10);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let read = split("east", "t", 0);
    worker.adopt(1, &metadata("t", &[("east", broker.properties())]));
    worker.assign(&read, 1, at(0));
    worker.until("a record", |worker| worker.count(&read) > 0);
    drop(broker);
    drop(worker);

    let began = Instant::now();
    let left_open = pool.close();

    assert!(began.elapsed() < CLOSE_WAIT_MAX + Duration::from_millis(500));
    assert_eq!(left_open, 0);
}

/// Threads and descriptors are counted, so nothing else may run in the process: the test starts
/// itself once more, alone.
#[test]
fn clients_that_were_closed_leave_neither_threads_nor_descriptors() {
    const ALONE: &str = "TIMELY_KAFKA_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "fetcher::tests::clients::clients_that_were_closed_leave_neither_threads_nor_descriptors";
        let status = process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(ALONE, "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 10);
    let count = |what: &str| {
        let entries = std::fs::read_dir(format!("/proc/self/{what}")).unwrap();
        entries.count()
    };
    let cycle = || {
        let pool = pool();
        let mut worker = Worker::new(&pool, 0);
        let read = split("east", "t", 0);
        worker.adopt(1, &metadata("t", &[("east", broker.properties())]));
        worker.assign(&read, 1, at(0));
        worker.until("all records", |worker| worker.count(&read) == 10);
        drop(worker);
        assert_eq!(pool.close(), 0);
    };
    cycle();
    let (threads, descriptors) = (count("task"), count("fd"));

    for _ in 0..50 {
        cycle();
    }

    assert_eq!(NativeClient::open_count(), 0);
    // The threads that wake workers end by themselves, a moment after their pool.
    let deadline = Instant::now() + PATIENCE;
    while (count("task") > threads || count("fd") > descriptors + 2) && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(count("task") <= threads, "{} > {threads}", count("task"));
    assert!(count("fd") <= descriptors + 2);
}
