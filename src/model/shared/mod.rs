//! An answer of a metadata service as it is handed around.

#[cfg(test)]
mod tests;

#[cfg(test)]
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use timely_splits::log::{Stored, StoredError};
use timely_splits::loss::{LossKind, LossPolicy};
use timely_splits::split::{Metadata, Shrink};

use super::{ClusterId, KafkaSplit, StreamsMetadata, TopicName};

/// An answer of a metadata service, which everybody shares who is told of it.
///
/// A clone costs nothing. What it changes of the answer before it is found out once, where it comes from the
/// service: comparing the two again, in whatever order, is a matter of what they differ in, and not of all that
/// they have in common. Any other two are compared as a whole.
///
/// # Examples
///
/// ```
/// use timely_kafka::model::{SharedMetadata, StreamsMetadata};
///
/// let shared = SharedMetadata::from(StreamsMetadata::new());
/// assert!(shared.clusters.is_empty());
/// ```
#[derive(Clone)]
pub struct SharedMetadata(Arc<Answer>);

struct Answer {
    /// Tells the answers of this process apart.
    number: u64,
    metadata: StreamsMetadata,
    listed: Counts,
    /// What it changes of the answer before it, from which it differs.
    after: Option<Changes>,
}

/// How many clusters and topics are listed.
#[derive(Clone, Copy, Default)]
struct Counts {
    clusters: usize,
    topics: usize,
}

/// The clusters of which another answer says something else.
struct Changes {
    of: u64,
    clusters: BTreeSet<ClusterId>,
}

impl From<StreamsMetadata> for SharedMetadata {
    fn from(metadata: StreamsMetadata) -> Self {
        let mut listed = Counts::default();
        for topics in metadata.listed().values() {
            listed.add(topics.len());
        }
        Self::of(metadata, listed, None)
    }
}

impl Counts {
    fn add(&mut self, topics: usize) {
        self.clusters += usize::from(topics > 0);
        self.topics += topics;
    }

    fn remove(&mut self, topics: usize) {
        self.clusters -= usize::from(topics > 0);
        self.topics -= topics;
    }
}

impl SharedMetadata {
    fn of(metadata: StreamsMetadata, listed: Counts, after: Option<Changes>) -> Self {
        // It orders nothing.
        static ANSWERS: AtomicU64 = AtomicU64::new(0);
        let number = ANSWERS.fetch_add(1, atomic::Ordering::Relaxed);
        Self(Arc::new(Answer {
            number,
            metadata,
            listed,
            after,
        }))
    }

    /// `metadata`, which is answered after this; this itself if it is the same.
    pub(crate) fn followed_by(&self, metadata: StreamsMetadata) -> Self {
        let before = self.whole();
        if *before == metadata {
            return self.clone();
        }
        let clusters: BTreeSet<_> = before.changed_clusters(&metadata).into_iter().collect();
        let mut listed = self.0.listed;
        for cluster in &clusters {
            listed.remove(before.topics_of(cluster).len());
            listed.add(metadata.topics_of(cluster).len());
        }
        let after = Changes {
            of: self.0.number,
            clusters: clusters.into_iter().cloned().collect(),
        };
        Self::of(metadata, listed, Some(after))
    }

    /// The clusters of which the two say something else, if one was answered right after the other, or is it.
    fn known_changes<'a>(&'a self, other: &'a Self) -> Option<&'a BTreeSet<ClusterId>> {
        static NONE: BTreeSet<ClusterId> = BTreeSet::new();
        if self.0.number == other.0.number {
            return Some(&NONE);
        }
        let follows = |one: &'a Self, before: &Self| {
            let after = one.0.after.as_ref()?;
            (after.of == before.0.number).then_some(&after.clusters)
        };
        follows(self, other).or_else(|| follows(other, self))
    }

    /// The clusters of which `next` says something else.
    pub(crate) fn changes(&self, next: &Self) -> BTreeSet<ClusterId> {
        if let Some(known) = self.known_changes(next) {
            return known.clone();
        }
        let changed = self.whole().changed_clusters(next.whole()).into_iter();
        changed.cloned().collect()
    }

    /// All of it, for whoever goes through it: that takes the longer the more it lists.
    fn whole(&self) -> &StreamsMetadata {
        #[cfg(test)]
        WALKS.set(WALKS.get() + 1);
        &self.0.metadata
    }
}

