//! One librdkafka client of one cluster, and the thread that tells it what to read.
//!
//! The calls that change what a client reads block until its own thread has taken note, so they are
//! made here and never on a timely thread. Commands come in through one channel, in the order in
//! which they became true: a split is asked back from one worker before it is given to another.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use timely_splits::epoch::SplitEpoch;
use timely_splits::fetcher::{DownCause, FetcherDown};
use timely_splits::health::{FailureKind, Health};

use super::ffi::{NativeQueue, OnFilled};
use super::thread::ClientThread;
use super::turns::Turns;
use super::wake::WorkerWake;
use crate::model::{ClientProperties, ClusterId, KafkaPosition, KafkaSplit, Partition, TopicName};

/// One life of a librdkafka client. What was said of an earlier one is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life(pub(super) u64);

/// How the life of a client ended.
#[derive(Clone, Debug)]
pub(super) struct LifeEnd {
    /// What it means for what was read.
    pub(super) cause: DownCause<KafkaPosition>,
    /// Why it ended.
    pub(super) why: String,
}

impl LifeEnd {
    /// It ended because of `why`; what was read is read again.
    pub(super) fn failed(why: &str) -> Self {
        Self {
            cause: DownCause::Failed(FailureKind::Transient),
            why: why.to_owned(),
        }
    }
}

/// A partition of the client's cluster.
pub(super) type PartitionName = (TopicName, Partition);

/// The partition that a split reads.
pub(super) fn partition_of(split: &KafkaSplit) -> PartitionName {
    (split.topic.clone(), split.partition)
}

/// What a worker asks of a client.
#[derive(Debug)]
pub(super) enum Command {
    /// Make a queue for a worker and say so, now and whenever the client begins another life.
    Join(Arc<WorkerLink>),
    /// The worker is gone. What it reads is not read any more, and its queue is given up here.
    Leave {
        /// The worker.
        worker: usize,
        /// Its queue, so that emptying it is not left to a timely thread.
        queue: Option<Arc<NativeQueue>>,
    },
    /// There is something to read, or will be soon: make the client if it rests.
    Need,
    /// Read a split into the worker's queue.
    Assign {
        /// The worker.
        worker: usize,
        /// The life of the client in which it asks.
        life: Life,
        /// The split.
        split: KafkaSplit,
        /// Its assignment.
        split_epoch: SplitEpoch,
        /// Where to start.
        start: KafkaPosition,
    },
    /// Stop reading a split, and say so when it is done.
    Unassign {
        /// The worker.
        worker: usize,
        /// The life of the client in which it asks.
        life: Life,
        /// The split.
        split: KafkaSplit,
        /// The assignment that ends.
        split_epoch: SplitEpoch,
    },
    /// Panic, as nothing should.
    #[cfg(test)]
    Panic,
}

/// What a client tells a worker.
#[derive(Debug)]
pub(super) enum Notice {
    /// The client begins a life. What the worker read in an earlier one is not read any more.
    Opened {
        /// The cluster.
        cluster: ClusterId,
        /// The client, so that a notice of one that was swapped can be told.
        client: u64,
        /// The life.
        life: Life,
        /// The worker's queue, unless the client could not be made or rests.
        queue: Option<Arc<NativeQueue>>,
        /// How an earlier life ended, if there was one that is not known to be over.
        ended: Option<LifeEnd>,
    },
    /// A partition is not read for the worker any more: nothing of it comes from here on.
    Unassigned {
        /// The cluster.
        cluster: ClusterId,
        /// The client.
        client: u64,
        /// The life.
        life: Life,
        /// The partition.
        partition: PartitionName,
    },
    /// An assignment could not be carried out or was lost.
    Down {
        /// The client.
        client: u64,
        /// The life.
        life: Life,
        /// What to tell the reader.
        down: FetcherDown<KafkaSplit>,
    },
    /// Something that a person should know.
    Health(Health),
}

