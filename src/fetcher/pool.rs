//! The clients that the workers of one process share.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crossbeam_channel::RecvTimeoutError;
use timely_splits::epoch::MetadataEpoch;
use timely_splits::health::{FailureKind, Health, HealthStatus};

use super::client::{DataClient, Ended};
use super::ffi::CLOSE_WAIT_MAX;
use super::kafka::KafkaFetcher;
use super::settings::Settings;
use super::wake::{Waker, WorkerWake};
use crate::memory::{ClientCount, Sharers};
use crate::model::{ClientProperties, ClusterId, SharedMetadata, StreamsMetadata};

/// One client a cluster, shared by the workers of a process that read one source.
///
/// # Invariants
///
/// The clients are those of the newest metadata epoch that any of the workers has adopted. A cluster
/// whose properties did not change keeps its client, with its connections and what it fetched.
#[derive(Debug)]
pub(crate) struct ClientPool {
    settings: Settings,
    waker: Waker,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    epoch: MetadataEpoch,
    metadata: SharedMetadata,
    clients: BTreeMap<ClusterId, (ClientProperties, Arc<DataClient>)>,
    /// The clusters of `clients`, by the numbers of these, which only grow.
    by_number: BTreeMap<u64, ClusterId>,
    /// Listed clusters of which no thread could be started: it is tried again.
    threadless: BTreeSet<ClusterId>,
    /// How many they are, for the shares of those to come.
    count: ClientCount,
    /// The ends of the clients that were started and are not known to be over.
    ends: Vec<Ended>,
    started: u64,
}

/// What a worker was told of the clients.
#[derive(Debug)]
pub(super) struct Told {
    /// The metadata that they were of.
    metadata: SharedMetadata,
    /// The number of the last one that had been started.
    started: u64,
}

impl Told {
    pub(super) fn nothing() -> Self {
        Self {
            metadata: StreamsMetadata::new().into(),
            started: 0,
        }
    }
}

/// How the clients differ from what a worker was told.
#[derive(Debug)]
pub(super) struct ClientChanges {
    /// The clusters that have none.
    pub(super) gone: BTreeSet<ClusterId>,
    /// Those that have another one than before, if they had any.
    pub(super) come: Vec<(ClusterId, Arc<DataClient>)>,
    /// What a person should know of it.
    pub(super) health: Vec<Health>,
}

impl State {
    fn remove(&mut self, cluster: &ClusterId) {
        if let Some((_, client)) = self.clients.remove(cluster) {
            self.by_number.remove(&client.number);
        }
    }

    /// Drops the ends that are over: when there may be as many of them as there are clients, so that each is
    /// looked at a few times.
    fn drop_ends(&mut self) {
        if self.ends.len() > 2 * self.clients.len() {
            let over = Err(crossbeam_channel::TryRecvError::Disconnected);
            self.ends.retain(|end| end.try_recv() != over);
        }
    }
}

impl ClientPool {
    /// A pool without clients, and the thread that wakes its workers.
    ///
    /// # Errors
    ///
    /// If the process has no file descriptor or thread left.
    pub(crate) fn new(settings: Settings) -> io::Result<Arc<Self>> {
        let state = State {
            epoch: MetadataEpoch::default(),
            metadata: StreamsMetadata::new().into(),
            clients: BTreeMap::new(),
            by_number: BTreeMap::new(),
            threadless: BTreeSet::new(),
            count: settings.memory.clients(),
            ends: Vec::new(),
            started: 0,
        };
        Ok(Arc::new(Self {
            settings,
            waker: Waker::start()?,
            state: Mutex::new(state),
        }))
    }

    /// The fetcher of one worker, which wakes its operator by `activate`. `worker` tells the workers
    /// of this process apart.
    ///
    /// # Errors
    ///
    /// If the process has no file descriptor left.
    pub(crate) fn fetcher(
        self: &Arc<Self>,
        worker: usize,
        activate: Box<dyn Fn() + Send + Sync>,
    ) -> io::Result<KafkaFetcher> {
        let wake = Arc::new(WorkerWake::new(activate)?);
        self.waker.add(&wake);
        Ok(KafkaFetcher::new(Arc::clone(self), worker, &wake))
    }

