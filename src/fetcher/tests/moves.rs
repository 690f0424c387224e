//! A split that changes hands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

#[test]
fn a_split_that_moves_between_workers_two_hundred_times_loses_and_repeats_nothing() {
    const RECORDS: usize = 20_000;
    let broker = Broker::with_topic("t", 2);
    let pool = pool();
    let metadata = metadata("t", &[("east", broker.properties())]);
    let mut workers = [Worker::new(&pool, 0), Worker::new(&pool, 1)];
    for worker in &mut workers {
        worker.adopt(1, &metadata);
    }
    let (moved, stayed) = (split("east", "t", 0), split("east", "t", 1));
    workers[1].assign(&stayed, 1, at(0));
    let done = AtomicBool::new(false);

    let (mut all, mut position) = (Vec::new(), at(0));
    thread::scope(|scope| {
        // The cluster itself stays on this thread.
        let (producer, done) = (&broker.producer, &done);
        scope.spawn(move || {
            for chunk in 0..RECORDS / 100 {
                for number in chunk * 100..(chunk + 1) * 100 {
                    let value = number.to_string();
                    let record = BaseRecord::<(), _>::to("t").partition(0).payload(&value);
                    producer.send(record).unwrap();
                }
                let record = BaseRecord::<(), _>::to("t").partition(1).payload("");
                producer.send(record).unwrap();
                settle(producer);
            }
            done.store(true, Ordering::Release);
        });
        for turn in 0..200_u64 {
            let worker = &mut workers[usize::try_from(turn % 2).unwrap()];
            worker.assign(&moved, turn + 1, position);
            let target = all.len() + 20;
            let before = all.len();
            if target < RECORDS {
                worker.until("twenty more records", |worker| {
                    before + worker.count(&moved) >= target
                });
            }
            position = worker.revoke(&moved);
            all.extend(worker.records.remove(&moved).unwrap_or_default());
        }
        workers[0].assign(&moved, 201, position);
        let before = all.len();
        workers[0].until("the rest", |worker| {
            before + worker.count(&moved) == RECORDS
        });
        all.extend(workers[0].records.remove(&moved).unwrap_or_default());
    });
    workers[1].until("what stayed", |worker| {
        worker.count(&stayed) == RECORDS / 100
    });

    assert_eq!(all, written(RECORDS));
    assert!(done.load(Ordering::Acquire));
    assert!(workers.iter().all(|worker| worker.downs.is_empty()));
}

/// The records of an assignment that is over lie on the queue when the next one begins before them.
#[test]
fn records_fetched_under_an_assignment_that_is_over_are_not_taken_for_those_of_the_next() {
    const RECORDS: usize = 3_000;
    let broker = Broker::with_topic("t", 1);
    broker.write("t", 0, RECORDS);
    let pool = pool();
    let mut worker = Worker::new(&pool, 0);
    let read = split("east", "t", 0);
    worker.adopt(1, &metadata("t", &[("east", broker.properties())]));

    for epoch in 1..=100_u64 {
        let start = epoch * 7 % 50;
        worker.assign(&read, epoch, at(start));
        // Not all of it: the rest is on the queue, or on its way.
        let enough = usize::try_from(epoch % 3).unwrap() * 40;
        let deadline = Instant::now() + PATIENCE;
        while worker.count(&read) < enough {
            if worker.poll(1_000) == Polled::Drained && worker.count(&read) < enough {
                worker.bell.recv_deadline(deadline).unwrap();
            }
        }
        worker.revoke(&read);
        let records = worker.records.remove(&read).unwrap_or_default();
        let first = usize::try_from(start).unwrap();
        assert_eq!(records, written(RECORDS)[first..first + records.len()]);
    }
    worker.assign(&read, 101, at(0));
    worker.until("all records", |worker| worker.count(&read) == RECORDS);

    assert_eq!(worker.records[&read], written(RECORDS));
    assert_eq!(worker.late, 0);
}
