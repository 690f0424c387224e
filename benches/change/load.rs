//! What is written to clusters.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::{NAME, Outcome};

/// The bytes of a value.
const SIZE: usize = 100;

/// How often what is due is written.
const EVERY: Duration = Duration::from_millis(2);

/// Guards against hangs only.
const WRITTEN_WITHIN: Duration = Duration::from_secs(60);

/// Writes to all partitions in turn until it is dropped.
#[derive(Debug)]
pub(crate) struct Load {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Starts to write so many records a second, or fewer if the machine is busy.
    pub(crate) fn start(servers: &str, partitions: i32, rate: u64) -> Outcome<Self> {
        let producer = producer(servers)?;
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let begin = Instant::now();
            let (mut written, mut partition) = (0, 0);
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let due = begin.elapsed().as_micros() * u128::from(rate) / 1_000_000;
                for _ in written..due {
                    // What the machine is too slow for is left out.
                    send(&producer, partition);
                    partition = (partition + 1) % partitions;
                }
                written = due;
                producer.poll(Duration::ZERO);
            }
        });
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It says itself why it panicked.
            thread.join().ok();
        }
    }
}

fn producer(servers: &str) -> Outcome<BaseProducer> {
    Ok(ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("linger.ms", "20")
        // What is fetched at once of a partition is not less than a batch.
        .set("batch.num.messages", "100")
        .set("enable.metrics.push", "false")
        .create()?)
}

/// Writes so many records to each partition.
pub(crate) fn fill(servers: &str, partitions: i32, records: u64) -> Outcome<()> {
    let producer = producer(servers)?;
    for partition in 0..partitions {
        for _ in 0..records {
            while !send(&producer, partition) {
                producer.poll(Duration::from_millis(10));
            }
        }
    }
    producer.flush(WRITTEN_WITHIN)?;
    Ok(())
}

/// Writes a record, unless so many wait that there is no room.
fn send(producer: &BaseProducer, partition: i32) -> bool {
    let record = BaseRecord::<(), _>::to(NAME)
        .partition(partition)
        .payload(&[b'v'; SIZE]);
    match producer.send(record) {
        Ok(()) => true,
        Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => false,
        Err((error, _)) => panic!("the record is not written: {error}"),
    }
}
