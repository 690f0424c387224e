//! A source that is killed and taken over again and again, by the thousand, over embedded clusters and a
//! log of objects in a store in memory that fails in every way that a store may.
//!
//! `scripts/kill-campaign` does it to processes on Kafka, which takes seconds a round. Here a kill is
//! that the store says nothing any more to a run, and the sink takes nothing of it: at an append that is
//! not written, or is and nobody hears of it, between emission and the log, between the release of a
//! split and its next assignment, at any time. Or a run lives on when the next one takes the log over:
//! it has to say so in one sentence, and its frontier passes nothing that is not in the log. The
//! next run has other workers, and reads on, reads anew what the sink lacks, reads all anew or gives ticks
//! again. Meanwhile topics and clusters are listed and not, the metadata service is away, splits are moved,
//! and the log is compacted. Brokers stay up: that they fail as well is in `histories.rs`.
//!
//! What holds: at any time a tick that a frontier passes is in the log with the very records that came at
//! it, and the next run cannot open it; after every run the sink has what the log binds, each record once, at the tick and
//! in the order of the log, and what was bound before stays as it was, which is what ticks that are given
//! again are compared by; in the end the sink has every record that was written.
//!
//! Seeds 0 to 259, 1,041 runs, took 61 s on two cores in a debug build without a failure: 618 kills, 307 of
//! them with records that were emitted and not final, 119 takeovers, 1,173 faults of the store, and 211
//! runs that gave ticks again. What is not in it: a run is taken over only once its frontier moves, and not while it
//! gives ticks again.
//!
//! A seed is one round of three to five runs. Its threads are real ones, so the same seed has the same
//! plan, not the same moments. `TIMELY_KAFKA_CRASHES=1000` asks for more rounds, and
//! `TIMELY_KAFKA_CRASHES_FROM` says the first seed.
//!
//! 1,400 rounds from seed 1,000 took 325 s, and none was bad.

mod crash;
mod home;
mod life;
mod round;
mod store;

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use libtest_mimic::Trial;

use self::round::Counts;
use self::store::Mistake;
use crate::once;
use crate::scenario::Embedded;

/// How many rounds there are where nobody says otherwise.
const ROUNDS: u64 = 60;

/// How many rounds a mistake of the store may take until it is found.
const ROUNDS_WITH_MISTAKE: u64 = 40;

/// Rounds wait more than they work. Each that runs at the same time as others has its own clusters.
const LANES: usize = 4;

/// How many rounds use the same clusters, each with topics of its own.
const ROUNDS_BY_CLUSTERS: u64 = 25;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        once(
            "every_record_is_final_once_however_often_the_source_is_killed_or_taken_over",
            campaign,
        ),
        once("a_store_that_is_wrong_is_found", mistakes),
    ]
}

/// What came of rounds: what they counted, and which one failed.
#[derive(Default)]
struct Found {
    rounds: u64,
    counts: Counts,
    failed: Option<(u64, String)>,
}

/// Runs rounds until one fails.
fn search(first: u64, count: u64, mistake: Option<Mistake>) -> Found {
    let found: Mutex<Found> = Mutex::default();
    let next = AtomicU64::new(0);
    let lane = || {
        let (mut brokers, mut rounds) = (None, 0);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            if rounds % ROUNDS_BY_CLUSTERS == 0 {
                brokers = None;
            }
            rounds += 1;
            let brokers = brokers.get_or_insert_with(|| Arc::new(Embedded::start(&["a", "b"])));
            let seed = first + index;
            let done = round::run(brokers, seed, mistake);
            let mut found = found.lock().unwrap();
            found.rounds += 1;
            match done {
                Ok(counts) => {
                    for (what, times) in counts {
                        *found.counts.entry(what).or_default() += times;
                    }
                }
                Err(why) => {
                    next.store(count, Ordering::Relaxed);
                    found.failed.get_or_insert((seed, why));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(lane);
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn number(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={value}: expected a number")))
}

#[expect(clippy::print_stdout, reason = "says what was done")]
fn campaign() {
    let count = number("TIMELY_KAFKA_CRASHES").unwrap_or(ROUNDS);
    let first = number("TIMELY_KAFKA_CRASHES_FROM").unwrap_or(0);
    let begun = Instant::now();

    let found = search(first, count, None);

    let (rounds, took) = (found.rounds, begun.elapsed());
    println!(
        "{rounds} rounds from seed {first} in {took:.0?}: {:?}",
        found.counts
    );
    if let Some((seed, why)) = found.failed {
        panic!("TIMELY_KAFKA_CRASHES_FROM={seed} TIMELY_KAFKA_CRASHES=1: {why}");
    }
}

/// What the campaign is for: a store that says what is not so has ticks pass that are not in the log.
#[expect(clippy::print_stdout, reason = "says what was found")]
fn mistakes() {
    for mistake in Mistake::ALL {
        let found = search(0, ROUNDS_WITH_MISTAKE, Some(mistake));

        let (seed, why) = found.failed.unwrap_or_else(|| {
            panic!("{mistake:?} is not found in {ROUNDS_WITH_MISTAKE} rounds");
        });
        println!("{mistake:?}: seed {seed}: {why}");
    }
}
