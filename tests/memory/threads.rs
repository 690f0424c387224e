//! How many threads there are, and whose.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libtest_mimic::Failed;
use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::operators::core::Inspect;
use timely_kafka::{KafkaSource, Subscription};

use crate::{in_a_process, metadata, step_until};

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 8;
/// Guards against hangs only.
const STEPS_MAX: usize = 10_000;

pub(crate) fn case() -> Result<(), Failed> {
    for (clusters, brokers, workers) in [(1, 2, 1), (1, 4, 2), (5, 2, 2), (5, 4, 1)] {
        // The controller is one more.
        let servers = (0..clusters).map(|_| cluster(brokers - 1));
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let addresses = servers.iter().map(EmbeddedCluster::bootstrap_servers);
        let addresses = addresses.collect::<Vec<_>>().join(";");
        in_a_process(&format!("threads {workers} {brokers} {addresses}"))?;
    }
    Ok(())
}

/// A cluster with a record in each partition.
fn cluster(brokers: u16) -> Result<EmbeddedCluster, Failed> {
    let cluster = EmbeddedCluster::start_with(brokers)?;
    cluster.create_topic(TOPIC, PARTITIONS)?;
    for partition in 0..PARTITIONS {
        cluster.produce(TOPIC, partition, [EmbeddedRecord::value("a")])?;
    }
    Ok(cluster)
}

/// How many threads of each name this process has, as far as the names tell whose they are.
fn threads() -> BTreeMap<&'static str, usize> {
    const NAMES: [(&str, &str); 8] = [
        ("timely:work", "timely"),
        ("kafka-wake", "wake"),
        ("binding-log", "log"),
        ("metadata", "metadata"),
        ("kafka-control", "control"),
        ("kafka-c", "data"),
        ("rdk:main", "main of a client"),
        ("rdk:broker", "brokers of a client"),
    ];
    let mut counts = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let Ok(name) = std::fs::read_to_string(task.unwrap().path().join("comm")) else {
            continue; // it has ended
        };
        let of = NAMES.iter().find(|(prefix, _)| name.starts_with(prefix));
        *counts.entry(of.map_or("others", |(_, of)| of)).or_default() += 1;
    }
    counts
}

/// The threads that the manual speaks of, with clusters of so many brokers.
fn expected(workers: usize, clusters: usize, brokers: usize) -> BTreeMap<&'static str, usize> {
    BTreeMap::from([
        ("timely", workers),
        ("wake", 1),
        ("log", 1),
        ("control", clusters),
        ("data", clusters),
        ("main of a client", 2 * clusters),
        ("brokers of a client", (2 * brokers + 3) * clusters),
        // The one that waits for the workers.
        ("others", 1),
    ])
}

/// Reads until all has come and all brokers are connected to, and looks.
pub(crate) fn read(workers: usize, brokers: usize, clusters: &str) {
    let clusters: Vec<&str> = clusters.split(';').collect();
    let expected = expected(workers, clusters.len(), brokers);
    let all = usize::try_from(PARTITIONS).unwrap() * clusters.len();
    let source = KafkaSource::builder()
        .metadata(metadata(TOPIC, &clusters))
        .subscribe(Subscription::streams([TOPIC]))
        .build()
        .unwrap();
    let (control, seen) = (source.control(), Arc::new(AtomicUsize::new(0)));
    timely_kafka::execute(Config::process(workers), move |worker| {
        let counted = Arc::clone(&seen);
        worker.dataflow(|scope| {
            let read = source.read(scope);
            read.batches.inspect_core(move |event| {
                if let Ok((_, batch)) = event {
                    counted.fetch_add(batch.iter().count(), Ordering::Relaxed);
                }
            });
        });
        if worker.index() > 0 {
            return;
        }
        step_until(worker, || seen.load(Ordering::Relaxed) == all);
        // A thread of a client ends when it has told the client what it knows.
        let mut found = BTreeMap::new();
        for _ in 0..STEPS_MAX {
            found = threads();
            if found == expected {
                break;
            }
            worker.step_or_park(Some(Duration::from_millis(1)));
        }
        assert_eq!(found, expected);
        println!("{} threads: {found:?}", found.values().sum::<usize>());
        control.stop();
    })
    .unwrap();
}
