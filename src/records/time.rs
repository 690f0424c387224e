//! The time that Kafka keeps with a record.

use serde::{Deserialize, Serialize};

/// The timestamp of a Kafka record and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordTime {
    /// Milliseconds since the Unix epoch; a producer may write any value, also a negative one.
    pub millis: i64,
    /// Who set it.
    pub kind: RecordTimeType,
}

impl RecordTime {
    /// The time of a record that has none, with Kafka's own value for that.
    pub const NOT_AVAILABLE: Self = Self {
        millis: -1,
        kind: RecordTimeType::NotAvailable,
    };
}

/// Who set the timestamp of a record (`message.timestamp.type` of its topic).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum RecordTimeType {
    /// Nobody: the record is in a format older than timestamps (KIP-32).
    #[default]
    NotAvailable,
    /// Its producer.
    Create,
    /// The broker, when it appended the record.
    LogAppend,
}
