//! The process with the clusters.

use std::collections::BTreeMap;
use std::time::Duration;

use timely_kafka::embedded::{EmbeddedCluster, KafkaApi};

use crate::cpu::Cpu;
use crate::load::{self, Load};
use crate::writer::Pace;
use crate::{Arguments, NAME, Outcome, Served, UNNAMED, partitions};

/// The clusters.
const CLUSTERS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The records of a batch that is written to what no change names. An embedded cluster looks through a
/// partition, which holds 5 MiB, from the front batch by batch: with 200 records this process takes twice the
/// CPU. With more of them each partition has its next batch later, and shorter gaps than that are not seen.
const MANY_RECORDS: usize = 400;

/// To how many partitions a batch is written at once: every 6 ms at 1,000,000 records a second.
const AT_ONCE: usize = 8;

/// How many records a second are written to what changes.
const FEW: u64 = 1_000;

/// And the records of a batch of these. They too are looked through.
const FEW_RECORDS: usize = 2;

/// The cluster that hangs at times, and is made anew then.
const HANGS: &str = "d";

/// How many records a partition has of a cluster that is added.
const WAITING: usize = 1_000;

/// Longer than any deadline.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// A cluster, and what is written to it.
struct Cluster {
    /// Before its brokers, so that it is gone when they go.
    load: Option<Load>,
    brokers: EmbeddedCluster,
}

impl Cluster {
    fn start(arguments: &Arguments, name: &str) -> Outcome<Self> {
        let brokers = EmbeddedCluster::start()?;
        let partitions = partitions(name);
        brokers.create_topic(NAME, partitions)?;
        let servers = brokers.bootstrap_servers();
        let load = |records, rate| {
            let pace = Pace {
                rate,
                partitions: AT_ONCE,
            };
            Load::start(&servers, partitions, records, pace).map(Some)
        };
        let load = match name {
            "e" => load::fill(&servers, partitions, WAITING).map(|()| None),
            "c" | "d" => load(FEW_RECORDS, FEW),
            _ => load(MANY_RECORDS, arguments.rate / 2),
        }?;
        Ok(Self { load, brokers })
    }

    fn requests(&self, api: KafkaApi) -> usize {
        let counts = self.brokers.request_counts();
        counts.get(&api).copied().unwrap_or(0)
    }
}

/// Serves and writes until the input ends, and does what it says.
pub(crate) fn serve(arguments: &Arguments) -> Outcome<()> {
    let mut all = BTreeMap::new();
    let mut before = Cpu::now()?;
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "fresh" => {
                // The more batches were written to an embedded cluster, the longer it looks for one.
                all.clear();
                for name in CLUSTERS {
                    all.insert(name, Cluster::start(arguments, name)?);
                }
                let servers = all.iter();
                let servers = servers.map(|(name, one)| (name, one.brokers.bootstrap_servers()));
                let servers: BTreeMap<_, _> = servers.collect();
                println!("{}", serde_json::to_string(&servers)?);
            }
            command @ ("track" | "track-and-hang") => {
                before = Cpu::now()?;
                for cluster in all.values() {
                    cluster.brokers.track_requests();
                    cluster.load.iter().for_each(|load| {
                        load.late();
                    });
                }
                if command == "track-and-hang"
                    && let Some(cluster) = all.get_mut(HANGS)
                {
                    cluster.load = None;
                    cluster.brokers.delay(FOR_EVER)?;
                }
                println!("done");
            }
            "served" => {
                let unnamed = || UNNAMED.iter().filter_map(|name| all.get(name));
                let late = unnamed().filter_map(|one| Some(one.load.as_ref()?.late()));
                let served = Served {
                    connections: unnamed()
                        .map(|one| one.requests(KafkaApi::ApiVersions))
                        .sum(),
                    fetches: unnamed().map(|one| one.requests(KafkaApi::Fetch)).sum(),
                    late_ms: late.max().unwrap_or_default().as_secs_f64() * 1_000.0,
                    cpu_seconds: Cpu::now()?.process - before.process,
                };
                println!("{}", serde_json::to_string(&served)?);
            }
            other => return Err(format!("the server does not know '{other}'").into()),
        }
    }
    Ok(())
}
