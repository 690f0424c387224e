//! An answer of a metadata service as it is handed around.

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
    pub(crate) static WALKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;
    use std::time::Duration;

    use timely_splits::assignor::{ReaderProfile, StickyBalanced};
    use timely_splits::coordinator::{Coordinator, CoordinatorOptions, Intention};
    use timely_splits::discovery::DiscoveryEvent;
    use timely_splits::epoch::ReaderId;
    use timely_splits::protocol::Configuration;
    use timely_splits::reader::{ReaderAction, ReaderOptions, ReaderState};

    use crate::model::{ClientProperties, KafkaStream, OnReturn};

    /// The topics of a cluster, by its number.
    type Read<'a> = (usize, &'a [&'a str]);

    fn metadata(streams: &[(&str, &[Read<'_>])]) -> StreamsMetadata {
        let mut all = StreamsMetadata::new();
        for (name, read) in streams {
            let mut stream = KafkaStream::new();
            for (cluster, topics) in *read {
                let cluster = format!("c{cluster}");
                all = all.with_cluster(&cluster, ClientProperties::new()).unwrap();
                stream = stream
                    .with_topics(&cluster, topics.iter().copied())
                    .unwrap();
            }
            all = all.with_stream(name, stream).unwrap();
        }
        all
    }

    fn answers() -> Vec<StreamsMetadata> {
        let one = metadata(&[("s", &[(1, &["a", "b"])])]);
        let two = metadata(&[("s", &[(1, &["a", "b"]), (2, &["a"])])]);
        let properties = ClientProperties::new().with("client.id", "other");
        let read_again = two.streams["s"].clone().with_return(OnReturn::ReadAgain);
        vec![
            StreamsMetadata::new(),
            one.clone(),
            two.clone(),
            metadata(&[("s", &[(1, &["a"]), (2, &[])]), ("t", &[(3, &["a", "c"])])]),
            metadata(&[("s", &[(1, &["b"])]), ("t", &[(1, &["a"]), (2, &["a"])])]),
            two.clone().with_cluster("c2", properties).unwrap(),
            two.with_stream("s", read_again).unwrap(),
            // What is read of a cluster that is not described.
            one.with_stream("t", KafkaStream::new().with_topics("c9", ["a"]).unwrap())
                .unwrap(),
        ]
    }

    #[test]
    fn what_an_answer_changes_of_the_one_before_is_what_a_comparison_of_all_says() {
        for before in answers() {
            for after in answers() {
                // Counted from the first, found from what is counted.
                let first = SharedMetadata::from(StreamsMetadata::new());
                let one = first.followed_by(before.clone());
                let two = one.followed_by(after.clone());
                for (here, there, whole, other) in
                    [(&one, &two, &before, &after), (&two, &one, &after, &before)]
                {
                    assert_eq!(here == there, before == after);
                    let clusters: BTreeSet<_> =
                        whole.changed_clusters(other).into_iter().cloned().collect();
                    assert_eq!(here.changes(there), clusters);
                    assert_eq!(here.changed_groups(there), whole.changed_groups(other));
                    assert_eq!(here.shrinks(there), whole.shrinks(other));
                    assert_eq!(
                        here.interim(there).as_deref(),
                        whole.interim(other).as_ref()
                    );
                }
            }
        }
    }

    /// A coordinator with two readers, without the world around them.
    struct Deciding {
        coordinator: Coordinator<KafkaSplit, StickyBalanced>,
        readers: Vec<ReaderState<KafkaSplit, ()>>,
        /// How often a reader had its fetcher adopt an epoch.
        adopted: usize,
        now: Duration,
    }

    impl Deciding {
        fn begin() -> Self {
            let reader = |id| {
                let profile = ReaderProfile {
                    id: ReaderId(id),
                    capacity: NonZeroU32::MIN,
                    rack: None,
                };
                ReaderState::new(profile, ReaderOptions::default(), Configuration::new())
            };
            let mut begun = Self {
                coordinator: Coordinator::new(CoordinatorOptions::new(2), StickyBalanced),
                readers: (0..2).map(reader).collect(),
                adopted: 0,
                now: Duration::from_secs(1_000),
            };
            begun.coordinator.handle_opened(&[], begun.now);
            begun.settle();
            begun
        }

        fn answer(&mut self, metadata: SharedMetadata) {
            let event = DiscoveryEvent::Metadata(metadata);
            self.coordinator.handle_discovery(event, self.now);
            self.settle();
        }

        /// Passes on what is said until nothing is.
        fn settle(&mut self) {
            loop {
                for reader in &mut self.readers {
                    while let Some(action) = reader.poll() {
                        match action {
                            ReaderAction::Report(report) => {
                                self.coordinator.handle_report(report, self.now);
                            }
                            ReaderAction::Adopt(..) => self.adopted += 1,
                            _ => {}
                        }
                    }
                }
                let Some(intention) = self.coordinator.poll() else {
                    return;
                };
                match intention {
                    Intention::Send(reader, directive) => {
                        self.readers[reader.0].handle_directive(directive, self.now);
                    }
                    Intention::Append(..) => self.coordinator.handle_appended(self.now),
                    _ => {}
                }
            }
        }
    }

    /// Each epoch copied and compared all that is listed, on the coordinator's thread and on each reader's, so
    /// that a cluster cost the more the more there were.
    #[test]
    fn who_decides_goes_through_nothing_that_an_answer_does_not_change() {
        let of = |count: usize| {
            let clusters = (0..count).map(|number| (number, &["a", "b"][..]));
            metadata(&[("s", &clusters.collect::<Vec<_>>())])
        };
        let mut deciding = Deciding::begin();
        let few = SharedMetadata::from(of(50));
        let more = few.followed_by(of(51));
        let few_again = more.followed_by(of(50));
        deciding.answer(few);
        let (walks, adopted) = (WALKS.get(), deciding.adopted);

        deciding.answer(more);
        deciding.answer(few_again);

        assert_eq!(deciding.adopted - adopted, 4);
        assert_eq!(WALKS.get() - walks, 0);
    }

    #[test]
    fn an_answer_is_stored_and_sent_as_the_metadata_that_it_is() {
        for metadata in answers() {
            let shared = SharedMetadata::from(metadata.clone());

            let stored = SharedMetadata::restore(&shared.store()).unwrap();
            let sent = serde_json::to_string(&shared).unwrap();

            assert_eq!(*stored, metadata);
            assert_eq!(sent, serde_json::to_string(&metadata).unwrap());
            assert_eq!(
                serde_json::from_str::<SharedMetadata>(&sent).unwrap(),
                shared
            );
        }
    }
}
