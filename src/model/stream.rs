//! Kafka streams and the clusters they live in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use timely_splits::loss::{LossKind, LossPolicy};
use timely_splits::split::{Metadata, Shrink};

use super::{
    ClientProperties, ClusterId, KafkaSplit, LossRules, NameError, OnRemoval, StartAt, StartRules,
    StopAt, StreamId, TopicName,
};

/// All that a metadata service says at one time.
///
/// # Invariants
///
/// Every cluster that a stream names is described. This is what
/// [`MetadataService`](crate::metadata::MetadataService) promises, and what a source checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamsMetadata {
    /// How each cluster is reached.
    pub clusters: BTreeMap<ClusterId, ClusterMetadata>,
    /// What each stream consists of.
    pub streams: BTreeMap<StreamId, KafkaStream>,
}

/// How a cluster is reached: brokers behind one set of client properties.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterMetadata {
    /// Properties of every client of this cluster.
    pub properties: ClientProperties,
}

/// A named set of topics over one or more clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KafkaStream {
    /// What the stream reads of each cluster.
    pub clusters: BTreeMap<ClusterId, StreamTopics>,
    /// Where reading starts in clusters that do not say it.
    pub starts: StartRules,
    /// Where reading stops in clusters that do not say it; `None` leaves it to the source.
    pub stop: Option<StopAt>,
    /// What is done about records that are no longer there.
    pub losses: LossRules,
    /// What becomes of a topic that comes back; `None` leaves it to other streams that read it, and
    /// without them its partitions are resumed.
    pub on_return: Option<OnReturn>,
    /// What becomes of topics that are removed from it; `None` leaves it to other streams that read them,
    /// and without them they are cut.
    pub on_removal: Option<OnRemoval>,
}

/// What becomes of the partitions of a topic that was not listed for a while and comes back.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[non_exhaustive]
pub enum OnReturn {
    /// Reading goes on where the position was kept.
    #[default]
    Resume,
    /// The position is forgotten, and reading starts by the rule again.
    ReadAgain,
}

/// As a metadata file has it.
impl Display for OnReturn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resume => "resume",
            Self::ReadAgain => "read_again",
        })
    }
}

/// What a stream reads of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamTopics {
    /// The topics.
    pub topics: BTreeSet<TopicName>,
    /// Where reading starts in topics that do not say it.
    pub starts: StartRules,
    /// Where reading starts in topics that say it, all of which are among `topics`.
    pub topic_starts: BTreeMap<TopicName, StartRules>,
    /// Where reading stops in topics that do not say it; `None` leaves it to the stream.
    pub stop: Option<StopAt>,
    /// Where reading stops in topics that say it, all of which are among `topics`.
    pub topic_stops: BTreeMap<TopicName, StopAt>,
}

impl KafkaStream {
    /// A stream that reads nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with `topics` of `cluster` too.
    ///
    /// # Errors
    ///
    /// If `cluster` or one of `topics` cannot be such a name.
    pub fn with_topics<'a>(
        mut self,
        cluster: &str,
        topics: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, NameError> {
        let read = self.clusters.entry(ClusterId::new(cluster)?).or_default();
        for topic in topics {
            read.topics.insert(TopicName::new(topic)?);
        }
        Ok(self)
    }

    /// The same with the reading of `cluster` starting at `start`.
    ///
    /// # Errors
    ///
    /// If `cluster` cannot be the name of a cluster.
    pub fn with_start(mut self, cluster: &str, start: StartAt) -> Result<Self, NameError> {
        let read = self.clusters.entry(ClusterId::new(cluster)?).or_default();
        read.starts.start = Some(start);
        Ok(self)
    }

    /// The same with the reading of `topic` of `cluster` starting at `start`. It is read too.
    ///
    /// # Errors
    ///
    /// If `cluster` or `topic` cannot be such a name.
    pub fn with_topic_start(
        mut self,
        cluster: &str,
        topic: &str,
        start: StartAt,
    ) -> Result<Self, NameError> {
        let read = self.clusters.entry(ClusterId::new(cluster)?).or_default();
        let topic = TopicName::new(topic)?;
        read.topics.insert(topic.clone());
        read.topic_starts.entry(topic).or_default().start = Some(start);
        Ok(self)
    }

