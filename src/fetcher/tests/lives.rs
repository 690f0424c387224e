//! Clients that fail, panic, and live again.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use timely_splits::fetcher::DownCause;
use timely_splits::health::{FailureKind, HealthStatus};

use super::*;
use crate::fetcher::client::{Command, Life};

/// A file that a property can refer to.
struct Secret {
    path: PathBuf,
    _folder: TempDir,
}

impl Secret {
    fn of(content: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secret = Self {
            path: folder.path().join("secret"),
            _folder: folder,
        };
        secret.write(content);
        secret
    }

    fn write(&self, content: &str) {
        fs::write(&self.path, content).unwrap();
    }

    fn reference(&self) -> String {
        format!("${{file:{}}}", self.path.display())
    }
}

/// Like a reader, assigns what went down again, until `count` records were read.
fn read_on(worker: &mut Worker, read: &KafkaSplit, count: usize) {
    while worker.count(read) < count {
        worker.until("records or an end", |worker| {
            worker.count(read) == count || !worker.assigned.contains_key(read)
        });
        if !worker.assigned.contains_key(read) {
            let before = u64::try_from(worker.count(read)).unwrap();
            worker.assign(read, 2, at(before));
        }
    }
}

/// Nothing looked again at what a property refers to once a client was made, so that its splits
/// stayed silent for ever.
#[test]
fn a_client_that_fails_is_replaced_when_what_its_properties_refer_to_is_put_right() {
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 10);
    let secret = Secret::of("127.0.0.1:9");
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let properties = broker
        .properties()
        .with("bootstrap.servers", &secret.reference());
    let read = split("east", "t", 0);
    worker.adopt(1, &metadata("t", &[("east", properties)]));
    worker.assign(&read, 1, at(0));
    worker.until("a complaint", |worker| !worker.health.is_empty());

    secret.write(&broker.cluster.bootstrap_servers());
    read_on(&mut worker, &read, 10);

    assert_eq!(worker.records[&read], written(10));
    assert!(worker.downs.iter().all(|down| {
        down.cause == DownCause::Failed(FailureKind::Transient)
            && down
                .message
                .starts_with("it fails, and what its properties")
    }));
    let said = format!("{:?}", worker.health);
    assert!(!said.contains("127.0.0.1"), "{said}");
}

/// A refused value was taken for one that stays as it is.
#[test]
fn a_value_that_is_refused_and_came_by_reference_may_be_put_right() {
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 10);
    let secret = Secret::of("hunter2");
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let properties = broker
        .properties()
        .with("security.protocol", &secret.reference());
    let read = split("east", "t", 0);
    worker.adopt(1, &metadata("t", &[("east", properties)]));
    worker.assign(&read, 1, at(0));
    worker.until("a complaint", |worker| !worker.health.is_empty());

    secret.write("plaintext");
    worker.until("all records", |worker| worker.count(&read) == 10);

    assert_eq!(
        worker.health[0].status,
        HealthStatus::Failing(FailureKind::Transient)
    );
    assert_eq!(
        worker.health[0].message,
        "no client can be made: client property 'security.protocol' is refused: \
         Invalid value \"***\" for configuration property \"security.protocol\""
    );
    assert!(worker.downs.is_empty(), "{:?}", worker.downs);
}

/// A panic of a client's thread was silence for all splits of its cluster.
#[test]
fn a_panic_of_a_clients_thread_is_told_and_its_splits_are_read_by_the_next_life() {
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 10);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let read = split("east", "t", 0);
    worker.adopt(1, &metadata("t", &[("east", broker.properties())]));
    worker.assign(&read, 1, at(0));
    worker.until("the first records", |worker| worker.count(&read) == 10);

    pool.client("east").ask(Command::Panic);
    worker.until("the end", |worker| !worker.downs.is_empty());
    broker.write("t", 0, 5);
    read_on(&mut worker, &read, 15);

    let expected = "the thread of its client panicked: asked to; a client is made again in 1s";
    assert_eq!(worker.downs.len(), 1);
    assert_eq!(worker.downs[0].cause, DownCause::Crashed);
    assert_eq!(worker.downs[0].message, expected);
    assert_eq!(worker.health[0].subject, "cluster east");
    assert_eq!(worker.health[0].message, expected);
}

