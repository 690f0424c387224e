//! Where bindings become durable.
//!
//! The frontier passes a tick only after its binding is in a [`BindingLog`], and at once if nothing was read in it
//! and the log has all that was before. The log is a sequence of typed records, written by one incarnation at a time; what must precede an action (the start
//! of a split before its first assignment) is a record as well.

mod error;
mod extent;
mod frame;
mod local;
mod memory;
#[cfg(feature = "object-store")]
mod object;
mod outline;
mod past;
mod record;
mod stored;
#[cfg(test)]
mod testing;
mod writer;

use serde::{Deserialize, Serialize};

use crate::binding::Binding;
use crate::coordinator::Snapshot;
use crate::epoch::{Incarnation, LogSequence, MetadataEpoch, SplitEpoch};
use crate::split::Split;
use crate::tick::Tick;

pub use self::error::LogError;
pub use self::extent::{LogExtent, SnapshotAt};
pub use self::local::LocalLog;
pub use self::memory::MemoryLog;
#[cfg(feature = "object-store")]
pub use self::object::ObjectLog;
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
///   [`Appended::Unknown`] if the log cannot tell, and then [`read`](Self::read) can. The error says
///   whether it may pass.
/// * **L6 Reads from anywhere.** `open` says which records there are, and `read` gives those, from
///   whichever it is asked for, without a gap.
/// * **L7 Compacts.** `compact` drops whole records at the front only, and leaves a snapshot that says
///   nothing about ticks after `since`, if there was one, and all that follows it.
///
/// What is asked of a log is little however long it is: `open` looks at no more than where its
/// snapshots are and at what follows the last one, and a `read` at what it gives.
pub trait BindingLog<S: Split>: Send + 'static {
    /// Opens the log, unless it is open, and says what it holds.
    ///
    /// A log that lets several runs in may take this for one of them taking over: the one before is
    /// then fenced already.
    ///
    /// # Errors
    ///
    /// If the log cannot be used, is used by somebody else, or holds what it cannot have been given. It is
    /// opened again unless the error is definite.
    fn open(&mut self) -> Result<LogExtent, LogError>;

    /// The records from `from` on, of a log that is open: one at least if there is one, and about
    /// `records_max` at most.
    ///
    /// # Errors
    ///
    /// If they cannot be read, were dropped, or are not what was written. The same are asked for again
    /// unless the error is definite.
    fn read(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<S>>, LogError>;

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

    /// Allows what only ticks up to and with `since` need to be dropped: nobody asks for them again.
    ///
    /// A log may keep more, and may drop what is older than what it was set up to keep.
    ///
    /// # Errors
    ///
    /// If something could not be dropped. It is tried again when there is more to drop.
    fn compact(&mut self, since: Tick) -> Result<(), LogError>;

    /// Opens the log and reads all that it holds: for tests and tools, which know that it is short.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open) and [`read`](Self::read).
    fn read_all(&mut self) -> Result<Vec<LogRecord<S>>, LogError> {
        let first = self.open()?.first;
        read_from(self, first)
    }
}

/// How many records are read at once.
const READ_RECORDS: usize = 4_096;

/// All records from `from` on, of a log that is open.
fn read_from<S: Split>(
    log: &mut (impl BindingLog<S> + ?Sized),
    from: LogSequence,
) -> Result<Vec<LogRecord<S>>, LogError> {
    let mut records = Vec::new();
    loop {
        let next = LogSequence(from.0 + records.len() as u64);
        let more = log.read(next, READ_RECORDS)?;
        if more.is_empty() {
            return Ok(records);
        }
        records.extend(more);
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
    /// Split epochs up to this one may be assigned by the incarnation; a later one assigns none of them
    /// again.
    ReservedEpochs(SplitEpoch),
    /// A metadata epoch begins.
    Metadata {
        /// The epoch.
        epoch: MetadataEpoch,
        /// What it says.
        metadata: S::Metadata,
        /// What is in force after it, once all that this does not list is drained.
        target: Option<S::Metadata>,
        /// When it began, as a tick is named.
        at: Tick,
    },
    /// Where reading a split starts and stops, resolved once by its rules.
    Start {
        /// The split.
        split: S,
        /// The position of its first record.
        start: S::Position,
        /// Where reading stops; `None`: nowhere.
        stop: Option<S::Position>,
    },
    /// Where a split ends that is drained.
    End {
        /// The split.
        split: S,
        /// The end; `None`: it is not drained any more.
        end: Option<S::Position>,
    },
    /// Every split that a bounded source reads has a start by now: none is added.
    AllFound,
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
    /// A split is not read until it is resumed.
    Paused(S),
    /// A split is read again that was paused.
    Resumed(S),
    /// All that the records before say.
    Snapshot(Snapshot<S>),
}
