//! Reading with this crate.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::container::CapacityContainerBuilder;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::channels::pact::Pipeline;
use timely_kafka::timely::dataflow::operators::{Operator, Probe};
use timely_kafka::{KafkaSource, LocalLog, ReadOptions, StartAt, Subscription, TimeMap};

use crate::measurement::{Measurement, Recorder, now};
use crate::{Arguments, HUGE, Log, NAME, Outcome};

/// What is particular to the cluster.
pub(crate) fn cluster(servers: &str) -> ClientProperties {
    ClientProperties::new().with("bootstrap.servers", servers)
}

/// A source that has no log yet.
pub(crate) fn describe(
    arguments: &Arguments,
    servers: &str,
) -> Outcome<timely_kafka::KafkaSourceBuilder> {
    let mut metadata = StreamsMetadata::new().with_cluster(NAME, cluster(servers))?;
    let mut stream = KafkaStream::new().with_topics(NAME, [NAME])?;
    if let Some(with_huge) = arguments.huge.first() {
        let name = if with_huge == servers { NAME } else { HUGE };
        metadata = metadata.with_cluster(name, cluster(with_huge))?;
        stream = stream.with_topic_start(name, HUGE, StartAt::Earliest)?;
    }
    let metadata = metadata.with_stream(NAME, stream)?;
    Ok(KafkaSource::builder()
        .name(NAME)
        .metadata(FixedMetadataService::new(metadata))
        .subscribe(Subscription::streams([NAME])))
}

/// Measures what an operator after the source sees.
pub(crate) fn measure(arguments: &Arguments, servers: &str, tick: u64) -> Outcome<Measurement> {
    // On the disk of the build, since that of temporary files may be memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let start = if arguments.most {
        StartAt::Earliest
    } else {
        StartAt::Latest
    };
    let tick_interval = Duration::from_millis(tick);
    let builder = describe(arguments, servers)?
        .start(start)
        .tick_interval(tick_interval);
    let source = match arguments.log {
        Log::Folder => builder.log(LocalLog::at(folder.path().join("log"))),
        Log::Memory => builder,
    }
    .build()?;
    let measured = Arc::new(Mutex::new(Recorder::new(arguments)?));
    let shared = Arc::clone(&measured);
    let guards = timely_kafka::execute(Config::process(1), move |worker| {
        let recorder = Arc::clone(&shared);
        let control = source.control();
        let probe = ProbeHandle::new();
        worker.dataflow(|scope| {
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&probe);
            source
                .read_with(scope, options)
                .batches
                .unary_frontier::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
                    Pipeline,
                    "Measure",
                    move |_, _| {
                        move |(input, frontier), _output| {
                            let mut recorder =
                                recorder.lock().unwrap_or_else(PoisonError::into_inner);
                            input.for_each(|time, batch| {
                                let values = batch.iter().filter_map(|record| record.value());
                                let at = time.stamp().iter().next().copied();
                                let at = at.expect("every message has a time");
                                recorder.emitted_at(at, values, now());
                            });
                            let passed = frontier.frontier().iter().next().copied();
                            recorder.passed(passed.unwrap_or(u64::MAX), now());
                            if recorder.is_done() {
                                control.stop();
                            }
                        }
                    },
                )
                .probe_with(&probe);
        });
    })?;
    for ended in guards.join() {
        ended?;
    }
    let measured = measured.lock().unwrap_or_else(PoisonError::into_inner);
    measured.stop()
}