/// How a client reaches a worker.
#[derive(Debug)]
pub(super) struct WorkerLink {
    /// The index of the worker in its process.
    pub(super) worker: usize,
    /// Never blocks. Bounded by what asked for each notice, but for health, of which at most
    /// [`HEALTH_WAITING_MAX`] are sent.
    notices: Sender<Notice>,
    wake: Arc<WorkerWake>,
    /// The clusters whose queues it is to look at.
    pub(super) turns: Turns,
}

/// Health that nobody takes is not sent any more while this many notices wait.
const HEALTH_WAITING_MAX: usize = 1024;

impl WorkerLink {
    /// A link to `worker`, and what comes out of it.
    pub(super) fn new(worker: usize, wake: &Arc<WorkerWake>) -> (Arc<Self>, Receiver<Notice>) {
        let (notices, inbox) = unbounded();
        let link = Self {
            worker,
            notices,
            wake: Arc::clone(wake),
            turns: Turns::default(),
        };
        (Arc::new(link), inbox)
    }

    /// What the queue of a cluster calls: it has the worker look at it, and wakes it unless that is to come.
    pub(super) fn on_filled(self: &Arc<Self>, cluster: &ClusterId) -> OnFilled {
        let (link, cluster) = (Arc::clone(self), cluster.clone());
        Box::new(move || {
            if link.turns.give(&cluster) {
                link.wake.event().raise();
            }
        })
    }

    /// The worker's wake.
    pub(super) fn wake(&self) -> &Arc<WorkerWake> {
        &self.wake
    }

    /// Tells the worker and wakes it.
    pub(super) fn tell(&self, notice: Notice) {
        let is_crowded = self.notices.len() >= HEALTH_WAITING_MAX;
        if is_crowded && matches!(notice, Notice::Health(_)) {
            return;
        }
        // A worker that is gone needs to know nothing.
        if self.notices.send(notice).is_ok() {
            self.wake.wake();
        }
    }
}

/// What a client shares with its workers, besides commands and notices.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// How many records were taken, by all workers.
    records: AtomicU64,
}

impl Progress {
    /// Notes that a worker took records.
    pub(super) fn add(&self, records: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
    }

    /// How many were taken.
    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
}

/// The client of one cluster, shared by the workers of a process.
///
/// It closes when the last owner lets go of it.
#[derive(Debug)]
pub(super) struct DataClient {
    /// Tells clients of one cluster apart.
    pub(super) number: u64,
    /// What the workers took.
    pub(super) progress: Arc<Progress>,
    /// Whether what belongs to a transaction is read only once that is committed.
    pub(super) committed_only: bool,
    /// Never blocks. Bounded by the splits: a worker has at most one need, one assignment and one end of
    /// an assignment a split under way.
    commands: Sender<Command>,
    #[cfg(test)]
    pub(super) made_with: ClientProperties,
}

/// The end of a client's thread: disconnected when it is there.
pub(super) type Ended = Receiver<Infallible>;

impl DataClient {
    /// Starts the client of `cluster`, with properties and the names of those that were overruled, and
    /// says when its thread has ended.
    ///
    /// # Errors
    ///
    /// If the process has no thread left.
    pub(super) fn start(
        number: u64,
        cluster: &ClusterId,
        properties: (ClientProperties, Vec<String>),
    ) -> io::Result<(Arc<Self>, Ended)> {
        let (commands, ordered) = unbounded();
        let (ending, ended) = bounded(0);
        let progress = Arc::new(Progress::default());
        let committed_only = properties.0.value("isolation.level") != Some("read_uncommitted");
        #[cfg(test)]
        let made_with = properties.0.clone();
        let of_thread = ClientThread::new(
            number,
            cluster.clone(),
            properties,
            ordered,
            Arc::clone(&progress),
        );
        thread::Builder::new()
            .name(format!("kafka-{cluster}"))
            .spawn(move || {
                of_thread.run();
                drop(ending);
            })?;
        let client = Self {
            number,
            progress,
            committed_only,
            commands,
            #[cfg(test)]
            made_with,
        };
        Ok((Arc::new(client), ended))
    }

    /// Asks something of the client.
    pub(super) fn ask(&self, command: Command) {
        // The thread ends only after this sender is gone: a panic is caught there.
        drop(self.commands.send(command));
    }
}
