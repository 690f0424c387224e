//! The process with the clusters.

use std::collections::BTreeMap;
use std::time::Duration;

use timely_kafka::embedded::{EmbeddedCluster, KafkaApi};

use crate::cpu::Cpu;
use crate::load::{self, Load};
use crate::relay::Relay;
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
    /// What counts the records that are fetched, if no change names it.
    relay: Option<Relay>,
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
        let relay = UNNAMED.contains(&name);
        let relay = relay.then(|| Relay::start(&servers, partitions));
        Ok(Self {
            load,
            relay: relay.transpose()?,
            brokers,
        })
    }

    /// Where clients find it.
    fn servers(&self) -> String {
        let relay = self.relay.as_ref().map(|relay| relay.servers().to_owned());
        relay.unwrap_or_else(|| self.brokers.bootstrap_servers())
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
                let servers: BTreeMap<_, _> =
                    servers.map(|(name, one)| (name, one.servers())).collect();
                println!("{}", serde_json::to_string(&servers)?);
            }
            command @ ("track" | "track-and-hang") => {
                before = Cpu::now()?;
                for cluster in all.values() {
                    cluster.brokers.track_requests();
                    cluster.relay.iter().for_each(Relay::track);
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
                let cpu_seconds = Cpu::now()?.process - before.process;
                let served = served(&all, cpu_seconds)?;
                println!("{}", serde_json::to_string(&served)?);
            }
            other => return Err(format!("the server does not know '{other}'").into()),
        }
    }
    Ok(())
}

/// What the clusters that no change names have seen.
fn served(all: &BTreeMap<&str, Cluster>, cpu_seconds: f64) -> Outcome<Served> {
    let unnamed = || UNNAMED.iter().filter_map(|name| all.get_key_value(name));
    let requests = |api| unnamed().map(|(_, one)| one.requests(api)).sum();
    let late = unnamed().filter_map(|(_, one)| Some(one.load.as_ref()?.late()));
    let mut twice = Vec::new();
    let mut records = 0;
    for (name, cluster) in unnamed() {
        let relay = cluster.relay.as_ref().ok_or("nothing is counted")?;
        records += relay.records();
        for (partition, count) in relay.twice()? {
            twice.push(((*name).to_owned(), partition, count));
        }
    }
    Ok(Served {
        connections: requests(KafkaApi::ApiVersions),
        fetches: requests(KafkaApi::Fetch),
        records,
        twice,
        late_ms: late.max().unwrap_or_default().as_secs_f64() * 1_000.0,
        cpu_seconds,
    })
}
