//! The kept producer of an embedded cluster.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};

use super::EmbeddedRecord;

/// How long a broker may take to acknowledge all records of one call.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);

/// How long a broker may take to tell where a partition ends.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// How long to wait for room in the producer's queue before looking again.
const ROOM_WITHIN: Duration = Duration::from_millis(10);

/// Writes records one call after the other.
pub(super) struct KeptProducer {
    producer: BaseProducer<Deliveries>,
    /// Held for a whole call: the deliveries that are counted are those of this call.
    turn: Mutex<()>,
}

/// The first record that was not acknowledged, in the client's words.
#[derive(Default)]
struct Deliveries(Mutex<Option<String>>);

impl ClientContext for Deliveries {
    // A broker that is taken down is expected here, and the deliveries tell of it.
    fn log(&self, _: rdkafka::config::RDKafkaLogLevel, _: &str, _: &str) {}
    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert_with(|| error.to_string());
        }
    }
}

impl KeptProducer {
    pub(super) fn new(bootstrap_servers: &str) -> Result<Self, KafkaError> {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap_servers)
            .set("client.id", "embedded-producer")
            .set("allow.auto.create.topics", "false")
            .set("enable.metrics.push", "false")
            .set("reconnect.backoff.max.ms", "200")
            // Few large batches: a fetch brings one of them, whatever their size.
            .set("linger.ms", "50")
            .set("batch.size", "1000000")
            .create_with_context(Deliveries::default())?;
        Ok(Self {
            producer,
            turn: Mutex::new(()),
        })
    }

    /// Returns when the broker has acknowledged all of `records`.
    pub(super) fn produce(
        &self,
        topic: &str,
        partition: i32,
        records: impl IntoIterator<Item = EmbeddedRecord>,
    ) -> Result<(), String> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            self.enqueue(topic, partition, &record)?;
        }
        self.producer
            .flush(ACKNOWLEDGED_WITHIN)
            .map_err(|error| error.to_string())?;
        let deliveries = self.producer.context();
        let mut failed = deliveries.0.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    fn enqueue(&self, topic: &str, partition: i32, record: &EmbeddedRecord) -> Result<(), String> {
        let mut next = BaseRecord::<[u8], [u8]>::to(topic).partition(partition);
        next.key = record.key.as_deref();
        next.payload = record.value.as_deref();
        next.timestamp = record.time;
        if !record.headers.is_empty() {
            let headers = OwnedHeaders::new_with_capacity(record.headers.len());
            next.headers = Some(
                record
                    .headers
                    .iter()
                    .fold(headers, |headers, (key, value)| {
                        let value = value.as_deref();
                        headers.insert(Header { key, value })
                    }),
            );
        }
        loop {
            match self.producer.send(next) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    self.producer.poll(ROOM_WITHIN);
                    next = again;
                }
                Err((error, _)) => return Err(error.to_string()),
            }
        }
    }

    /// The offset after the last record.
    pub(super) fn end_offset(&self, topic: &str, partition: i32) -> Result<i64, String> {
        self.producer
            .client()
            .fetch_watermarks(topic, partition, TOLD_WITHIN)
            .map(|(_, end)| end)
            .map_err(|error| error.to_string())
    }
}