impl Deref for SharedMetadata {
    type Target = StreamsMetadata;

    fn deref(&self) -> &StreamsMetadata {
        &self.0.metadata
    }
}

impl fmt::Debug for SharedMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.metadata.fmt(f)
    }
}

impl PartialEq for SharedMetadata {
    fn eq(&self, other: &Self) -> bool {
        if self.0.number == other.0.number {
            return true;
        }
        // What follows on an answer differs from it, be it not in what it says of clusters.
        self.known_changes(other).is_none() && self.whole() == other.whole()
    }
}

impl Eq for SharedMetadata {}

impl PartialOrd for SharedMetadata {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedMetadata {
    fn cmp(&self, other: &Self) -> Ordering {
        self.whole().cmp(other.whole())
    }
}

impl Hash for SharedMetadata {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.whole().hash(state);
    }
}

impl Serialize for SharedMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.whole().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedMetadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        StreamsMetadata::deserialize(deserializer).map(Self::from)
    }
}

impl Stored for SharedMetadata {
    fn store(&self) -> Vec<u8> {
        self.whole().store()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        StreamsMetadata::restore(bytes).map(Self::from)
    }
}

impl Metadata<KafkaSplit> for SharedMetadata {
    type Group = (ClusterId, TopicName);

    fn group_of(split: &KafkaSplit) -> Self::Group {
        StreamsMetadata::group_of(split)
    }

    fn lists_group(&self, group: &Self::Group) -> bool {
        self.0.metadata.lists_group(group)
    }

    fn changed_groups(&self, next: &Self) -> Vec<Self::Group> {
        let mut groups = Vec::new();
        for cluster in self.changes(next) {
            let (before, after) = (self.topics_of(&cluster), next.topics_of(&cluster));
            let changed = before.symmetric_difference(&after).copied();
            groups.extend(changed.map(|topic| (cluster.clone(), topic.clone())));
        }
        groups
    }

    fn lists_place_of(&self, group: &Self::Group) -> bool {
        self.0.metadata.lists_place_of(group)
    }

    fn reads_again(&self, group: &Self::Group) -> bool {
        self.0.metadata.reads_again(group)
    }

    fn loss_policy(&self, split: &KafkaSplit, kind: LossKind) -> Option<LossPolicy> {
        self.0.metadata.loss_policy(split, kind)
    }

    fn shrinks(&self, next: &Self) -> Vec<Shrink> {
        let streams = [self, next].map(|all| all.streams.keys().collect());
        let changes = self.changes(next);
        let (mut clusters, mut topics) = (Vec::new(), Vec::new());
        for cluster in &changes {
            let (before, after) = (self.topics_of(cluster), next.topics_of(cluster));
            if after.is_empty() && !before.is_empty() {
                clusters.push(cluster.to_string());
            }
            let lost = before.difference(&after);
            topics.extend(lost.map(|topic| format!("{cluster}/{topic}")));
        }
        let listed = self.0.listed;
        vec![
            Shrink::between("streams", &streams[0], &streams[1]),
            Shrink {
                kind: "clusters",
                lost: clusters,
                of: listed.clusters,
            },
            Shrink {
                kind: "topics",
                lost: topics,
                of: listed.topics,
            },
        ]
    }

    fn interim(&self, next: &Self) -> Option<Self> {
        self.0.metadata.interim(&next.0.metadata).map(Self::from)
    }
}

#[cfg(test)]
thread_local! {
    /// How often all of an answer was gone through on this thread.
    pub(crate) static WALKS: Cell<usize> = const { Cell::new(0) };
}
