//! What a restart needs to know, and where it comes from.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::binding::Binding;
use crate::defect::{self, Defect};
use crate::epoch::{Incarnation, MetadataEpoch};
use crate::log::LogRecord;
use crate::split::Split;
use crate::tick::Tick;

/// The version of [`Snapshot`] that is written here.
pub const SNAPSHOT_VERSION: u32 = 1;

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
    /// The last tick that is bound, if there is one.
    pub bound: Option<Tick>,
    /// The metadata in force, if there is any.
    pub metadata: Option<(MetadataEpoch, S::Metadata)>,
    /// How many splits there are; what tells a snapshot that lost some.
    pub count: u64,
    /// The splits.
    pub splits: Vec<SplitSnapshot<S>>,
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
        /// The index of the record, from zero.
        index: usize,
        /// What is wrong.
        what: String,
    },
}

/// What the records of a log come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Restored<S: Split> {
    pub(super) incarnation: Incarnation,
    pub(super) reserved: Tick,
    pub(super) bound: Option<Tick>,
    pub(super) metadata: Option<(MetadataEpoch, S::Metadata)>,
    /// The position of each split, and whether it is quarantined there.
    pub(super) splits: BTreeMap<S, (S::Position, bool)>,
    /// The splits that are paused.
    pub(super) paused: BTreeSet<S>,
}

impl<S: Split> Restored<S> {
    fn nothing() -> Self {
        Self {
            incarnation: Incarnation::default(),
            reserved: Tick::default(),
            bound: None,
            metadata: None,
            splits: BTreeMap::new(),
            paused: BTreeSet::new(),
        }
    }

    /// What `records` come to.
    pub(super) fn of(records: &[LogRecord<S>]) -> Result<Self, RestoreError> {
        let mut restored = Self::nothing();
        for (index, record) in records.iter().enumerate() {
            let disorder = |what| RestoreError::Disorder { index, what };
            match record {
                LogRecord::Incarnation(incarnation) => {
                    if *incarnation <= restored.incarnation {
                        let what = format!(
                            "incarnation {incarnation} comes after {}",
                            restored.incarnation
                        );
                        return Err(disorder(what));
                    }
                    restored.incarnation = *incarnation;
                }
                LogRecord::Reserved(tick) => restored.reserved = restored.reserved.max(*tick),
                LogRecord::Metadata { epoch, metadata } => {
                    restored.metadata = Some((*epoch, metadata.clone()));
                }
                LogRecord::Start { split, start } => {
                    let before = restored
                        .splits
                        .insert(split.clone(), (start.clone(), false));
                    if before.is_some() {
                        return Err(disorder(format!("split {split} starts twice")));
                    }
                }
                LogRecord::Binding(binding) => restored.bind(binding).map_err(disorder)?,
                LogRecord::Readmitted(split) => {
                    if let Some((_, quarantined)) = restored.splits.get_mut(split) {
                        *quarantined = false;
                    }
                }
                LogRecord::Forgotten(split) => {
                    restored.splits.remove(split);
                    restored.paused.remove(split);
                }
                LogRecord::Paused(split) => {
                    if !restored.splits.contains_key(split) {
                        return Err(disorder(format!("split {split} is paused without a start")));
                    }
                    restored.paused.insert(split.clone());
                }
                LogRecord::Resumed(split) => {
                    restored.paused.remove(split);
                }
                LogRecord::Snapshot(snapshot) => {
                    let complete = Self::of_snapshot(snapshot)?;
                    let same =
                        |of: &Self| complete.splits == of.splits && complete.paused == of.paused;
                    let believed = index == 0 || defect::is(Defect::SnapshotBelieved);
                    if !believed && !same(&restored) {
                        let what = "it differs from what the records before it say".to_owned();
                        return Err(RestoreError::Incomplete { what });
                    }
                    restored = complete;
                }
            }
        }
        Ok(restored)
    }

    fn bind(&mut self, binding: &Binding<S>) -> Result<(), String> {
        let tick = binding.tick;
        if self.bound.is_some_and(|bound| bound >= tick) || tick > self.reserved {
            return Err(format!(
                "tick {tick} is bound after {:?}, with ticks up to {} reserved",
                self.bound, self.reserved
            ));
        }
        self.bound = Some(tick);
        for range in &binding.ranges {
            match self.splits.get_mut(&range.split) {
                Some((position, _)) if *position == range.from => *position = range.to.clone(),
                Some((position, _)) => {
                    return Err(format!(
                        "split {} goes on at {}, but is at {position}",
                        range.split, range.from
                    ));
                }
                None => return Err(format!("split {} has no start", range.split)),
            }
        }
        for error in &binding.errors {
            if let Some((_, quarantined)) = self.splits.get_mut(&error.split) {
                *quarantined = true;
            }
        }
        Ok(())
    }

    fn of_snapshot(snapshot: &Snapshot<S>) -> Result<Self, RestoreError> {
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
        let (mut splits, mut paused) = (BTreeMap::new(), BTreeSet::new());
        for one in &snapshot.splits {
            if one.paused {
                paused.insert(one.split.clone());
            }
            let value = (one.position.clone(), one.quarantined);
            if splits.insert(one.split.clone(), value).is_some() && !believed {
                return incomplete(format!("split {} is in it twice", one.split));
            }
        }
        Ok(Self {
            incarnation: snapshot.incarnation,
            reserved: snapshot.reserved,
            bound: snapshot.bound,
            metadata: snapshot.metadata.clone(),
            splits,
            paused,
        })
    }

    /// The snapshot of this state.
    pub(super) fn snapshot(&self) -> Snapshot<S> {
        let splits: Vec<_> = (self.splits.iter())
            .map(|(split, (position, quarantined))| SplitSnapshot {
                split: split.clone(),
                position: position.clone(),
                quarantined: *quarantined,
                paused: self.paused.contains(split),
            })
            .collect();
        Snapshot {
            version: SNAPSHOT_VERSION,
            incarnation: self.incarnation,
            reserved: self.reserved,
            bound: self.bound,
            metadata: self.metadata.clone(),
            count: splits.len() as u64,
            splits,
        }
    }
}
