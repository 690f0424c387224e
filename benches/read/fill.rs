//! Writes the records that are read.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::{Arguments, Outcome, TOPIC};

/// How long the brokers may take to take a queue full of records.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(60);

/// Fills the topic of the `cluster`th cluster, which exists and is empty, in large batches.
pub(crate) fn fill(servers: &str, cluster: usize, arguments: &Arguments) -> Outcome<()> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("compression.type", arguments.compression.name())
        .set("batch.size", "1000000")
        .set("message.max.bytes", "4000000")
        .set("linger.ms", "50")
        .set("enable.metrics.push", "false")
        .create()?;
    let mut text = String::new();
    for partition in 0..arguments.partitions() {
        for number in 0..arguments.records_of(cluster, partition) {
            arguments.content().write(number, arguments.size, &mut text);
            let mut record = BaseRecord::<[u8], [u8]>::to(TOPIC)
                .partition(partition)
                .payload(text.as_bytes());
            while let Err((error, again)) = producer.send(record) {
                if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                    return Err(error.into());
                }
                producer.poll(Duration::from_millis(10));
                record = again;
            }
        }
    }
    producer.flush(ACKNOWLEDGED_WITHIN)?;
    for partition in 0..arguments.partitions() {
        let records = arguments.records_of(cluster, partition).cast_signed();
        let client = producer.client();
        let (low, high) = client.fetch_watermarks(TOPIC, partition, ACKNOWLEDGED_WITHIN)?;
        if (low, high) != (0, records) {
            let there = format!("partition {partition} has offsets {low} to {high}");
            return Err(format!("{there}, expected 0 to {records}: was the topic empty?").into());
        }
    }
    Ok(())
}
