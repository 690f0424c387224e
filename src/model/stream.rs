//! Kafka streams and the clusters they live in.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use timely_splits::split::Metadata;

use super::{ClientProperties, ClusterId, KafkaSplit, StreamId, TopicName};

/// All that a metadata service says at one time.
///
/// # Invariants
///
/// Every cluster that a stream names is described. This is what
/// [`MetadataService`](crate::metadata::MetadataService) promises, and what a source checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StreamsMetadata {
    /// How each cluster is reached.
    pub clusters: BTreeMap<ClusterId, ClusterMetadata>,
    /// What each stream consists of.
    pub streams: BTreeMap<StreamId, KafkaStream>,
}

/// How a cluster is reached: brokers behind one set of client properties.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClusterMetadata {
    /// Properties of every client of this cluster.
    pub properties: ClientProperties,
}

/// A named set of topics over one or more clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KafkaStream {
    /// What the stream reads of each cluster.
    pub clusters: BTreeMap<ClusterId, StreamTopics>,
}

/// What a stream reads of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StreamTopics {
    /// The topics.
    pub topics: BTreeSet<TopicName>,
    /// Where reading starts; `None` leaves it to the source.
    pub start: Option<StartAt>,
    /// Where reading stops; `None` leaves it to the source.
    pub stop: Option<StopAt>,
}

/// Where the reading of a partition starts that was never read before.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[non_exhaustive]
pub enum StartAt {
    /// At the first record that the broker still holds.
    #[default]
    Earliest,
    /// After the last record that is there when the partition is found.
    Latest,
}

/// Where the reading of a partition stops.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[non_exhaustive]
pub enum StopAt {
    /// Nowhere: records that are yet to be written are read too.
    #[default]
    Never,
}

impl Metadata<KafkaSplit> for StreamsMetadata {
    fn lists(&self, split: &KafkaSplit) -> bool {
        self.clusters.contains_key(&split.cluster)
            && self.streams.values().any(|stream| {
                stream
                    .clusters
                    .get(&split.cluster)
                    .is_some_and(|read| read.topics.contains(&split.topic))
            })
    }
}

impl StreamsMetadata {
    /// The topics to read, by cluster, over all streams.
    #[must_use]
    pub fn topics(&self) -> BTreeMap<&ClusterId, BTreeSet<&TopicName>> {
        let mut topics: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for stream in self.streams.values() {
            for (cluster, read) in &stream.clusters {
                topics.entry(cluster).or_default().extend(&read.topics);
            }
        }
        topics
    }

    /// The starting rule of a topic: that of the first stream, by name, that gives one.
    #[must_use]
    pub fn start(&self, cluster: &ClusterId, topic: &TopicName) -> Option<StartAt> {
        self.streams
            .values()
            .filter_map(|stream| stream.clusters.get(cluster))
            .filter(|read| read.topics.contains(topic))
            .find_map(|read| read.start)
    }
}
