//! How much the coordinator holds.

use super::Coordinator;
use super::ownership::Entry;

/// The sizes of everything in a coordinator that grows.
///
/// # Invariants
///
/// Each has a bound that depends on the splits there are, the readers and the options, and not on how
/// long the source has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tables {
    /// Splits whose start is known or asked for.
    pub splits: usize,
    /// Splits that are not present and that nobody has, be it that they failed.
    pub absent: usize,
    /// Positions that are kept of splits that are not present.
    pub kept: usize,
    /// Requests and releases that are awaited.
    pub deadlines: usize,
    /// Splits that the next plan, or the next step towards it, looks at.
    pub unsettled: usize,
    /// Seconds of the last minute in which splits moved.
    pub moves: usize,
    /// Records that wait for the append under way.
    pub to_append: usize,
    /// Splits that are drained.
    pub leaving: usize,
    /// Splits about which it is asked what they are.
    pub identifying: usize,
    /// Closed ticks that are not durable.
    pub ticks_waiting: usize,
    /// Intentions that nobody has polled.
    pub intentions: usize,
}

impl<S: crate::split::Split, A> Coordinator<S, A> {
    /// How much there is of everything.
    pub fn tables(&self) -> Tables {
        let absent = |entry: &&Entry<S>| !entry.present() && entry.ownership.kept().is_some();
        Tables {
            splits: self.splits.len(),
            absent: self.splits.values().filter(absent).count(),
            kept: self.kept.len(),
            deadlines: self.deadlines.len(),
            unsettled: self.planning.unsettled(),
            moves: self.planning.moves(),
            to_append: self.to_append.len(),
            leaving: self.draining.len(),
            identifying: self.proofs.len(),
            ticks_waiting: self.ticks.undurable(),
            intentions: self.intentions.len(),
        }
    }
}
