//! What a restart needs to know, as a log stores it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Coordinator;
use super::bounded::Bounded;
use super::ownership::Ownership;
use super::restore::{Restored, RestoredSplit};
use crate::assignor::Assignor;
use crate::defect::{self, Defect};
use crate::epoch::{Incarnation, MetadataEpoch, SplitEpoch};
use crate::split::Split;
use crate::tick::Tick;

/// The version of [`Snapshot`] that is written here.
///
/// Version 3 has [`Snapshot::split_epochs`]: a version that does not know them would begin below, and
/// write a snapshot without them. Version 4 has where splits stop, and [`Snapshot::all_found`], version 5
/// what is drained.
pub const SNAPSHOT_VERSION: u32 = 5;

/// All that a restart needs, as of one tick.
///
/// # Invariants
///
/// Every split whose start is recorded and that was not forgotten is in `splits` exactly once, in
/// order, whoever has it and also while it is between two readers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Snapshot<S: Split> {
    /// [`SNAPSHOT_VERSION`] of whoever wrote it.
    pub version: u32,
    /// The run that wrote it.
    pub incarnation: Incarnation,
    /// No tick up to this one is ever opened again.
    pub reserved: Tick,
    /// The last tick that is over, if there is one. If nothing was read in it, the log need not have its binding.
    pub bound: Option<Tick>,
    /// The metadata in force, if there is any.
    pub metadata: Option<(MetadataEpoch, S::Metadata)>,
    /// What is in force after it, once all that this does not list is drained.
    pub target: Option<S::Metadata>,
    /// The metadata that was in force first of all: what it does not list appeared later.
    pub first: Option<S::Metadata>,
    /// How many splits there are; what tells a snapshot that lost some.
    pub count: u64,
    /// The splits.
    pub splits: Vec<SplitSnapshot<S>>,
    /// No split epoch up to this one is ever assigned again. Zero if an older version wrote it, whose
    /// runs each counted from one.
    pub split_epochs: SplitEpoch,
    /// Whether the run went back: ticks after `bound` that are bound by the records before are void.
    pub rewound: bool,
    /// Whether every split that a bounded source reads is among these, so that none is added.
    pub all_found: bool,
}

/// What a restart needs to know of one split.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct SplitSnapshot<S: Split> {
    /// The split.
    pub split: S,
    /// The position after everything that is bound.
    pub position: S::Position,
    /// Whether it is quarantined there.
    pub quarantined: bool,
    /// Whether it is paused.
    pub paused: bool,
    /// What it was when its identity was last learnt, if it ever was.
    pub identity: Option<S::Identity>,
    /// The tick from which on the metadata does not list it, if it does not.
    pub unlisted_since: Option<Tick>,
    /// Where its reading stops, if it does. It is finished if it is there.
    pub stop: Option<S::Position>,
    /// Where it ends, if it is drained.
    pub end: Option<S::Position>,
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// All that a restart needs, as of the last closed tick.
    ///
    /// It belongs into the log after the binding of that tick, and after everything that
    /// [`Intention::Append`](super::Intention::Append) asked for until here.
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
                end: entry.and_then(|entry| entry.leaving.as_ref()?.recorded().cloned()),
            };
            (split.clone(), restored)
        });
        let metadata = self
            .metadata
            .clone()
            .or_else(|| self.answers.stored.clone());
        Restored {
            incarnation: self.incarnation,
            reserved: self.ticks.asked,
            split_epochs: self.epochs.asked,
            bound: self.ticks.last_closed,
            metadata: metadata.map(|metadata| (self.metadata_epoch, metadata)),
            target: self.draining.target.clone(),
            first: self.first.clone(),
            splits: splits.collect(),
            rewound: false,
            replay: None,
            all_found: self.bounded.as_ref().is_some_and(Bounded::is_complete),
        }
        .snapshot()
    }
}

