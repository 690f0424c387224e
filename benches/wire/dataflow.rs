//! The dataflow that is measured.

use std::sync::{Arc, Mutex, PoisonError};

use timely::Config;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::ProbeHandle;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::{Operator, Probe};
use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
use timely_kafka::records::BatchStream;
use timely_splits::assignor::StickyBalanced;
use timely_splits::control::SourceControl;
use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::enumerator::Enumeration;
use timely_splits::log::MemoryLog;
use timely_splits::source::{Reading, SourceOptions, read_splits};
use timely_splits::tick::TimeMap;

use crate::meter::{Measurement, Meter};
use crate::prepared::{NAME, PARTITIONS, Prepared, PreparedDiscovery, PreparedFetcher, TOPIC};
use crate::{Mode, Outcome};

fn metadata() -> Outcome<StreamsMetadata> {
    let nowhere = ClientProperties::new().with("bootstrap.servers", "127.0.0.1:1");
    Ok(StreamsMetadata::new()
        .with_cluster(NAME, nowhere)?
        .with_stream(NAME, KafkaStream::new().with_topics(NAME, [TOPIC])?)?)
}

/// Reads `records` records with values of `size` bytes and counts them.
pub(crate) fn measure(records: u64, size: usize, mode: Mode) -> Outcome<Measurement> {
    let metadata = metadata()?;
    let prepared = Arc::new(Prepared::new(records, size)?);
    let meter = Arc::new(Mutex::new(Meter::start(prepared.records())));
    let outcome = Arc::new(Mutex::new(None));
    let shared = Arc::clone(&outcome);
    let control = SourceControl::new();
    let guards = timely::execute(Config::process(mode.workers()), move |worker| {
        let enumeration = (worker.index() == 0).then(|| {
            let metadata = metadata.clone();
            Enumeration {
                discovery: Box::new(move |waker| Box::new(PreparedDiscovery::new(metadata, waker))),
                log: Box::new(MemoryLog::new()),
                assignor: Box::new(StickyBalanced),
                coordination: CoordinatorOptions::new(0),
            }
        });
        let prepared = Arc::clone(&prepared);
        let reading = Reading {
            fetcher: Box::new(|waker| PreparedFetcher::new(prepared, waker)),
            admission: None,
        };
        let (meter, measured) = (Arc::clone(&meter), Arc::clone(&shared));
        let (control, probe) = (control.clone(), ProbeHandle::new());
        worker.dataflow::<u64, _, _>(|scope| {
            let mut options = SourceOptions::new(NAME, TimeMap::identity());
            options.control = control.clone();
            options.probe = Some(probe.clone());
            let batches = read_splits(scope, &options, enumeration, reading).batches;
            let batches = match mode {
                Mode::Count => batches,
                Mode::Exchange => batches.exchange_by_split(),
            };
            batches
                .unary::<CapacityContainerBuilder<Vec<u64>>, _, _, _>(
                    Pipeline,
                    "Count",
                    move |_, _| {
                        move |input, output| {
                            input.for_each(|time, batch| {
                                let (mut count, mut bytes) = (0, 0);
                                for record in batch.iter() {
                                    count += 1;
                                    bytes += record.value().map_or(0, <[u8]>::len);
                                }
                                output.session(&time).give(count);
                                let mut meter =
                                    meter.lock().unwrap_or_else(PoisonError::into_inner);
                                meter.records(count, bytes);
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
    debug_assert_eq!(PARTITIONS % 2, 0, "both workers have as many splits");
    let measured = outcome
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    measured.ok_or_else(|| "the source ended early".into())
}
