//! The embedded cluster itself.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::producer::KeptProducer;
use super::{EmbeddedFault, EmbeddedRecord, EmbeddedRequest, KafkaApi};
use crate::fetcher::ffi::mock::{MockCluster, MockRefusal};
use crate::model::{ClientProperties, Offset};

/// Why an [`EmbeddedCluster`] did not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// It could not start.
    #[error("embedded cluster: starting failed: {words}")]
    Start {
        /// librdkafka's words.
        words: String,
    },
    /// It did not make a topic, or change one.
    #[error("embedded cluster: topic '{topic}' was not changed: {words}")]
    Topic {
        /// The topic.
        topic: String,
        /// librdkafka's words.
        words: String,
    },
    /// A fault was not put in, or not taken out again.
    #[error("embedded cluster: the fault was not changed: {words}")]
    Fault {
        /// librdkafka's words.
        words: String,
    },
    /// Some records were not written. Others of the same call may have been.
    #[error("embedded cluster: writing to {topic}/{partition} failed: {words}")]
    Produce {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// librdkafka's words.
        words: String,
    },
    /// Where a partition ends could not be found out.
    #[error("embedded cluster: asking where {topic}/{partition} ends failed: {words}")]
    EndOffset {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// librdkafka's words.
        words: String,
    },
}

/// A Kafka cluster in this process, on the loopback interface.
///
/// It stops when it is dropped. See the [module](super) for its limits.
///
/// ```
/// use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = EmbeddedCluster::start()?;
/// cluster.create_topic("orders", 2)?;
/// cluster.produce("orders", 0, [EmbeddedRecord::new("k", "v")])?;
/// assert_eq!(cluster.end_offset("orders", 0)?.get(), 1);
/// # Ok(()) }
/// ```
pub struct EmbeddedCluster {
    /// Before the brokers, so that it is gone when they go.
    producer: KeptProducer,
    brokers: MockCluster,
}

impl EmbeddedCluster {
    /// Starts a cluster of one broker.
    ///
    /// # Errors
    ///
    /// If no socket can be opened on the loopback interface, or memory is short.
    pub fn start() -> Result<Self, EmbeddedError> {
        Self::start_with(1)
    }

    /// Starts a cluster of `brokers` brokers, at least one, and a controller.
    ///
    /// The controller is one more broker, with the number 0. It leads partitions like the others,
    /// but is not among the [`bootstrap_servers`](Self::bootstrap_servers).
    ///
    /// # Errors
    ///
    /// If no socket can be opened on the loopback interface, or memory is short.
    pub fn start_with(brokers: u16) -> Result<Self, EmbeddedError> {
        let mock = MockCluster::start(brokers.max(1))
            .map_err(|MockRefusal(words)| EmbeddedError::Start { words })?;
        let producer =
            KeptProducer::new(&mock.bootstrap_servers()).map_err(|error| EmbeddedError::Start {
                words: error.to_string(),
            })?;
        Ok(Self {
            producer,
            brokers: mock,
        })
    }

