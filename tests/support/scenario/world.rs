//! Clusters, and the file that says which of their topics make up a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use timely_kafka::model::ClientProperties;

use super::brokers::Brokers;
use super::plan::{Backend, Plan};
use super::run::Run;

/// The clusters of a scenario and its metadata file.
pub(crate) struct World<B> {
    pub(crate) brokers: Arc<B>,
    folder: TempDir,
}

impl<B: Brokers + 'static> World<B> {
    pub(crate) fn new(brokers: B) -> Self {
        Self {
            brokers: Arc::new(brokers),
            folder: tempfile::tempdir().expect("the folder for temporary files is writable"),
        }
    }

    /// The metadata file, which need not exist.
    pub(crate) fn metadata(&self) -> PathBuf {
        self.folder.path().join("streams.json")
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan::new(self.metadata())
    }

    /// Makes the metadata file say `described`.
    pub(crate) fn publish(&self, described: &Described) {
        self.publish_text(&self.describe(described));
    }

    /// Makes the metadata file say `text`, at once as a whole.
    pub(crate) fn publish_text(&self, text: &str) {
        let next = self.folder.path().join("next");
        fs::write(&next, text).expect("the folder is writable");
        fs::rename(&next, self.metadata()).expect("the folder is writable");
    }

    /// Writes another file beside the metadata file.
    pub(crate) fn write_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("the folder is writable");
        path
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The text of a metadata file, with the addresses of the clusters that it names.
    pub(crate) fn describe(&self, described: &Described) -> String {
        let mut clusters = described.clusters.clone();
        for cluster in described.named() {
            let properties = || self.brokers.properties(cluster);
            clusters
                .entry(cluster.to_owned())
                .or_insert_with(properties);
        }
        let clusters: Map<String, Value> = clusters
            .into_iter()
            .map(|(name, properties)| {
                let properties: BTreeMap<_, _> = properties.iter().collect();
                (name, json!({ "properties": properties }))
            })
            .collect();
        json!({ "clusters": clusters, "streams": described.streams }).to_string()
    }

    /// Writes each of `numbers` to the partition of that number, modulo `partitions`.
    pub(crate) fn write(
        &self,
        cluster: &str,
        topic: &str,
        partitions: u64,
        numbers: impl IntoIterator<Item = u64>,
    ) {
        let mut by_partition: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for number in numbers {
            by_partition
                .entry(number % partitions)
                .or_default()
                .push(number);
        }
        for (partition, of_partition) in by_partition {
            let partition = i32::try_from(partition).expect("there are few partitions");
            self.brokers.write(cluster, topic, partition, &of_partition);
        }
    }

    /// Starts a source.
    pub(crate) fn run(&self, plan: &Plan, backend: Backend) -> Run {
        Run::start(plan, backend)
    }
}

/// What a metadata file says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Described {
    /// Clusters that are not those of the scenario.
    clusters: BTreeMap<String, ClientProperties>,
    streams: Map<String, Value>,
}

impl Described {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The stream `orders` as the topic `orders` of these clusters.
    pub(crate) fn orders(clusters: &[&str]) -> Self {
        let add =
            |described: Self, cluster: &&str| described.stream("orders", cluster, &["orders"]);
        clusters.iter().fold(Self::new(), add)
    }

    /// A stream without clusters.
    pub(crate) fn empty(mut self, stream: &str) -> Self {
        self.streams.entry(stream).or_insert_with(|| json!({}));
        self
    }

    /// A cluster that the scenario did not start.
    pub(crate) fn cluster(mut self, name: &str, properties: ClientProperties) -> Self {
        self.clusters.insert(name.to_owned(), properties);
        self
    }

    pub(crate) fn stream(self, stream: &str, cluster: &str, topics: &[&str]) -> Self {
        self.reading(stream, cluster, json!({ "topics": topics }))
    }

    pub(crate) fn stream_from(
        self,
        stream: &str,
        cluster: &str,
        topics: &[&str],
        start: &str,
    ) -> Self {
        self.reading(stream, cluster, json!({ "topics": topics, "start": start }))
    }

    /// A stream that reads a cluster as `read` says, which is what the metadata file has of it.
    pub(crate) fn reading(mut self, stream: &str, cluster: &str, read: Value) -> Self {
        let described = self.streams.entry(stream).or_insert_with(|| json!({}));
        described[cluster] = read;
        self
    }

    /// The same with a rule of a stream, beside its clusters.
    pub(crate) fn rule(mut self, stream: &str, name: &str, rule: &str) -> Self {
        let described = self.streams.entry(stream).or_insert_with(|| json!({}));
        described[name] = json!(rule);
        self
    }

    fn named(&self) -> BTreeSet<&str> {
        let streams = self.streams.values().filter_map(Value::as_object);
        let read = streams.flat_map(|stream| stream.iter().filter(|(_, read)| read.is_object()));
        read.map(|(name, _)| name.as_str()).collect()
    }
}
