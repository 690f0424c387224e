//! Where bindings become durable.
//!
//! The frontier passes a tick only after its binding is in a [`BindingLog`]. The log is a sequence
//! of typed records, written by one incarnation at a time; what must precede an action (the start
//! of a split before its first assignment) is a record as well.

mod local;
mod memory;
mod record;
mod stored;
mod writer;

use std::error::Error as StdError;

use serde::{Deserialize, Serialize};

use crate::binding::Binding;
use crate::coordinator::Snapshot;
use crate::epoch::{Incarnation, LogSequence, MetadataEpoch};
use crate::split::Split;
use crate::tick::Tick;

pub use self::local::LocalLog;
pub use self::memory::MemoryLog;
pub use self::stored::{Stored, StoredError};
pub(crate) use self::writer::{LogEvent, LogWriter};

/// A sequence of records that outlives the process, or at least the dataflow.
///
/// It is called on a thread of its own and may block there.
///
/// # Contract
///
/// The numbers are those that the conformance kit (feature `conformance`) reports.
///
/// * **L1 Compares.** `append` writes only if the next record of the log has the sequence `expected`.
///   Otherwise it writes nothing and is not [`Appended::Durable`].
/// * **L2 All or none.** It writes all of `records`, in their order after those before, or none.
/// * **L3 Durable.** After [`Appended::Durable`] the records survive what the log promises to
///   survive, and whoever opens the log next reads them.
/// * **L4 One writer.** Once an incarnation has appended, an older one gets [`Appended::Fenced`].
/// * **L5 Fails in words.** After an error nothing was written; whether something was is
///   [`Appended::Unknown`] if the log cannot tell, and then [`read`](Self::read) can.
pub trait BindingLog<S: Split>: Send + 'static {
    /// The incarnations and records written so far, in order.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or holds what it cannot have been given.
    fn read(&mut self) -> Result<LogContents<S>, LogError>;

    /// Appends `records`, of which the first will have the sequence `expected`.
    ///
    /// A snapshot comes in an append of its own.
    ///
    /// # Errors
    ///
    /// If nothing was written. The writer tries again.
    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<S>],
    ) -> Result<Appended, LogError>;
}

/// What a log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogContents<S: Split> {
    /// The sequence of the first record. Records before it were dropped, and it is a snapshot, unless
    /// it is zero.
    pub first: LogSequence,
    /// The records.
    pub records: Vec<LogRecord<S>>,
}

impl<S: Split> LogContents<S> {
    /// Nothing, of a log that is new.
    #[must_use]
    pub fn empty() -> Self {
        Self::since_the_beginning(Vec::new())
    }

    /// Records of a log that never dropped any.
    #[must_use]
    pub fn since_the_beginning(records: Vec<LogRecord<S>>) -> Self {
        Self {
            first: LogSequence::default(),
            records,
        }
    }

    /// The sequence that the next record will have.
    #[must_use]
    pub fn next(&self) -> LogSequence {
        LogSequence(self.first.0 + self.records.len() as u64)
    }
}

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The records are in the log for good.
    Durable,
    /// Another incarnation has taken over; nothing was written and nothing will be.
    Fenced,
    /// Whether the records were written is not known: the log has to be read.
    Unknown,
}

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
#[non_exhaustive]
pub enum LogRecord<S: Split> {
    /// A run of the source begins.
    Incarnation(Incarnation),
    /// Ticks up to this one may be opened by the incarnation; a later one opens none of them again.
    Reserved(Tick),
    /// A metadata epoch begins.
    Metadata {
        /// The epoch.
        epoch: MetadataEpoch,
        /// What it says.
        metadata: S::Metadata,
        /// When it began, as a tick is named.
        at: Tick,
    },
    /// Where reading a split starts, resolved once by its rule.
    Start {
        /// The split.
        split: S,
        /// The position of its first record.
        start: S::Position,
    },
    /// It was learnt what a split is.
    Identified {
        /// The split.
        split: S,
        /// All that is known of it.
        identity: S::Identity,
    },
    /// A tick is over.
    Binding(Binding<S>),
    /// A split that was quarantined is read again, from where it failed.
    Readmitted(S),
    /// The position of a split is not kept any more.
    Forgotten(S),
    /// All that the records before say.
    Snapshot(Snapshot<S>),
}

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("binding log {name}: {message}")]
pub struct LogError {
    /// The log, as a person knows it.
    pub name: String,
    /// What happened and what was expected.
    pub message: String,
    /// What the storage reported.
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}
