//! The process that writes.

use std::io::Read;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::measurement::now;
use crate::{Arguments, NAME, Outcome};

/// From how many records a second on the writer gathers them for some milliseconds, as everybody does who
/// writes many: sent one by one they are what keeps the machine busy.
const MANY: u64 = 10_000;

/// The bytes of a value, of which the first eight are the time.
const SIZE: usize = 100;

/// How many records are written before it is looked whether it is over, if there is no rate.
const AT_ONCE: u64 = 1_000;

/// Writes until the input ends.
pub(crate) fn write(arguments: &Arguments, servers: &str) -> Outcome<()> {
    let gathers = arguments.rate == 0 || arguments.rate >= MANY;
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("linger.ms", if gathers { "5" } else { "0" })
        .set("enable.metrics.push", "false")
        .create()?;
    let (alive, ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        // However it ends, this is over.
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        drop(alive);
    });
    let begin = Instant::now();
    let mut written = 0_u64;
    loop {
        let due = match arguments.rate {
            0 => written + AT_ONCE,
            rate => u64::try_from(begin.elapsed().as_micros())? * rate / 1_000_000,
        };
        while written < due {
            send(&producer, arguments.partitions, written)?;
            written += 1;
        }
        producer.poll(Duration::ZERO);
        let wait = match arguments.rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs(1) / u32::try_from(rate.min(1_000))?,
        };
        if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            producer.flush(Duration::from_secs(10))?;
            return Ok(());
        }
    }
}

/// Writes a record, to each partition in turn.
fn send(producer: &BaseProducer, partitions: i32, number: u64) -> Outcome<()> {
    let partition = i32::try_from(number % u64::from(partitions.unsigned_abs()))?;
    let mut value = [b'v'; SIZE];
    value[..8].copy_from_slice(&now().to_le_bytes());
    let mut record = BaseRecord::<[u8], [u8]>::to(NAME)
        .partition(partition)
        .payload(&value);
    while let Err((error, again)) = producer.send(record) {
        if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
            return Err(error.into());
        }
        producer.poll(Duration::from_millis(10));
        record = again;
    }
    Ok(())
}
