//! What happens in a source, for whoever watches it.

use std::fmt;
use std::sync::Arc;

use crate::binding::SplitError;
use crate::epoch::{MetadataEpoch, PlanEpoch, ReaderId, SplitEpoch};
use crate::health::{FailureKind, Health};
use crate::protocol::ReleaseReason;
use crate::split::Split;
use crate::tick::Tick;

/// One thing that happened, as the enumerator or a reader saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceEvent<S: Split> {
    /// All readers are confirmed, and the first tick opens.
    Started {
        /// How many readers there are.
        readers: usize,
    },
    /// A metadata epoch begins.
    MetadataAdopted {
        /// The epoch.
        epoch: MetadataEpoch,
        /// What it says.
        metadata: S::Metadata,
    },
    /// A split exists that was not known.
    SplitFound {
        /// The split.
        split: S,
    },
    /// It is durable where reading a split starts and stops.
    SplitResolved {
        /// The split.
        split: S,
        /// The position of the first record to read.
        start: S::Position,
        /// Where reading stops, if it does.
        stop: Option<S::Position>,
        /// The rules that say so, in words.
        rule: String,
    },
    /// A split was read to its stop or to the end that it is drained to, or starts there. What was emitted of it may not be durable yet.
    SplitFinished {
        /// The split.
        split: S,
        /// Where it stopped.
        position: S::Position,
    },
    /// What the last answer removes is drained before the answer is in force, beginning with what is
    /// known of it.
    DrainBegun {
        /// The metadata epoch in force until then. A later epoch ends the drain.
        epoch: MetadataEpoch,
        /// How many splits leave.
        splits: usize,
    },
    /// It is durable where a split ends that leaves.
    SplitLeaves {
        /// The split.
        split: S,
        /// The end: nothing at this position or past it is read.
        end: S::Position,
    },
    /// All that leaves is drained, or was cut, and the last answer is in force.
    DrainEnded {
        /// How many splits left.
        splits: usize,
        /// How many of them were cut before they were read to their end.
        cut: usize,
    },
    /// All splits that a bounded source reads are known.
    AllFound {
        /// How many there are.
        splits: usize,
    },
    /// The assignor has run, and splits move.
    Planned {
        /// The run.
        epoch: PlanEpoch,
        /// How many splits are to be assigned.
        assigned: usize,
        /// How many are to be taken from their reader for another.
        revoked: usize,
    },
    /// A split is given to a reader.
    Assigned {
        /// The split.
        split: S,
        /// The reader.
        reader: ReaderId,
        /// The assignment.
        split_epoch: SplitEpoch,
        /// The position of the first record to read.
        start: S::Position,
    },
    /// A split does not exist any more, although the metadata lists it.
    SplitGone {
        /// The split.
        split: S,
    },
    /// The position of a split that is not listed was kept for as long as was asked for, or there
    /// were too many of them. If it comes back, it starts by its rule.
    SplitForgotten {
        /// The split.
        split: S,
        /// The position that is lost.
        position: S::Position,
    },
    /// A split takes more than any reader should: moving splits cannot help it.
    SplitHot {
        /// The split.
        split: S,
        /// The bytes that it brings a second.
        bytes_per_second: u64,
    },
    /// What the assignor would do.
    PlanShown {
        /// Each split that it would move, from which reader if any, and to which.
        moves: Vec<(S, Option<ReaderId>, ReaderId)>,
    },
    /// A reader has handed back a split.
    Released {
        /// The split.
        split: S,
        /// The reader.
        reader: ReaderId,
        /// The position of the first record that was not emitted.
        next: S::Position,
        /// Why.
        why: ReleaseReason,
    },
    /// Reading an assigned split stopped by itself.
    FetcherDown {
        /// The split.
        split: S,
        /// The reader.
        reader: ReaderId,
        /// Transient: it is tried again. Definite: the split is quarantined.
        kind: FailureKind,
        /// What happened.
        message: String,
    },
    /// It is durable that records of a split are lost, or that it fails or starts over because of that.
    SplitLost {
        /// What happened, what is lost, and what comes after.
        error: SplitError<S>,
        /// How often that happened in this run, to any split.
        count: u64,
    },
    /// A tick is over: its binding is durable, or nothing was read in it.
    Bound {
        /// The tick.
        tick: Tick,
        /// How many splits moved in it.
        splits: usize,
    },
    /// Something that a person should know.
    Health(Health),
    /// The last tick is over, and the log has everything: the source ends.
    Ended,
    /// The source goes no further, and cannot end in order: its frontier stays where it is. The health
    /// stream has said why a second before. Its processes have to be ended, and to be started again once
    /// what is wrong is mended.
    Failed {
        /// Why, with what it is about first.
        why: String,
    },
}

/// Hears of every [`SourceEvent`], on the thread of the worker on which it happened.
///
/// It must not block.
pub struct Observer<S: Split>(Arc<Hear<S>>);

type Hear<S> = dyn Fn(&SourceEvent<S>) + Send + Sync;

impl<S: Split> Observer<S> {
    /// An observer that calls `hear`.
    pub fn new(hear: impl Fn(&SourceEvent<S>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    /// An observer that hears nothing.
    #[must_use]
    pub fn deaf() -> Self {
        Self::new(|_| ())
    }

    /// Tells it an event.
    pub fn hear(&self, event: &SourceEvent<S>) {
        (self.0)(event);
    }
}

impl<S: Split> Clone for Observer<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Split> fmt::Debug for Observer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").finish_non_exhaustive()
    }
}
