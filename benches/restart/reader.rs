//! The process that is killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{ClientProperties, KafkaSplit, KafkaStream, StreamsMetadata};
use timely_kafka::records::RecordBatch;
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::operators::{Inspect, Probe};
use timely_kafka::{KafkaSource, LocalLog, ReadOptions, Subscription, TimeMap};

use crate::{Arguments, Log, NAME, Outcome};

/// Reads until it is killed. Says when a record is emitted first, and when one of every split was.
pub(crate) fn read(arguments: &Arguments, servers: &str, folder: &Path) -> Outcome<()> {
    let source = source(arguments, servers, folder)?;
    let partitions = usize::try_from(arguments.partitions)?;
    let seen = Arc::new(Mutex::new(BTreeSet::<KafkaSplit>::new()));
    let guards = timely_kafka::execute(Config::process(arguments.workers), move |worker| {
        let seen = Arc::clone(&seen);
        let probe = ProbeHandle::new();
        worker.dataflow(|scope| {
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&probe);
            let batches = source.read_with(scope, options).batches;
            batches
                .inspect_core(move |event| {
                    if let Ok((_, batch)) = event {
                        hear(batch, &seen, partitions);
                    }
                })
                .probe_with(&probe);
        });
    })?;
    for ended in guards.join() {
        ended?;
    }
    Err("the source ended by itself".into())
}

fn hear(batch: &RecordBatch, seen: &Mutex<BTreeSet<KafkaSplit>>, partitions: usize) {
    let Some(split) = batch.split() else {
        return;
    };
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.contains(split) {
        return;
    }
    seen.insert(split.clone());
    // Standard output ends its lines one by one.
    if seen.len() == 1 {
        println!("first");
    }
    if seen.len() == partitions {
        println!("all");
    }
}

fn source(arguments: &Arguments, servers: &str, folder: &Path) -> Outcome<KafkaSource> {
    let cluster = ClientProperties::new()
        .with("bootstrap.servers", servers)
        // The embedded cluster waits a fetch out that finds nothing, whatever arrives meanwhile.
        .with("fetch.wait.max.ms", "10");
    let metadata = StreamsMetadata::new()
        .with_cluster(NAME, cluster)?
        .with_stream(NAME, KafkaStream::new().with_topics(NAME, [NAME])?)?;
    let builder = KafkaSource::builder()
        .name(NAME)
        .metadata(FixedMetadataService::new(metadata))
        .subscribe(Subscription::streams([NAME]));
    let builder = match arguments.only.as_slice() {
        [Log::Local] => builder.log(LocalLog::at(folder)),
        #[cfg(feature = "object-store")]
        [Log::Objects] => builder.log(timely_kafka::ObjectLog::in_folder(folder)),
        _ => return Err("--role read needs one log".into()),
    };
    Ok(builder.build()?)
}
