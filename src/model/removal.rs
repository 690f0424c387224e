//! What becomes of what an answer does not list any more.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use super::{ClusterId, KafkaStream, StreamId, StreamTopics, StreamsMetadata, TopicName};

/// What becomes of the topics that an answer removes from a stream.
///
/// The answer that removes them decides, and for a stream that it does not have any more the one before.
/// A topic that another stream goes on reading is not removed; one that several streams give up is drained
/// if one of them says so.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[non_exhaustive]
pub enum OnRemoval {
    /// They are read no further.
    #[default]
    Cut,
    /// Each partition that is known, or found before all of those are read, is read to where it ended when it
    /// was removed. Until all are, they are listed beside what the answer lists.
    Drain,
    /// As [`Drain`](Self::Drain), and before anything that the answer adds to the stream: what it adds is
    /// read at later ticks than the last record of what it removes.
    DrainFirst,
}

impl OnRemoval {
    pub(crate) const ALL: [Self; 3] = [Self::Cut, Self::Drain, Self::DrainFirst];

    /// As a metadata file has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Drain => "drain",
            Self::DrainFirst => "drain_first",
        }
    }
}

/// As a metadata file has it.
impl Display for OnRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl StreamsMetadata {
    /// `next` with what it does not list of this any more and is to be drained, and without what waits for
    /// that; `None` if nothing is to be.
    pub(super) fn with_leaving(&self, next: &Self) -> Option<Self> {
        let cuts = |(id, stream)| {
            let decides: &KafkaStream = next.streams.get(id).unwrap_or(stream);
            decides.on_removal.unwrap_or_default() == OnRemoval::Cut
        };
        if self.streams.iter().all(cuts) {
            return None;
        }
        let (before, after) = (self.groups(), next.groups());
        let mut interim = next.clone();
        let mut waiting = BTreeSet::new();
        for (id, stream) in &self.streams {
            let decides = next.streams.get(id).unwrap_or(stream);
            let rule = decides.on_removal.unwrap_or_default();
            let leaves = |group: &(_, _)| before.contains(group) && !after.contains(group);
            let leaving: Vec<_> = stream.groups().filter(leaves).collect();
            if rule == OnRemoval::Cut || leaving.is_empty() {
                continue;
            }
            for (cluster, topic) in &leaving {
                interim.read_on(id, stream, cluster, topic);
                if let Some(described) = self.clusters.get(cluster) {
                    let clusters = &mut interim.clusters;
                    let here = clusters.entry(cluster.clone());
                    here.or_insert_with(|| described.clone());
                }
            }
            if rule == OnRemoval::DrainFirst {
                waiting.extend(decides.groups().filter(|group| !before.contains(group)));
            }
        }
        for stream in interim.streams.values_mut() {
            stream.wait_for(&waiting);
        }
        let leaves = |group| !after.contains(group);
        interim.groups().iter().any(leaves).then_some(interim)
    }

    /// Has a stream read a topic on as `before` does.
    fn read_on(
        &mut self,
        id: &StreamId,
        before: &KafkaStream,
        cluster: &ClusterId,
        topic: &TopicName,
    ) {
        let alone = || KafkaStream {
            clusters: Default::default(),
            ..before.clone()
        };
        let stream = self.streams.entry(id.clone()).or_insert_with(alone);
        let read = stream.clusters.entry(cluster.clone()).or_default();
        read.topics.insert(topic.clone());
        let starts = before.starts_of(cluster, topic).unwrap_or_default();
        if !starts.is_silent() {
            read.topic_starts.insert(topic.clone(), starts);
        }
        if let Some(stop) = before.stop_of(cluster, topic) {
            read.topic_stops.insert(topic.clone(), stop.clone());
        }
    }
}

impl KafkaStream {
    /// The topics that it reads, each with its cluster.
    fn groups(&self) -> impl Iterator<Item = (ClusterId, TopicName)> {
        self.clusters.iter().flat_map(|(cluster, read)| {
            let topics = read.topics.iter();
            topics.map(|topic| (cluster.clone(), topic.clone()))
        })
    }

    /// Reads none of the topics that wait.
    fn wait_for(&mut self, waiting: &BTreeSet<(ClusterId, TopicName)>) {
        for (cluster, topic) in waiting {
            if let Some(read) = self.clusters.get_mut(cluster) {
                read.topics.remove(topic);
                read.topic_starts.remove(topic);
                read.topic_stops.remove(topic);
            }
        }
        let is_waiting = |cluster: &ClusterId| waiting.iter().any(|(waits, _)| waits == cluster);
        let reads = |read: &StreamTopics| !read.topics.is_empty();
        self.clusters
            .retain(|cluster, read| reads(read) || !is_waiting(cluster));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClientProperties, StartAt};

