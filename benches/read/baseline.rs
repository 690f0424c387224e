//! Reading without this crate.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::meter::{Measurement, Meter};
use crate::native::Queue;
use crate::{Arguments, Mode, Outcome, TOPIC, source};

/// Reads all records in the way `mode`.
pub(crate) fn measure(arguments: &Arguments, servers: &str, mode: Mode) -> Outcome<Measurement> {
    let mut config = ClientConfig::new();
    for (name, value) in source::properties(servers)?.iter() {
        config.set(name, value);
    }
    let partitions = arguments.partitions();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(TOPIC, partition, Offset::Offset(0))?;
    }

    let mut meter = Meter::start(arguments.records);
    if mode == Mode::Stream {
        let consumer: StreamConsumer = config.create()?;
        consumer.assign(&list)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(stream(&consumer, &mut meter))?;
        return Ok(meter.stop(mode.name()));
    }
    let consumer: BaseConsumer = config.create()?;
    if mode == Mode::Poll {
        consumer.assign(&list)?;
        poll(&consumer, &mut meter)?;
        return Ok(meter.stop(mode.name()));
    }
    let queue = Queue::of(&consumer, TOPIC, partitions)?;
    consumer.assign(&list)?;
    if mode == Mode::Batch {
        queue.read_batches(&mut meter)?;
    } else {
        queue.read_callbacks(&mut meter)?;
    }
    Ok(meter.stop(mode.name()))
}

async fn stream(consumer: &StreamConsumer, meter: &mut Meter) -> Outcome<()> {
    while !meter.is_done() {
        match consumer.recv().await {
            Ok(message) => meter.records(1, message.payload_len()),
            Err(KafkaError::PartitionEOF(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn poll(consumer: &BaseConsumer, meter: &mut Meter) -> Outcome<()> {
    while !meter.is_done() {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => meter.records(1, message.payload_len()),
            Some(Err(KafkaError::PartitionEOF(_))) | None => {}
            Some(Err(error)) => return Err(error.into()),
        }
    }
    Ok(())
}
