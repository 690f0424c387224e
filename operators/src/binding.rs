//! What a tick stands for.

use serde::{Deserialize, Serialize};

use crate::health::FailureKind;
use crate::loss::Aftermath;
use crate::split::Split;
use crate::tick::Tick;

/// Which ranges of which splits belong to a tick.
///
/// Bindings are how the frontier advances from positions, and what a restart needs: reading the
/// ranges of a binding again gives the records of its tick again.
///
/// # Invariants
///
/// * A split that is not named did not move in this tick.
/// * The ranges of one split over all bindings join, from where its reading started: each starts
///   where the one before it ended. What was [skipped](Aftermath::Skipped) at the tick is the end of its
///   range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Binding<S: Split> {
    /// The tick.
    pub tick: Tick,
    /// The splits that moved, in their order.
    pub ranges: Vec<SplitRange<S>>,
    /// The definite errors of the tick.
    pub errors: Vec<SplitError<S>>,
}

impl<S: Split> Binding<S> {
    /// Whether nothing was read in the tick, and nothing failed for good.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.errors.is_empty()
    }
}

/// A half-open range of one split.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct SplitRange<S: Split> {
    /// The split.
    pub split: S,
    /// The position of the first record in the range, if it has any.
    pub from: S::Position,
    /// The position after the range.
    pub to: S::Position,
}

/// A definite error about a split, emitted at the tick in which it was met.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct SplitError<S: Split> {
    /// The split.
    pub split: S,
    /// The position that could not be read.
    pub position: S::Position,
    /// What happened and what was expected, in words for a person.
    pub message: String,
    /// Whether the split is read on, and from where.
    pub then: Aftermath<S>,
}

impl<S: Split> SplitError<S> {
    /// Always [`FailureKind::Definite`]: a transient failure is health, not data.
    pub fn kind(&self) -> FailureKind {
        FailureKind::Definite
    }
}
