//! What the source speaks of: streams, clusters, splits and positions.

mod change;
mod listed;
pub(crate) mod loss;
mod name;
mod position;
mod properties;
mod removal;
pub(crate) mod rules;
mod shared;
mod split;
mod start;
mod stop;
mod stored;
mod stored_starts;
mod stored_stops;
mod stream;
pub(crate) mod words;

pub use self::change::{Changed, MetadataChange, RuleChange};
pub use self::loss::LossRules;
pub use self::name::{ClusterId, GroupId, NameError, StreamId, TopicName};
pub use self::position::{KafkaPosition, LeaderEpoch, Offset};
pub use self::properties::ClientProperties;
pub(crate) use self::properties::is_secret;
pub use self::removal::OnRemoval;
pub use self::shared::SharedMetadata;
#[cfg(test)]
pub(crate) use self::shared::WALKS;
pub use self::split::{Generation, KafkaClusterId, KafkaIdentity, KafkaSplit, Partition, TopicId};
pub use self::start::{StartAt, StartRules};
pub use self::stop::StopAt;
pub use self::stream::{ClusterMetadata, KafkaStream, OnReturn, StreamTopics, StreamsMetadata};
