//! The obligations of a fetcher.

mod checks;
mod driver;

use super::report::Obligation;
use super::run::{Check, Suite};
use crate::fetcher::SplitFetcher;
use crate::split::Split;
use crate::wake::Waker;

/// Makes a fetcher and what it reads.
///
/// # Contract
///
/// Records are told apart by their number in their split: the first that is written to it is 0. No
/// split has a record before something is written to it.
pub trait FetcherRig: 'static {
    /// What the fetcher reads.
    type Split: Split;
    /// The fetcher under test.
    type Fetcher: SplitFetcher<Self::Split>;

    /// Makes a fetcher that reads what this rig writes. It may be asked for again.
    fn fetcher(&mut self, waker: Waker) -> Self::Fetcher;

    /// One of three splits: `index` is 0, 1 or 2.
    fn split(&self, index: usize) -> Self::Split;

    /// Metadata that lists at least these splits.
    fn metadata(&self, splits: &[Self::Split]) -> <Self::Split as Split>::Metadata;

    /// The position of the first record of a split.
    fn start(&self, split: &Self::Split) -> <Self::Split as Split>::Position;

    /// Writes this many records to a split, of a size that differs little, and returns when they can
    /// be read.
    fn write(&mut self, split: &Self::Split, records: usize);

    /// The numbers of the records in a batch, in their order.
    fn numbers(&self, batch: &<Self::Fetcher as SplitFetcher<Self::Split>>::Batch) -> Vec<u64>;

    /// A position of a split, to which nothing was written, that no fetcher can read at.
    ///
    /// `None`, the default: there is none, and F9 is not looked at.
    fn unreadable(&self, _split: &Self::Split) -> Option<<Self::Split as Split>::Position> {
        None
    }

    /// Makes everything unreachable for good: what is polled later was fetched before. Returns how
    /// many records a fetcher may have fetched by then, at most.
    ///
    /// `None`, the default: that cannot be done, and F8 is not looked at.
    fn cut_off(&mut self) -> Option<usize> {
        None
    }

    /// How many records of one split are surely more than a fetcher keeps.
    fn flood(&self) -> usize {
        20_000
    }
}

pub(super) const OBLIGATIONS: [Obligation; 15] = [
    Obligation {
        number: "F1",
        sentence: "Never blocks: every method returns at once",
    },
    Obligation {
        number: "F2",
        sentence: "Chained: the pieces of an assignment join, from its position on",
    },
    Obligation {
        number: "F3",
        sentence: "Whole: a piece holds every record of its range once, and another fetcher can \
                   go on where it ends",
    },
    Obligation {
        number: "F4",
        sentence: "Stamped: a piece carries the split epoch of the assignment it was read under, \
                   the latest replaces the others, and to unassign one that is over does nothing",
    },
    Obligation {
        number: "F5",
        sentence: "Stops: soon after a split was unassigned nothing of it is read any more",
    },
    Obligation {
        number: "F6",
        sentence: "Wakes: when there is something to poll after `Drained`, the operator is woken",
    },
    Obligation {
        number: "F7",
        sentence: "Measured: a poll stops soon after the bytes it was allowed, moves at least one \
                   piece, and is `Drained` when there is nothing",
    },
    Obligation {
        number: "F8",
        sentence: "Bounded: what was fetched and not polled is bounded",
    },
    Obligation {
        number: "F9",
        sentence: "Says what failed: an assignment that cannot be read ends with one `Down`, other \
                   splits go on, and it can be assigned again",
    },
    Obligation {
        number: "F10",
        sentence: "Undisturbed: metadata that still lists a split ends no assignment without a \
                   `Down`",
    },
    Obligation {
        number: "F11",
        sentence: "Honest about lag: a split that was read to its end has none, or it is unknown",
    },
    Obligation {
        number: "F12",
        sentence: "Honest about memory: when all batches are dropped, no byte is unreleased",
    },
    Obligation {
        number: "F13",
        sentence: "Prepares: each time it is to prepare for a split it says once that it is",
    },
    Obligation {
        number: "F14",
        sentence: "Cuts: the parts of a batch have its records, each once, in order, and where the \
                   positions say",
    },
    Obligation {
        number: "F15",
        sentence: "Speaks without room: a poll of no bytes moves no piece, and what else there is",
    },
];

pub(super) fn suite<R: FetcherRig>() -> Suite<R> {
    let checks: [Check<R>; 15] = [
        checks::never_blocks,
        checks::chained,
        checks::whole,
        checks::stamped,
        checks::stops,
        checks::wakes,
        checks::measured,
        checks::bounded,
        checks::says_what_failed,
        checks::undisturbed,
        checks::honest_about_lag,
        checks::honest_about_memory,
        checks::prepares,
        checks::cuts,
        checks::speaks_without_room,
    ];
    Suite {
        checks: OBLIGATIONS.into_iter().zip(checks).collect(),
        blocking: Some("F1"),
    }
}
