//! The obligations of a discovery.

mod checks;
mod driver;

use super::report::Obligation;
use super::run::{Check, Suite};
use crate::binding::SplitRange;
use crate::discovery::SplitDiscovery;
use crate::split::Split;
use crate::wake::Waker;

/// Makes a discovery and what it finds.
pub trait DiscoveryRig: 'static {
    /// What is found.
    type Split: Split;
    /// The discovery under test.
    type Discovery: SplitDiscovery<Self::Split>;

    /// Makes the discovery under test; it is asked for once.
    fn discovery(&mut self, waker: Waker) -> Self::Discovery;

    /// One of three splits: `index` is 0, 1 or 2. Split 2 does not exist until it is
    /// [created](Self::create), the others do.
    fn split(&self, index: usize) -> Self::Split;

    /// Metadata that lists these splits and none of the others.
    fn metadata(&self, splits: &[Self::Split]) -> <Self::Split as Split>::Metadata;

    /// From here on the service answers with [metadata](Self::metadata) of these splits. Before the
    /// first time it answers with metadata of none, or not at all.
    fn announce(&mut self, splits: &[Self::Split]);

    /// The position at which reading a split starts by its rule.
    fn start(&self, split: &Self::Split) -> <Self::Split as Split>::Position;

    /// Brings split 2 into existence. False, the default, if whatever is listed exists: then D5 is
    /// not looked at.
    fn create(&mut self, _split: &Self::Split) -> bool {
        false
    }

    /// Ends the existence of a split that was found. False, the default, if splits end only by not
    /// being listed: then D9 is not looked at.
    fn remove(&mut self, _split: &Self::Split) -> bool {
        false
    }

    /// Makes what splits are read from unreachable, or reachable again. False, the default, if that
    /// cannot be done: then D8 is not looked at.
    fn reach(&mut self, _reachable: bool) -> bool {
        false
    }

    /// Ranges of splits 0 and 1, neither of them empty: one that can be read from its first record on,
    /// and one that cannot. `None`, the default: there is no such thing, and D11 is looked at without
    /// ranges only.
    fn ranges(&mut self) -> Option<[SplitRange<Self::Split>; 2]> {
        None
    }

    /// How many answers that nobody polls may wait, at most.
    fn unpolled_max(&self) -> usize {
        10_000
    }
}

pub(super) const OBLIGATIONS: [Obligation; 15] = [
    Obligation {
        number: "D1",
        sentence: "Never blocks: both methods return at once",
    },
    Obligation {
        number: "D2",
        sentence: "Wakes: when there is something to poll, the operator is woken",
    },
    Obligation {
        number: "D3",
        sentence: "Tells the metadata: unasked, and again when it has changed",
    },
    Obligation {
        number: "D4",
        sentence: "Finds: what is listed and exists is found under the epoch of the request, and \
                   nothing else is",
    },
    Obligation {
        number: "D5",
        sentence: "Keeps looking: what comes to exist later is found without another request",
    },
    Obligation {
        number: "D6",
        sentence: "Looks for the latest: what is found under an epoch is what its metadata lists",
    },
    Obligation {
        number: "D7",
        sentence: "Resolves: a request is answered once, with its number, its split and its start",
    },
    Obligation {
        number: "D8",
        sentence: "Knows that it does not know: a failure to ask is said, is no answer, and passes",
    },
    Obligation {
        number: "D9",
        sentence: "Notices what is gone: a listed split that ceases to exist is gone",
    },
    Obligation {
        number: "D10",
        sentence: "Bounded: answers that nobody polled are bounded",
    },
    Obligation {
        number: "D11",
        sentence: "Checks: a request is answered once, with exactly the ranges that cannot be read",
    },
    Obligation {
        number: "D12",
        sentence: "Identifies: each split of a request is answered with its number, listed or not",
    },
    Obligation {
        number: "D13",
        sentence: "Judges: a request is answered once, with its number and its split",
    },
    Obligation {
        number: "D14",
        sentence: "Knows when it has found all: it says so then, and not while something is not known",
    },
    Obligation {
        number: "D15",
        sentence: "Says where splits end: a request is answered once, with its number and its split",
    },
];

pub(super) fn suite<R: DiscoveryRig>() -> Suite<R> {
    let checks: [Check<R>; 15] = [
        checks::never_blocks,
        checks::wakes,
        checks::tells_the_metadata,
        checks::finds,
        checks::keeps_looking,
        checks::looks_for_the_latest,
        checks::resolves,
        checks::knows_that_it_does_not_know,
        checks::notices_what_is_gone,
        checks::bounded,
        checks::checks_ranges,
        checks::identifies,
        checks::judges,
        checks::knows_when_it_has_found_all,
        checks::says_where_splits_end,
    ];
    Suite {
        checks: OBLIGATIONS.into_iter().zip(checks).collect(),
        blocking: Some("D1"),
    }
}
