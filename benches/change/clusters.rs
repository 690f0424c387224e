//! The process with the clusters.

use std::collections::BTreeMap;
use std::time::Duration;

use timely_kafka::embedded::{EmbeddedCluster, KafkaApi};

use crate::load::{self, Load};
use crate::{Arguments, NAME, Outcome, UNNAMED};

/// The clusters.
const CLUSTERS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// How many records a second are written to what changes.
const FEW: u64 = 1_000;

/// The cluster that hangs at times, and is made anew then.
const HANGS: &str = "d";

/// How many records a partition has that is full: it holds 5 MiB.
pub(crate) const FULL: u64 = 45_000;

/// How many records a partition has of a cluster that is added.
const WAITING: u64 = 1_000;

/// Longer than any deadline.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// A cluster, and what is written to it.
struct Served {
    /// Before its cluster, so that it is gone when that goes.
    load: Option<Load>,
    cluster: EmbeddedCluster,
    hangs: bool,
}

impl Served {
    fn start(arguments: &Arguments, name: &str) -> Outcome<Self> {
        let cluster = EmbeddedCluster::start()?;
        let partitions = arguments.partitions(name);
        cluster.create_topic(NAME, partitions)?;
        let servers = cluster.bootstrap_servers();
        let load = match (name, arguments.rate) {
            ("a" | "b", Some(rate)) => Some(Load::start(&servers, partitions, rate / 2)?),
            ("c" | "d", _) => Some(Load::start(&servers, partitions, FEW)?),
            (_, _) => None,
        };
        if load.is_none() {
            let records = if name == "e" { WAITING } else { FULL };
            load::fill(&servers, partitions, records)?;
        }
        if load.is_none() && UNNAMED.contains(&name) {
            cluster.delay(Duration::from_millis(arguments.delay))?;
        }
        Ok(Self {
            load,
            cluster,
            hangs: false,
        })
    }

    fn connections(&self) -> usize {
        let counts = self.cluster.request_counts();
        counts.get(&KafkaApi::ApiVersions).copied().unwrap_or(0)
    }
}

/// Serves and writes until the input ends, and does what it says.
pub(crate) fn serve(arguments: &Arguments) -> Outcome<()> {
    let mut all = BTreeMap::new();
    for name in CLUSTERS {
        all.insert(name, Served::start(arguments, name)?);
    }
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "fresh" => {
                for (name, served) in &mut all {
                    // The more batches were written to an embedded cluster, the longer it looks for one.
                    if served.hangs || served.load.is_some() {
                        *served = Served::start(arguments, name)?;
                    }
                }
                let servers = all.iter();
                let servers = servers.map(|(name, one)| (name, one.cluster.bootstrap_servers()));
                let servers: BTreeMap<_, _> = servers.collect();
                println!("{}", serde_json::to_string(&servers)?);
            }
            command @ ("track" | "track-and-hang") => {
                all.values()
                    .for_each(|served| served.cluster.track_requests());
                if command == "track-and-hang"
                    && let Some(served) = all.get_mut(HANGS)
                {
                    served.load = None;
                    served.cluster.delay(FOR_EVER)?;
                    served.hangs = true;
                }
                println!("done");
            }
            "counts" => {
                let counts: BTreeMap<_, _> = all
                    .iter()
                    .map(|(name, served)| (name, served.connections()))
                    .collect();
                println!("{}", serde_json::to_string(&counts)?);
            }
            other => return Err(format!("the server does not know '{other}'").into()),
        }
    }
    Ok(())
}
