//! A log that lives as long as its process.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Appended, BindingLog, LogContents, LogError, LogRecord};
use crate::epoch::{Incarnation, LogSequence};
use crate::split::Split;

/// Keeps the records in memory: nothing survives the process.
///
/// With this log the source is exact while it runs, and starts anew after a restart. Clones share
/// the records, so a clone shows what was written.
#[derive(Clone, Debug)]
pub struct MemoryLog<S: Split> {
    records: Arc<Mutex<Vec<LogRecord<S>>>>,
}

impl<S: Split> MemoryLog<S> {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self {
            records: Arc::default(),
        }
    }

    /// What was written so far.
    #[must_use]
    pub fn records(&self) -> Vec<LogRecord<S>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<LogRecord<S>>> {
        // A writer that panicked wrote all of its records or none: the vector is whole.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Split> Default for MemoryLog<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Split> BindingLog<S> for MemoryLog<S> {
    fn read(&mut self) -> Result<LogContents<S>, LogError> {
        Ok(LogContents::since_the_beginning(self.records()))
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<S>],
    ) -> Result<Appended, LogError> {
        let mut written = self.lock();
        let newest = written.iter().rev().find_map(|record| match record {
            LogRecord::Incarnation(newest) => Some(*newest),
            LogRecord::Snapshot(snapshot) => Some(snapshot.incarnation),
            LogRecord::Reserved(_)
            | LogRecord::Metadata { .. }
            | LogRecord::Start { .. }
            | LogRecord::Binding(_)
            | LogRecord::Readmitted(_)
            | LogRecord::Forgotten(_) => None,
        });
        if newest.is_some_and(|newest| newest > incarnation) || written.len() as u64 != expected.0 {
            return Ok(Appended::Fenced);
        }
        written.extend_from_slice(records);
        Ok(Appended::Durable)
    }
}
