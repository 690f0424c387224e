//! What is read is what was written.

use rdkafka::message::{Header, OwnedHeaders};
use timely_splits::fetcher::DownCause;
use timely_splits::health::FailureKind;
use timely_splits::loss::LossCause;
use timely_splits::wake::Waker;

use super::*;
use crate::model::LeaderEpoch;
use crate::records::RecordTimeType;

#[test]
fn every_record_is_read_once_and_in_order() {
    let broker = Broker::with_topic("t", 4);
    for partition in 0..4 {
        broker.write("t", partition, 500);
    }
    let pool = pool();
    let metadata = metadata("t", &[("east", broker.properties())]);
    let mut workers = [Worker::new(&pool, 0), Worker::new(&pool, 1)];
    for (index, worker) in workers.iter_mut().enumerate() {
        worker.adopt(1, &metadata);
        for partition in [index, index + 2] {
            let partition = i32::try_from(partition).unwrap();
            worker.assign(&split("east", "t", partition), 1, at(0));
        }
    }

    for worker in &mut workers {
        worker.until("all records", |worker| {
            worker.records.values().map(Vec::len).sum::<usize>() == 1_000
        });
    }

    for worker in &workers {
        assert_eq!(worker.records.len(), 2);
        for (_, position) in worker.assigned.values() {
            assert_eq!(
                *position,
                KafkaPosition::after(Offset::new(499), Some(LeaderEpoch(0)))
            );
        }
        for records in worker.records.values() {
            assert_eq!(*records, written(500));
        }
        assert!(worker.downs.is_empty());
    }
}

/// Each poll consumed the queues of all clusters, so that what a cluster cost that came grew with those that
/// there were.
#[test]
fn a_queue_is_consumed_only_if_something_is_on_it() {
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 1);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    worker.adopt(1, &metadata("t", &[("east", broker.properties())]));
    let split = split("east", "t", 0);
    worker.assign(&split, 1, at(0));
    worker.until("a record", |worker| worker.count(&split) == 1);

    let consumed = |of: &Worker| of.fetcher.clusters[&split.cluster].consumed;
    let before = consumed(&worker);
    for _ in 0..1_000 {
        worker.poll(1 << 20);
    }

    let more = consumed(&worker) - before;
    // For what says that nothing is after the record, if that comes so late.
    assert!(more <= 1, "{more} times");
    broker.write("t", 0, 1);
    worker.until("a wake", |worker| worker.count(&split) == 2);
}

/// Whatever woke the worker had it look at the queues of all clusters.
#[test]
fn a_cluster_is_looked_at_only_if_it_has_something() {
    let (busy, idle) = (Broker::with_topic("t", 1), Broker::with_topic("t", 1));
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let clusters = [
        ("busy", busy.properties()),
        ("idle", idle.properties()),
        ("other", idle.properties()),
    ];
    worker.adopt(1, &metadata("t", &clusters));
    idle.write("t", 0, 1);
    busy.write("t", 0, 1);
    let split_of = |cluster: &str| split(cluster, "t", 0);
    for (cluster, _) in &clusters {
        worker.assign(&split_of(cluster), 1, at(0));
    }
    let names = ["busy", "idle", "other"];
    worker.until("what there is", |worker| {
        let read = |name: &&str| worker.count(&split_of(name)) == 1;
        names.iter().all(read)
    });

    let turns = |of: &Worker, cluster: &str| of.fetcher.clusters[&split_of(cluster).cluster].turns;
    let before = names.map(|cluster| turns(&worker, cluster));
    busy.write("t", 0, 1);
    worker.until("a record", |worker| worker.count(&split_of("busy")) == 2);
    for _ in 0..1_000 {
        worker.poll(1 << 20);
    }

    let after = names.map(|cluster| turns(&worker, cluster));
    let [busy_turns, rest @ ..] = [0, 1, 2].map(|index| after[index] - before[index]);
    // And for what says that nothing is after a record, of both, if that comes so late.
    assert!((1..=3).contains(&busy_turns), "{busy_turns} turns");
    assert!(rest.iter().all(|more| *more <= 1), "{rest:?} turns");
}

#[test]
fn a_record_keeps_its_key_time_and_headers_and_null_differs_from_empty() {
    let broker = Broker::with_topic("t", 1);
    let headers = OwnedHeaders::new()
        .insert(Header {
            key: "a",
            value: Some("1"),
        })
        .insert(Header::<&str> {
            key: "b",
            value: None,
        });
    let full = BaseRecord::to("t")
        .partition(0)
        .key("k")
        .payload("")
        .timestamp(1_234)
        .headers(headers);
    broker.producer.send(full).unwrap();
    let tombstone = BaseRecord::<str, str>::to("t").partition(0).key("k");
    broker.producer.send(tombstone).unwrap();
    settle(&broker.producer);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    worker.adopt(1, &metadata("t", &[("east", broker.properties())]));
    worker
        .fetcher
        .assign(&split("east", "t", 0), SplitEpoch(1), &at(0));

    let mut records = Vec::new();
    while records.len() < 2 {
        let mut fetched = Vec::new();
        if worker.fetcher.poll(1 << 20, &mut fetched) == Polled::Drained && fetched.is_empty() {
            worker.bell.recv_timeout(PATIENCE).unwrap();
        }
        for one in fetched {
            if let Fetched::Piece(piece) = one {
                let batch = piece.batch.unwrap_or_default();
                records.extend(batch.iter().map(|record| record.to_record()));
            }
        }
    }

    assert_eq!(records[0].key.as_deref(), Some(&b"k"[..]));
    assert_eq!(records[0].value.as_deref(), Some(&b""[..]));
    assert_eq!(records[0].record_time.millis, 1_234);
    assert_eq!(records[0].record_time.kind, RecordTimeType::Create);
    assert_eq!(records[0].headers.len(), 2);
    assert_eq!(records[0].headers[0].1.as_deref(), Some(&b"1"[..]));
    assert_eq!(records[0].headers[1].1, None);
    assert_eq!(records[1].value, None);
}

