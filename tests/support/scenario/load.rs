//! A steady load, and the pauses in what comes of it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use timely_kafka::model::ClientProperties;

use super::observed::State;

/// The time between two records.
const INTERVAL: Duration = Duration::from_millis(5);

/// Guards against hangs only.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);

/// Writes consecutive numbers to one partition until it is stopped.
///
/// It has a producer of its own that does not wait for acknowledgements, so that it is steady.
pub(crate) struct SteadyLoad {
    stop: Sender<()>,
    thread: JoinHandle<u64>,
}

impl SteadyLoad {
    /// Starts to write to partition 0 of `topic`, from zero on.
    pub(crate) fn start(properties: &ClientProperties, topic: &str) -> Self {
        let servers = properties.value("bootstrap.servers");
        let producer: BaseProducer = ClientConfig::new()
            .set(
                "bootstrap.servers",
                servers.expect("a cluster has an address"),
            )
            .set("client.id", "steady-load")
            .set("linger.ms", "0")
            .set("enable.idempotence", "true")
            .create()
            .expect("the settings of the producer are valid");
        let (stop, stopped) = channel();
        let topic = topic.to_owned();
        let thread = thread::spawn(move || {
            let mut next = 0_u64;
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let number = next.to_string();
                let record = BaseRecord::<(), _>::to(&topic)
                    .partition(0)
                    .payload(&number);
                producer
                    .send(record)
                    .map_err(|(error, _)| error)
                    .expect("there is room");
                producer.poll(Duration::ZERO);
                next += 1;
            }
            producer
                .flush(ACKNOWLEDGED_WITHIN)
                .expect("the cluster is up");
            next
        });
        Self { stop, thread }
    }

    /// Stops, and says how many numbers were written.
    pub(crate) fn stop(self) -> u64 {
        drop(self.stop);
        self.thread.join().expect("the cluster takes all records")
    }
}

/// The longest time between two batches of partition 0 of a topic, from `since` on.
pub(crate) fn longest_pause(state: &State, cluster: &str, topic: &str, since: Instant) -> Duration {
    let arrived: Vec<Instant> = state
        .rows
        .iter()
        .filter(|row| row.at >= since)
        .filter(|row| row.split.cluster.as_str() == cluster && row.split.topic.as_str() == topic)
        .filter(|row| row.split.partition.0 == 0)
        .map(|row| row.at)
        .collect();
    let pauses = arrived.windows(2).map(|pair| pair[1] - pair[0]);
    pauses.max().unwrap_or_default()
}
