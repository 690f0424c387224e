//! What metadata says of one cluster, and of which clusters two answers say different things.

use std::collections::{BTreeMap, BTreeSet};

use super::{ClusterId, KafkaStream, StreamTopics, StreamsMetadata, TopicName};

impl KafkaStream {
    /// Whether what this and `other` say of a cluster means the same if it is the same.
    fn reads_alike(&self, other: &Self) -> bool {
        self.starts == other.starts && self.stop == other.stop
    }
}

impl StreamsMetadata {
    /// The clusters of which `next` says something else: how they are reached, what is read of them, or from
    /// where to where.
    ///
    /// It compares and copies nothing: what did not change is to cost next to nothing.
    pub(crate) fn changed_clusters<'a>(&'a self, next: &'a Self) -> BTreeSet<&'a ClusterId> {
        let mut changed = BTreeSet::new();
        differing(&self.clusters, &next.clusters, &mut changed);
        let both = self.streams.keys().chain(next.streams.keys());
        let ids: BTreeSet<_> = both.collect();
        for id in ids {
            let clusters = |stream: Option<&'a KafkaStream>| stream.map(|stream| &stream.clusters);
            match (self.streams.get(id), next.streams.get(id)) {
                (Some(before), Some(after)) if before.reads_alike(after) => {
                    differing(&before.clusters, &after.clusters, &mut changed);
                }
                (before, after) => {
                    let all = clusters(before).into_iter().chain(clusters(after));
                    changed.extend(all.flat_map(BTreeMap::keys));
                }
            }
        }
        changed
    }

    /// What each stream that reads a cluster says of it.
    fn reading(&self, cluster: &ClusterId) -> impl Iterator<Item = &StreamTopics> {
        let streams = self.streams.values();
        streams.filter_map(move |stream| stream.clusters.get(cluster))
    }

    /// Whether a cluster is described and a stream names it.
    pub(crate) fn lists_cluster(&self, cluster: &ClusterId) -> bool {
        self.clusters.contains_key(cluster) && self.reading(cluster).next().is_some()
    }

    /// The topics to read of a cluster, over all streams; none if it is not described.
    pub(crate) fn topics_of(&self, cluster: &ClusterId) -> BTreeSet<&TopicName> {
        let described = self.clusters.contains_key(cluster);
        let streams = self.reading(cluster).filter(|_| described);
        streams.flat_map(|read| &read.topics).collect()
    }
}

/// Notes the keys that only one of the two has, or with another value.
fn differing<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    after: &'a BTreeMap<K, V>,
    noted: &mut BTreeSet<&'a K>,
) {
    let mut other = after.iter().peekable();
    for (key, value) in before {
        while let Some((added, _)) = other.next_if(|(other, _)| *other < key) {
            noted.insert(added);
        }
        match other.next_if(|(other, _)| *other == key) {
            Some((_, same)) if same == value => {}
            Some(_) | None => {
                noted.insert(key);
            }
        }
    }
    noted.extend(other.map(|(key, _)| key));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClientProperties, NameError, StartAt, StopAt};

    /// A stream of topics of clusters `a`, `b`, ..., which are all described.
    fn metadata(
        topics: &[&[&str]],
        more: impl Fn(KafkaStream) -> KafkaStream,
    ) -> Result<StreamsMetadata, NameError> {
        let mut metadata = StreamsMetadata::new();
        let mut stream = KafkaStream::new();
        for (name, of_cluster) in ["a", "b", "c", "d"].into_iter().zip(topics) {
            metadata = metadata.with_cluster(name, ClientProperties::new())?;
            stream = stream.with_topics(name, of_cluster.iter().copied())?;
        }
        metadata.with_stream("orders", more(stream))
    }

    #[test]
    fn a_cluster_has_changed_only_if_something_else_is_said_of_it() -> Result<(), NameError> {
        let same = |stream| stream;
        let before = metadata(&[&["x"], &["x"], &["x"]], same)?;
        let changed = |after: &StreamsMetadata| {
            let changed = before.changed_clusters(after);
            let back = after.changed_clusters(&before);
            assert_eq!(changed, back);
            changed
                .into_iter()
                .map(|id| id.as_str().to_owned())
                .collect::<String>()
        };

        assert_eq!(changed(&before), "");
        assert_eq!(
            changed(&metadata(&[&["x"], &["x"], &["x"], &["x"]], same)?),
            "d"
        );
        assert_eq!(changed(&metadata(&[&["x"], &["x", "y"]], same)?), "bc");
        let started = before
            .clone()
            .streams
            .into_values()
            .next()
            .unwrap_or_default();
        let started = started.with_topic_start("b", "x", StartAt::Latest)?;
        assert_eq!(
            changed(&before.clone().with_stream("orders", started)?),
            "b"
        );
        let reached = ClientProperties::new().with("client.id", "other");
        assert_eq!(changed(&before.clone().with_cluster("c", reached)?), "c");
        let stops = |stream: KafkaStream| stream.with_stops(StopAt::End);
        assert_eq!(changed(&metadata(&[&["x"], &["x"], &["x"]], stops)?), "abc");
        let other = KafkaStream::new().with_topics("a", ["y"])?;
        assert_eq!(changed(&before.clone().with_stream("other", other)?), "a");
        assert_eq!(changed(&StreamsMetadata::new()), "abc");
        Ok(())
    }
}
