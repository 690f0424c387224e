//! Reading without this crate.

use std::any::Any;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::content::Content;
use crate::meter::{Measurement, Meter};
use crate::native::Queue;
use crate::{Arguments, Mode, Outcome, TOPIC, source};

/// The bytes of values in messages that are kept, as many as a source emits at once.
const KEPT_BYTES: usize = 1 << 20;

/// Reads all records in the way `mode`, those of each cluster on a thread.
pub(crate) fn measure(arguments: &Arguments, mode: Mode) -> Outcome<Measurement> {
    let mut meter = Meter::start(arguments.records);
    let ended = thread::scope(|scope| {
        let clusters = arguments.servers.iter().enumerate();
        let read = |(cluster, servers): (usize, &String)| {
            let servers = servers.clone();
            scope.spawn(move || {
                read(arguments, mode, cluster, &servers).map_err(|error| error.to_string())
            })
        };
        let threads: Vec<_> = clusters.map(read).collect();
        threads
            .into_iter()
            .map(ScopedJoinHandle::join)
            .collect::<Vec<_>>()
    });
    let mut clients = Vec::new();
    for one in ended {
        let (part, client) = one.map_err(|_| "a thread panicked")??;
        meter.records += part.records;
        meter.before += part.before;
        meter.bytes += part.bytes;
        clients.push(client);
    }
    // That clients are closed after this is not measured.
    Ok(meter.stop(mode.name()))
}

/// Reads the records of a cluster. The client is not closed yet.
fn read(
    arguments: &Arguments,
    mode: Mode,
    cluster: usize,
    servers: &str,
) -> Outcome<(Meter, Box<dyn Any + Send>)> {
    let mut config = ClientConfig::new();
    for (name, value) in source::properties(arguments, servers)?.iter() {
        config.set(name, value);
    }
    let partitions = arguments.partitions();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(TOPIC, partition, Offset::Offset(0))?;
    }
    let records = (0..partitions).map(|partition| arguments.records_of(cluster, partition));
    let mut meter = Meter::start(records.sum());
    let content = arguments.content();
    if mode == Mode::Stream {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let entered = runtime.enter();
        let consumer: StreamConsumer = config.create()?;
        drop(entered);
        consumer.assign(&list)?;
        runtime.block_on(stream(&consumer, content, &mut meter))?;
        return Ok((meter, Box::new(consumer)));
    }
    let consumer: BaseConsumer = config.create()?;
    if mode == Mode::Poll {
        consumer.assign(&list)?;
        poll(&consumer, content, &mut meter)?;
        return Ok((meter, Box::new(consumer)));
    }
    let queue = Queue::of(&consumer, TOPIC, partitions)?;
    consumer.assign(&list)?;
    match mode {
        Mode::Batch => queue.read_batches(content, &mut meter)?,
        Mode::Kept => queue.read_kept(content, &mut meter, KEPT_BYTES)?,
        Mode::Copied => queue.read_copies(content, &mut meter)?,
        _ => queue.read_callbacks(content, &mut meter)?,
    }
    drop(queue);
    Ok((meter, Box::new(consumer)))
}

fn count(message: &impl Message, content: Content, meter: &mut Meter) {
    let value = message.payload();
    meter.records(1, value.map_or(0, |value| content.take(value)));
}

async fn stream(consumer: &StreamConsumer, content: Content, meter: &mut Meter) -> Outcome<()> {
    while !meter.is_done() {
        match consumer.recv().await {
            Ok(message) => count(&message, content, meter),
            Err(KafkaError::PartitionEOF(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn poll(consumer: &BaseConsumer, content: Content, meter: &mut Meter) -> Outcome<()> {
    while !meter.is_done() {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => count(&message, content, meter),
            Some(Err(KafkaError::PartitionEOF(_))) | None => {}
            Some(Err(error)) => return Err(error.into()),
        }
    }
    Ok(())
}
