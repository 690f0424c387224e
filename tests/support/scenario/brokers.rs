//! The clusters that a scenario runs on.

use std::collections::BTreeMap;
use std::time::Duration;

use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};
use timely_kafka::model::ClientProperties;

/// Longer than any deadline.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// Clusters by their names.
pub(crate) trait Brokers: Send + Sync {
    /// What a client of the cluster needs.
    fn properties(&self, cluster: &str) -> ClientProperties;

    fn create_topic(&self, cluster: &str, topic: &str, partitions: i32);

    /// Writes numbers to a partition, and returns when they are acknowledged.
    fn write(&self, cluster: &str, topic: &str, partition: i32, numbers: &[u64]);

    /// Has a cluster take requests and answer none, from here on.
    fn hang(&self, cluster: &str);
}

/// Clusters in this process.
pub(crate) struct Embedded(BTreeMap<String, EmbeddedCluster>);

impl Embedded {
    pub(crate) fn start(names: &[&str]) -> Self {
        let start = |name: &&str| {
            let cluster = EmbeddedCluster::start().expect("a port is free");
            ((*name).to_owned(), cluster)
        };
        Self(names.iter().map(start).collect())
    }

    pub(crate) fn cluster(&self, name: &str) -> &EmbeddedCluster {
        self.0.get(name).expect("the scenario started it")
    }
}

impl Brokers for Embedded {
    fn properties(&self, cluster: &str) -> ClientProperties {
        self.cluster(cluster).client_properties()
    }

    fn create_topic(&self, cluster: &str, topic: &str, partitions: i32) {
        let created = self.cluster(cluster).create_topic(topic, partitions);
        created.expect("the topic is new");
    }

    fn write(&self, cluster: &str, topic: &str, partition: i32, numbers: &[u64]) {
        let records = numbers
            .iter()
            .map(|number| EmbeddedRecord::value(number.to_string()));
        let written = self.cluster(cluster).produce(topic, partition, records);
        written.expect("the cluster is up");
    }

    fn hang(&self, cluster: &str) {
        let hangs = self.cluster(cluster).delay(FOR_EVER);
        hangs.expect("the brokers do it");
    }
}
