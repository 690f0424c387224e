//! What the enumerator and the readers say to each other.
//!
//! Two streams carry it, in order: directives from the enumerator to one reader each, and reports
//! from the readers back. Both run on ports that hold nobody's frontier.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::assignor::ReaderProfile;
use crate::binding::{SplitError, SplitRange};
use crate::epoch::{Incarnation, MetadataEpoch, ReaderId, SplitEpoch};
use crate::explain::Explanation;
use crate::health::FailureKind;
use crate::loss::LossCause;
use crate::split::Split;
use crate::tick::Tick;

/// What must be the same in every process: settings by their names.
pub type Configuration = BTreeMap<String, Setting>;

/// One option in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// What it is, as text that shows no secret.
    pub value: String,
    /// Whether it is what it is if nobody sets it.
    pub is_default: bool,
    /// What tells values apart that are not shown.
    pub unshown: Unshown,
}

/// A digest of a value that can be a secret, for processes to compare.
///
/// It is not shown either: who has it can guess the value in peace.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Unshown(pub Option<u64>);

impl fmt::Debug for Unshown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some(_)" } else { "None" })
    }
}

impl Setting {
    /// Settings by their names, `defaults` being what they are if nobody sets them.
    pub fn of<N: Into<String>>(
        settings: impl IntoIterator<Item = (N, String)>,
        defaults: impl IntoIterator<Item = (N, String)>,
    ) -> Configuration {
        let named = |(name, value): (N, String)| (name.into(), value);
        let defaults: BTreeMap<String, String> = defaults.into_iter().map(named).collect();
        let settings = settings.into_iter().map(named);
        settings
            .map(|(name, value)| {
                let is_default = defaults.get(&name) == Some(&value);
                let setting = Self {
                    value,
                    is_default,
                    unshown: Unshown::default(),
                };
                (name, setting)
            })
            .collect()
    }
}

impl Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = if self.is_default { " (default)" } else { "" };
        write!(f, "{}{default}", self.value)
    }
}

/// What the enumerator tells one reader.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Directive<S: Split> {
    /// A metadata epoch begins. Splits that it does not list are released at once.
    Metadata {
        /// The run of the source that this reader is confirmed for.
        incarnation: Incarnation,
        /// The epoch.
        epoch: MetadataEpoch,
        /// All that the epoch says.
        metadata: S::Metadata,
    },
    /// Read a split.
    Assign(Assignment<S>),
    /// Stop reading a split and answer [`Report::Released`].
    Revoke {
        /// The split.
        split: S,
        /// The assignment that ends.
        split_epoch: SplitEpoch,
    },
    /// A split is to be assigned to this reader: connect to where it is read from, and answer
    /// [`Report::Prepared`]. The reader that has it goes on until then.
    Prepare(S),
    /// Close one tick and open the next.
    Tick {
        /// The tick to close, answered by [`Report::Closed`]; `None` the first time.
        close: Option<Tick>,
        /// The tick to go on in. The next value is not `close + 1`, so it must be said.
        open: Tick,
        /// Whether `close` is the last: nothing is read from here on, and `open` stays unused.
        last: bool,
    },
    /// The binding of the tick is durable, or need not be: the frontier may pass it. Told to the reader that
    /// [keeps](ReaderId::KEEPER) the frontier; and to all if the tick is given again, or the last.
    Durable(Tick),
    /// Emit a definite error at the open tick, and report it when that is closed.
    Emit(SplitError<S>),
    /// Ticks that were bound before are given again: from here on what is assigned is read only as far
    /// as [`Directive::Replay`] says, until a tick is opened. None before this one is given.
    BeginReplay(Tick),
    /// What the next ticks to be given again stand for.
    Replay(Replay<S>),
    /// What is done and why, for who asked near this reader.
    Explained(Box<Explanation<S>>),
    /// The reader does not fit the others. It reads nothing.
    Reject {
        /// Why, in words for a person.
        reason: String,
    },
}

/// Bound ticks that are to be given again, as far as one reader is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Replay<S: Split> {
    /// The ticks, in order. There is no other before the last of them that was not told.
    pub ticks: Vec<Tick>,
    /// What is to be read again of each assigned split that has records in these ticks.
    pub splits: Vec<ReplaySplit<S>>,
    /// The definite errors of these ticks that this reader is to emit.
    pub errors: Vec<(Tick, SplitError<S>)>,
}

/// Where one split ends in ticks that are to be given again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ReplaySplit<S: Split> {
    /// The split.
    pub split: S,
    /// Its assignment.
    pub split_epoch: SplitEpoch,
    /// The ticks in which it has records, and where it ends in each, in order.
    pub ends: Vec<(Tick, S::Position)>,
}