    /// What changed of the clients since a worker was last told: they are those of `metadata`, or of newer
    /// metadata that another worker has adopted already.
    ///
    /// That is a matter of what changed, and not of how many there are.
    pub(super) fn adopt(
        &self,
        epoch: MetadataEpoch,
        metadata: &SharedMetadata,
        told: &mut Told,
    ) -> ClientChanges {
        let mut state = self.state();
        let mut health = Vec::new();
        if epoch > state.epoch {
            state.epoch = epoch;
            self.change(&mut state, metadata, &mut health);
        }
        let mut gone = told.metadata.changes(&state.metadata);
        // A client that there was may have gone between two answers that say the same.
        gone.extend(state.threadless.iter().cloned());
        gone.retain(|cluster| !state.clients.contains_key(cluster));
        let come = state.by_number.range(told.started + 1..);
        let come = come.map(|(_, cluster)| {
            let (_, client) = &state.clients[cluster];
            (cluster.clone(), Arc::clone(client))
        });
        let come = come.collect();
        *told = Told {
            metadata: state.metadata.clone(),
            started: state.started,
        };
        ClientChanges { gone, come, health }
    }

    fn change(&self, state: &mut State, metadata: &SharedMetadata, health: &mut Vec<Health>) {
        state.drop_ends();
        let mut changed = state.metadata.changes(metadata);
        state.metadata = metadata.clone();
        changed.append(&mut state.threadless);
        let mut starting = Vec::new();
        for cluster in changed {
            let reached = metadata.clusters.get(&cluster);
            let reached = reached.filter(|_| metadata.lists_cluster(&cluster));
            let before = state.clients.get(&cluster);
            let stays = before
                .zip(reached)
                .is_some_and(|((properties, _), reached)| {
                    // A client that stays keeps its share: the limit has no setter, and another client would lose
                    // what this one has fetched.
                    *properties == reached.properties
                });
            if stays {
                continue;
            }
            state.remove(&cluster);
            starting.extend(reached.map(|reached| (cluster, reached)));
        }
        let clients = state.count.set(state.clients.len() + starting.len());
        let workers = self.waker.count();
        for (cluster, reached) in starting {
            let sharers = Sharers { clients, workers };
            let properties = self.settings.data(&reached.properties, sharers);
            let started = DataClient::start(state.started + 1, &cluster, properties);
            match started {
                Ok((client, end)) => {
                    state.started += 1;
                    state.ends.push(end);
                    state.by_number.insert(state.started, cluster.clone());
                    let entry = (reached.properties.clone(), client);
                    state.clients.insert(cluster, entry);
                }
                Err(error) => {
                    health.push(Health::new(
                        format!("cluster {cluster}"),
                        HealthStatus::Failing(FailureKind::Transient),
                        format!("the thread of its client cannot be started: {error}"),
                    ));
                    state.threadless.insert(cluster);
                }
            }
        }
    }

    /// Does not wake a worker any more.
    pub(super) fn forget(&self, wake: &Arc<WorkerWake>) {
        self.waker.remove(wake);
    }

    /// Closes the clients, in parallel, and returns in [`CLOSE_WAIT_MAX`] at most; says how many did
    /// not close in time and were left open. The fetchers are to be dropped before.
    pub(crate) fn close(&self) -> usize {
        let deadline = Instant::now() + CLOSE_WAIT_MAX;
        let ends = {
            let mut state = self.state();
            state.clients.clear();
            state.by_number.clear();
            state.count.set(0);
            std::mem::take(&mut state.ends)
        };
        ends.iter()
            .filter(|end| end.recv_deadline(deadline) != Err(RecvTimeoutError::Disconnected))
            .count()
    }

    /// The ends of the clients, in the order in which they were started.
    #[cfg(test)]
    pub(super) fn ends(&self) -> Vec<Ended> {
        self.state().ends.clone()
    }

    /// The client of a cluster.
    #[cfg(test)]
    pub(super) fn client(&self, cluster: &str) -> Arc<DataClient> {
        Arc::clone(&self.state().clients[cluster].1)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A change that panicked half way left clients that can be closed all the same.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
