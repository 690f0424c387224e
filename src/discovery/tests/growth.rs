//! What is kept of what comes and goes.

use std::time::Duration;

use timely_splits::discovery::SplitDiscovery;

use super::commits::{at, committing};
use super::{nobody, orders, split};
use crate::model::{KafkaClusterId, KafkaIdentity, StreamsMetadata};

/// Whatever was ever listed or known was kept for good.
#[test]
fn nothing_is_kept_of_clusters_and_topics_that_have_come_and_gone() {
    let (mut watched, _ended) = committing(&StreamsMetadata::new());
    watched.discovery.options.linger = Duration::ZERO;
    for round in 0..100 {
        let (cluster, topic) = (format!("c{round}"), format!("t{round}"));
        let one = split(&cluster, &topic, 0);
        // It is bound before its cluster is listed, while it is, and after that.
        watched.discovery.bound(&one, &at(1));
        watched.discover(&orders(&[(&cluster, nobody(), &[&topic])]));
        let identity = KafkaIdentity {
            cluster: Some(KafkaClusterId(format!("id{round}"))),
            topic: None,
        };
        watched.discovery.known(&one, &identity);
        watched.discovery.bound(&one, &at(2));
        watched.discover(&StreamsMetadata::new());
        watched.discovery.bound(&one, &at(3));
        watched.discovery.forgotten(&one);
    }
    watched.discover(&StreamsMetadata::new());

    let discovery = &watched.discovery;
    assert_eq!(discovery.clusters.len(), 0);
    assert_eq!(discovery.absent.len(), 0);
    assert_eq!(discovery.common.claims.len(), 0);
}
