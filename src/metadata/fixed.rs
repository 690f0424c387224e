//! A metadata service whose answer is part of the program.

use std::time::{Duration, Instant};

use super::{MetadataError, MetadataService};
use crate::model::StreamsMetadata;

/// A metadata service that has one answer for ever.
///
/// # Examples
///
/// ```
/// use timely_kafka::metadata::FixedMetadataService;
/// use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
///
/// let east = ClientProperties::new().with("bootstrap.servers", "127.0.0.1:21000");
/// let service = FixedMetadataService::new(
///     StreamsMetadata::new()
///         .with_cluster("east", east)?
///         .with_stream("orders", KafkaStream::new().with_topics("east", ["orders"])?)?,
/// );
/// # drop(service);
/// # Ok::<(), timely_kafka::model::NameError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FixedMetadataService(StreamsMetadata);

impl FixedMetadataService {
    /// A service that always answers `metadata`.
    #[must_use]
    pub fn new(metadata: StreamsMetadata) -> Self {
        Self(metadata)
    }
}

impl MetadataService for FixedMetadataService {
    fn ask(&mut self, _deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        Ok(self.0.clone())
    }

    fn interval(&self) -> Option<Duration> {
        None
    }
}
