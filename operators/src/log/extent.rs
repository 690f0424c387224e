//! What a log holds, and what of it may be dropped.

use std::time::Duration;

use super::outline::Outline;
use crate::epoch::{Incarnation, LogSequence};
use crate::tick::Tick;

/// What a log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogExtent {
    /// The sequence of the first record. Records before it were dropped, and it is a snapshot, unless
    /// it is zero.
    pub first: LogSequence,
    /// The sequence that the next record will have.
    pub next: LogSequence,
    /// The newest run that the records name.
    pub incarnation: Incarnation,
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotAt>,
}

impl LogExtent {
    /// Where a run begins to read that needs the last state only: at the last snapshot, or, if there
    /// is none, at the first record.
    #[must_use]
    pub fn last_state(&self) -> LogSequence {
        self.snapshots.last().map_or(self.first, |last| last.at)
    }

    /// The last snapshot that says nothing about ticks after `tick`.
    #[must_use]
    pub fn snapshot_before(&self, tick: Tick) -> Option<SnapshotAt> {
        let at_most = |snapshot: &&SnapshotAt| snapshot.bound.unwrap_or_default() <= tick;
        self.snapshots.iter().rev().find(at_most).copied()
    }

    /// Takes note of records that follow.
    pub(super) fn extend(&mut self, records: impl IntoIterator<Item = Outline>) {
        for record in records {
            match record {
                Outline::Incarnation(incarnation) => {
                    self.incarnation = self.incarnation.max(incarnation);
                }
                Outline::Snapshot { incarnation, bound } => {
                    self.incarnation = self.incarnation.max(incarnation);
                    let at = self.next;
                    self.snapshots.push(SnapshotAt { at, bound });
                }
                Outline::Other => {}
            }
            self.next.0 += 1;
        }
    }

    /// Drops from the account what is before `first`, a snapshot.
    pub(super) fn drop_before(&mut self, first: LogSequence) {
        self.first = first;
        self.snapshots.retain(|snapshot| snapshot.at >= first);
    }
}

/// Where a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotAt {
    /// Its sequence.
    pub at: LogSequence,
    /// The last tick that is over in it.
    pub bound: Option<Tick>,
}

/// How much of the past a log keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    /// For how long ticks are kept, whatever anybody asks for.
    pub(super) keep_for: Duration,
    /// The tick up to which a user said that none is needed.
    pub(super) since: Tick,
}

impl Retention {
    pub(super) fn of(keep_for: Duration) -> Self {
        Self {
            keep_for,
            since: Tick::default(),
        }
    }

    /// The record that everything is to be kept from, if that is not what the log begins with.
    pub(super) fn keep_from(&self, extent: &LogExtent) -> Option<LogSequence> {
        let last = extent.snapshots.last()?.bound.unwrap_or_default();
        let keep = u64::try_from(self.keep_for.as_millis()).unwrap_or(u64::MAX);
        let since = self.since.max(Tick(last.0.saturating_sub(keep)));
        let snapshot = extent.snapshot_before(since)?;
        (snapshot.at > extent.first).then_some(snapshot.at)
    }
}