    /// The same with `on_return` for topics that come back.
    #[must_use]
    pub fn with_return(mut self, on_return: OnReturn) -> Self {
        self.on_return = Some(on_return);
        self
    }

    /// The same with `on_removal` for topics that are removed.
    #[must_use]
    pub fn with_removal(mut self, on_removal: OnRemoval) -> Self {
        self.on_removal = Some(on_removal);
        self
    }

    /// The same with the reading of `cluster` stopping at `stop`.
    ///
    /// # Errors
    ///
    /// If `cluster` cannot be the name of a cluster.
    pub fn with_stop(mut self, cluster: &str, stop: StopAt) -> Result<Self, NameError> {
        let read = self.clusters.entry(ClusterId::new(cluster)?).or_default();
        read.stop = Some(stop);
        Ok(self)
    }

    /// The same with the reading of `topic` of `cluster` stopping at `stop`. It is read too.
    ///
    /// # Errors
    ///
    /// If `cluster` or `topic` cannot be such a name.
    pub fn with_topic_stop(
        mut self,
        cluster: &str,
        topic: &str,
        stop: StopAt,
    ) -> Result<Self, NameError> {
        let read = self.clusters.entry(ClusterId::new(cluster)?).or_default();
        let topic = TopicName::new(topic)?;
        read.topics.insert(topic.clone());
        read.topic_stops.insert(topic, stop);
        Ok(self)
    }

    /// The same with `stop` for clusters and topics that do not say where reading them stops.
    #[must_use]
    pub fn with_stops(mut self, stop: StopAt) -> Self {
        self.stop = Some(stop);
        self
    }

    /// The same with `starts` for clusters and topics that do not say where reading them starts.
    #[must_use]
    pub fn with_starts(mut self, starts: StartRules) -> Self {
        self.starts = starts;
        self
    }

    /// The same with `losses` for records that are no longer there.
    #[must_use]
    pub fn with_losses(mut self, losses: LossRules) -> Self {
        self.losses = losses;
        self
    }
}

impl KafkaStream {
    /// What it says of the cluster of a topic; `None` if it does not read the topic.
    fn topics_with(&self, cluster: &ClusterId, topic: &TopicName) -> Option<&StreamTopics> {
        let read = self.clusters.get(cluster);
        read.filter(|read| read.topics.contains(topic))
    }

    /// Whether it reads a topic of a cluster.
    fn reads(&self, cluster: &ClusterId, topic: &TopicName) -> bool {
        self.topics_with(cluster, topic).is_some()
    }

    /// The starting rules of a topic, each that of the nearest place which gives it; `None` if the
    /// stream does not read the topic.
    pub(crate) fn starts_of(&self, cluster: &ClusterId, topic: &TopicName) -> Option<StartRules> {
        let read = self.topics_with(cluster, topic)?;
        let of_topic = read.topic_starts.get(topic).cloned().unwrap_or_default();
        Some(of_topic.or(&read.starts).or(&self.starts))
    }

    /// The stopping rule of a topic, that of the nearest place which gives one; `None` if none does, or
    /// the stream does not read the topic.
    pub(crate) fn stop_of(&self, cluster: &ClusterId, topic: &TopicName) -> Option<&StopAt> {
        let read = self.topics_with(cluster, topic)?;
        let of_topic = read.topic_stops.get(topic);
        of_topic.or(read.stop.as_ref()).or(self.stop.as_ref())
    }
}

impl Metadata<KafkaSplit> for StreamsMetadata {
    /// A topic of a cluster.
    type Group = (ClusterId, TopicName);

    fn group_of(split: &KafkaSplit) -> Self::Group {
        (split.cluster.clone(), split.topic.clone())
    }

    fn lists_group(&self, (cluster, topic): &Self::Group) -> bool {
        self.clusters.contains_key(cluster)
            && (self.streams.values()).any(|stream| stream.reads(cluster, topic))
    }

    fn loss_policy(&self, split: &KafkaSplit, kind: LossKind) -> Option<LossPolicy> {
        let streams = self.streams.values();
        let mut read = streams.filter(|stream| stream.reads(&split.cluster, &split.topic));
        read.find_map(|stream| stream.losses.of(kind))
    }

