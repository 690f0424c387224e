//! What clients ask of an embedded cluster, and how it can fail them.

use std::time::Duration;

use rdkafka_sys::rd_kafka_resp_err_t as Code;

/// A kind of request of Kafka's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum KafkaApi {
    /// Records are written.
    Produce,
    /// Records are read.
    Fetch,
    /// Offsets are looked up.
    ListOffsets,
    /// Brokers, topics and partitions are asked for.
    Metadata,
    /// A client asks what the broker knows: the first request of every connection, so as many
    /// connections were made as there are such requests.
    ApiVersions,
    /// The coordinator of a group is asked for.
    FindCoordinator,
    /// The offset at which a leader epoch ended is asked for.
    OffsetForLeaderEpoch,
    /// Any other kind, by Kafka's number.
    Other(i16),
}

impl KafkaApi {
    /// Kafka's number for it.
    #[must_use]
    pub fn number(self) -> i16 {
        match self {
            Self::Produce => 0,
            Self::Fetch => 1,
            Self::ListOffsets => 2,
            Self::Metadata => 3,
            Self::FindCoordinator => 10,
            Self::ApiVersions => 18,
            Self::OffsetForLeaderEpoch => 23,
            Self::Other(number) => number,
        }
    }

    /// The kind that has Kafka's `number`.
    #[must_use]
    pub fn from_number(number: i16) -> Self {
        [
            Self::Produce,
            Self::Fetch,
            Self::ListOffsets,
            Self::Metadata,
            Self::FindCoordinator,
            Self::ApiVersions,
            Self::OffsetForLeaderEpoch,
        ]
        .into_iter()
        .find(|api| api.number() == number)
        .unwrap_or(Self::Other(number))
    }
}

/// One request that a broker of an [`EmbeddedCluster`](super::EmbeddedCluster) got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedRequest {
    /// The number of the broker.
    pub broker: i32,
    /// The kind of request.
    pub api: KafkaApi,
    /// When it came, since an arbitrary moment that is the same for all.
    pub at: Duration,
}

/// How a request or a topic fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EmbeddedFault {
    /// The connection is cut instead of an answer.
    Disconnect,
    /// `OFFSET_OUT_OF_RANGE`
    OffsetOutOfRange,
    /// `UNKNOWN_TOPIC_OR_PARTITION`
    UnknownTopicOrPartition,
    /// `NOT_LEADER_OR_FOLLOWER`
    NotLeader,
    /// `FENCED_LEADER_EPOCH`
    FencedLeaderEpoch,
    /// `COORDINATOR_NOT_AVAILABLE`
    CoordinatorNotAvailable,
    /// `TOPIC_AUTHORIZATION_FAILED`
    TopicAuthorizationFailed,
    /// `KAFKA_STORAGE_ERROR`
    Storage,
    /// `CORRUPT_MESSAGE`
    CorruptMessage,
}

impl EmbeddedFault {
    pub(super) fn code(self) -> Code {
        match self {
            Self::Disconnect => Code::RD_KAFKA_RESP_ERR__TRANSPORT,
            Self::OffsetOutOfRange => Code::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE,
            Self::UnknownTopicOrPartition => Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
            Self::NotLeader => Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            Self::FencedLeaderEpoch => Code::RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,
            Self::CoordinatorNotAvailable => Code::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
            Self::TopicAuthorizationFailed => Code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
            Self::Storage => Code::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
            Self::CorruptMessage => Code::RD_KAFKA_RESP_ERR_INVALID_MSG,
        }
    }
}
