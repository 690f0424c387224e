//! A change leaves alone what did not change: counted by the embedded brokers.

use libtest_mimic::Trial;
use timely_kafka::embedded::KafkaApi;

use crate::scenario::Embedded;
use crate::scenario::undisturbed::{
    Witness, hung_cluster, other_cluster, other_partition, other_properties, other_topic,
};
use crate::{once, world, world_of};

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
        once("a_partition_that_moves_does_not_disturb_the_other", || {
            other_partition(&world(), Connections);
        }),
        once(
            "properties_that_change_do_not_disturb_another_cluster",
            || other_properties(&world(), Connections),
        ),
        once(
            "a_cluster_that_hangs_while_another_leaves_does_not_disturb_a_third",
            || hung_cluster(&world_of(&["a", "b", "c"]), Connections),
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