    fn changed_groups(&self, next: &Self) -> Vec<Self::Group> {
        let mut groups = Vec::new();
        for cluster in self.changed_clusters(next) {
            let (before, after) = (self.topics_of(cluster), next.topics_of(cluster));
            let changed = before.symmetric_difference(&after).copied();
            groups.extend(changed.map(|topic| (cluster.clone(), topic.clone())));
        }
        groups
    }

    fn reads_again(&self, (cluster, topic): &Self::Group) -> bool {
        let streams = self.streams.values();
        let mut read = streams.filter(|stream| stream.reads(cluster, topic));
        read.any(|stream| stream.on_return == Some(OnReturn::ReadAgain))
    }

    fn interim(&self, next: &Self) -> Option<Self> {
        self.with_leaving(next)
    }

    fn lists_place_of(&self, (cluster, _): &Self::Group) -> bool {
        let mut streams = self.streams.values();
        self.clusters.contains_key(cluster)
            && streams.any(|stream| stream.clusters.contains_key(cluster))
    }

    fn shrinks(&self, next: &Self) -> Vec<Shrink> {
        let both = [self, next];
        let streams = both.map(|all| all.streams.keys().collect::<BTreeSet<_>>());
        let listed = both.map(Self::listed);
        let clusters = (listed.each_ref()).map(|all| all.keys().collect::<BTreeSet<_>>());
        let topics = listed.each_ref().map(|all| {
            let named = all.iter().flat_map(|(cluster, topics)| {
                let topics = topics.iter();
                topics.map(|topic| Named(cluster, topic))
            });
            named.collect::<BTreeSet<_>>()
        });
        vec![
            Shrink::between("streams", &streams[0], &streams[1]),
            Shrink::between("clusters", &clusters[0], &clusters[1]),
            Shrink::between("topics", &topics[0], &topics[1]),
        ]
    }
}

/// A topic with its cluster, as people are told of it: in words only if it is told.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Named<'a>(&'a ClusterId, &'a TopicName);

impl Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

impl StreamsMetadata {
    /// The topics to read, each with its cluster, of clusters that are described.
    pub(super) fn groups(&self) -> BTreeSet<(ClusterId, TopicName)> {
        let clusters = self.listed().into_iter();
        clusters
            .flat_map(|(cluster, topics)| {
                let named = topics.into_iter();
                named.map(|topic| (cluster.clone(), topic.clone()))
            })
            .collect()
    }

    /// The same by cluster.
    pub(super) fn listed(&self) -> BTreeMap<&ClusterId, BTreeSet<&TopicName>> {
        let mut topics = self.topics();
        topics.retain(|cluster, topics| self.clusters.contains_key(*cluster) && !topics.is_empty());
        topics
    }
}

impl StreamsMetadata {
    /// Neither clusters nor streams.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with the cluster `name`, whose clients have `properties`.
    ///
    /// # Errors
    ///
    /// If `name` cannot be the name of a cluster.
    ///
    /// # Examples
    ///
    /// ```
    /// use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
    ///
    /// let east = ClientProperties::new().with("bootstrap.servers", "127.0.0.1:21000");
    /// let metadata = StreamsMetadata::new()
    ///     .with_cluster("east", east)?
    ///     .with_stream("orders", KafkaStream::new().with_topics("east", ["orders"])?)?;
    /// assert_eq!(metadata.topics().len(), 1);
    /// # Ok::<(), timely_kafka::model::NameError>(())
    /// ```
    pub fn with_cluster(
        mut self,
        name: &str,
        properties: ClientProperties,
    ) -> Result<Self, NameError> {
        let cluster = ClusterMetadata { properties };
        self.clusters.insert(ClusterId::new(name)?, cluster);
        Ok(self)
    }

    /// The same with `stream` under `name`.
    ///
    /// # Errors
    ///
    /// If `name` cannot be the name of a stream.
    pub fn with_stream(mut self, name: &str, stream: KafkaStream) -> Result<Self, NameError> {
        self.streams.insert(StreamId::new(name)?, stream);
        Ok(self)
    }

