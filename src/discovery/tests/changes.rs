use timely_splits::discovery::SplitDiscovery;
use timely_splits::epoch::MetadataEpoch;

use super::{Event, SOON, Watched, names, options, orders};
use crate::discovery::DiscoveryOptions;
use crate::embedded::EmbeddedCluster;
use crate::model::{ClientProperties, StreamsMetadata};

impl Watched {
    /// What is found until all is that `metadata` lists.
    fn found_until_all(&mut self, metadata: &StreamsMetadata) -> Vec<(MetadataEpoch, Vec<String>)> {
        let now = self.discover(metadata);
        let mut found = Vec::new();
        self.until(|event| match event {
            Event::Found { epoch, splits } => {
                found.push((*epoch, names(splits)));
                None
            }
            Event::AllFound { epoch } => (*epoch == now).then_some(()),
            _ => None,
        });
        found
    }
}

/// Adds a cluster to so many, and removes it.
fn only_what_changes_is_found(clusters: usize) {
    let all: Vec<_> = (0..=clusters)
        .map(|_| EmbeddedCluster::start().unwrap())
        .collect();
    let described: Vec<(String, ClientProperties)> = (all.iter().enumerate())
        .map(|(number, cluster)| {
            cluster.create_topic("orders", 1).unwrap();
            (format!("c{number}"), cluster.client_properties())
        })
        .collect();
    let of = |count: usize| {
        let named = described[..count]
            .iter()
            .map(|(name, reached)| (&**name, reached.clone(), &["orders"][..]));
        orders(&named.collect::<Vec<_>>())
    };
    let mut watched = Watched::start(
        &of(clusters),
        DiscoveryOptions {
            // One round is all that is due in this test.
            interval: SOON,
            ..options()
        },
    );

    let first = watched.found_until_all(&of(clusters));
    let added = watched.found_until_all(&of(clusters + 1));
    let removed = watched.found_until_all(&of(clusters));
    let back = watched.found_until_all(&of(clusters + 1));

    let one = vec![format!("c{clusters}/orders/0")];
    assert_eq!(first.len(), clusters);
    assert_eq!(added, [(MetadataEpoch(2), one.clone())]);
    assert_eq!(removed, []);
    assert_eq!(back, [(MetadataEpoch(4), one)]);
    assert!(watched.discovery.poll().is_none());
}

/// Each epoch had every cluster report all that it has again.
#[test]
fn a_cluster_that_comes_or_goes_has_nothing_of_others_found_again() {
    only_what_changes_is_found(5);
    only_what_changes_is_found(50);
}