/// A hundred clusters that were dead took a quarter of a core, and the living ones were read at half their speed.
#[test]
fn a_client_that_was_never_answered_rests_until_it_is_needed() {
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 10);
    broker.cluster.broker_down(1).unwrap();
    let pool = pool();
    let [mut first, mut second] = [0, 1].map(|worker| Worker::new(&pool, worker));
    let read = split("east", "t", 0);
    let east = metadata("t", &[("east", broker.properties())]);
    first.adopt(1, &east);
    second.adopt(1, &east);

    first.until("the end of a client", |worker| worker.life() == Life(2));
    assert!(!first.has_queue());
    assert_eq!(first.fetcher.prepare(&read), Prepared::Later);
    first.until("another one", |worker| worker.prepared.contains(&read));
    first.until("the end of that", |worker| worker.life() == Life(4));
    assert!(!first.has_queue());
    broker.cluster.broker_up(1).unwrap();
    first.assign(&read, 1, at(0));
    first.until("the records", |worker| worker.count(&read) == 10);
    second.until("the client of both", Worker::has_queue);

    assert!(first.downs.is_empty(), "{:?}", first.downs);
    assert_eq!(first.records[&read], written(10));
}

/// While the user of a worker stood still, it heard nothing of what had failed since, behind what it had fetched.
#[test]
fn an_end_is_heard_without_room_and_that_of_a_split_with_records_is_told() {
    let (east, west) = (Broker::with_topic("t", 2), Broker::with_topic("t", 1));
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let clusters = [("east", east.properties()), ("west", west.properties())];
    worker.adopt(1, &metadata("t", &clusters));
    let (first, second) = (split("east", "t", 0), split("east", "t", 1));
    let other = split("west", "t", 0);
    for split in [&first, &second, &other] {
        worker.assign(split, 1, at(0));
    }
    // A poll moves one piece. What else was on the queue waits, until it is of one of both.
    let waiting = |of: &Worker| {
        let backlog = &of.fetcher.backlog;
        backlog.has_piece(&first) != backlog.has_piece(&second)
    };
    let deadline = Instant::now() + PATIENCE;
    while !waiting(&worker) {
        let came = [&first, &second].map(|split| worker.count(split));
        if came[0] == came[1] {
            east.write("t", 0, 10);
            east.write("t", 1, 10);
        }
        while worker.poll(1) == Polled::Drained && !waiting(&worker) {
            if [&first, &second].map(|split| worker.count(split)) != came {
                break;
            }
            worker.bell.recv_deadline(deadline).unwrap();
        }
    }

    for cluster in ["east", "west"] {
        pool.client(cluster).ask(Command::Panic);
    }
    let ends = |of: &Worker| of.downs.len();
    while ends(&worker) < 2 || worker.health.len() < 3 {
        worker.poll(0);
        let _woken = worker.bell.recv_timeout(Duration::from_millis(10));
        assert!(
            Instant::now() < deadline,
            "{:?} {:?}",
            worker.downs,
            worker.health
        );
    }

    assert!(worker.downs.iter().any(|down| down.split == other));
    let told: Vec<&str> = (worker.health.iter())
        .map(|health| &*health.subject)
        .filter(|subject| subject.starts_with("split"))
        .collect();
    assert_eq!(told.len(), 1);
    let came = |of: &Worker| of.count(&first) + of.count(&second);
    let before = came(&worker);
    worker.until("the end behind the records", |worker| ends(worker) == 3);
    assert!(came(&worker) > before);
}

/// A worker that comes while a client's thread panics would have waited for ever.
#[test]
fn a_worker_that_comes_behind_a_panic_is_served() {
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 10);
    let pool = pool();
    let described = metadata("t", &[("east", broker.properties())]);
    let (mut first, mut second) = (Worker::new(&pool, 0), Worker::new(&pool, 1));
    first.adopt(1, &described);
    let read = split("east", "t", 0);

    pool.client("east").ask(Command::Panic);
    second.adopt(1, &described);
    second.assign(&read, 1, at(0));
    read_on(&mut second, &read, 10);

    assert_eq!(second.records[&read], written(10));
}

/// Every client was allowed what was meant for all of them.
#[test]
fn clients_share_what_they_may_fetch_by_the_clusters_there_are() {
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let nowhere = |_| ClientProperties::new().with("bootstrap.servers", "127.0.0.1:9");
    let clusters = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, nowhere(name)));

    worker.adopt(1, &metadata("t", &clusters[..1]));
    worker.adopt(2, &metadata("t", &clusters));

    let share = |cluster| {
        let client = pool.client(cluster);
        let share = client.made_with.value("queued.max.messages.kbytes");
        share.map(str::to_owned)
    };
    assert_eq!(share("a").as_deref(), Some("4096"));
    assert_eq!(share("h").as_deref(), Some("512"));
}
