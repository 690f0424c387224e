//! The assignor that a source is given.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex};

use timely::dataflow::operators::Inspect;
use timely_kafka::assignor::{Assignor, Plan, Situation};
use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};
use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{KafkaStream, StreamsMetadata};
use timely_kafka::records::BatchStream;
use timely_kafka::{KafkaSource, KafkaSplit, Subscription, timely};

/// Gives everything to the last reader.
struct Last;

impl Assignor<KafkaSplit> for Last {
    fn plan(&self, situation: &Situation<'_, KafkaSplit>) -> Plan {
        let last = situation.readers.len() - 1;
        Plan {
            readers: vec![last; situation.splits.len()],
            hot: Vec::new(),
        }
    }
}

#[test]
fn the_assignor_of_the_user_decides_which_worker_reads() -> Result<(), Box<dyn Error>> {
    let cluster = EmbeddedCluster::start()?;
    cluster.create_topic("orders", 4)?;
    for partition in 0..4 {
        cluster.produce("orders", partition, [EmbeddedRecord::new("apples", "3")])?;
    }
    let metadata = StreamsMetadata::new()
        .with_cluster("here", cluster.client_properties())?
        .with_stream(
            "orders",
            KafkaStream::new().with_topics("here", ["orders"])?,
        )?;
    let source = KafkaSource::builder()
        .metadata(FixedMetadataService::new(metadata))
        .subscribe(Subscription::streams(["orders"]))
        .assignor(Last)
        .build()?;
    let read_on: Arc<Mutex<Vec<usize>>> = Arc::default();
    let workers = Arc::clone(&read_on);

    timely_kafka::execute(timely::Config::process(3), move |worker| {
        let index = worker.index();
        let workers = Arc::clone(&workers);
        worker.dataflow(|scope| {
            let read = source.read(scope);
            let control = read.control.clone();
            read.batches.records().inspect(move |_| {
                let mut workers = workers.lock().unwrap();
                workers.push(index);
                if workers.len() == 4 {
                    control.stop();
                }
            });
        });
    })?;

    let read = read_on.lock().unwrap();
    assert_eq!(read.len(), 4);
    assert_eq!(BTreeSet::from_iter(read.iter()), BTreeSet::from([&2]));
    Ok(())
}
