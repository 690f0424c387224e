//! A librdkafka client as long as it lives: its queues, and exactly what it reads.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use timely_splits::epoch::SplitEpoch;

use super::client::{PartitionName, WorkerLink};
use super::ffi::{
    CLOSE_WAIT_MAX, ClientKind, NativeClient, NativeError, NativeEvent, NativeQueue, StartReading,
};
use crate::metadata::secret::{ResolvedProperties, SecretError};
use crate::model::{ClusterId, KafkaPosition, KafkaSplit};

/// The most that is taken of one queue of the client's own at a time.
const EVENTS_MAX: usize = 1024;

/// Who reads a partition.
#[derive(Clone, Debug)]
pub(super) struct Assigned {
    pub(super) worker: usize,
    pub(super) split: KafkaSplit,
    pub(super) split_epoch: SplitEpoch,
    pub(super) start: KafkaPosition,
}

/// Why no client can be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// A property refers to something that is not there.
    #[error("{}", with_sources(.0))]
    Secret(#[from] SecretError),
    /// librdkafka refuses.
    #[error("{error}")]
    Native {
        /// Its words.
        error: NativeError,
        /// Whether it refuses a value that came by reference.
        by_reference: bool,
    },
}

impl OpenError {
    /// Whether it may pass without a change of the metadata: what a property refers to may come to be
    /// or be put right, a value that the metadata has itself stays as it is.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Secret(SecretError::Reference { .. }) => false,
            Self::Secret(_) => true,
            Self::Native {
                error,
                by_reference,
            } => *by_reference || error.property.is_none(),
        }
    }
}

/// An error in one line, with its causes.
fn with_sources(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        line.push_str(": ");
        line.push_str(&source.to_string());
        cause = source.source();
    }
    line
}

/// The client and the queues on it.
pub(super) struct Open {
    pub(super) client: Arc<NativeClient>,
    main: NativeQueue,
    consumer: Option<NativeQueue>,
    /// The queue of each worker.
    pub(super) queues: BTreeMap<usize, Arc<NativeQueue>>,
    /// Exactly what the client reads: it refuses to give up what it does not read.
    pub(super) assigned: BTreeMap<PartitionName, Assigned>,
}

impl Open {
    /// Makes a client.
    pub(super) fn new(properties: &ResolvedProperties) -> Result<Self, OpenError> {
        let (kind, mask) = (ClientKind::Consumer, properties.mask());
        let client = NativeClient::new(kind, properties.iter(), mask).map_err(|error| {
            let refused = error.property.as_deref();
            let by_reference = refused.is_some_and(|name| properties.refers(name));
            OpenError::Native {
                error,
                by_reference,
            }
        })?;
        Ok(Self {
            main: NativeQueue::main(&client),
            consumer: NativeQueue::consumer(&client),
            queues: BTreeMap::new(),
            assigned: BTreeMap::new(),
            client,
        })
    }

    /// Makes the queue of a worker.
    pub(super) fn join(&mut self, cluster: &ClusterId, link: &Arc<WorkerLink>) -> Arc<NativeQueue> {
        let on_filled = link.on_filled(cluster);
        let queue = Arc::new(NativeQueue::telling(&self.client, on_filled));
        self.queues.insert(link.worker, Arc::clone(&queue));
        queue
    }

    /// What the client has to say, as much as there is at the beginning and within a bound.
    pub(super) fn events(&self) -> impl Iterator<Item = NativeEvent> {
        std::iter::once(&self.main)
            .chain(&self.consumer)
            .flat_map(|queue| std::iter::from_fn(|| queue.poll(Duration::ZERO)).take(EVENTS_MAX))
    }

    /// Begins to read these too; all of them or none.
    pub(super) fn start(&self, starting: &[(PartitionName, Assigned)]) -> Result<(), NativeError> {
        let starts: Vec<StartReading<'_>> = starting
            .iter()
            .map(|((topic, number), assigned)| StartReading {
                topic: topic.as_str(),
                partition: number.0,
                offset: assigned.start.next.get().cast_signed(),
                leader_epoch: assigned.start.leader_epoch.map(|epoch| epoch.0),
                queue: &self.queues[&assigned.worker],
            })
            .collect();
        self.client.incremental_assign(&starts)
    }

    /// Closes the client and says whether it is gone in time.
    pub(super) fn close(self) -> bool {
        let Self {
            client,
            main,
            consumer,
            queues,
            assigned: _,
        } = self;
        drop((main, consumer, queues));
        client.close().wait_until(Instant::now() + CLOSE_WAIT_MAX)
    }
}
