//! The kept producer of an embedded cluster.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};

use super::EmbeddedRecord;

/// How long a broker may take to acknowledge all records of one call.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);

/// How long a broker may take to tell where a partition ends.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// How long to wait for a delivery, which makes room in the producer's queue, before trying again.
const ROOM_WITHIN: Duration = Duration::from_millis(10);

/// Writes records one call after the other.
pub(super) struct KeptProducer {
    /// On a thread of its own, which hears of a delivery when it happens: a flush of the plain one
    /// takes 100 ms at least.
    producer: ThreadedProducer<Deliveries>,
    /// Held for a whole call: the deliveries that are counted are those of this call.
    turn: Mutex<()>,
}

/// What became of the records of a call.
#[derive(Default)]
struct Deliveries {
    state: Mutex<DeliveryState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeliveryState {
    /// How many were enqueued and neither acknowledged nor given up.
    pending: usize,
    /// Why the first one was not acknowledged, in the client's words.
    failed: Option<String>,
}

impl Deliveries {
    fn lock(&self) -> MutexGuard<'_, DeliveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no more than `pending` are pending, but no longer than until `deadline`.
    fn wait(&self, pending: usize, deadline: Instant) -> MutexGuard<'_, DeliveryState> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), left, |state| state.pending > pending);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl ClientContext for Deliveries {
    // A broker that is taken down is expected here, and the deliveries tell of it.
    fn log(&self, _: rdkafka::config::RDKafkaLogLevel, _: &str, _: &str) {}
    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let mut state = self.lock();
        state.pending = state.pending.saturating_sub(1);
        if let Err((error, _)) = result {
            state.failed.get_or_insert_with(|| error.to_string());
        }
        self.changed.notify_all();
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
            .set("linger.ms", "5")
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
        let deliveries = self.producer.context();
        *deliveries.lock() = DeliveryState::default();
        let enqueued = records
            .into_iter()
            .try_for_each(|record| self.enqueue(topic, partition, &record));
        let mut state = deliveries.wait(0, Instant::now() + ACKNOWLEDGED_WITHIN);
        enqueued?;
        if state.pending > 0 {
            return Err(format!("{} records are not acknowledged", state.pending));
        }
        state.failed.take().map_or(Ok(()), Err)
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
        let deliveries = self.producer.context();
        loop {
            // Before it is sent, so that its delivery is never the earlier one.
            deliveries.lock().pending += 1;
            let Err((error, again)) = self.producer.send(next) else {
                return Ok(());
            };
            let mut state = deliveries.lock();
            state.pending = state.pending.saturating_sub(1);
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                return Err(error.to_string());
            }
            let fewer = state.pending.saturating_sub(1);
            drop(state);
            drop(deliveries.wait(fewer, Instant::now() + ROOM_WITHIN));
            next = again;
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