    fn stream(topics: &[(&str, &str)], on_removal: Option<OnRemoval>) -> KafkaStream {
        let mut stream = KafkaStream::new();
        for (cluster, topic) in topics {
            stream = stream.with_topics(cluster, [*topic]).unwrap();
        }
        stream.on_removal = on_removal;
        stream
    }

    fn metadata(streams: &[(&str, KafkaStream)]) -> StreamsMetadata {
        let mut metadata = StreamsMetadata::new();
        for (name, stream) in streams {
            for cluster in stream.clusters.keys() {
                let properties =
                    ClientProperties::new().with("bootstrap.servers", cluster.as_str());
                metadata = metadata.with_cluster(cluster.as_str(), properties).unwrap();
            }
            metadata = metadata.with_stream(name, stream.clone()).unwrap();
        }
        metadata
    }

    /// The topics that are read, over all streams.
    fn read(metadata: Option<StreamsMetadata>) -> Vec<String> {
        let groups = metadata.map(|metadata| metadata.groups());
        let groups = groups.into_iter().flatten();
        groups
            .map(|(cluster, topic)| format!("{cluster}/{topic}"))
            .collect()
    }

    const EAST: (&str, &str) = ("east", "orders");
    const WEST: (&str, &str) = ("west", "orders");

    #[test]
    fn what_is_drained_is_listed_beside_what_comes_or_before_it() {
        let drained = |rule| {
            let before = metadata(&[("orders", stream(&[EAST], rule))]);
            let after = metadata(&[("orders", stream(&[WEST], rule))]);
            let interim = before.with_leaving(&after);
            if let Some(interim) = &interim {
                assert_eq!(interim.with_leaving(&after).as_ref(), Some(interim));
                assert_eq!(interim.check().map_err(|error| error.to_string()), Ok(()));
            }
            read(interim)
        };

        assert_eq!(drained(None), [""; 0]);
        assert_eq!(drained(Some(OnRemoval::Cut)), [""; 0]);
        let both = ["east/orders", "west/orders"];
        assert_eq!(drained(Some(OnRemoval::Drain)), both);
        assert_eq!(drained(Some(OnRemoval::DrainFirst)), ["east/orders"]);
    }

    #[test]
    fn the_answer_decides_and_for_a_stream_that_is_removed_the_one_before() {
        let drain = Some(OnRemoval::Drain);
        let of = |rule| metadata(&[("orders", stream(&[EAST], rule))]);
        let none = StreamsMetadata::new();
        let other = |rule| metadata(&[("orders", stream(&[WEST], rule))]);

        assert_eq!(read(of(drain).with_leaving(&none)), ["east/orders"]);
        assert_eq!(read(of(None).with_leaving(&none)), [""; 0]);
        assert_eq!(read(of(drain).with_leaving(&other(None))), [""; 0]);
        assert_eq!(
            read(of(None).with_leaving(&other(drain))),
            ["east/orders", "west/orders"]
        );
    }

    #[test]
    fn a_topic_that_another_stream_reads_does_not_leave() {
        let drain = Some(OnRemoval::Drain);
        let before = metadata(&[("a", stream(&[EAST], drain)), ("b", stream(&[EAST], None))]);
        let after = metadata(&[("b", stream(&[EAST], None))]);

        assert_eq!(before.with_leaving(&after), None);
        assert_eq!(
            read(before.with_leaving(&StreamsMetadata::new())),
            ["east/orders"]
        );
    }

    /// What comes waits whichever stream brings it.
    #[test]
    fn what_waits_is_read_by_no_stream() {
        let first = Some(OnRemoval::DrainFirst);
        let before = metadata(&[("a", stream(&[EAST], first))]);
        let after = metadata(&[("a", stream(&[WEST], first)), ("b", stream(&[WEST], None))]);

        assert_eq!(read(before.with_leaving(&after)), ["east/orders"]);
    }

    #[test]
    fn what_leaves_keeps_its_rules() {
        let starting = |at| {
            let mut stream = stream(&[EAST, WEST], Some(OnRemoval::Drain));
            stream.starts.start = Some(at);
            stream
        };
        let before = metadata(&[("orders", starting(StartAt::Latest))]);
        let mut left = starting(StartAt::Earliest);
        left.clusters.remove("east");
        let after = metadata(&[("orders", left)]);

        let interim = before.with_leaving(&after).unwrap();

        let start = |cluster: &str| {
            let (cluster, topic) = (ClusterId::new(cluster), TopicName::new("orders"));
            interim.starts(&cluster.unwrap(), &topic.unwrap()).start
        };
        assert_eq!(start("east"), Some(StartAt::Latest));
        assert_eq!(start("west"), Some(StartAt::Earliest));
    }
}
