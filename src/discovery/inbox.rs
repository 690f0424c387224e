//! What the timely thread leaves for a control thread.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use timely_splits::epoch::{MetadataEpoch, RequestId};

use crate::model::{ClientProperties, KafkaSplit, StartAt, StartRules, TopicName};

/// What to look for in one cluster.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The metadata epoch that says so.
    pub(super) epoch: MetadataEpoch,
    /// The topics, and where reading them starts as far as the metadata says it.
    pub(super) topics: BTreeMap<TopicName, StartRules>,
    /// How the cluster is reached, with references to secrets.
    pub(super) properties: ClientProperties,
}

impl Target {
    /// Whether `other` differs in its epoch at most.
    pub(super) fn asks_the_same(&self, other: &Self) -> bool {
        self.topics == other.topics && self.properties == other.properties
    }
}

/// A split whose start is wanted.
#[derive(Clone, Debug)]
pub(super) struct WantedStart {
    pub(super) request: RequestId,
    pub(super) split: KafkaSplit,
    pub(super) rule: Wanting,
}

/// By which rule the start of a split is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanting {
    /// That of its topic.
    OfTopic,
    /// That of its topic for partitions that were added to it.
    OfNewPartitions,
    /// This one.
    Given(StartAt),
}

/// What was left since the inbox was last looked into.
#[derive(Debug, Default)]
pub(super) struct Post {
    /// The latest target, if there is a new one.
    pub(super) target: Option<Target>,
    /// Splits whose start is wanted.
    ///
    /// Bounded by the splits of the cluster: the coordinator asks for each once.
    pub(super) starts: Vec<WantedStart>,
}

#[derive(Debug, Default)]
struct State {
    post: Post,
    closed: bool,
}

/// Where the timely thread leaves what a control thread is to do.
///
/// The lock is held for the time of a push or a swap, never while anybody waits for anything else.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

impl Inbox {
    /// Replaces the target.
    pub(super) fn post_target(&self, target: Target) {
        self.lock().post.target = Some(target);
        self.changed.notify_one();
    }

    /// Asks where reading `split` starts.
    pub(super) fn post_start(&self, wanted: WantedStart) {
        self.lock().post.starts.push(wanted);
        self.changed.notify_one();
    }

    /// Ends the control thread: what it still says is not heard.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes what was left, as soon as there is something or it is `until`; `None` when closed.
    pub(super) fn take(&self, until: Option<Instant>) -> Option<Post> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let now = Instant::now();
            let empty = state.post.target.is_none() && state.post.starts.is_empty();
            if !empty || until.is_some_and(|until| until <= now) {
                return Some(std::mem::take(&mut state.post));
            }
            state = match until {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let waited = self.changed.wait_timeout(state, until - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is behind the lock is whole after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
