//! Reading with this crate.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
use timely_kafka::records::BatchStream;
use timely_kafka::timely::Config;
use timely_kafka::timely::container::CapacityContainerBuilder;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::channels::pact::Pipeline;
use timely_kafka::timely::dataflow::operators::{Operator, Probe};
use timely_kafka::{KafkaSource, LocalLog, ReadOptions, Subscription, TimeMap};

use crate::meter::{Measurement, Meter};
use crate::{Arguments, Mode, NAME, Outcome, TOPIC};

/// What is particular to the cluster: where it is, and that a fetch which finds nothing must not
/// wait long, since the embedded cluster waits it out whatever arrives meanwhile.
fn cluster(arguments: &Arguments, servers: &str) -> ClientProperties {
    let properties = ClientProperties::new()
        .with("bootstrap.servers", servers)
        .with("fetch.wait.max.ms", "10");
    let said = arguments.property.iter();
    let pairs = said.filter_map(|property| property.split_once('='));
    pairs.fold(properties, |properties, (name, value)| {
        properties.with(name, value)
    })
}

fn build(arguments: &Arguments, servers: &[String], log: Option<&Path>) -> Outcome<KafkaSource> {
    let mut metadata = StreamsMetadata::new();
    let mut stream = KafkaStream::new();
    for (number, of_cluster) in servers.iter().enumerate() {
        let name = format!("{NAME}-{number}");
        metadata = metadata.with_cluster(&name, cluster(arguments, of_cluster))?;
        stream = stream.with_topics(&name, [TOPIC])?;
    }
    let metadata = metadata.with_stream(NAME, stream)?;
    let source = KafkaSource::builder()
        .name(NAME)
        .metadata(FixedMetadataService::new(metadata))
        .subscribe(Subscription::streams([NAME]));
    let source = match log {
        Some(folder) => source.log(LocalLog::at(folder)),
        None => source,
    };
    Ok(source.build()?)
}

/// The properties of a client with which the source reads, which has one for each cluster.
pub(crate) fn properties(arguments: &Arguments, servers: &str) -> Outcome<ClientProperties> {
    let source = build(arguments, &[servers.to_owned()], None)?;
    Ok(source.client_properties(&cluster(arguments, servers), arguments.clusters))
}

/// Reads all records into an operator that counts them.
pub(crate) fn measure(arguments: &Arguments, mode: Mode) -> Outcome<Measurement> {
    // On the disk of the build, since that of temporary files may be memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let log = (mode != Mode::SourceWithMemory).then(|| folder.path().join("log"));
    let meter = Arc::new(Mutex::new(Meter::start(arguments.records)));
    let outcome = Arc::new(Mutex::new(None));
    let source = build(arguments, &arguments.servers, log.as_deref())?;
    let shared = Arc::clone(&outcome);
    let content = arguments.content();
    let guards = timely_kafka::execute(Config::process(arguments.workers), move |worker| {
        let (meter, measured) = (Arc::clone(&meter), Arc::clone(&shared));
        let control = source.control();
        let probe = ProbeHandle::new();
        worker.dataflow(|scope| {
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&probe);
            let batches = source.read_with(scope, options).batches;
            let batches = if mode == Mode::SourceExchange {
                batches.exchange_by_split()
            } else {
                batches
            };
            batches
                .unary::<CapacityContainerBuilder<Vec<u64>>, _, _, _>(
                    Pipeline,
                    "Count",
                    move |_, _| {
                        move |input, output| {
                            input.for_each(|time, batch| {
                                let (mut records, mut bytes) = (0, 0);
                                for record in batch.iter() {
                                    records += 1;
                                    bytes += record.value().map_or(0, |value| content.take(value));
                                }
                                output.session(&time).give(records);
                                let mut meter =
                                    meter.lock().unwrap_or_else(PoisonError::into_inner);
                                meter.records(records, bytes);
                                if meter.is_done() {
                                    *measured.lock().unwrap_or_else(PoisonError::into_inner) =
                                        Some(meter.stop(mode.name()));
                                    control.stop();
                                }
                            });
                        }
                    },
                )
                .probe_with(&probe);
        });
    })?;
    for ended in guards.join() {
        ended?;
    }
    let measured = outcome
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    measured.ok_or_else(|| "the source ended early".into())
}
