//! What a running source does and why, for whoever asks.

use std::fmt::{self, Display};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::epoch::{Incarnation, MetadataEpoch, ReaderId};
use crate::protocol::Configuration;
use crate::split::Split;
use crate::tick::Tick;

/// What a source does at one moment.
///
/// Its [`Display`] is for a person: a line for each thing that is in force, and one for each split.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
#[non_exhaustive]
pub struct Explanation<S: Split> {
    /// The run of the source.
    pub incarnation: Incarnation,
    /// The moment, as a tick would be named.
    pub at: Tick,
    /// The metadata in force; zero if there is none yet.
    pub metadata_epoch: MetadataEpoch,
    /// How long ago the metadata service last answered, if it has in this run.
    pub metadata_age: Option<Duration>,
    /// What an answer would lose that is held back; empty if none is.
    pub held_back: Vec<String>,
    /// The options in force, by their names, also those that nobody set, which are marked.
    pub options: Configuration,
    /// The splits, in their order.
    pub splits: Vec<SplitExplanation<S>>,
}

/// Where one split is, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
#[non_exhaustive]
pub struct SplitExplanation<S: Split> {
    /// The split.
    pub split: S,
    /// How far its life has come.
    pub life: SplitLife,
    /// The reader that may emit records of it, if there is one.
    pub reader: Option<ReaderId>,
    /// The position after everything that is bound, or waits for the log to be; `None` as long as it is
    /// not known where its reading starts.
    pub position: Option<S::Position>,
    /// Where its reading stops: nothing at this position or past it is read. `None`: nowhere, as far as
    /// that is known.
    pub stop: Option<S::Position>,
    /// Where its reading went on last that was with nobody, and why there; `None` as long as that is
    /// not known.
    pub origin: Option<Origin<S>>,
    /// How far behind it is, in steps of its position, as it last told.
    pub lag: u64,
    /// Where it ends, if it is drained and that is known.
    pub end: Option<S::Position>,
}

/// Where the reading of a split goes on, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
#[non_exhaustive]
pub struct Origin<S: Split> {
    /// The position of the first record to read.
    pub position: S::Position,
    /// Who says so.
    pub why: OriginKind,
    /// Since when, as a tick would be named.
    pub at: Tick,
}

/// Who says where the reading of a split goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OriginKind {
    /// The rule for what was never read, in words. The log has what it came to.
    Rule(String),
    /// The log, as of the last tick that an earlier run has bound.
    Log,
    /// A reader, which handed it back there.
    Released(ReaderId),
    /// It was not there for a while, and its position was kept.
    Kept,
    /// Its reader, for which reading it failed there.
    Failed(ReaderId),
}

/// How far the life of a split has come.
///
/// ```text
/// known -> resolved -> assigned -> reading <-> paused
///                          ^          |
///                          +- moving <+-> removed -> kept -> (forgotten, or assigned again)
///                                     +-> quarantined -> (readmitted: resolved)
/// ```
///
/// A split that is forgotten is in no table any more, which an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SplitLife {
    /// It exists, and it is being found out where its reading starts.
    Known,
    /// It is known where its reading goes on; it waits for the log, or for a reader.
    Resolved,
    /// A reader has it, and has emitted nothing of it so far.
    Assigned,
    /// A reader has it and has emitted records of it.
    Reading,
    /// A person asked that it be not read for now.
    Paused,
    /// Its reader was asked to hand it back, for another one.
    Moving,
    /// It is not listed, or does not exist any more, and its reader has not handed it back yet.
    Removed,
    /// It is not listed, or does not exist any more. Its position is kept for when it comes back.
    Kept,
    /// It failed in a way that lasts, and stays at its position until it is readmitted.
    Quarantined,
    /// It was read to its stop.
    Finished,
    /// The last answer removes it. It is read to where it ended then, and that answer is in force when all
    /// that leaves is.
    Draining,
}

impl Display for SplitLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Known => "known",
            Self::Resolved => "resolved",
            Self::Assigned => "assigned",
            Self::Reading => "reading",
            Self::Paused => "paused",
            Self::Moving => "moving",
            Self::Removed => "removed",
            Self::Kept => "kept",
            Self::Quarantined => "quarantined",
            Self::Finished => "finished",
            Self::Draining => "draining",
        })
    }
}

/// In words; what follows the position.
impl Display for OriginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => write!(f, "by the rule: {rule}"),
            Self::Log => f.write_str("from the log"),
            Self::Released(reader) => write!(f, "where reader {reader} handed it back"),
            Self::Kept => f.write_str("where it was kept"),
            Self::Failed(reader) => write!(f, "where it failed for reader {reader}"),
        }
    }
}

impl<S: Split> Display for SplitExplanation<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "split {}: {}", self.split, self.life)?;
        if let Some(reader) = self.reader {
            write!(f, " by reader {reader}")?;
        }
        if let Some(position) = &self.position {
            write!(f, ", at {position}")?;
            if let Some(stop) = &self.stop {
                write!(f, " up to {stop}")?;
            }
            write!(f, ", {} behind", self.lag)?;
        }
        if let Some(end) = &self.end {
            write!(f, ", drained to {end}")?;
        }
        if let Some(Origin { position, why, at }) = &self.origin {
            write!(f, "; went on at {position}, {why}, at {at}")?;
        }
        Ok(())
    }
}

impl<S: Split> Display for Explanation<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "run {} at {}", self.incarnation, self.at)?;
        write!(f, "metadata: epoch {}", self.metadata_epoch)?;
        match self.metadata_age {
            Some(age) => writeln!(f, ", its service answered {} s ago", age.as_secs())?,
            None => writeln!(f, ", its service has not answered in this run")?,
        }
        for loss in &self.held_back {
            writeln!(f, "metadata: an answer is held back that loses {loss}")?;
        }
        for (name, value) in &self.options {
            writeln!(f, "option {name}: {value}")?;
        }
        for split in &self.splits {
            writeln!(f, "{split}")?;
        }
        Ok(())
    }
}

/// What is told of a split and decides about nothing.
///
/// # Invariants
///
/// It has no hash of its own: coordinators that differ in it alone act alike.
#[derive(Clone, Debug)]
pub(crate) struct Story<S: Split> {
    pub(crate) origin: Option<Origin<S>>,
    /// Whether something was emitted under the last assignment.
    pub(crate) emitted: bool,
}

impl<S: Split> Story<S> {
    pub(crate) fn new() -> Self {
        Self {
            origin: None,
            emitted: false,
        }
    }

    /// Reading goes on at `position`, once somebody has it.
    pub(crate) fn goes_on(&mut self, position: S::Position, why: OriginKind, at: Tick) {
        self.origin = Some(Origin { position, why, at });
    }
}

impl<S: Split> Hash for Story<S> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
