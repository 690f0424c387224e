//! Sources under real workers that crash again and again, by the thousand, over a log in memory that
//! fails in every way that a log may, and, with the feature `object-store`, in every second round over
//! the log of objects in a store in memory that fails in every way that a store may.
//!
//! What the log and the sink hold at the moment of a crash is all that the next run sees. It has another
//! number of workers and reads on, reads anew what the sink lacks, reads everything anew, or gives ticks
//! again; meanwhile splits fail for good and are readmitted, and the log is compacted; and in the end
//! the sink has every record once, each at the tick that the log binds it to.
//!
//! A seed is one round of several runs. `SEED=7 cargo test -p timely-splits --test crashes` runs one. Its
//! threads are real ones, so the same seed crashes at the same kind of moment, not at the same step.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

mod disk;
mod life;
#[path = "../support/random.rs"]
mod random;
mod round;
#[cfg(feature = "object-store")]
mod store;
#[expect(dead_code, reason = "other tests need more of it")]
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use disk::Mistake;
use round::Told;

/// How many rounds there are where nobody says otherwise by `SEEDS`, and in continuous integration.
const SEEDS: u64 = 1_000;
const SEEDS_IN_CI: u64 = 3_000;

/// How many rounds a seeded mistake may take until it is found.
const SEEDS_WITH_MISTAKE: u64 = 200;

/// Rounds wait more than they work: for ticks, and for logs that are slow.
const ROUNDS_AT_ONCE: usize = 16;

/// What came of rounds: what they counted, and which failed, by its seed.
#[derive(Debug, Default)]
struct Found {
    told: Told,
    rounds: u64,
    failed: BTreeMap<u64, String>,
}

/// Runs rounds, until one fails.
fn search(first: u64, count: u64, mistake: Option<Mistake>) -> Found {
    let found: Mutex<Found> = Mutex::default();
    let next = AtomicU64::new(0);
    let one_thread = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            let seed = first + index;
            let done = round::run(seed, mistake);
            let mut found = found.lock().unwrap();
            found.rounds += 1;
            match done {
                Ok(told) => found.told.add(&told),
                Err(why) => {
                    next.store(count, Ordering::Relaxed);
                    found.failed.insert(seed, why);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..ROUNDS_AT_ONCE {
            scope.spawn(one_thread);
        }
    });
    found.into_inner().unwrap()
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={value}: expected a number")))
}

#[test]
fn every_record_is_final_once_whatever_crashes_and_however_the_log_fails() {
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let count = number("SEEDS").unwrap_or(if ci { SEEDS_IN_CI } else { SEEDS });
    let (first, count) = match number("SEED") {
        Some(seed) => (seed, 1),
        None => (number("FIRST_SEED").unwrap_or(0), count),
    };

    let found = search(first, count, None);

    println!("{} rounds from seed {first}: {}", found.rounds, found.told);
    if let Some((seed, why)) = found.failed.first_key_value() {
        panic!("SEED={seed}: {why}");
    }
}

#[test]
fn a_log_that_is_wrong_is_found() {
    for mistake in Mistake::ALL {
        let found = search(0, SEEDS_WITH_MISTAKE, Some(mistake));

        let (seed, why) = found.failed.first_key_value().unwrap_or_else(|| {
            panic!("{mistake:?} is not found in {SEEDS_WITH_MISTAKE} rounds");
        });
        println!("{mistake:?}: seed {seed}: {why}");
    }
}
