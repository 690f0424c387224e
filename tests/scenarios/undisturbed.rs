//! A change leaves alone what did not change: counted by the embedded brokers.

use libtest_mimic::Trial;
use timely_kafka::embedded::KafkaApi;

use crate::scenario::Embedded;
use crate::scenario::undisturbed::{Witness, other_cluster, other_topic};
use crate::{once, world};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        once(
            "a_cluster_that_joins_and_leaves_does_not_disturb_the_other",
            || other_cluster(&world(), Connections),
        ),
        once(
            "a_topic_that_is_replaced_does_not_disturb_the_other",
            || other_topic(&world(), Connections),
        ),
    ]
}

/// Counts connections. What was fetched twice is for real Kafka to tell: the embedded brokers do not
/// say which offsets they were asked for.
struct Connections;

impl Witness<Embedded> for Connections {
    fn before(&mut self, brokers: &Embedded) {
        brokers.cluster("a").track_requests();
    }

    fn after(&mut self, brokers: &Embedded, _topic: &str) {
        let counts = brokers.cluster("a").request_counts();
        assert!(
            counts.contains_key(&KafkaApi::Fetch),
            "nothing is counted: {counts:?}"
        );
        // The first request of every connection, and one of the first of every client that reads.
        for api in [KafkaApi::ApiVersions, KafkaApi::FindCoordinator] {
            assert_eq!(counts.get(&api), None, "{api:?}: {counts:?}");
        }
    }
}