#[test]
fn a_poll_moves_about_what_was_asked_and_at_least_one_piece() {
    let splits = [0, 1, 2, 3].map(|partition| split("east", "t", partition));
    let broker = Broker::with_topic("t", 4);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    worker.adopt(1, &metadata("t", &[("east", broker.properties())]));
    for read in &splits {
        broker.write("t", read.partition.0, 250);
        worker.assign(read, 1, at(0));
    }

    let deadline = Instant::now() + PATIENCE;
    while splits.iter().any(|read| worker.count(read) < 250) {
        let mut fetched = Vec::new();
        let polled = worker.fetcher.poll(1, &mut fetched);
        let has_records =
            |one: &&KafkaFetched| matches!(one, Fetched::Piece(piece) if piece.batch.is_some());
        assert!(
            fetched.iter().filter(has_records).count() <= 1,
            "{fetched:?}"
        );
        for one in fetched {
            worker.take(one);
        }
        if polled == Polled::Drained {
            worker.bell.recv_deadline(deadline).unwrap();
        }
    }

    for read in &splits {
        assert_eq!(worker.records[read], written(250));
    }
}

#[test]
fn a_position_that_is_out_of_range_is_definite_and_a_good_one_is_read_after_it() {
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, 10);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let read = split("east", "t", 0);
    worker.adopt(1, &metadata("t", &[("east", broker.properties())]));

    worker.assign(&read, 1, at(500));
    worker.until("the end", |worker| !worker.downs.is_empty());
    worker.assign(&read, 2, at(4));
    worker.until("the rest", |worker| worker.count(&read) == 6);

    assert_eq!(
        worker.downs[0].cause,
        DownCause::Lost(LossCause::OutOfRange)
    );
    assert_eq!(worker.downs[0].split_epoch, SplitEpoch(1));
    assert!(
        worker.downs[0]
            .message
            .starts_with("position 500 is out of range"),
        "{}",
        worker.downs[0].message
    );
    assert_eq!(worker.records[&read], written(10)[4..]);
}

#[test]
fn a_topic_that_does_not_exist_may_come_to_be() {
    let broker = Broker::with_topic("t", 1);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let properties = broker
        .properties()
        .with("topic.metadata.propagation.max.ms", "100");
    worker.adopt(1, &metadata("absent", &[("east", properties)]));

    worker.assign(&split("east", "absent", 0), 1, at(0));
    worker.until("the end", |worker| !worker.downs.is_empty());

    assert_eq!(
        worker.downs[0].cause,
        DownCause::Failed(FailureKind::Transient)
    );
    assert!(worker.downs[0].message.contains("topic absent"));
}

#[test]
fn the_operator_is_woken_once_however_much_comes_before_it_looks() {
    let broker = Broker::with_topic("t", 1);
    let pool = pool();
    let (count, counted) = crossbeam_channel::unbounded();
    let waker = Waker::calling(move || count.send(()).unwrap());
    let activator = waker.clone();
    let activate = move || activator.wake();
    let mut fetcher = pool.fetcher(0, Box::new(activate)).unwrap();
    fetcher.adopt(
        MetadataEpoch(1),
        &metadata("t", &[("east", broker.properties())]).into(),
    );
    fetcher.assign(&split("east", "t", 0), SplitEpoch(1), &at(0));
    broker.write("t", 0, 1);
    let mut fetched = Vec::new();
    while fetched.is_empty() {
        counted.recv_timeout(PATIENCE).unwrap();
        waker.clear();
        fetcher.poll(1 << 20, &mut fetched);
    }

    for _ in 0..20 {
        broker.write("t", 0, 1);
    }
    counted.recv_timeout(PATIENCE).unwrap();
    // Twice the time after which the fallback would wake it again, too.
    let again = counted.recv_timeout(Duration::from_millis(500));

    assert!(again.is_err());
}

/// The reader takes a split for stuck that has a lag and does not move; it had none to look at.
#[test]
fn the_lag_is_what_is_between_a_position_and_the_high_watermark() {
    let broker = Broker::with_topic("t", 2);
    broker.write("t", 0, 10);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let (read, unread) = (split("east", "t", 0), split("east", "t", 1));
    worker.adopt(1, &metadata("t", &[("east", broker.properties())]));
    let before = worker.fetcher.lag(&read, &at(0));

    worker.assign(&read, 1, at(0));
    worker.until("all records", |worker| worker.count(&read) == 10);

    let mut lag = |split, offset| worker.fetcher.lag(split, &at(offset));
    assert_eq!(before, None);
    assert_eq!(lag(&read, 3), Some(7));
    assert_eq!(lag(&read, 10), Some(0));
    assert_eq!(lag(&unread, 0), None);
    assert_eq!(lag(&split("west", "t", 0), 0), None);
}