/// Why a log does not say where a source was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The snapshot was written by a newer version.
    #[error(
        "snapshot of version {version}; expected at most {SNAPSHOT_VERSION}: use the version that wrote it, or a newer one"
    )]
    Newer {
        /// The version.
        version: u32,
    },
    /// A split is missing, twice, or not where the records before say.
    #[error("snapshot does not have every split exactly once: {what}")]
    Incomplete {
        /// What is wrong.
        what: String,
    },
    /// A record cannot follow the ones before it.
    #[error("record {index} cannot follow those before it: {what}")]
    Disorder {
        /// The index of the record among those that were read, from zero.
        index: usize,
        /// What is wrong.
        what: String,
    },
    /// No run can have opened the tick that was asked for.
    #[error(
        "tick {asked} is beyond the log, in which ticks up to {reserved} are reserved; expected one that this log knows: is it the log of this source?"
    )]
    Beyond {
        /// What was asked for.
        asked: Tick,
        /// The last tick that a run may have opened.
        reserved: Tick,
    },
    /// The log does not go back so far.
    #[error(
        "tick {asked} is older than the log, which was compacted; the oldest that it can go back to is {oldest}"
    )]
    Compacted {
        /// What was asked for.
        asked: Tick,
        /// The last tick that is bound by the first snapshot.
        oldest: Tick,
    },
    /// A split started twice within the ticks to replay.
    #[error(
        "split {split} was forgotten and started anew after tick {from}; expected a replay from a later tick, or `At`"
    )]
    StartedAnew {
        /// The split, as text.
        split: String,
        /// The tick from which on ticks were to be replayed.
        from: Tick,
    },
}

impl<S: Split> Restored<S> {
    /// The state that a snapshot is of.
    pub(super) fn of_snapshot(snapshot: &Snapshot<S>) -> Result<Self, RestoreError> {
        let believed = defect::is(Defect::SnapshotBelieved);
        if snapshot.version > SNAPSHOT_VERSION && !believed {
            return Err(RestoreError::Newer {
                version: snapshot.version,
            });
        }
        let incomplete = |what| Err(RestoreError::Incomplete { what });
        let written = snapshot.splits.len() as u64;
        if written != snapshot.count && !believed {
            return incomplete(format!("{written} splits, expected {}", snapshot.count));
        }
        let mut splits = BTreeMap::new();
        for one in &snapshot.splits {
            let value = RestoredSplit {
                position: one.position.clone(),
                quarantined: one.quarantined,
                paused: one.paused,
                identity: one.identity.clone(),
                unlisted_since: one.unlisted_since,
                stop: one.stop.clone(),
                end: one.end.clone(),
            };
            if splits.insert(one.split.clone(), value).is_some() && !believed {
                return incomplete(format!("split {} is in it twice", one.split));
            }
        }
        Ok(Self {
            incarnation: snapshot.incarnation,
            reserved: snapshot.reserved,
            split_epochs: snapshot.split_epochs,
            bound: snapshot.bound,
            metadata: snapshot.metadata.clone(),
            target: snapshot.target.clone(),
            first: snapshot.first.clone(),
            splits,
            rewound: false,
            replay: None,
            all_found: snapshot.all_found,
        })
    }

    /// The snapshot of this state.
    pub(super) fn snapshot(&self) -> Snapshot<S> {
        let splits: Vec<_> = (self.splits.iter())
            .map(|(split, one)| SplitSnapshot {
                split: split.clone(),
                position: one.position.clone(),
                quarantined: one.quarantined,
                paused: one.paused,
                identity: one.identity.clone(),
                unlisted_since: one.unlisted_since,
                stop: one.stop.clone(),
                end: one.end.clone(),
            })
            .collect();
        Snapshot {
            version: SNAPSHOT_VERSION,
            incarnation: self.incarnation,
            reserved: self.reserved,
            split_epochs: self.split_epochs,
            bound: self.bound,
            metadata: self.metadata.clone(),
            target: self.target.clone(),
            first: self.first.clone(),
            count: splits.len() as u64,
            splits,
            rewound: self.rewound,
            all_found: self.all_found,
        }
    }
}
