//! The fetcher of one worker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crossbeam_channel::Receiver;
use timely_splits::epoch::{MetadataEpoch, SplitEpoch};
use timely_splits::fetcher::{DownCause, Fetched, FetcherDown, Polled, Prepared, SplitFetcher};
use timely_splits::health::FailureKind;

use super::backlog::Backlog;
use super::client::{DataClient, Life, LifeEnd, Notice, PartitionName, WorkerLink};
use super::connection::Connection;
use super::drain::{Drain, KafkaFetched};
use super::failure::describe;
use super::ffi::Flow;
use super::pool::{ClientPool, Told};
use super::table::Reading;
use super::transactions::LOOK_EVERY;
use super::wake::WorkerWake;
use crate::model::{ClusterId, KafkaPosition, KafkaSplit, SharedMetadata};
use crate::records::{BatchBuilder, BatchGuard, RecordBatch, RecordParts};

/// Reads the splits of one worker through the clients of its process.
#[derive(Debug)]
pub(crate) struct KafkaFetcher {
    pool: Arc<ClientPool>,
    /// What the pool told of the clients in `clusters`.
    told: Told,
    link: Arc<WorkerLink>,
    notices: Receiver<Notice>,
    pub(super) clusters: BTreeMap<ClusterId, Connection>,
    pub(super) backlog: Backlog,
    builder: BatchBuilder,
    /// The bytes of the batches that were made and are alive.
    in_use: Arc<AtomicUsize>,
    /// When it is to be looked again at what open transactions hold back.
    transactions_due: Option<Instant>,
    /// How often a cluster got another client, or lost it.
    #[cfg(test)]
    pub(super) changes: usize,
}

impl KafkaFetcher {
    pub(super) fn new(pool: Arc<ClientPool>, worker: usize, wake: &Arc<WorkerWake>) -> Self {
        let (link, notices) = WorkerLink::new(worker, wake);
        Self {
            pool,
            told: Told::nothing(),
            link,
            notices,
            clusters: BTreeMap::new(),
            backlog: Backlog::default(),
            builder: BatchBuilder::new(),
            in_use: Arc::default(),
            transactions_due: None,
            #[cfg(test)]
            changes: 0,
        }
    }

    /// Takes what clients have to say, as much as there is at the beginning.
    fn take_notices(&mut self) {
        for _ in 0..self.notices.len() {
            let Ok(notice) = self.notices.try_recv() else {
                return;
            };
            match notice {
                Notice::Health(health) => self.backlog.push(Fetched::Health(health)),
                Notice::Opened {
                    cluster,
                    client,
                    life,
                    queue,
                    ended,
                } => {
                    let link = Arc::clone(&self.link);
                    let Some(connection) = self.connection(&cluster, client) else {
                        continue;
                    };
                    connection.life = life;
                    connection.queue = queue;
                    // Whatever it has by now may have given a turn when there was no queue to be seen yet.
                    link.turns.give(&cluster);
                    if let Some(ended) = ended {
                        let lost = connection.lose(&ended);
                        self.backlog.extend(lost);
                    } else {
                        let prepared = connection.prepared();
                        self.backlog.extend(prepared);
                        self.assign_held(&cluster, None);
                    }
                }
                Notice::Unassigned {
                    cluster,
                    client,
                    life,
                    partition,
                } => {
                    let connection = self.connection(&cluster, client);
                    if let Some(connection) = connection.filter(|known| known.life == life)
                        && connection.leaving.remove(&partition)
                    {
                        self.assign_held(&cluster, Some(&partition));
                    }
                }
                Notice::Down { client, life, down } => self.go_down(client, life, down),
            }
        }
    }

    /// The share of a client, unless it was swapped since.
    fn connection(&mut self, cluster: &ClusterId, client: u64) -> Option<&mut Connection> {
        self.clusters
            .get_mut(cluster)
            .filter(|connection| connection.client.number == client)
    }

    /// A cluster has another client than before, or none any more.
    fn change(&mut self, cluster: ClusterId, client: Option<Arc<DataClient>>) {
        #[cfg(test)]
        {
            self.changes += 1;
        }
        let mut connection = client.map(|client| Connection::new(client, &self.link));
        if let Some(mut left) = self.clusters.remove(&cluster) {
            let why = match &connection {
                Some(_) => "the properties of its cluster changed, and its client with them",
                None => "its cluster is not listed",
            };
            self.backlog.extend(left.lose(&LifeEnd::failed(why)));
            if let Some(next) = &mut connection {
                // What a person was told of them is to be told when it is over.
                next.transactions = std::mem::take(&mut left.transactions);
            }
            left.leave(self.link.worker);
        }
        match connection {
            Some(connection) => {
                self.clusters.insert(cluster, connection);
            }
            None => self.link.turns.forget(&cluster),
        }
    }

