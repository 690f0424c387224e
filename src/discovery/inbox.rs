//! What the timely thread leaves for a control thread.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use timely_splits::discovery::DiscoveryEvent;
use timely_splits::epoch::{MetadataEpoch, RequestId};

use crate::model::{
    ClientProperties, KafkaPosition, KafkaSplit, StartAt, StartRules, StopAt, TopicName,
};

/// Up to where splits are bound.
///
/// Bounded by the splits of the cluster: a later position replaces an earlier one.
pub(super) type Bound = BTreeMap<KafkaSplit, KafkaPosition>;

/// What to look for in one cluster.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The metadata epoch since which it is so.
    pub(super) epoch: MetadataEpoch,
    /// The topics, and by which rules they are read.
    pub(super) topics: BTreeMap<TopicName, TopicRules>,
    /// How the cluster is reached, with references to secrets.
    pub(super) properties: ClientProperties,
}

impl Target {
    /// Whether nothing is to be asked anew if `other` takes its place: they differ in their epochs at most.
    pub(super) fn asks_the_same(&self, other: &Self) -> bool {
        self.topics == other.topics && self.properties == other.properties
    }

    /// Whether this and `next` list a topic, and every one in between did.
    pub(super) fn keeps(&self, next: &Self, topic: &TopicName) -> bool {
        let since = |target: &Self| target.topics.get(topic).map(|rules| rules.since);
        since(self).is_some() && since(self) == since(next)
    }
}

/// By which rules a topic is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopicRules {
    /// The metadata epoch since which it is listed. A thread may not have seen that it was not for a while.
    pub(super) since: MetadataEpoch,
    /// Where reading starts, as far as anybody says it.
    pub(super) starts: StartRules,
    /// Where reading stops.
    pub(super) stop: StopAt,
}

/// A split whose start is wanted, or whose end.
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
    /// That of its topic, which appeared along with its cluster.
    OfNewCluster,
    /// That of its topic, which appeared on a known cluster.
    OfNewTopic,
    /// That of its topic for partitions that were added to it.
    OfNewPartitions,
    /// This one.
    Given(StartAt),
    /// None: it is wanted where the split ends.
    End,
}

/// Splits of which it is wanted what they are, now.
#[derive(Clone, Debug)]
pub(super) struct WantedIdentities {
    pub(super) request: RequestId,
    pub(super) splits: Vec<KafkaSplit>,
}

impl WantedIdentities {
    /// The answer that nobody can tell.
    pub(super) fn unknown(self) -> DiscoveryEvent<KafkaSplit> {
        let splits = self.splits.into_iter();
        DiscoveryEvent::Identified {
            request: self.request,
            splits: splits.map(|split| (split, None)).collect(),
        }
    }
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
    /// Bounded by the coordinator, which asks about each topic once until it is answered or found.
    pub(super) identities: Vec<WantedIdentities>,
    /// Splits of which it is wanted what there is: one request a split.
    pub(super) judgements: BTreeMap<KafkaSplit, RequestId>,
}

impl Post {
    fn is_empty(&self) -> bool {
        let nothing_asked = self.identities.is_empty() && self.judgements.is_empty();
        self.target.is_none() && self.starts.is_empty() && nothing_asked
    }
}

#[derive(Debug, Default)]
struct State {
    post: Post,
    /// What is to be committed.
    bound: Bound,
    /// Whether something that was done aside is to be looked at.
    nudged: bool,
    closed: bool,
    /// When a thread whose inbox is closed commits what is bound by then; `None` if nothing more is
    /// bound.
    lingers_until: Option<Instant>,
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

    /// Asks what splits are.
    pub(super) fn post_identities(&self, wanted: WantedIdentities) {
        self.lock().post.identities.push(wanted);
        self.changed.notify_one();
    }

    /// Asks what there is of `split`. A later request for it replaces an earlier one.
    pub(super) fn post_judgement(&self, request: RequestId, split: KafkaSplit) {
        self.lock().post.judgements.insert(split, request);
        self.changed.notify_one();
    }

    /// Has the control thread look at what was done aside.
    pub(super) fn nudge(&self) {
        self.lock().nudged = true;
        self.changed.notify_one();
    }

    /// Notes up to where `split` is bound.
    pub(super) fn post_bound(&self, split: &KafkaSplit, position: KafkaPosition) {
        let mut state = self.lock();
        // A thread that waits knows when the next commit is due, but not that there is one.
        if state.bound.is_empty() {
            self.changed.notify_one();
        }
        match state.bound.get_mut(split) {
            Some(before) => *before = position,
            None => {
                state.bound.insert(split.clone(), position);
            }
        }
    }

    /// Takes what is to be committed.
    pub(super) fn take_bound(&self) -> Bound {
        std::mem::take(&mut self.lock().bound)
    }

    /// Gives back what could not be committed, unless there is something later.
    pub(super) fn give_back(&self, bound: Bound) {
        let mut state = self.lock();
        for (split, position) in bound {
            state.bound.entry(split).or_insert(position);
        }
    }

    /// Ends the control thread, which commits what is bound within `linger` yet.
    pub(super) fn retire(&self, linger: Duration) {
        self.close(Some(Instant::now() + linger));
    }

    /// Whether there is a thread that commits what is bound yet.
    pub(super) fn is_lingering(&self) -> bool {
        let until = self.lock().lingers_until;
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Ends the control thread: nothing more is bound.
    pub(super) fn end(&self) {
        self.close(None);
    }

    fn close(&self, lingers_until: Option<Instant>) {
        let mut state = self.lock();
        state.closed = true;
        state.lingers_until = lingers_until;
        self.changed.notify_one();
    }

    /// Takes what was asked before the inbox was closed, and by whoever looked into it not seen.
    pub(super) fn take_unseen(&self) -> Post {
        std::mem::take(&mut self.lock().post)
    }

    /// Waits until nothing more is bound, in a closed inbox, and takes what is left to commit.
    pub(super) fn take_last(&self) -> Bound {
        let mut state = self.lock();
        while let Some(until) = state.lingers_until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut state.bound)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes what was left, as soon as there is something or it is `until`, or `commit_from` and
    /// there is something to commit; `None` when closed.
    pub(super) fn take(
        &self,
        until: Option<Instant>,
        commit_from: Option<Instant>,
    ) -> Option<Post> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let now = Instant::now();
            let commit_from = commit_from.filter(|_| !state.bound.is_empty());
            let until = [until, commit_from].into_iter().flatten().min();
            let nudged = std::mem::take(&mut state.nudged);
            if nudged || !state.post.is_empty() || until.is_some_and(|until| until <= now) {
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
