//! What Kafka's tools see of a source that commits offsets.

use libtest_mimic::Trial;

use crate::scenario::Backend;
use crate::scenario::offsets::{down, follow, held};
use crate::{once, world};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        once("tools_see_where_a_source_is_and_what_is_left", || {
            follow(&world(), Backend::Threads(2));
        }),
        once("what_is_not_bound_is_not_committed", || {
            held(&world(), Backend::Threads(2));
        }),
        once("a_cluster_that_takes_no_commits_stops_nothing", || {
            let world = world();
            let cluster = || world.brokers.cluster("a");
            down(
                &world,
                || cluster().broker_down().unwrap(),
                || cluster().broker_up().unwrap(),
            );
        }),
    ]
}