    /// Carries out what was held: of one partition, or of all.
    fn assign_held(&mut self, cluster: &ClusterId, partition: Option<&PartitionName>) {
        let Some(connection) = self.clusters.get_mut(cluster) else {
            return;
        };
        let held: Vec<Reading> = match partition {
            Some(partition) => connection.held.remove(partition).into_iter().collect(),
            None => std::mem::take(&mut connection.held).into_values().collect(),
        };
        for reading in held {
            if let Err(down) = connection.assign(self.link.worker, reading) {
                self.backlog.push(Fetched::Down(down));
            }
        }
    }

    fn go_down(&mut self, client: u64, life: Life, down: FetcherDown<KafkaSplit>) {
        let worker = self.link.worker;
        let connection = self.connection(&down.split.cluster.clone(), client);
        let Some(connection) = connection.filter(|known| known.life == life) else {
            return;
        };
        if connection.has(&down.split, down.split_epoch) {
            connection.stop(worker, &down.split);
            self.backlog.push(Fetched::Down(down));
        }
    }

    /// Tells now and then what open transactions hold back: that takes a look at every cluster.
    fn tell_transactions(&mut self) {
        let (now, worker) = (Instant::now(), self.link.worker);
        if self.transactions_due.is_some_and(|due| now < due) {
            return;
        }
        self.transactions_due = Some(now + LOOK_EVERY);
        for (cluster, connection) in &mut self.clusters {
            let health = connection.transactions.tell(cluster, worker, now);
            self.backlog.extend(health.map(Fetched::Health));
        }
    }

    /// Takes what is on the queue of one cluster into the backlog; says whether there may be more.
    ///
    /// All of it: librdkafka takes a queue for empty while it is being consumed, and fetches more. A queue
    /// that is consumed in part, time and again, grows by a fetch each time.
    ///
    /// One that is empty is left alone: what a turn was given for may have been seen already, and
    /// librdkafka takes much longer to consume nothing than to say that there is nothing. No wake is lost by that:
    /// the next message gives another turn, see [`Turns`](super::turns::Turns).
    fn drain(&mut self, connection: &mut Connection) -> Flow {
        let worker = self.link.worker;
        #[cfg(test)]
        {
            connection.turns += 1;
        }
        let queue = connection.queue.as_ref();
        let Some(queue) = queue.filter(|queue| !queue.is_empty()) else {
            return Flow::Continue;
        };
        #[cfg(test)]
        {
            connection.consumed += 1;
        }
        let mut fetched = Vec::new();
        let mut drain = Drain::new(
            &mut connection.table,
            &mut self.builder,
            &mut fetched,
            &self.in_use,
        );
        let flow = queue.consume(&mut drain);
        let drained = drain.finish();
        if drained.records > 0 {
            connection.client.progress.add(drained.records);
        }
        for (reading, error) in drained.failed {
            let (cause, message) = describe(&reading.split.topic, reading.next, &error);
            connection.left(worker, &reading);
            fetched.push(Fetched::Down(FetcherDown {
                split: reading.split,
                split_epoch: reading.split_epoch,
                cause,
                message,
            }));
        }
        self.backlog.extend(fetched);
        flow
    }

    /// Hands over what is in the backlog and then what is on the queues of clusters in their turns, until that is
    /// `bytes_max`.
    fn poll_all(
        &mut self,
        clusters: &mut BTreeMap<ClusterId, Connection>,
        bytes_max: usize,
        fetched: &mut Vec<KafkaFetched>,
    ) -> Polled {
        let mut bytes = 0;
        let mut has_room = |backlog: &mut Backlog| {
            while let Some(moved) = backlog.hand_over(fetched) {
                bytes += moved;
                if bytes >= bytes_max {
                    return false;
                }
            }
            true
        };
        if !has_room(&mut self.backlog) {
            return Polled::More;
        }
        let mut polled = Polled::Drained;
        // As many as have a turn at the beginning: who gives one later wakes the worker.
        for _ in 0..self.link.turns.count() {
            // Taken before the look, so that what comes during it gives another one.
            let Some(cluster) = self.link.turns.take() else {
                break;
            };
            let Some(connection) = clusters.get_mut(&cluster) else {
                continue;
            };
            if self.drain(connection) == Flow::Stop {
                self.link.turns.give(&cluster);
                polled = Polled::More;
            }
            if !has_room(&mut self.backlog) {
                return Polled::More;
            }
        }
        polled
    }

    /// Gives a turn to all clusters that have something, as if their queues had told of it.
    fn look_at_all(&self) {
        for (cluster, connection) in &self.clusters {
            if (connection.queue.as_ref()).is_some_and(|queue| !queue.is_empty()) {
                self.link.turns.give(cluster);
            }
        }
    }
}

impl SplitFetcher<KafkaSplit> for KafkaFetcher {
    type Batch = RecordBatch;

