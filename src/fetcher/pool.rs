//! The clients that the workers of one process share.

use std::collections::BTreeMap;
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
use crate::model::{ClientProperties, ClusterId, StreamsMetadata};

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
    clients: BTreeMap<ClusterId, (ClientProperties, Arc<DataClient>)>,
    /// How many they are, for the shares of those to come.
    count: ClientCount,
    /// The ends of the clients that were started and are not known to be over.
    ends: Vec<Ended>,
    started: u64,
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
            clients: BTreeMap::new(),
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

    /// The clients of `metadata`, or of newer metadata that another worker has adopted already, and
    /// what a person should know of the change.
    pub(super) fn adopt(
        &self,
        epoch: MetadataEpoch,
        metadata: &StreamsMetadata,
    ) -> (BTreeMap<ClusterId, Arc<DataClient>>, Vec<Health>) {
        let mut state = self.state();
        let mut health = Vec::new();
        if epoch > state.epoch {
            state.epoch = epoch;
            self.change(&mut state, metadata, &mut health);
        }
        let clients = state
            .clients
            .iter()
            .map(|(cluster, (_, client))| (cluster.clone(), Arc::clone(client)))
            .collect();
        (clients, health)
    }

    fn change(&self, state: &mut State, metadata: &StreamsMetadata, health: &mut Vec<Health>) {
        state
            .ends
            .retain(|end| end.try_recv() != Err(crossbeam_channel::TryRecvError::Disconnected));
        let topics = metadata.topics();
        // A client that stays keeps its share: the limit has no setter, and another client would lose
        // what this one has fetched.
        let own = topics
            .keys()
            .filter(|cluster| metadata.clusters.contains_key(**cluster))
            .count();
        let clients = state.count.set(own);
        let workers = self.waker.count();
        let mut before = std::mem::take(&mut state.clients);
        for (cluster, reached) in &metadata.clusters {
            if !topics.contains_key(cluster) {
                continue;
            }
            let kept = before
                .remove(cluster)
                .filter(|(properties, _)| *properties == reached.properties);
            if let Some(kept) = kept {
                state.clients.insert(cluster.clone(), kept);
                continue;
            }
            state.started += 1;
            let sharers = Sharers { clients, workers };
            let properties = self.settings.data(&reached.properties, sharers);
            let started = DataClient::start(state.started, cluster, properties);
            match started {
                Ok((client, end)) => {
                    state.ends.push(end);
                    let entry = (reached.properties.clone(), client);
                    state.clients.insert(cluster.clone(), entry);
                }
                Err(error) => health.push(Health::new(
                    format!("cluster {cluster}"),
                    HealthStatus::Failing(FailureKind::Transient),
                    format!("the thread of its client cannot be started: {error}"),
                )),
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
