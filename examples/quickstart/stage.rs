//! What the quickstart brings along instead of your infrastructure: two clusters, the file that
//! says where the stream lives, and a thread that writes.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;
use timely_kafka::embedded::{EmbeddedCluster, EmbeddedError, EmbeddedRecord, KafkaApi};

use crate::ledger::{Event, Order};

const PARTITIONS: usize = 3;
const KEYS: [&str; 6] = ["apples", "cherries", "figs", "grapes", "lemons", "plums"];

/// How many records are written to a cluster at a time, and how long to wait then.
const RECORDS_A_ROUND: usize = 36;
const PAUSE: Duration = Duration::from_millis(15);

type Clusters = BTreeMap<&'static str, EmbeddedCluster>;

pub(crate) struct Stage {
    folder: TempDir,
    clusters: Arc<Clusters>,
    /// Tells the thread that writes which clusters to write to.
    homes: Option<SyncSender<Vec<&'static str>>>,
    writer: Option<JoinHandle<()>>,
}

impl Stage {
    /// Starts the clusters, the writer, and the stream `orders` in A.
    pub(crate) fn set(events: Sender<Event>) -> Result<Self, Box<dyn Error>> {
        let mut clusters = Clusters::new();
        for name in ["A", "B"] {
            let cluster = EmbeddedCluster::start()?;
            cluster.create_topic("orders", i32::try_from(PARTITIONS)?)?;
            clusters.insert(name, cluster);
        }
        let clusters = Arc::new(clusters);
        // Without room in the channel, telling the writer returns when it has heard.
        let (homes, commands) = mpsc::sync_channel(0);
        let writing = Arc::clone(&clusters);
        let writer = thread::spawn(move || {
            if let Err(error) = write(&writing, &commands, &events) {
                events.send(Event::NotWritten(error.to_string())).ok();
            }
        });
        let stage = Self {
            folder: tempfile::tempdir()?,
            clusters,
            homes: Some(homes),
            writer: Some(writer),
        };
        stage.describe(&["A"])?;
        Ok(stage)
    }

    pub(crate) fn metadata_file(&self) -> PathBuf {
        self.folder.path().join("streams.yaml")
    }

    /// Writes that the stream `orders` lives in the clusters `homes`, from here on.
    pub(crate) fn describe(&self, homes: &[&str]) -> Result<(), String> {
        let mut text = "clusters:\n".to_owned();
        for (name, cluster) in self.clusters.iter() {
            text += &format!("  {name}:\n    properties:\n");
            for (property, value) in cluster.client_properties().iter() {
                text += &format!("      {property}: \"{value}\"\n");
            }
        }
        text += "streams:\n  orders:\n";
        for name in homes {
            text += &format!("    {name}: {{ topics: [orders] }}\n");
        }
        // Who fetches from where is of interest from here on.
        self.clusters
            .values()
            .for_each(EmbeddedCluster::track_requests);
        // A file that is renamed into its place is never seen half-written.
        let draft = self.folder.path().join("streams.yaml.draft");
        std::fs::write(&draft, text)
            .and_then(|()| std::fs::rename(draft, self.metadata_file()))
            .map_err(|error| format!("writing {}: {error}", self.metadata_file().display()))
    }

    /// From here on orders are written to the clusters `homes`, each to one of them.
    pub(crate) fn write_to(&self, homes: &[&'static str]) -> Result<(), String> {
        let told = self
            .homes
            .as_ref()
            .map(|writer| writer.send(homes.to_vec()));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err("the thread that writes has ended".to_owned()),
        }
    }

    /// Ends the writing for good; the clusters run on until this is dropped.
    pub(crate) fn end_writing(&mut self) {
        self.homes = None;
        if let Some(writer) = self.writer.take() {
            // If it ended early, an event tells why.
            writer.join().ok();
        }
    }

    /// Whether nobody has fetched from `cluster` for so long that whoever reads it would have:
    /// readers fetch again and again, also if nothing is there.
    pub(crate) fn is_left_alone(&self, cluster: &str) -> bool {
        let last_fetch = |name: &str| {
            let requests = self.clusters[name].requests().into_iter();
            let fetches = requests.filter(|request| request.api == KafkaApi::Fetch);
            fetches.map(|request| request.at).max().unwrap_or_default()
        };
        // The times of all clusters are of one clock, and only grow: the one to be older is taken
        // first.
        let last = last_fetch(cluster);
        let latest = self.clusters.keys().map(|name| last_fetch(name)).max();
        latest.unwrap_or_default() - last > Duration::from_millis(300)
    }
}

/// Writes numbered orders to the clusters that `commands` name, until nobody can name any.
fn write(
    clusters: &Clusters,
    commands: &Receiver<Vec<&'static str>>,
    events: &Sender<Event>,
) -> Result<(), EmbeddedError> {
    let mut homes = Vec::new();
    let mut number = 0;
    loop {
        match commands.recv_timeout(PAUSE) {
            Ok(next) => homes = next,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        for home in &homes {
            let mut partitions = vec![Vec::new(); PARTITIONS];
            for _ in 0..RECORDS_A_ROUND {
                let order = Order {
                    key: KEYS[number / 5 % KEYS.len()].to_owned(),
                    cluster: (*home).to_owned(),
                    number,
                };
                let record = EmbeddedRecord::new(order.key.as_str(), number.to_string());
                partitions[number % PARTITIONS].push(record);
                // Entered before it is written, so that it is never read first.
                events.send(Event::Written(home, order)).ok();
                number += 1;
            }
            for (partition, records) in (0..).zip(partitions) {
                clusters[home].produce("orders", partition, records)?;
            }
        }
    }
}
