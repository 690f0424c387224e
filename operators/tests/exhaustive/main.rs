//! Every interleaving of a small source, on the real coordinator and the real readers.
//!
//! Two readers read a few records of one or two splits while everything happens that may: links are
//! slow, fetchers bring late pieces, splits move, vanish and come back, ticks are closed anywhere, the
//! log answers when it likes, and the process dies at any step and starts again from the log. The
//! explorer goes through all states breadth first and holds each against the invariants of the
//! design, which a [`ledger`] of its own keeps.
//!
//! `scripts/explore --deep` goes through all states of larger models; `REPORT.md` says what it saw.

#[path = "../support/letters.rs"]
#[expect(dead_code, reason = "shared with tests that spell metadata as text")]
mod letters;

mod choice;
mod deep;
#[cfg(feature = "defects")]
mod defects;
mod explore;
mod hash;
mod ledger;
mod part;
mod possible;
mod reader;
mod step;
mod story;
mod world;

use std::time::Duration;

use crate::explore::{Explored, explore};
use crate::step::Budget;
use crate::world::{Drains, Model};

/// The time at which everything happens that does not take time.
fn now() -> Duration {
    Duration::from_secs(1_000)
}

const TICK_INTERVAL: Duration = Duration::from_millis(100);
const RELEASE_DEADLINE: Duration = Duration::from_secs(10);
const TICKS_WAITING_MAX: usize = 2;

/// Everything that may happen, any three of it in one history, and a tick closed anywhere.
const COMMON: Budget = Budget {
    total: 3,
    ticks: 1,
    moves: 2,
    removals: 1,
    additions: 1,
    crashes: 1,
    stops: 1,
    fetches: 1,
    holds: 1,
    downs: 1,
    overtakings: 1,
    waits: 1,
    failures: 1,
};

const ONE_SPLIT: Model = Model {
    name: "one split",
    splits: 1,
    records: 2,
    stop: None,
    drains: None,
    budget: COMMON,
};

const TWO_SPLITS: Model = Model {
    name: "two splits",
    splits: 2,
    records: 1,
    stop: None,
    drains: None,
    budget: Budget { total: 2, ..COMMON },
};

/// Sources that end by themselves: each split of two records stops after the first one, within a piece.
const BOUNDED: [Model; 2] = [
    Model {
        name: "one split that stops",
        records: 2,
        stop: Some(1),
        ..ONE_SPLIT
    },
    Model {
        name: "two splits that stop",
        records: 2,
        stop: Some(1),
        budget: Budget { total: 1, ..COMMON },
        ..TWO_SPLITS
    },
];

/// Splits that are drained when they are removed: one to its first record of two, and one before another
/// that comes.
const DRAINED: [Model; 2] = [
    Model {
        name: "one split that is drained",
        drains: Some(Drains {
            first: 'D',
            listed: 1,
            end: 1,
        }),
        budget: Budget {
            total: 2,
            ticks: 1,
            removals: 1,
            additions: 1,
            crashes: 1,
            ..Budget::NONE
        },
        ..ONE_SPLIT
    },
    Model {
        name: "a split that is drained before another",
        drains: Some(Drains {
            first: 'N',
            listed: 1,
            end: 1,
        }),
        budget: Budget {
            total: 2,
            removals: 1,
            additions: 1,
            ..Budget::NONE
        },
        ..TWO_SPLITS
    },
];

/// States of a model that are seen in every run of the tests.
const STATES_MAX: usize = 1_000_000;

/// Explores a model, and tells what came of it.
#[expect(clippy::print_stdout, reason = "a test tells what it did")]
fn explored(model: &Model, states_max: usize) -> Explored {
    let explored = explore(model, states_max);
    println!(
        "{}: {} states, {} transitions, depth {}, {} ends, {:.1} s, {}",
        model.name,
        explored.states,
        explored.transitions,
        explored.depth,
        explored.ends,
        explored.took.as_secs_f64(),
        if explored.exhausted {
            "all there are"
        } else {
            "of more"
        }
    );
    if let Some(found) = &explored.found {
        for (index, line) in found.story.iter().enumerate() {
            println!("  {index:>2}  {line}");
        }
        println!("      and so: {}", found.violation);
    }
    explored
}

/// The common model as far as a test should go, or all states of the models of `deep` if that was
/// asked for.
fn hold(common: &Model, deep: &[Model]) {
    let (models, states_max) = match std::env::var("EXPLORE").as_deref() {
        Ok("deep") => (deep, deep::STATES_MAX),
        Ok(other) => panic!("EXPLORE={other}: expected deep, or nothing"),
        Err(_) => (std::slice::from_ref(common), STATES_MAX),
    };
    for model in models {
        let explored = explored(model, states_max);
        assert!(explored.found.is_none(), "the story is above");
    }
}

#[test]
fn no_history_of_one_split_breaks_an_invariant() {
    hold(&ONE_SPLIT, &deep::ONE_SPLIT);
}

#[test]
fn no_history_of_two_splits_breaks_an_invariant() {
    hold(&TWO_SPLITS, &deep::TWO_SPLITS);
}

/// S29, S30.
#[test]
fn no_history_of_splits_that_are_drained_breaks_an_invariant() {
    for model in &DRAINED {
        let explored = explored(model, STATES_MAX);
        assert!(explored.found.is_none(), "the story is above");
    }
}

/// C4, C28.
#[test]
fn no_history_of_splits_that_stop_breaks_an_invariant() {
    for model in &BOUNDED {
        let explored = explored(model, STATES_MAX);
        assert!(explored.found.is_none(), "the story is above");
    }
}
