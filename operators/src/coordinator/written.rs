//! How much a start would have to read.

use super::bounded::Bounded;
use super::ownership::Ownership;
use super::restore::{Restored, RestoredSplit};
use super::{Coordinator, CoordinatorOptions, Snapshot};
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
    /// A binding of so many ranges is written.
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
    /// All that a restart needs, as of the last closed tick.
    ///
    /// It belongs into the log after everything that [`Intention::Append`] asked for until here.
    pub fn snapshot(&self) -> Snapshot<S> {
        // The records of starts that are not durable are before the snapshot, wherever it is put.
        let starting = self
            .splits
            .iter()
            .filter_map(|(split, entry)| match &entry.ownership {
                Ownership::Recording(start) => Some((split, start)),
                Ownership::Resolving(_)
                | Ownership::Idle { .. }
                | Ownership::Assigned(_)
                | Ownership::Releasing(_)
                | Ownership::Quarantined { .. }
                | Ownership::Finished { .. } => None,
            });
        let splits = self.bound.iter().chain(starting).map(|(split, position)| {
            let entry = self.splits.get(split);
            let restored = RestoredSplit {
                position: position.clone(),
                quarantined: self.quarantined.contains(split),
                paused: entry.is_some_and(|entry| entry.paused),
                identity: entry.and_then(|entry| entry.identity.clone()),
                unlisted_since: entry.and_then(|entry| entry.unlisted_since),
                stop: entry.and_then(|entry| entry.stop.clone()),
            };
            (split.clone(), restored)
        });
        let metadata = self.metadata.clone().or_else(|| self.stored.clone());
        Restored {
            incarnation: self.incarnation,
            reserved: self.ticks.asked,
            bound: self.ticks.last_closed,
            metadata: metadata.map(|metadata| (self.metadata_epoch, metadata)),
            splits: splits.collect(),
            rewound: false,
            replay: None,
            all_found: self.bounded.as_ref().is_some_and(Bounded::is_complete),
        }
        .snapshot()
    }

    /// Writes all that a restart needs, after what waits to be written.
    pub(super) fn push_snapshot(&mut self) {
        self.since_snapshot = Written::default();
        self.to_append.push(LogRecord::Snapshot(self.snapshot()));
    }
}
