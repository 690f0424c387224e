//! Splits, positions and metadata as a binding log stores them.
//!
//! They are protobuf messages: fields are numbered, and a later version can add some.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use timely_splits::log::{Stored, StoredError};

use super::loss::{number_of, policy_of};
use super::properties::is_showable;
use super::stored_starts::{StartsMessage, TopicStartsMessage, restore_starts, starts_message};
use super::stored_stops::{StopMessage, TopicStopMessage, restore_stop, stop_messages};
use super::{
    ClientProperties, ClusterId, ClusterMetadata, Generation, KafkaClusterId, KafkaIdentity,
    KafkaPosition, KafkaSplit, KafkaStream, LeaderEpoch, NameError, Offset, OnRemoval, OnReturn,
    Partition, StartAt, StopAt, StreamId, StreamTopics, StreamsMetadata, TopicId, TopicName,
};

#[derive(Clone, PartialEq, Message)]
struct SplitMessage {
    #[prost(string, tag = "1")]
    cluster: String,
    #[prost(string, tag = "2")]
    topic: String,
    #[prost(int32, tag = "3")]
    partition: i32,
    #[prost(uint32, tag = "4")]
    generation: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PositionMessage {
    #[prost(uint64, tag = "1")]
    next: u64,
    #[prost(int32, optional, tag = "2")]
    leader_epoch: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct IdentityMessage {
    #[prost(string, optional, tag = "1")]
    cluster: Option<String>,
    /// The 16 bytes of the topic's id, the most significant one first.
    #[prost(bytes, optional, tag = "2")]
    topic: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct MetadataMessage {
    #[prost(message, repeated, tag = "1")]
    clusters: Vec<ClusterMessage>,
    #[prost(message, repeated, tag = "2")]
    streams: Vec<StreamMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ClusterMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    properties: Vec<PropertyMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct PropertyMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct StreamMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    clusters: Vec<TopicsMessage>,
    #[prost(message, optional, tag = "3")]
    starts: Option<StartsMessage>,
    #[prost(message, repeated, tag = "4")]
    stop: Vec<StopMessage>,
    #[prost(uint32, optional, tag = "8")]
    lost_records: Option<u32>,
    #[prost(uint32, optional, tag = "9")]
    recreated_topic: Option<u32>,
    /// 1: resume, 2: read again.
    #[prost(uint32, optional, tag = "10")]
    on_return: Option<u32>,
    /// 1: cut, 2: drain, 3: drain first.
    #[prost(uint32, optional, tag = "11")]
    on_removal: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct TopicsMessage {
    #[prost(string, tag = "1")]
    cluster: String,
    #[prost(string, repeated, tag = "2")]
    topics: Vec<String>,
    /// 1: earliest, 2: latest. Versions wrote it that knew these two; [`StartsMessage`] has them too.
    #[prost(uint32, optional, tag = "3")]
    start: Option<u32>,
    /// 1: never. Versions wrote it that knew this one; `stops` has it too. 2: what is in `stops`, which
    /// these must not read without.
    #[prost(uint32, optional, tag = "4")]
    stop: Option<u32>,
    #[prost(message, optional, tag = "5")]
    starts: Option<StartsMessage>,
    #[prost(message, repeated, tag = "6")]
    topic_starts: Vec<TopicStartsMessage>,
    #[prost(message, repeated, tag = "7")]
    stops: Vec<StopMessage>,
    #[prost(message, repeated, tag = "8")]
    topic_stops: Vec<TopicStopMessage>,
}

fn decode<M: Message + Default>(what: &'static str, bytes: &[u8]) -> Result<M, StoredError> {
    M::decode(bytes).map_err(|error| StoredError::new(what, error.to_string()))
}

fn name<N>(what: &'static str, made: Result<N, NameError>) -> Result<N, StoredError> {
    made.map_err(|error| StoredError::new(what, error.to_string()))
}

impl Stored for KafkaSplit {
    fn store(&self) -> Vec<u8> {
        SplitMessage {
            cluster: self.cluster.to_string(),
            topic: self.topic.to_string(),
            partition: self.partition.0,
            generation: self.generation.0,
        }
        .encode_to_vec()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        const WHAT: &str = "split";
        let message: SplitMessage = decode(WHAT, bytes)?;
        Ok(Self {
            cluster: name(WHAT, ClusterId::new(&message.cluster))?,
            topic: name(WHAT, TopicName::new(&message.topic))?,
            partition: Partition(message.partition),
            generation: Generation(message.generation),
        })
    }
}

impl Stored for KafkaPosition {
    fn store(&self) -> Vec<u8> {
        PositionMessage {
            next: self.next.get(),
            leader_epoch: self.leader_epoch.map(|epoch| epoch.0),
        }
        .encode_to_vec()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        let message: PositionMessage = decode("position", bytes)?;
        Ok(Self {
            next: Offset::new(message.next),
            leader_epoch: message.leader_epoch.map(LeaderEpoch),
        })
    }
}

impl Stored for KafkaIdentity {
    fn store(&self) -> Vec<u8> {
        IdentityMessage {
            cluster: self.cluster.as_ref().map(|id| id.0.clone()),
            topic: self.topic.map(|id| id.0.to_be_bytes().to_vec()),
        }
        .encode_to_vec()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        const WHAT: &str = "identity";
        let message: IdentityMessage = decode(WHAT, bytes)?;
        let topic = message.topic.map(|id| match id.try_into() {
            Ok(sixteen) => Ok(TopicId(u128::from_be_bytes(sixteen))),
            Err(_) => Err(StoredError::new(WHAT, "a topic id is not 16 bytes long")),
        });
        Ok(Self {
            cluster: message.cluster.map(KafkaClusterId),
            topic: topic.transpose()?,
        })
    }
}

impl Stored for StreamsMetadata {
    /// The metadata without the values of secrets: references to them are stored, values that were
    /// written out where a reference should have been are left out.
    fn store(&self) -> Vec<u8> {
        let clusters = self.clusters.iter().map(|(cluster, described)| {
            let stored = described.properties.iter();
            let stored = stored.filter(|(name, value)| is_showable(name, value));
            ClusterMessage {
                name: cluster.to_string(),
                properties: stored
                    .map(|(name, value)| PropertyMessage {
                        name: name.to_owned(),
                        value: value.to_owned(),
                    })
                    .collect(),
            }
        });
        let streams = self
            .streams
            .iter()
            .map(|(stream, described)| StreamMessage {
                name: stream.to_string(),
                clusters: described.clusters.iter().map(topics_message).collect(),
                starts: starts_message(&described.starts),
                stop: stop_messages(described.stop.as_ref()),
                lost_records: described.losses.lost_records.map(number_of),
                recreated_topic: described.losses.recreated_topic.map(number_of),
                on_return: described.on_return.map(|on_return| match on_return {
                    OnReturn::Resume => 1,
                    OnReturn::ReadAgain => 2,
                }),
                on_removal: described.on_removal.map(|on_removal| match on_removal {
                    OnRemoval::Cut => 1,
                    OnRemoval::Drain => 2,
                    OnRemoval::DrainFirst => 3,
                }),
            });
        MetadataMessage {
            clusters: clusters.collect(),
            streams: streams.collect(),
        }
        .encode_to_vec()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        const WHAT: &str = "metadata";
        let message: MetadataMessage = decode(WHAT, bytes)?;
        let mut metadata = Self::new();
        for cluster in message.clusters {
            let mut properties = ClientProperties::new();
            for property in cluster.properties {
                properties.set(&property.name, &property.value);
            }
            let id = name(WHAT, ClusterId::new(&cluster.name))?;
            metadata.clusters.insert(id, ClusterMetadata { properties });
        }
        for stream in message.streams {
            let mut described = KafkaStream::new().with_starts(restore_starts(stream.starts)?);
            described.stop = restore_stop(stream.stop)?;
            described.losses.lost_records = stream.lost_records.map(policy_of).transpose()?;
            described.losses.recreated_topic = stream.recreated_topic.map(policy_of).transpose()?;
            described.on_return = match stream.on_return {
                None => None,
                Some(1) => Some(OnReturn::Resume),
                Some(2) => Some(OnReturn::ReadAgain),
                Some(rule) => {
                    let words = format!(
                        "what becomes of what comes back, {rule}, is not known: use the version that \
                         wrote it"
                    );
                    return Err(StoredError::new(WHAT, words));
                }
            };
            described.on_removal = match stream.on_removal {
                None => None,
                Some(1) => Some(OnRemoval::Cut),
                Some(2) => Some(OnRemoval::Drain),
                Some(3) => Some(OnRemoval::DrainFirst),
                Some(rule) => {
                    let words = format!(
                        "what becomes of what is removed, {rule}, is not known: use the version that \
                         wrote it"
                    );
                    return Err(StoredError::new(WHAT, words));
                }
            };
            for read in stream.clusters {
                let id = name(WHAT, ClusterId::new(&read.cluster))?;
                described.clusters.insert(id, restore_topics(read)?);
            }
            let id = name(WHAT, StreamId::new(&stream.name))?;
            metadata.streams.insert(id, described);
        }
        Ok(metadata)
    }
}

fn topics_message((cluster, read): (&ClusterId, &StreamTopics)) -> TopicsMessage {
    TopicsMessage {
        cluster: cluster.to_string(),
        topics: read.topics.iter().map(ToString::to_string).collect(),
        start: None,
        stop: (read.stop.is_some() || !read.topic_stops.is_empty()).then_some(2),
        stops: stop_messages(read.stop.as_ref()),
        topic_stops: (read.topic_stops.iter())
            .map(|(topic, stop)| TopicStopMessage {
                topic: topic.to_string(),
                stop: stop_messages(Some(stop)),
            })
            .collect(),
        starts: starts_message(&read.starts),
        topic_starts: (read.topic_starts.iter())
            .filter_map(|(topic, starts)| {
                Some(TopicStartsMessage {
                    topic: topic.to_string(),
                    starts: Some(starts_message(starts)?),
                })
            })
            .collect(),
    }
}

fn restore_topics(message: TopicsMessage) -> Result<StreamTopics, StoredError> {
    const WHAT: &str = "metadata";
    let topics = message.topics.iter();
    let topics: BTreeSet<_> = topics
        .map(|topic| name(WHAT, TopicName::new(topic)))
        .collect::<Result<_, _>>()?;
    let unknown = |rule: u32| {
        let words = format!("rule {rule} is not known: use the version that wrote it");
        Err(StoredError::new(WHAT, words))
    };
    let mut starts = restore_starts(message.starts)?;
    match message.start {
        None => {}
        Some(1) => starts.start = Some(StartAt::Earliest),
        Some(2) => starts.start = Some(StartAt::Latest),
        Some(rule) => return unknown(rule),
    }
    let topic_starts = message.topic_starts.into_iter().map(|of_topic| {
        let topic = name(WHAT, TopicName::new(&of_topic.topic))?;
        Ok((topic, restore_starts(of_topic.starts)?))
    });
    let mut topic_stops = BTreeMap::new();
    for of_topic in message.topic_stops {
        let topic = name(WHAT, TopicName::new(&of_topic.topic))?;
        if let Some(stop) = restore_stop(of_topic.stop)? {
            topic_stops.insert(topic, stop);
        }
    }
    Ok(StreamTopics {
        topics,
        starts,
        topic_starts: topic_starts.collect::<Result<_, _>>()?,
        stop: match message.stop {
            None | Some(2) => restore_stop(message.stops)?,
            Some(1) => Some(StopAt::Never),
            Some(rule) => return unknown(rule),
        },
        topic_stops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StartRules;

    #[test]
    fn what_is_stored_is_restored() {
        let split = KafkaSplit {
            generation: Generation(2),
            ..KafkaSplit::new(
                ClusterId::new("east").unwrap(),
                TopicName::new("orders").unwrap(),
                Partition(7),
            )
        };
        let position = KafkaPosition::after(Offset::new(41), Some(LeaderEpoch(0)));
        let properties = ClientProperties::new().with("bootstrap.servers", "127.0.0.1:1");
        let stream = KafkaStream::new()
            .with_topics("east", ["orders", "retry"])
            .unwrap()
            .with_start("east", StartAt::Latest)
            .and_then(|stream| stream.with_topic_start("east", "retry", StartAt::Earliest))
            .unwrap()
            .with_starts(StartRules {
                start: Some(StartAt::BeforeEnd { records: 3 }),
                new_partitions: Some(StartAt::Latest),
                ..StartRules::default()
            })
            .with_return(OnReturn::ReadAgain)
            .with_removal(OnRemoval::DrainFirst)
            .with_stop("east", StopAt::End)
            .and_then(|stream| stream.with_topic_stop("east", "retry", StopAt::Never))
            .unwrap()
            .with_stops(StopAt::Time { record_time_ms: 7 });
        let metadata = StreamsMetadata::new()
            .with_cluster("east", properties)
            .unwrap()
            .with_stream("orders", stream)
            .unwrap();

        assert_eq!(KafkaSplit::restore(&split.store()), Ok(split));
        assert_eq!(KafkaPosition::restore(&position.store()), Ok(position));
        let start = KafkaPosition::at(Offset::ZERO);
        assert_eq!(KafkaPosition::restore(&start.store()), Ok(start));
        assert_eq!(StreamsMetadata::restore(&metadata.store()), Ok(metadata));
        let identity = KafkaIdentity {
            cluster: Some(KafkaClusterId("abc".to_owned())),
            topic: Some(TopicId(1 << 127 | 5)),
        };
        assert_eq!(KafkaIdentity::restore(&identity.store()), Ok(identity));
        let unknown = KafkaIdentity::default();
        assert_eq!(KafkaIdentity::restore(&unknown.store()), Ok(unknown));
    }

    /// Builds that knew two rules wrote a number for each.
    #[test]
    fn rules_as_numbers_are_still_read() {
        let read = |start| {
            let message = TopicsMessage {
                cluster: "east".to_owned(),
                topics: vec!["orders".to_owned()],
                start: Some(start),
                ..TopicsMessage::default()
            };
            restore_topics(message).map(|read| read.starts.start)
        };

        assert_eq!(read(1), Ok(Some(StartAt::Earliest)));
        assert_eq!(read(2), Ok(Some(StartAt::Latest)));
        assert!(read(3).is_err());
        let never = TopicsMessage {
            stop: Some(1),
            ..TopicsMessage::default()
        };
        assert_eq!(
            restore_topics(never).map(|restored| restored.stop),
            Ok(Some(StopAt::Never))
        );
    }

    #[test]
    fn no_secret_is_stored() {
        let properties = ClientProperties::new()
            .with("bootstrap.servers", "127.0.0.1:1")
            .with("sasl.password", "hunter2")
            .with("sasl.oauthbearer.client.secret", "${PART}hunter2")
            .with("ssl.key.password", "${KEY_PASSWORD}");
        let metadata = StreamsMetadata::new()
            .with_cluster("east", properties)
            .unwrap();

        let stored = metadata.store();

        assert!(!String::from_utf8_lossy(&stored).contains("hunter2"));
        let restored = StreamsMetadata::restore(&stored).unwrap();
        let east = &restored.clusters["east"].properties;
        assert_eq!(east.value("sasl.password"), None);
        assert_eq!(east.value("ssl.key.password"), Some("${KEY_PASSWORD}"));
    }
}
