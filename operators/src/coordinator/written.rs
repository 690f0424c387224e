//! How much a start would have to read.

use super::{Coordinator, CoordinatorOptions};
use crate::assignor::Assignor;
use crate::log::LogRecord;
use crate::split::Split;

/// As many ranges as so many times the splits are written between two snapshots, at most and about: a
/// snapshot has one position a split, so that snapshots take a small part of what is written.
const RANGES_A_SPLIT: usize = 16;

/// What was written to the log since the last snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Written {
    ticks: u32,
    ranges: usize,
}

impl Written {
    /// A tick of so many ranges is over.
    pub(super) fn note(&mut self, ranges: usize) {
        self.ticks += 1;
        self.ranges = self.ranges.saturating_add(ranges);
    }

    /// Whether reading it would take long enough for another snapshot.
    pub(super) fn is_much(self, options: &CoordinatorOptions, splits: usize) -> bool {
        let ranges_max = options.snapshot_ranges.max(RANGES_A_SPLIT * splits);
        self.ticks >= options.snapshot_every || self.ranges >= ranges_max
    }
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Writes all that a restart needs, after what waits to be written.
    pub(super) fn push_snapshot(&mut self) {
        self.since_snapshot = Written::default();
        self.to_append.push(LogRecord::Snapshot(self.snapshot()));
    }
}
