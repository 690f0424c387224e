//! Which split epochs this run may assign.
//!
//! Each assignment of a split has an epoch of its own, also across runs. What is said about an
//! assignment is told from what is said about another one by the epoch alone, so one that a run gave
//! out must never be given out by a later run, whatever that one knows of it. The log therefore has a
//! ceiling, which is raised ahead in blocks: writing every epoch would cost an append a move.

use super::Coordinator;
use crate::assignor::Assignor;
use crate::defect::{self, Defect};
use crate::epoch::SplitEpoch;
use crate::log::LogRecord;
use crate::split::Split;

/// The split epochs that this run may assign.
///
/// # Invariants
///
/// What is assigned is above `first` and at most `reserved`, which is durable, and `asked` is at least
/// `reserved`. A run that goes on after this one begins above `asked`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SplitEpochs {
    /// No epoch up to this one is assigned: a run before may have.
    pub(super) first: SplitEpoch,
    /// The last one that this run may assign, durably.
    pub(super) reserved: SplitEpoch,
    /// The last one that the log was asked, or had, to reserve.
    pub(super) asked: SplitEpoch,
    /// The greatest one that was assigned, or waits to be.
    wanted: SplitEpoch,
}

impl SplitEpochs {
    /// Goes on after runs that may have assigned every epoch up to `reserved`.
    pub(super) fn restore(&mut self, reserved: SplitEpoch) {
        if defect::is(Defect::EpochsCountAnew) {
            return;
        }
        *self = Self {
            first: reserved,
            reserved,
            asked: reserved,
            wanted: reserved,
        };
    }

    /// The epoch of the assignment that follows the one of `last`, once this run may assign it.
    pub(super) fn after(&mut self, last: SplitEpoch) -> Option<SplitEpoch> {
        // A split that was not assigned yet has the epoch from which it counts.
        let again = defect::is(Defect::EpochOneTooLow) && last > self.first;
        let next = if again { last } else { last.next() };
        self.wanted = self.wanted.max(next);
        (next <= self.reserved).then_some(next)
    }

    /// Whether all that the log was asked to reserve is reserved.
    pub(super) fn settled(&self) -> bool {
        self.reserved >= self.asked
    }

    /// The ceiling to ask the log for, `ahead` of what is wanted, before what is reserved runs out.
    pub(super) fn ask(&mut self, ahead: u64) -> Option<SplitEpoch> {
        let near = self.wanted.0.saturating_add(ahead / 2) > self.asked.0;
        // One at a time: what is wanted meanwhile is asked for in one go after that.
        if !near || !self.settled() {
            return None;
        }
        self.asked = SplitEpoch(self.wanted.0.saturating_add(ahead.max(1)));
        Some(self.asked)
    }
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Has the log reserve more split epochs before those that are reserved run out.
    pub(super) fn reserve_epochs(&mut self) {
        if let Some(ceiling) = self.epochs.ask(self.options.epochs_ahead) {
            self.to_append.push(LogRecord::ReservedEpochs(ceiling));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As if the log had answered at once.
    fn reserve(epochs: &mut SplitEpochs, ahead: u64) -> Option<SplitEpoch> {
        let asked = epochs.ask(ahead);
        if let Some(ceiling) = asked {
            epochs.reserved = ceiling;
        }
        asked
    }

    #[test]
    fn what_one_run_may_have_assigned_no_later_one_assigns() {
        let mut epochs = SplitEpochs::default();
        assert_eq!(reserve(&mut epochs, 10), Some(SplitEpoch(10)));
        assert_eq!(epochs.after(SplitEpoch(0)), Some(SplitEpoch(1)));

        let mut later = SplitEpochs::default();
        later.restore(epochs.asked);

        assert_eq!(later.after(later.first), None, "it is not durable");
        assert_eq!(reserve(&mut later, 10), Some(SplitEpoch(21)));
        assert_eq!(later.after(later.first), Some(SplitEpoch(11)));
    }

    #[test]
    fn more_is_asked_for_once_and_before_it_runs_out() {
        let mut epochs = SplitEpochs::default();
        reserve(&mut epochs, 10);
        assert_eq!(epochs.after(SplitEpoch(4)), Some(SplitEpoch(5)));
        assert_eq!(epochs.ask(10), None);
        assert_eq!(epochs.after(SplitEpoch(5)), Some(SplitEpoch(6)));

        assert_eq!(epochs.ask(10), Some(SplitEpoch(16)));
        assert_eq!(epochs.ask(10), None, "it is under way");

        assert_eq!(epochs.after(SplitEpoch(10)), None, "until it is durable");
        epochs.reserved = epochs.asked;
        assert_eq!(epochs.after(SplitEpoch(10)), Some(SplitEpoch(11)));
    }

    #[test]
    fn without_a_block_each_epoch_is_asked_for() {
        let mut epochs = SplitEpochs::default();
        assert_eq!(reserve(&mut epochs, 0), None, "nothing is wanted");
        assert_eq!(epochs.after(SplitEpoch(0)), None);
        assert_eq!(reserve(&mut epochs, 0), Some(SplitEpoch(2)));
        assert_eq!(epochs.after(SplitEpoch(0)), Some(SplitEpoch(1)));
    }
}
