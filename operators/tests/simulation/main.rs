//! Sources without I/O, by the hundred thousand: the coordinator and the readers as they are, in a
//! world of links, logs, fetchers and services that fail in every way that their contracts allow.
//!
//! A seed is one source with its options and faults. `SEED=7 cargo test -p timely-splits --test
//! simulation` runs one, and tells its story if it fails.

#[path = "../support/forest.rs"]
mod forest;
#[path = "../support/history.rs"]
mod history;
#[path = "../support/model/mod.rs"]
mod model;
#[path = "../support/quiet.rs"]
mod quiet;
#[path = "../support/random.rs"]
mod random;

#[cfg(feature = "defects")]
mod defects;
mod fetch;
mod fickle;
mod heal;
mod run;
mod script;
mod search;
mod swarm;
mod world;

use search::Seeds;

/// How many seeds are run where nobody says otherwise by `SEEDS`.
const SEEDS: u64 = 10_000;

/// The same in continuous integration.
const SEEDS_IN_CI: u64 = 100_000;

#[test]
fn no_invariant_breaks_and_everything_is_read_in_the_end() {
    let seeds = Seeds::asked_for(SEEDS, SEEDS_IN_CI);

    let found = seeds.search();

    println!("{seeds}: {found}");
    if let Some(failure) = found.failure {
        panic!("{}", failure.shrunk().story());
    }
}
