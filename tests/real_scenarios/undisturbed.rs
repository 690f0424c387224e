//! A change leaves alone what did not change: by the request log of real brokers.

use std::collections::BTreeSet;

use libtest_mimic::Trial;

use super::Real;
use crate::kafka::RealKafka;
use crate::scenario::World;
use crate::scenario::undisturbed::{
    Witness, hung_cluster, other_cluster, other_partition, other_properties, other_topic,
};
use crate::world;

/// The fewest fetches that the log must tell of, so that it is known to tell of them.
const FETCHES_MIN: usize = 20;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    vec![
        trial(
            "a_cluster_that_joins_and_leaves_does_not_disturb_the_other",
            || other_cluster(&world(), RequestLog::default()),
        ),
        trial(
            "a_topic_that_is_replaced_does_not_disturb_the_other",
            || other_topic(&world(), RequestLog::default()),
        ),
        trial("a_partition_that_moves_does_not_disturb_the_other", || {
            other_partition(&world(), RequestLog::default());
        }),
        trial(
            "properties_that_change_do_not_disturb_another_cluster",
            || other_properties(&world(), RequestLog::default()),
        ),
        trial(
            "a_cluster_that_hangs_while_another_leaves_does_not_disturb_a_third",
            || {
                // A process for each, so that one can hang.
                let brokers = Real(RealKafka::start(&["a", "b", "c"]));
                hung_cluster(&World::new(brokers), RequestLog::default());
            },
        ),
    ]
}

/// Compares the connections over which records were fetched, and what was fetched.
#[derive(Default)]
struct RequestLog {
    connections: BTreeSet<String>,
}

impl Witness<Real> for RequestLog {
    fn before(&mut self, brokers: &Real) {
        self.connections = fetching(brokers);
        assert!(
            !self.connections.is_empty(),
            "the request log names the client"
        );
    }

    fn after(&mut self, brokers: &Real, topic: &str) {
        assert_eq!(
            fetching(brokers),
            self.connections,
            "no connection is added"
        );
        assert_fetched_once(brokers, topic);
    }
}

/// The connections over which the brokers of `a` were asked for records.
fn fetching(brokers: &Real) -> BTreeSet<String> {
    let requests = brokers.0.requests("a").into_iter();
    let fetches = requests.filter(|request| request.api == "FETCH");
    fetches.map(|request| request.connection).collect()
}

/// Asserts that no answer of the broker brought a record of partition 0 that an earlier one did.
fn assert_fetched_once(brokers: &Real, topic: &str) {
    let requests = brokers.0.requests("a");
    let all = requests.iter().flat_map(|request| &request.fetched);
    let fetches: Vec<_> = all
        .filter(|fetched| fetched.topic == topic && fetched.partition == 0)
        .collect();
    let offsets: Vec<_> = fetches.iter().map(|one| one.offset).collect();
    assert!(offsets.len() >= FETCHES_MIN, "the log tells of {offsets:?}");
    assert!(offsets.is_sorted(), "offsets go back: {offsets:?}");
    let filled = fetches.iter().filter(|one| one.bytes > 0);
    let starts: Vec<_> = filled.map(|one| one.offset).collect();
    assert!(
        starts.len() >= FETCHES_MIN,
        "answers have records: {starts:?}"
    );
    let twice: Vec<_> = starts
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .collect();
    assert!(twice.is_empty(), "records came twice, from {twice:?} on");
}
