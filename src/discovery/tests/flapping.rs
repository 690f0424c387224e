use std::time::{Duration, Instant};

use timely_splits::discovery::SplitDiscovery;

use super::{Event, SOON, Watched, nobody, options, orders};
use crate::discovery::DiscoveryOptions;
use crate::embedded::{EmbeddedCluster, KafkaApi};

/// How often the metadata changes; the cluster takes longer to answer.
const CHANGES_EVERY: Duration = Duration::from_millis(50);
const ANSWERS_IN: Duration = Duration::from_millis(60);

impl Watched {
    /// Waits until the metadata is to change next; whether all was found meanwhile that it lists.
    fn found_before_the_next_change(&mut self) -> bool {
        let until = Instant::now() + CHANGES_EVERY;
        let mut found = false;
        loop {
            while let Some(event) = self.discovery.poll() {
                if let Event::AllFound { epoch } = event {
                    found |= epoch == self.epoch;
                }
            }
            if self.woken.recv_deadline(until).is_err() {
                return found;
            }
        }
    }
}

/// While another cluster came and went faster than this one answered, every answer of this one was
/// about metadata that had passed, and it was asked anew at every change.
#[test]
fn changes_of_another_cluster_neither_hide_a_cluster_nor_have_it_asked() {
    let east = EmbeddedCluster::start().unwrap();
    east.create_topic("orders", 1).unwrap();
    east.delay(ANSWERS_IN).unwrap();
    east.track_requests();
    let steady = ("east", east.client_properties(), &["orders"][..]);
    let alone = orders(std::slice::from_ref(&steady));
    let both = orders(&[steady, ("west", nobody(), &["orders"])]);
    let mut watched = Watched::start(
        &alone,
        DiscoveryOptions {
            // One round is all that is due in this test.
            interval: SOON,
            ..options()
        },
    );

    let mut changes = [&alone, &both].into_iter().cycle();
    let mut change = || {
        watched.discover(changes.next().unwrap());
        watched.found_before_the_next_change()
    };
    let found = (0..200).any(|_| change());
    let asked = || {
        let counts = east.request_counts();
        counts.get(&KafkaApi::Metadata).copied().unwrap_or_default()
    };
    let before = asked();
    let found_again = (0..40).filter(|_| change()).count();

    assert!(found, "it is hidden");
    // The client asks for brokers now and then by itself.
    assert!(asked() - before < 5, "{before} and then {}", asked());
    assert!(found_again > 0);
}
