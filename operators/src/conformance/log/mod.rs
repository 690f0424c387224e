//! The obligations of a log.

mod checks;

use super::report::Obligation;
use super::run::{Check, Suite};
use crate::log::BindingLog;
use crate::split::Split;

/// Makes a log, and what can be written to it.
pub trait LogRig: 'static {
    /// What the bindings are about.
    type Split: Split;
    /// The log under test.
    type Log: BindingLog<Self::Split>;

    /// Opens the log, which is empty the first time. It may be asked for again while an earlier one
    /// is still there: the log of a run that does not know yet that another one took over.
    ///
    /// A log that lets nobody in meanwhile waits for the earlier one to be gone, and says
    /// so by [`exclusive`](Self::exclusive).
    fn open(&mut self) -> Self::Log;

    /// Whether the log is locked as long as it is open. Then older incarnations cannot be there, and
    /// L4 is looked at only one after the other.
    fn exclusive(&self) -> bool {
        false
    }

    /// Whether the log drops, by itself, what `since` still needs: it was set up to keep little.
    fn keeps_little(&self) -> bool {
        false
    }

    /// A split.
    fn split(&self) -> Self::Split;

    /// Positions of it, a greater one for a greater number.
    fn position(&self, number: u64) -> <Self::Split as Split>::Position;

    /// Metadata, a different one for a different number.
    fn metadata(&self, number: u64) -> <Self::Split as Split>::Metadata;

    /// Makes the next append of any log meet a failure of its storage. False, the default, if that
    /// cannot be done: then L5 is not looked at.
    fn fail_next(&mut self) -> bool {
        false
    }
}

pub(super) const OBLIGATIONS: [Obligation; 7] = [
    Obligation {
        number: "L1",
        sentence: "Compares: an append is written only after exactly the records it expects",
    },
    Obligation {
        number: "L2",
        sentence: "All or none: the records of an append are written in order, or none is",
    },
    Obligation {
        number: "L3",
        sentence: "Durable: whoever opens the log next reads what was durable",
    },
    Obligation {
        number: "L4",
        sentence: "One writer: once an incarnation has appended, an older one is fenced",
    },
    Obligation {
        number: "L5",
        sentence: "Fails in words: after an error nothing was written, and what is unknown can be \
                   read",
    },
    Obligation {
        number: "L6",
        sentence: "Reads from anywhere: the records there are, from whichever is asked for, no gap",
    },
    Obligation {
        number: "L7",
        sentence: "Compacts: what is dropped is at the front, and a snapshot and all after it stay",
    },
];

pub(super) fn suite<R: LogRig>() -> Suite<R> {
    let checks: [Check<R>; 7] = [
        checks::compares,
        checks::all_or_none,
        checks::durable,
        checks::one_writer,
        checks::fails_in_words,
        checks::reads_from_anywhere,
        checks::compacts,
    ];
    Suite {
        checks: OBLIGATIONS.into_iter().zip(checks).collect(),
        blocking: None,
    }
}
