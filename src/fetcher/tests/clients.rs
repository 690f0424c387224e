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

/// Each epoch went through all clusters, in the pool and in the fetcher of each worker.
#[test]
fn an_epoch_is_about_the_clusters_that_it_changes() {
    let pool = pool();
    let mut workers = [0, 1].map(|index| Worker::new(&pool, index));
    let nowhere = ClientProperties::new().with("bootstrap.servers", "127.0.0.1:1");
    let names: Vec<String> = (0..21).map(|number| format!("c{number}")).collect();
    let of = |count: usize| {
        let named = names[..count].iter().map(|name| (&**name, nowhere.clone()));
        metadata("t", &named.collect::<Vec<_>>())
    };
    let few = SharedMetadata::from(of(20));
    let more = few.followed_by(of(21));
    let answers = [few.clone(), more.clone(), more.followed_by(of(20))];

    let mut all = Vec::new();
    for (answer, epoch) in answers.iter().zip(1..) {
        let before = WALKS.get();
        let epoch = MetadataEpoch(epoch);
        let changes = workers.each_mut().map(|worker| {
            let changes = worker.fetcher.changes;
            worker.fetcher.adopt(epoch, answer);
            worker.fetcher.changes - changes
        });
        let clusters = workers.each_ref().map(|one| one.fetcher.clusters.len());
        all.push((changes, clusters, WALKS.get() - before));
    }

    assert_eq!(all[0].0, [20, 20]);
    assert_eq!(all[1..], [([1, 1], [21, 21], 0), ([1, 1], [20, 20], 0)]);
}

/// A worker that is late is told of clients of metadata that another one has adopted already.
#[test]
fn a_worker_that_skips_epochs_has_the_clients_of_the_last() {
    let pool = pool();
    let mut workers = [0, 1].map(|index| Worker::new(&pool, index));
    let at_port = |port: &str| ClientProperties::new().with("bootstrap.servers", port);
    let listings: [&[(&str, &str)]; 4] = [
        &[("a", "127.0.0.1:1"), ("b", "127.0.0.1:1")],
        &[("b", "127.0.0.1:1"), ("c", "127.0.0.1:1")],
        &[("a", "127.0.0.1:1"), ("c", "127.0.0.1:2")],
        &[("a", "127.0.0.1:1")],
    ];
    let answers = listings.map(|clusters| {
        let named = clusters.iter().map(|(name, port)| (*name, at_port(port)));
        metadata("t", &named.collect::<Vec<_>>())
    });
    let numbers = |of: &Worker| {
        let clusters = of.fetcher.clusters.iter();
        let named = clusters.map(|(cluster, one)| (cluster.to_string(), one.client.number));
        named.collect::<Vec<_>>()
    };

    workers[0].adopt(1, &answers[0]);
    workers[1].adopt(1, &answers[0]);
    workers[0].adopt(2, &answers[1]);
    workers[0].adopt(3, &answers[2]);
    // What the pool has by now, although it hears of an older epoch.
    workers[1].adopt(2, &answers[1]);
    let third = [numbers(&workers[0]), numbers(&workers[1])];
    workers[0].adopt(4, &answers[3]);
    workers[1].adopt(3, &answers[2]);

    // Those of a and b, of the first c, and then of a that came back and of the c that is elsewhere.
    let named = [("a".to_owned(), 4), ("c".to_owned(), 5)];
    assert_eq!(third, [&named[..], &named]);
    assert_eq!(numbers(&workers[1]), named[..1]);
    assert_eq!(numbers(&workers[0]), named[..1]);
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
