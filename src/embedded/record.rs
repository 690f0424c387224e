//! What is written to an embedded cluster.

/// A record to write to an [`EmbeddedCluster`](super::EmbeddedCluster).
///
/// ```
/// use timely_kafka::embedded::EmbeddedRecord;
///
/// let order = EmbeddedRecord::new("customer-7", "3 apples").with_header("shop", Some(b"berlin"));
/// let deleted = EmbeddedRecord::tombstone("customer-7");
/// assert_ne!(order, deleted);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedRecord {
    /// The key; `None` is Kafka's null, which differs from an empty key.
    pub key: Option<Vec<u8>>,
    /// The value; `None` is Kafka's null, a tombstone.
    pub value: Option<Vec<u8>>,
    /// The headers, in order; names may repeat.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The record time in milliseconds since the Unix epoch; `None` is the time of writing.
    pub time: Option<i64>,
}

impl EmbeddedRecord {
    /// A record with a key and a value.
    pub fn new(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            key: Some(key.into()),
            value: Some(value.into()),
            ..Self::default()
        }
    }

    /// A record without a key.
    pub fn value(value: impl Into<Vec<u8>>) -> Self {
        Self {
            value: Some(value.into()),
            ..Self::default()
        }
    }

    /// A record without a value.
    pub fn tombstone(key: impl Into<Vec<u8>>) -> Self {
        Self {
            key: Some(key.into()),
            ..Self::default()
        }
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: Option<&[u8]>) -> Self {
        self.headers
            .push((name.to_owned(), value.map(<[u8]>::to_vec)));
        self
    }

    /// The same at a record time in milliseconds since the Unix epoch.
    #[must_use]
    pub fn at(mut self, millis: i64) -> Self {
        self.time = Some(millis);
        self
    }
}