    fn adopt(&mut self, epoch: MetadataEpoch, metadata: &SharedMetadata) {
        let changes = self.pool.adopt(epoch, metadata, &mut self.told);
        let health = changes.health.into_iter().map(Fetched::Health);
        self.backlog.extend(health);
        for cluster in changes.gone {
            self.change(cluster, None);
        }
        for (cluster, client) in changes.come {
            self.change(cluster, Some(client));
        }
        if !self.backlog.is_empty() {
            self.link.wake().wake();
        }
    }

    fn assign(&mut self, split: &KafkaSplit, split_epoch: SplitEpoch, start: &KafkaPosition) {
        self.backlog.forget(split);
        let reading = Reading {
            split: split.clone(),
            split_epoch,
            next: *start,
            held_back: None,
        };
        let assigned = match self.clusters.get_mut(&split.cluster) {
            Some(connection) => connection.assign(self.link.worker, reading),
            None => Err(FetcherDown {
                split: split.clone(),
                split_epoch,
                cause: DownCause::Failed(FailureKind::Transient),
                message: "its cluster has no client".to_owned(),
            }),
        };
        if let Err(down) = assigned {
            self.backlog.push(Fetched::Down(down));
            self.link.wake().wake();
        }
    }

    /// A client is made when its cluster is listed, and connects to all brokers that it hears of. So there
    /// is something to wait for only while it is made, or made again: also if it rests, since no broker answered.
    fn prepare(&mut self, split: &KafkaSplit) -> Prepared {
        let connection = self.clusters.get_mut(&split.cluster);
        match connection.is_none_or(|connection| connection.prepare(split)) {
            true => Prepared::AtOnce,
            false => Prepared::Later,
        }
    }

    /// The end minus the position, as of the last answer to a fetch: zero once all was read that may
    /// be. The end is the last stable offset if only what is committed is read; but librdkafka tells the
    /// high watermark alone, so that what an open transaction holds back counts until an answer has shown
    /// that it does.
    fn lag(&mut self, split: &KafkaSplit, position: &KafkaPosition) -> Option<u64> {
        let connection = self.clusters.get_mut(&split.cluster)?;
        connection.lag(split, position.next)
    }

    fn unassign(&mut self, split: &KafkaSplit, split_epoch: SplitEpoch) {
        let worker = self.link.worker;
        if let Some(connection) = self.clusters.get_mut(&split.cluster)
            && connection.has(split, split_epoch)
        {
            connection.stop(worker, split);
        }
    }

    fn poll(&mut self, bytes_max: usize, fetched: &mut Vec<KafkaFetched>) -> Polled {
        // 1. Acknowledgements are taken while no message is under way; see `Table`.
        self.take_notices();
        self.tell_transactions();
        self.backlog.speak(fetched);
        if bytes_max == 0 {
            // What is on the queues stays there, and so nothing more is fetched. That a partition failed is among
            // it, behind records: it is heard when there is room for them.
            return Polled::Drained;
        }
        if self.link.wake().looks() {
            self.look_at_all();
        }
        // 2. The clusters that have something in turn, so that none waits behind a busier one for ever.
        let mut clusters = std::mem::take(&mut self.clusters);
        let polled = self.poll_all(&mut clusters, bytes_max, fetched);
        self.clusters = clusters;
        polled
    }

    fn cut(&mut self, batch: RecordBatch, at: &[KafkaPosition]) -> Vec<Option<RecordBatch>> {
        let Some(split) = batch.split().cloned() else {
            return vec![None; at.len() + 1];
        };
        let mut parts = Vec::with_capacity(at.len() + 1);
        let mut cuts = at.iter();
        let mut end = cuts.next();
        let part = |builder: &mut BatchBuilder| {
            (!builder.is_empty()).then(|| {
                let part = builder.finish(&split);
                let guard = Arc::new(BatchGuard::new(&self.in_use, part.memory_bytes()));
                part.with_guard(guard)
            })
        };
        for record in &batch {
            while end.is_some_and(|end| record.offset() >= end.next) {
                parts.push(part(&mut self.builder));
                end = cuts.next();
            }
            self.builder.push(&RecordParts {
                offset: record.offset(),
                record_time: record.record_time(),
                key: record.key(),
                value: record.value(),
            });
            for header in record.headers() {
                self.builder.push_header(header.key(), header.value());
            }
        }
        parts.push(part(&mut self.builder));
        parts.resize(at.len() + 1, None);
        parts
    }

    fn unreleased_bytes(&self) -> usize {
        // The counter orders nothing but itself.
        let made = self.in_use.load(Ordering::Relaxed);
        made.saturating_sub(self.backlog.bytes())
    }
}

impl Drop for KafkaFetcher {
    fn drop(&mut self) {
        self.pool.forget(self.link.wake());
        let worker = self.link.worker;
        for connection in std::mem::take(&mut self.clusters).into_values() {
            connection.leave(worker);
        }
    }
}
