//! One worker's share of a client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use timely_splits::epoch::SplitEpoch;
use timely_splits::fetcher::{Fetched, FetcherDown};

use super::client::{Command, DataClient, Life, LifeEnd, PartitionName, WorkerLink, partition_of};
use super::drain::KafkaFetched;
use super::failure::describe;
use super::ffi::{NativeQueue, NativeTopic};
use super::table::{PartitionKey, Reading, Table};
use super::transactions::OpenTransactions;
use crate::model::{KafkaSplit, Offset, TopicName};

/// How long an answer proves that a transaction holds back what is behind it.
const PROVEN_FOR: Duration = Duration::from_secs(300);

/// One worker's share of a client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Arc<DataClient>,
    pub(super) life: Life,
    pub(super) queue: Option<Arc<NativeQueue>>,
    pub(super) table: Table,
    /// Held as long as a split of the topic is read, and how many are.
    pub(super) topics: BTreeMap<TopicName, (NativeTopic, usize)>,
    /// Assignments that cannot be carried out yet: there is no queue, or the one before is not over.
    pub(super) held: BTreeMap<PartitionName, Reading>,
    /// Partitions whose assignment ended here and, as far as is known, not yet in the client.
    pub(super) leaving: BTreeSet<PartitionName>,
    /// Splits to be prepared for as soon as there is a queue.
    pub(super) preparing: BTreeSet<KafkaSplit>,
    pub(super) transactions: OpenTransactions,
    /// How often it had its turn, and how often its queue was consumed.
    #[cfg(test)]
    pub(super) turns: usize,
    #[cfg(test)]
    pub(super) consumed: usize,
}

impl Connection {
    pub(super) fn new(client: Arc<DataClient>, link: &Arc<WorkerLink>) -> Self {
        client.ask(Command::Join(Arc::clone(link)));
        Self {
            client,
            life: Life::default(),
            queue: None,
            table: Table::default(),
            topics: BTreeMap::new(),
            held: BTreeMap::new(),
            leaving: BTreeSet::new(),
            preparing: BTreeSet::new(),
            transactions: OpenTransactions::default(),
            #[cfg(test)]
            turns: 0,
            #[cfg(test)]
            consumed: 0,
        }
    }

    /// Has a client made that rests.
    fn need(&self) {
        if self.queue.is_none() {
            self.client.ask(Command::Need);
        }
    }

    /// Whether there is a queue. If there is none, [`prepared`](Self::prepared) says so of `split` when it is made.
    pub(super) fn prepare(&mut self, split: &KafkaSplit) -> bool {
        if self.queue.is_none() {
            self.preparing.insert(split.clone());
            self.need();
        }
        self.queue.is_some()
    }

    /// There is a queue, or nobody waits for one any more.
    pub(super) fn prepared(&mut self) -> impl Iterator<Item = KafkaFetched> + use<> {
        let preparing = std::mem::take(&mut self.preparing);
        preparing.into_iter().map(Fetched::Prepared)
    }

    pub(super) fn key(&self, split: &KafkaSplit) -> Option<PartitionKey> {
        let (topic, _) = self.topics.get(&split.topic)?;
        Some((topic.key(), split.partition.0))
    }

    /// Begins to read, or holds the assignment until that can be done.
    pub(super) fn assign(
        &mut self,
        worker: usize,
        reading: Reading,
    ) -> Result<(), FetcherDown<KafkaSplit>> {
        let partition = partition_of(&reading.split);
        // An assignment that was not asked back ends here, so that its records are not taken for
        // those of this one.
        self.stop(worker, &reading.split);
        let Some(queue) = self
            .queue
            .as_ref()
            .filter(|_| !self.leaving.contains(&partition))
        else {
            self.held.insert(partition, reading);
            self.need();
            return Ok(());
        };
        let name = &reading.split.topic;
        if !self.topics.contains_key(name) {
            let topic = NativeTopic::new(queue.client(), name.as_str()).map_err(|error| {
                let (cause, message) = describe(&reading.split.topic, reading.next, &error);
                FetcherDown {
                    split: reading.split.clone(),
                    split_epoch: reading.split_epoch,
                    cause,
                    message,
                }
            })?;
            self.topics.insert(name.clone(), (topic, 0));
        }
        let (topic, count) = self
            .topics
            .get_mut(name)
            .expect("the topic is held since right above");
        *count += 1;
        self.client.ask(Command::Assign {
            worker,
            life: self.life,
            split: reading.split.clone(),
            split_epoch: reading.split_epoch,
            start: reading.next,
        });
        let key = (topic.key(), reading.split.partition.0);
        self.table.insert(key, reading);
        Ok(())
    }