    /// Where clients find the brokers, as the property `bootstrap.servers` wants it.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        self.brokers.bootstrap_servers()
    }

    /// What a client of this cluster needs: where the brokers are, and a short wait for records.
    #[must_use]
    pub fn client_properties(&self) -> ClientProperties {
        ClientProperties::new()
            .with("bootstrap.servers", &self.bootstrap_servers())
            .with("fetch.wait.max.ms", "10")
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// If the topic exists already, or `partitions` is not positive.
    pub fn create_topic(&self, topic: &str, partitions: i32) -> Result<(), EmbeddedError> {
        self.brokers
            .create_topic(topic, partitions)
            .map_err(|MockRefusal(words)| EmbeddedError::Topic {
                topic: topic.to_owned(),
                words,
            })
    }

    /// Writes `records` to a partition, in order, and returns when all are acknowledged.
    ///
    /// # Errors
    ///
    /// If the partition does not exist, or the brokers do not acknowledge in 30 seconds.
    pub fn produce(
        &self,
        topic: &str,
        partition: i32,
        records: impl IntoIterator<Item = EmbeddedRecord>,
    ) -> Result<(), EmbeddedError> {
        self.producer
            .produce(topic, partition, records)
            .map_err(|words| EmbeddedError::Produce {
                topic: topic.to_owned(),
                partition,
                words,
            })
    }

    /// The offset that the next record of a partition gets.
    ///
    /// # Errors
    ///
    /// If the partition does not exist, or the brokers do not answer in 10 seconds.
    pub fn end_offset(&self, topic: &str, partition: i32) -> Result<Offset, EmbeddedError> {
        self.producer
            .end_offset(topic, partition)
            .and_then(|end| {
                u64::try_from(end).map_err(|_| format!("the brokers answered offset {end}"))
            })
            .map(Offset::new)
            .map_err(|words| EmbeddedError::EndOffset {
                topic: topic.to_owned(),
                partition,
                words,
            })
    }

    /// Takes all brokers down: connections are cut and refused. What they hold stays.
    ///
    /// # Errors
    ///
    /// If the brokers do not do it.
    pub fn broker_down(&self) -> Result<(), EmbeddedError> {
        self.brokers.set_down().map_err(fault)
    }

    /// Brings all brokers back.
    ///
    /// # Errors
    ///
    /// If the brokers do not do it.
    pub fn broker_up(&self) -> Result<(), EmbeddedError> {
        self.brokers.set_up().map_err(fault)
    }

    /// Holds every answer back for `delay`; zero ends that.
    ///
    /// A delay beyond every deadline makes brokers that hang: they accept connections and requests
    /// and say nothing.
    ///
    /// # Errors
    ///
    /// If the brokers do not do it.
    pub fn delay(&self, delay: Duration) -> Result<(), EmbeddedError> {
        self.brokers.set_delay(delay).map_err(fault)
    }

    /// Makes the next `count` fetches fail.
    pub fn fail_fetches(&self, count: usize, with: EmbeddedFault) {
        self.fail(KafkaApi::Fetch, count, with);
    }

    /// Makes the next `count` requests of one kind fail, after those that already are to fail.
    pub fn fail(&self, api: KafkaApi, count: usize, with: EmbeddedFault) {
        self.brokers
            .push_errors(api.number(), &vec![with.code(); count]);
    }

    /// Ends what [`fail`](Self::fail) began.
    pub fn fail_no_more(&self, api: KafkaApi) {
        self.brokers.clear_errors(api.number());
    }

    /// Makes every question for a topic's metadata fail; `None` ends that.
    ///
    /// # Errors
    ///
    /// If `topic` cannot be the name of a topic.
    pub fn fail_topic(
        &self,
        topic: &str,
        with: Option<EmbeddedFault>,
    ) -> Result<(), EmbeddedError> {
        let code = with.map_or(
            rdkafka_sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
            EmbeddedFault::code,
        );
        self.brokers
            .set_topic_error(topic, code)
            .map_err(|MockRefusal(words)| EmbeddedError::Topic {
                topic: topic.to_owned(),
                words,
            })
    }

    /// Writes down every request from here on, and forgets the earlier ones.
    ///
    /// The cluster's own producer is a client too. It connects when records are first written and
    /// stays connected: write some before tracking begins, so that all connections counted after
    /// that are others'. What is written down takes memory until this is called again.
    pub fn track_requests(&self) {
        self.brokers.track();
    }

    /// The requests since [`track_requests`](Self::track_requests), in the order they came.
    #[must_use]
    pub fn requests(&self) -> Vec<EmbeddedRequest> {
        let requests = self.brokers.requests().into_iter();
        requests
            .map(|request| EmbeddedRequest {
                broker: request.broker,
                api: KafkaApi::from_number(request.api),
                at: Duration::from_micros(u64::try_from(request.micros).unwrap_or_default()),
            })
            .collect()
    }

    /// How many requests of each kind came since [`track_requests`](Self::track_requests).
    ///
    /// The count of [`KafkaApi::ApiVersions`] is that of new connections.
    #[must_use]
    pub fn request_counts(&self) -> BTreeMap<KafkaApi, usize> {
        let mut counts = BTreeMap::new();
        for request in self.requests() {
            *counts.entry(request.api).or_default() += 1;
        }
        counts
    }
}

fn fault(MockRefusal(words): MockRefusal) -> EmbeddedError {
    EmbeddedError::Fault { words }
}

impl fmt::Debug for EmbeddedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedCluster")
            .field("bootstrap_servers", &self.bootstrap_servers())
            .finish_non_exhaustive()
    }
}
