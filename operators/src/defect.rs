//! Mistakes to be made on purpose, for tests of the tests only.
//!
//! A check that has never found anything may be blind. With the cargo feature `defects` a test can
//! `seed` one mistake that somebody could make in the coordinator or in a reader, and see that its
//! check notices. Without the feature [`is`] is constant, so that nothing of this is left.
//!
//! The mistake is one of the thread that seeded it: tests run side by side.

#[cfg(feature = "defects")]
use std::cell::Cell;
use std::fmt::{self, Display};

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Defect {
    /// A reader emits a piece without looking at the assignment that it was read under.
    NoSplitEpochCheck,
    /// The coordinator gives a split to another reader when the first takes too long to release it.
    TakeoverOnSuspicion,
    /// A reader hands a split over behind what was fetched, although that was not emitted.
    HandoverOfFetched,
    /// A reader leaves what it has released out of the tick in which it emitted it.
    BindingForgetsRelease,
    /// What is known from before a restart is read before the metadata lists it.
    RestoredBeforeMetadata,
    /// A reader obeys an assignment that was made under metadata which is over.
    OlderMetadataObeyed,
    /// A split that comes back starts by its rule, not where it was.
    ReAddedAtStart,
    /// The timer that closes ticks is set once.
    TimerNotRearmed,
    /// A split is assigned again under the epoch of the assignment before.
    EpochOneTooLow,
    /// A reader acknowledges a release twice, and the coordinator acts on both.
    ReleasedTwice,
    /// A reader goes on reading after the last tick.
    LastTickReadsOn,
    /// Splits are given to readers after the end was asked for.
    AssignedWhileEnding,
    /// A restart reads what is paused.
    PauseForgotten,
    /// The position of a split that failed is kept for ever, whatever lists it.
    FailedKeptForEver,
    /// A split is asked back as soon as another reader is to prepare for it.
    NotPrepared,
    /// A snapshot is believed whatever it says.
    SnapshotBelieved,
    /// A run counts assignments from one, whatever the runs before it assigned.
    EpochsCountAnew,
    /// The keeper of the frontier is told that a tick is durable as soon as all have closed it.
    FrontierBeforeDurable,
    /// A restart does not know where splits stop.
    StopForgotten,
    /// A reader keeps what it has read to its stop.
    NeverFinished,
    /// What comes after a drain does not wait for the ticks of what was drained to be closed.
    CutOverEarly,
    /// A restart does not know where splits end that are drained.
    EndForgotten,
}

impl Defect {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::NoSplitEpochCheck,
        Self::TakeoverOnSuspicion,
        Self::HandoverOfFetched,
        Self::BindingForgetsRelease,
        Self::RestoredBeforeMetadata,
        Self::OlderMetadataObeyed,
        Self::ReAddedAtStart,
        Self::TimerNotRearmed,
        Self::EpochOneTooLow,
        Self::ReleasedTwice,
        Self::LastTickReadsOn,
        Self::AssignedWhileEnding,
        Self::PauseForgotten,
        Self::FailedKeptForEver,
        Self::NotPrepared,
        Self::SnapshotBelieved,
        Self::EpochsCountAnew,
        Self::FrontierBeforeDurable,
        Self::StopForgotten,
        Self::NeverFinished,
        Self::CutOverEarly,
        Self::EndForgotten,
    ];
}

impl Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(feature = "defects")]
thread_local! {
    static SEEDED: Cell<Option<Defect>> = const { Cell::new(None) };
}

/// Has this thread make a mistake from here on, or none.
#[cfg(feature = "defects")]
pub fn seed(defect: Option<Defect>) {
    SEEDED.set(defect);
}

/// Whether this thread makes a mistake.
#[cfg(feature = "defects")]
pub(crate) fn is(defect: Defect) -> bool {
    SEEDED.get() == Some(defect)
}

/// Whether this thread makes a mistake: never.
#[cfg(not(feature = "defects"))]
pub(crate) const fn is(_defect: Defect) -> bool {
    false
}