    /// The first stream, by name, that names a cluster which is not described, and the cluster.
    pub(crate) fn undescribed(&self) -> Option<(&StreamId, &ClusterId)> {
        self.streams.iter().find_map(|(id, stream)| {
            let mut clusters = stream.clusters.keys();
            let cluster = clusters.find(|cluster| !self.clusters.contains_key(*cluster))?;
            Some((id, cluster))
        })
    }

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

    /// The starting rules of a topic, each that of the nearest place which gives it: the topic, its
    /// cluster, its stream. If several streams read the topic, each rule is that of the streams which
    /// give it; streams that contradict each other are refused before anything is read.
    #[must_use]
    pub fn starts(&self, cluster: &ClusterId, topic: &TopicName) -> StartRules {
        let streams = self.streams.values();
        streams
            .filter_map(|stream| stream.starts_of(cluster, topic))
            .fold(StartRules::default(), |first, next| first.or(&next))
    }

    /// The stopping rule of a topic: that of the nearest place which gives one, as for
    /// [`starts`](Self::starts).
    #[must_use]
    pub fn stop(&self, cluster: &ClusterId, topic: &TopicName) -> Option<&StopAt> {
        let mut streams = self.streams.values();
        streams.find_map(|stream| stream.stop_of(cluster, topic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of two topics on two clusters, with a rule at each of three places.
    fn metadata() -> StreamsMetadata {
        let stream = KafkaStream::new()
            .with_topics("east", ["orders", "retry"])
            .and_then(|stream| stream.with_topics("west", ["orders"]))
            .and_then(|stream| stream.with_start("east", StartAt::Latest))
            .and_then(|stream| {
                stream.with_topic_start("east", "retry", StartAt::BeforeEnd { records: 9 })
            })
            .unwrap()
            .with_starts(StartRules {
                start: Some(StartAt::Earliest),
                new_partitions: Some(StartAt::Latest),
                ..StartRules::default()
            });
        StreamsMetadata::new().with_stream("b", stream).unwrap()
    }

    #[test]
    fn the_rule_of_the_nearest_place_wins() {
        let metadata = metadata();
        let start = |cluster, topic| {
            let (cluster, topic) = (ClusterId::new(cluster), TopicName::new(topic));
            metadata.starts(&cluster.unwrap(), &topic.unwrap())
        };

        assert_eq!(
            start("east", "retry").start,
            Some(StartAt::BeforeEnd { records: 9 })
        );
        assert_eq!(start("east", "orders").start, Some(StartAt::Latest));
        assert_eq!(start("west", "orders").start, Some(StartAt::Earliest));
        assert_eq!(start("east", "retry").new_partitions, Some(StartAt::Latest));
        assert_eq!(start("west", "retry"), StartRules::default());
    }

    #[test]
    fn a_stream_that_gives_no_rule_leaves_it_to_another_that_reads_the_topic() {
        let silent = KafkaStream::new().with_topics("east", ["orders"]).unwrap();
        let metadata = metadata().with_stream("a", silent).unwrap();

        let starts = metadata.starts(
            &ClusterId::new("east").unwrap(),
            &TopicName::new("orders").unwrap(),
        );

        assert_eq!(starts.start, Some(StartAt::Latest));
    }

    #[test]
    fn the_stop_of_the_nearest_place_wins() {
        let stream = KafkaStream::new()
            .with_topics("east", ["orders"])
            .and_then(|stream| stream.with_topics("west", ["orders"]))
            .and_then(|stream| stream.with_stop("east", StopAt::End))
            .and_then(|stream| stream.with_topic_stop("east", "retry", StopAt::Never))
            .unwrap();
        let time = StopAt::Time { record_time_ms: 1 };
        let all = metadata()
            .with_stream("c", stream.with_stops(time.clone()))
            .unwrap();
        let stop = |cluster, topic| {
            let (cluster, topic) = (ClusterId::new(cluster), TopicName::new(topic));
            all.stop(&cluster.unwrap(), &topic.unwrap())
        };

        assert_eq!(stop("east", "retry"), Some(&StopAt::Never));
        assert_eq!(stop("east", "orders"), Some(&StopAt::End));
        assert_eq!(stop("west", "orders"), Some(&time));
        assert_eq!(stop("west", "retry"), None);
    }
}
