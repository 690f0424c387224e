//! Real Kafka as the clusters of a scenario, and the scenarios that need it.

pub(crate) mod cut_off;
pub(crate) mod growth;
pub(crate) mod losses;
pub(crate) mod offsets;
pub(crate) mod replaced;
pub(crate) mod replays;
pub(crate) mod shapes;
pub(crate) mod starts;
pub(crate) mod stops;
pub(crate) mod transactions;
pub(crate) mod undisturbed;

use timely_kafka::model::ClientProperties;

use crate::kafka::RealKafka;
use crate::scenario::Brokers;

/// Clusters of real Kafka.
pub(crate) struct Real(pub(crate) RealKafka);

impl Brokers for Real {
    fn properties(&self, cluster: &str) -> ClientProperties {
        ClientProperties::new().with("bootstrap.servers", &self.0.bootstrap(cluster))
    }

    fn create_topic(&self, cluster: &str, topic: &str, partitions: i32) {
        self.0.create_topic(cluster, topic, partitions);
    }

    fn write(&self, cluster: &str, topic: &str, partition: i32, numbers: &[u64]) {
        let values = numbers.iter().map(ToString::to_string);
        self.0.produce(cluster, topic, partition, values);
    }

    fn hang(&self, cluster: &str) {
        self.0.pause(cluster);
    }
}
