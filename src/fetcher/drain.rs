//! Makes pieces of what is on a worker's queue.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use timely_splits::fetcher::{Fetched, Piece};

use super::ffi::{Flow, NativeError, NativeRecord, Receiver, TopicKey};
use super::table::{PartitionKey, Reading, Slot, Table};
use crate::model::{KafkaPosition, KafkaSplit, LeaderEpoch, Offset};
use crate::records::{BatchBuilder, BatchGuard, RecordBatch, RecordParts};

/// What a fetcher of Kafka hands over.
pub(super) type KafkaFetched = Fetched<KafkaSplit, RecordBatch>;

/// The most messages that one call takes off a queue: more than eight brokers bring at once by fetches of 512 KiB, of
/// records of 100 bytes that are compressed to a twentieth. A queue that is emptied in part takes a fetch of each broker
/// more each time.
const MESSAGES_MAX: usize = 1024 * 1024;

/// Takes messages off the queue of one client and makes pieces of them.
///
/// # Invariants
///
/// At most one run is open, that of the split whose message came last. While it is, its position in the
/// table is behind.
pub(super) struct Drain<'a> {
    table: &'a mut Table,
    builder: &'a mut BatchBuilder,
    fetched: &'a mut Vec<KafkaFetched>,
    /// The bytes of all batches that are alive.
    in_use: &'a Arc<AtomicUsize>,
    run: Option<Run>,
    messages: usize,
    records: u64,
    failed: Vec<(Reading, NativeError)>,
}

/// Messages of one split, one behind the other. Its records are in the builder.
#[derive(Clone, Copy, Debug)]
struct Run {
    key: PartitionKey,
    slot: Slot,
    start: KafkaPosition,
    next: KafkaPosition,
}

/// What a [`Drain`] came to.
pub(super) struct Drained {
    /// How many records are in them.
    pub(super) records: u64,
    /// What is not read any more.
    pub(super) failed: Vec<(Reading, NativeError)>,
}

impl<'a> Drain<'a> {
    /// Moves to `fetched` what belongs to a split of `table`. The batches count as `in_use` until they are
    /// dropped.
    pub(super) fn new(
        table: &'a mut Table,
        builder: &'a mut BatchBuilder,
        fetched: &'a mut Vec<KafkaFetched>,
        in_use: &'a Arc<AtomicUsize>,
    ) -> Self {
        Self {
            table,
            builder,
            fetched,
            in_use,
            run: None,
            messages: 0,
            records: 0,
            failed: Vec::new(),
        }
    }

    /// Ends the run that is open.
    pub(super) fn finish(mut self) -> Drained {
        self.end_run();
        Drained {
            records: self.records,
            failed: self.failed,
        }
    }

    /// The run of a partition, which becomes the open one; `None` if the partition is not in the table:
    /// its message was fetched under an assignment that is over.
    #[inline]
    fn run_of(&mut self, key: PartitionKey) -> Option<&mut Run> {
        if self.run.is_none_or(|run| run.key != key) {
            self.begin_run(key);
        }
        self.run.as_mut()
    }

    fn begin_run(&mut self, key: PartitionKey) {
        self.end_run();
        self.run = self.table.find(key).map(|slot| {
            let next = self.table.at(slot).next;
            Run {
                key,
                slot,
                start: next,
                next,
            }
        });
    }

    fn end_run(&mut self) {
        let Some(run) = self.run.take().filter(Run::has_moved) else {
            return;
        };
        let reading = self.table.at(run.slot);
        reading.next = run.next;
        let batch = (!self.builder.is_empty()).then(|| {
            let batch = self.builder.finish(&reading.split);
            let guard = Arc::new(BatchGuard::new(self.in_use, batch.memory_bytes()));
            batch.with_guard(guard)
        });
        let bytes = batch.as_ref().map_or(0, RecordBatch::memory_bytes);
        self.fetched.push(Fetched::Piece(Piece {
            split: reading.split.clone(),
            split_epoch: reading.split_epoch,
            start: run.start,
            end: run.next,
            bytes,
            batch,
        }));
    }

    #[inline]
    fn flow(&mut self) -> Flow {
        self.messages += 1;
        if self.messages >= MESSAGES_MAX {
            Flow::Stop
        } else {
            Flow::Continue
        }
    }
}

impl Run {
    fn has_moved(&self) -> bool {
        self.next != self.start
    }
}

