//! A log that lives as long as its process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::extent::Retention;
use super::outline::Outline;
use super::{Appended, BindingLog, LogError, LogExtent, LogRecord};
use crate::epoch::{Incarnation, LogSequence};
use crate::split::Split;
use crate::tick::Tick;

/// Keeps the records in memory: nothing survives the process.
///
/// With this log the source is exact while it runs, and starts anew after a restart. Clones share
/// the records, so a clone shows what was written, and a source that is built with it goes on. A
/// snapshot takes the place of what was before it, unless the past is [kept](Self::keep_for).
#[derive(Clone, Debug)]
pub struct MemoryLog<S: Split> {
    shared: Arc<Mutex<Shared<S>>>,
}

#[derive(Debug)]
struct Shared<S: Split> {
    extent: LogExtent,
    records: Vec<LogRecord<S>>,
    /// The newest run that appended.
    writer: Incarnation,
    retention: Retention,
}

impl<S: Split> MemoryLog<S> {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Mutex::new(Shared {
                extent: LogExtent::default(),
                records: Vec::new(),
                writer: Incarnation::default(),
                retention: Retention::of(Duration::ZERO),
            })),
        }
    }

    /// For how long ticks are kept before the last snapshot; by default none are. The time is that of
    /// the ticks, and with [`Duration::MAX`] everything is kept. Holds for all clones.
    #[must_use]
    pub fn keep_for(self, time: Duration) -> Self {
        self.lock().retention.keep_for = time;
        self
    }

    /// What is kept: what was written since the last snapshot, and that.
    #[must_use]
    pub fn records(&self) -> Vec<LogRecord<S>> {
        self.lock().records.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared<S>> {
        // A writer that panicked wrote all of its records or none: the vector is whole.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Split> Shared<S> {
    fn drop_old(&mut self) {
        if let Some(first) = self.retention.keep_from(&self.extent) {
            let old = first.0 - self.extent.first.0;
            // No more of them than there are records in memory.
            self.records.drain(..usize::try_from(old).unwrap_or(0));
            self.extent.drop_before(first);
        }
    }
}

impl<S: Split> Default for MemoryLog<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Split> BindingLog<S> for MemoryLog<S> {
    fn open(&mut self) -> Result<LogExtent, LogError> {
        Ok(self.lock().extent.clone())
    }

    fn read(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<S>>, LogError> {
        let shared = self.lock();
        let Some(before) = from.0.checked_sub(shared.extent.first.0) else {
            return Err(LogError::dropped("in memory", from, shared.extent.first));
        };
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        let rest = shared.records.iter().skip(before);
        Ok(rest.take(records_max.max(1)).cloned().collect())
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<S>],
    ) -> Result<Appended, LogError> {
        let mut shared = self.lock();
        if expected != shared.extent.next || shared.writer > incarnation {
            return Ok(Appended::Fenced);
        }
        shared.extent.extend(records.iter().map(Outline::of));
        shared.records.extend_from_slice(records);
        shared.writer = incarnation;
        if let [LogRecord::Snapshot(_), ..] = records {
            shared.drop_old();
        }
        Ok(Appended::Durable)
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        let mut shared = self.lock();
        shared.retention.since = shared.retention.since.max(since);
        shared.drop_old();
        Ok(())
    }
}
