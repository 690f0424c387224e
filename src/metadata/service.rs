//! The trait of what says which streams consist of what.

use std::time::{Duration, Instant};

use super::MetadataError;
use crate::model::StreamsMetadata;

/// Says which streams consist of which topics of which clusters.
///
/// # Contract
///
/// * An answer is complete: what it does not name is gone. A service that knows only a part
///   returns an error instead, and the last answer stays in force.
/// * Every cluster that a stream of the answer names is described in it. An answer that breaks this
///   counts as an error.
/// * A service is asked on a thread of its own, one question at a time, and may block until the
///   deadline. One that blocks for longer is reported as late, holds up nobody, and its answer is
///   taken when it comes.
/// * The same answer may be given any number of times; answers are compared, not counted.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use timely_kafka::metadata::{MetadataError, MetadataService};
/// use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
///
/// /// Reads `orders` from whatever cluster an environment variable names.
/// struct FromEnvironment;
///
/// impl MetadataService for FromEnvironment {
///     fn ask(&mut self, _deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
///         let servers = std::env::var("ORDERS_BROKERS").map_err(MetadataError::unavailable)?;
///         let properties = ClientProperties::new().with("bootstrap.servers", &servers);
///         let orders = KafkaStream::new().with_topics("main", ["orders"]);
///         StreamsMetadata::new()
///             .with_cluster("main", properties)
///             .and_then(|metadata| metadata.with_stream("orders", orders?))
///             .map_err(MetadataError::invalid)
///     }
///
///     fn interval(&self) -> Option<Duration> {
///         Some(Duration::from_secs(30))
///     }
/// }
/// ```
pub trait MetadataService: Send + 'static {
    /// What all streams consist of now.
    ///
    /// # Errors
    ///
    /// If the service does not know, or not all of it. Its [kind](MetadataError::kind) says how it
    /// is asked again: after a growing delay if the failure is transient, after
    /// [`interval`](Self::interval) if it is definite.
    fn ask(&mut self, deadline: Instant) -> Result<StreamsMetadata, MetadataError>;

    /// How long after an answer it is asked again; `None`: never, once it has answered.
    fn interval(&self) -> Option<Duration>;

    /// The number of the answer that [`ask`](Self::ask) gave last, if answers have one that grows with
    /// each change.
    ///
    /// An answer with a smaller number than one before is old, as that of a replica that lags behind: it
    /// changes nothing, and is reported. The numbers of a run before a restart are not known.
    fn version(&self) -> Option<u64> {
        None
    }
}

impl<S: MetadataService + ?Sized> MetadataService for Box<S> {
    fn ask(&mut self, deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        (**self).ask(deadline)
    }

    fn interval(&self) -> Option<Duration> {
        (**self).interval()
    }

    fn version(&self) -> Option<u64> {
        (**self).version()
    }
}
