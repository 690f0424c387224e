//! What a reader is told, and what it wants done.

use std::time::Duration;

use crate::binding::SplitError;
use crate::epoch::{MetadataEpoch, SplitEpoch};
use crate::protocol::Report;
use crate::split::Split;
use crate::tick::Tick;

/// What a reader is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReaderOptions {
    /// How often in a row what reads a split may crash before the split is quarantined.
    pub crashes_max: u32,
    /// How long a split with a lag may bring nothing before it is read again.
    pub stuck_after: Duration,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self {
            crashes_max: 5,
            stuck_after: Duration::from_secs(30),
        }
    }
}

/// What the reader's operator has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReaderAction<S: Split> {
    /// Tell the enumerator.
    Report(Report<S>),
    /// Tell the fetcher about a metadata epoch.
    Adopt(MetadataEpoch, S::Metadata),
    /// Have the fetcher read a split.
    Fetch(S, SplitEpoch, S::Position),
    /// Have the fetcher stop reading a split.
    Unfetch(S, SplitEpoch),
    /// Have the fetcher connect to where a split is read from; answered by
    /// [`handle_prepared`](super::ReaderState::handle_prepared).
    Prepare(S),
    /// The capabilities may be downgraded to this tick, the oldest that this reader has to hold.
    Downgrade(Tick),
    /// Emit a definite error at the open tick.
    Emit(SplitError<S>),
    /// Emit a definite error at a tick that is given again.
    EmitAt(Tick, SplitError<S>),
    /// The reader was rejected, for this reason.
    Reject(String),
    /// The last tick is durable: drop the capabilities.
    Finish,
}

/// Whether a piece is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the next of its split: emit it at the open tick.
    Emit,
    /// It is of an assignment that is over, or was read before: drop it.
    Drop,
}