    /// Stops reading the partition of `split`, under whatever assignment.
    pub(super) fn stop(&mut self, worker: usize, split: &KafkaSplit) {
        self.held.remove(&partition_of(split));
        if let Some(reading) = self.key(split).and_then(|key| self.table.remove(key)) {
            self.left(worker, &reading);
        }
    }

    /// Notes that `reading` is in the table no more, and tells the client.
    pub(super) fn left(&mut self, worker: usize, reading: &Reading) {
        let name = &reading.split.topic;
        if let Some((_, count)) = self.topics.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.topics.remove(name);
            }
        }
        self.leaving.insert(partition_of(&reading.split));
        self.transactions.forget(&reading.split);
        self.client.ask(Command::Unassign {
            worker,
            life: self.life,
            split: reading.split.clone(),
            split_epoch: reading.split_epoch,
        });
    }

    /// How far `at` in `split` is behind the end, by the last answer to a fetch.
    ///
    /// A split that does not move although there is more may be held back by a transaction, or the client
    /// may have lost it. The former is proven by an answer that there is nothing to read before the high
    /// watermark, but only for some time. A split of which neither is known has a lag, and so it is read
    /// again in the end, which brings such an answer or the records.
    pub(super) fn lag(&mut self, split: &KafkaSplit, at: Offset) -> Option<u64> {
        let (topic, _) = self.topics.get(&split.topic)?;
        let slot = self.table.find((topic.key(), split.partition.0))?;
        let high = u64::try_from(topic.high_watermark(split.partition.0)?).ok()?;
        let left = high.saturating_sub(at.get());
        if !self.client.committed_only {
            return Some(left);
        }
        let now = Instant::now();
        let held_back = self.table.at(slot).held_back;
        let is_proven = held_back
            .is_some_and(|(last_stable, when)| last_stable == at && now < when + PROVEN_FOR);
        // What was fetched and not taken is on the queue, and is to be read.
        if !is_proven || !self.queue.as_ref().is_some_and(|queue| queue.is_empty()) {
            // That may be records of others, and the transaction be open for as long as it was.
            self.transactions.moved(split, at);
            return Some(left);
        }
        self.transactions.note(split, at, left, now);
        Some(0)
    }

    /// Whether `split` is read or held under `split_epoch`.
    pub(super) fn has(&mut self, split: &KafkaSplit, split_epoch: SplitEpoch) -> bool {
        let is_meant =
            |reading: &Reading| reading.split == *split && reading.split_epoch == split_epoch;
        if self.held.get(&partition_of(split)).is_some_and(is_meant) {
            return true;
        }
        let slot = self.key(split).and_then(|key| self.table.find(key));
        slot.is_some_and(|slot| is_meant(self.table.at(slot)))
    }

    /// Forgets what was read in a life that `ended`; says so of each.
    pub(super) fn lose(&mut self, ended: &LifeEnd) -> Vec<KafkaFetched> {
        self.leaving.clear();
        self.topics.clear();
        self.transactions.forget_all();
        let held = std::mem::take(&mut self.held).into_values();
        let preparing = self.prepared();
        held.chain(self.table.drain())
            .map(|reading| {
                Fetched::Down(FetcherDown {
                    split: reading.split,
                    split_epoch: reading.split_epoch,
                    cause: ended.cause,
                    message: ended.why.clone(),
                })
            })
            .chain(preparing)
            .collect()
    }

    /// Lets go of the client, and leaves to it what takes time.
    pub(super) fn leave(mut self, worker: usize) {
        self.topics.clear();
        self.client.ask(Command::Leave {
            worker,
            queue: self.queue.take(),
        });
    }
}
