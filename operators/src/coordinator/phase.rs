//! How far a run has come, and what is awaited of a split.

use std::time::Duration;

use crate::epoch::{ReaderId, RequestId};

/// How far the run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// The log is being opened, or readers are missing.
    Gathering { log_open: bool },
    /// The first reservation of ticks is not durable.
    Reserving,
    /// Ticks that were bound before are given again.
    Replaying,
    /// Splits are read.
    Running,
    /// Something is wrong that only a person can mend. The frontier stays where it is.
    Wedged,
    /// It ended before anything was read.
    Ended,
}

/// What is awaited of a split: one thing at a time, by a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Awaited {
    /// Where reading the split starts, and how long it was waited for.
    Start(RequestId, Duration),
    /// That a reader is prepared to take it from the one that has it.
    Prepared(ReaderId),
    /// That its reader releases it.
    Release,
    /// What there is of it, and how long it was waited for.
    Judgement(RequestId, Duration),
    /// That it is time to look again what there is of it.
    AnotherLook,
}