impl Receiver for Drain<'_> {
    #[inline]
    fn record(&mut self, topic: TopicKey, partition: i32, record: &NativeRecord<'_>) -> Flow {
        let offset = Offset::new(record.offset().cast_unsigned());
        // Positions join; a record before them was handed over.
        let run = self.run_of((topic, partition));
        let Some(run) = run.filter(|run| offset >= run.next.next) else {
            return self.flow();
        };
        run.next = KafkaPosition::after(offset, record.leader_epoch().map(LeaderEpoch));
        self.builder.push(&RecordParts {
            offset,
            record_time: record.time(),
            key: record.key(),
            value: record.value(),
        });
        record.for_each_header(|name, value| self.builder.push_header(name, value));
        self.records += 1;
        if self.builder.is_full() {
            self.end_run();
        }
        self.flow()
    }

    fn end(&mut self, topic: TopicKey, partition: i32, next: i64, high: Option<i64>) -> Flow {
        let next = Offset::new(u64::try_from(next).unwrap_or_default());
        if let Some(run) = self.run_of((topic, partition)) {
            run.next.next = run.next.next.max(next);
            let slot = run.slot;
            let high = high.and_then(|high| u64::try_from(high).ok());
            let is_held_back = high.is_some_and(|high| high > next.get());
            self.table.at(slot).held_back = is_held_back.then(|| (next, Instant::now()));
        }
        self.flow()
    }

    fn failed(&mut self, topic: TopicKey, partition: i32, error: NativeError) -> Flow {
        let key = (topic, partition);
        self.end_run();
        if let Some(reading) = self.table.remove(key) {
            self.failed.push((reading, error));
        }
        self.flow()
    }
}

#[cfg(test)]
mod tests {
    use timely_splits::epoch::SplitEpoch;

    use super::*;
    use crate::model::{ClusterId, Partition, TopicName};

    /// What comes of `act` on a split that was read up to offset 5.
    fn drained(act: impl FnOnce(&mut Drain<'_>, TopicKey)) -> (Vec<KafkaFetched>, Drained) {
        let key = TopicKey::numbered(1);
        let mut table = Table::default();
        let split = KafkaSplit::new(
            ClusterId::new("east").unwrap(),
            TopicName::new("t").unwrap(),
            Partition(0),
        );
        let next = KafkaPosition::after(Offset::new(4), Some(LeaderEpoch(7)));
        let reading = Reading {
            split,
            split_epoch: SplitEpoch(3),
            next,
            held_back: None,
        };
        table.insert((key, 0), reading);
        let (mut builder, mut fetched) = (BatchBuilder::new(), Vec::new());
        let in_use = Arc::default();
        let mut drain = Drain::new(&mut table, &mut builder, &mut fetched, &in_use);
        act(&mut drain, key);
        let drained = drain.finish();
        (fetched, drained)
    }

    /// Transaction markers and compacted tails show no record.
    #[test]
    fn the_end_of_a_partition_moves_the_position_once_and_never_back() {
        let (fetched, _) = drained(|drain, key| {
            for next in [5, 9, 9, 3] {
                assert_eq!(drain.end(key, 0, next, None), Flow::Continue);
            }
        });

        let [Fetched::Piece(piece)] = &fetched[..] else {
            panic!("one piece: {fetched:?}");
        };
        assert_eq!(piece.start.next, Offset::new(5));
        assert_eq!(piece.end.next, Offset::new(9));
        assert_eq!(piece.end.leader_epoch, Some(LeaderEpoch(7)));
        assert!(piece.batch.is_none());
    }

    /// An end at the high watermark proves nothing about what is written behind it later.
    #[test]
    fn only_an_end_before_the_high_watermark_proves_that_something_is_held_back() {
        for (high, held_back) in [(None, None), (Some(9), None), (Some(12), Some(9))] {
            drained(|drain, key| {
                drain.end(key, 0, 9, high);
                let slot = drain.table.find((key, 0)).unwrap();
                let proof = drain.table.at(slot).held_back;
                assert_eq!(proof.map(|(at, _)| at.get()), held_back, "{high:?}");
                drain.end(key, 0, 9, Some(9));
                assert_eq!(drain.table.at(slot).held_back, None);
            });
        }
    }

    #[test]
    fn what_failed_is_not_read_any_more() {
        let error = NativeError {
            code: -1,
            name: "NAME".to_owned(),
            message: "words".to_owned(),
            property: None,
        };
        let (fetched, drained) = drained(|drain, key| {
            drain.failed(key, 0, error);
            drain.end(key, 0, 9, None);
            drain.end(TopicKey::numbered(2), 0, 9, None);
        });

        assert!(fetched.is_empty());
        assert_eq!(drained.failed.len(), 1);
        assert_eq!(drained.failed[0].0.next.next, Offset::new(5));
    }
}