/// One reader's right to read one split, from one position on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Assignment<S: Split> {
    /// The split.
    pub split: S,
    /// The count of assignments of this split.
    pub split_epoch: SplitEpoch,
    /// The metadata under which it was assigned. A reader that knows newer metadata which does not
    /// list the split releases it at once.
    pub metadata_epoch: MetadataEpoch,
    /// The position of the first record to read.
    pub start: S::Position,
    /// Where reading stops: nothing at this position or past it is emitted. `None`: nowhere.
    pub stop: Option<S::Position>,
}

/// What one reader tells the enumerator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Report<S: Split> {
    /// A reader is there.
    Hello {
        /// The reader.
        reader: ReaderProfile,
        /// Its configuration, setting by setting; all readers must have the same.
        configuration: Configuration,
    },
    /// A split is not read any more, and what was fetched of it but not emitted is gone.
    Released {
        /// The reader.
        reader: ReaderId,
        /// The split.
        split: S,
        /// The assignment that ended.
        split_epoch: SplitEpoch,
        /// The position of the first record that was not emitted.
        next: S::Position,
        /// Why.
        why: ReleaseReason,
    },
    /// A tick is closed: nothing more is emitted at it.
    Closed {
        /// The reader.
        reader: ReaderId,
        /// The tick.
        tick: Tick,
        /// What was emitted at the tick, one range an assignment.
        moved: Vec<Moved<S>>,
        /// The definite errors that were emitted at the tick.
        errors: Vec<SplitError<S>>,
    },
    /// Everything that the reader was told to give again was emitted, as far as it is of a tick before
    /// this one.
    Replayed {
        /// The reader.
        reader: ReaderId,
        /// The tick.
        before: Tick,
    },
    /// Reading a split stopped by itself.
    FetcherDown {
        /// The reader.
        reader: ReaderId,
        /// The split, which stays assigned.
        split: S,
        /// The assignment.
        split_epoch: SplitEpoch,
        /// Transient: the reader tries again. Definite: the split is quarantined at `next`.
        kind: FailureKind,
        /// The position of the first record that was not emitted.
        next: S::Position,
        /// What happened, in words for a person.
        message: String,
    },
    /// What is to be read next of a split is not there any more. The reader has released it.
    Lost {
        /// The reader.
        reader: ReaderId,
        /// The split.
        split: S,
        /// The assignment that ended.
        split_epoch: SplitEpoch,
        /// How that is known.
        cause: LossCause<S::Position>,
        /// The position of the first record that was not emitted.
        next: S::Position,
        /// What happened, in words for a person.
        message: String,
    },
    /// How far behind splits are, as far as it is not what was told last.
    Progress {
        /// The reader.
        reader: ReaderId,
        /// For each split of this reader that tells: its assignment, and its lag in steps of its
        /// position.
        lags: Vec<(S, SplitEpoch, u64)>,
    },
    /// A reader is prepared for a split, as [`Directive::Prepare`] asks it to be.
    Prepared {
        /// The reader.
        reader: ReaderId,
        /// The split, which another reader has.
        split: S,
    },
    /// The reader has emitted as much at the open tick as it may.
    Full {
        /// The reader.
        reader: ReaderId,
        /// The tick.
        tick: Tick,
    },
    /// Somebody near this reader asked for something.
    Command(Command<S>),
}

/// What was emitted of a split under one assignment at one tick.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Moved<S: Split> {
    /// The assignment.
    pub split_epoch: SplitEpoch,
    /// What was emitted.
    pub range: SplitRange<S>,
    /// The memory that its batches took.
    pub bytes: u64,
}

/// What a person can ask a running source for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Command<S: Split> {
    /// End: close what was read in a last tick.
    Stop,
    /// Give a split to a reader, until the assignor has a reason to move it.
    Move {
        /// The split.
        split: S,
        /// The reader.
        to: ReaderId,
    },
    /// Take all splits from a reader, and give it none until [`Command::Refill`] or a restart.
    Drain(ReaderId),
    /// Let a reader have splits again.
    Refill(ReaderId),
    /// Do not read a split until [`Command::Resume`], also after a restart; its position stays.
    Pause(S),
    /// Read a split on that was paused.
    Resume(S),
    /// Read a split on that was quarantined, from where it failed.
    Readmit(S),
    /// Take the answer of the metadata service that is held back, since it loses much. Without one, cut
    /// what is left to be drained.
    ConfirmMetadata,
    /// Say what is done and why, by [`Directive::Explained`].
    Explain {
        /// The reader near which somebody asks.
        answer_to: ReaderId,
    },
    /// Run the assignor now.
    Rebalance,
    /// Say what the assignor would do, without doing it.
    ShowPlan,
    /// Let the log drop what only ticks up to and with this one need.
    Compact(Tick),
    /// Write all that a restart needs to the log now, so that less has to be read at the next start.
    Snapshot,
}

/// Why a split was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReleaseReason {
    /// It was revoked.
    Revoked,
    /// The metadata does not list it.
    NotListed,
    /// It was read to its stop.
    Finished,
}
