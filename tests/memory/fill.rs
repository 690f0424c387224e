//! What is there to be read.

use std::time::Duration;

use libtest_mimic::Failed;
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use timely_kafka::embedded::EmbeddedCluster;

pub(crate) const PARTITIONS: i32 = 36;

/// The bytes of the values of a partition: an embedded one holds 5 MiB.
const VALUES_BYTES: usize = 9 << 19;

/// The bytes that are written at once, and so are one batch of Kafka's, before it is compressed. An embedded
/// cluster answers with whole batches, however little was asked for.
const BATCH_BYTES: (usize, usize) = (128 << 10, 1_000_000);

/// The values of a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    Small,
    Large,
    SmallCompressed,
    LargeCompressed,
}

impl Content {
    pub(crate) const ALL: [Self; 4] = [
        Self::Small,
        Self::Large,
        Self::SmallCompressed,
        Self::LargeCompressed,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "small_records",
            Self::Large => "large_records",
            Self::SmallCompressed => "small_records_that_are_compressed",
            Self::LargeCompressed => "large_records_that_are_compressed",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        found.expect("a name of one of them")
    }

    /// The bytes of a value.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Small | Self::SmallCompressed => 100,
            Self::Large => 1 << 20,
            Self::LargeCompressed => 100_000,
        }
    }

    /// How many records a partition has.
    pub(crate) fn records(self) -> usize {
        // Small ones take some twenty bytes more in the log.
        VALUES_BYTES / (self.size() + 22)
    }

    fn is_compressed(self) -> bool {
        matches!(self, Self::SmallCompressed | Self::LargeCompressed)
    }

    /// How many bytes of a value come again and again in it: zstd makes a batch of either size a twentieth.
    fn pattern(self) -> usize {
        match self {
            Self::LargeCompressed => 5_000,
            Self::Small | Self::Large | Self::SmallCompressed => 1,
        }
    }

    /// Makes a topic in `cluster` and fills it.
    pub(crate) fn fill(self, cluster: &EmbeddedCluster, topic: &str) -> Result<(), Failed> {
        cluster.create_topic(topic, PARTITIONS)?;
        let (codec, batch) = match self.is_compressed() {
            false => ("none", BATCH_BYTES.0),
            true => ("zstd", BATCH_BYTES.1),
        };
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", cluster.bootstrap_servers())
            .set("compression.type", codec)
            .set("batch.size", batch.max(self.size()).to_string())
            // What a message may be besides its value.
            .set(
                "message.max.bytes",
                (batch.max(self.size()) + (64 << 10)).to_string(),
            )
            .set("linger.ms", "50")
            .set("enable.metrics.push", "false")
            .create()?;
        let mut seed = 7_u64;
        let (mut pattern, mut value) = (Vec::new(), Vec::new());
        for partition in 0..PARTITIONS {
            for _ in 0..self.records() {
                pattern.clear();
                while pattern.len() < self.pattern() {
                    // A generator is enough for bytes that no codec finds anything in.
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    pattern.push((seed >> 56) as u8);
                }
                value.clear();
                value.extend(pattern.iter().cycle().take(self.size()));
                let mut record = BaseRecord::<[u8], [u8]>::to(topic)
                    .partition(partition)
                    .payload(&value);
                while let Err((error, again)) = producer.send(record) {
                    if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                        return Err(error.into());
                    }
                    producer.poll(Duration::from_millis(10));
                    record = again;
                }
            }
            producer.flush(Duration::from_secs(60))?;
        }
        Ok(())
    }
}
