//! A log that lives as long as its process.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Appended, BindingLog, LogContents, LogError, LogRecord};
use crate::epoch::{Incarnation, LogSequence};
use crate::split::Split;

/// Keeps the records in memory: nothing survives the process.
///
/// With this log the source is exact while it runs, and starts anew after a restart. Clones share
/// the records, so a clone shows what was written, and a source that is built with it goes on. A
/// snapshot takes the place of what was before it.
#[derive(Clone, Debug)]
pub struct MemoryLog<S: Split> {
    shared: Arc<Mutex<Shared<S>>>,
}

#[derive(Debug)]
struct Shared<S: Split> {
    contents: LogContents<S>,
    incarnation: Incarnation,
}

impl<S: Split> MemoryLog<S> {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Mutex::new(Shared {
                contents: LogContents::empty(),
                incarnation: Incarnation::default(),
            })),
        }
    }

    /// What was written since the last snapshot, and that.
    #[must_use]
    pub fn records(&self) -> Vec<LogRecord<S>> {
        self.lock().contents.records.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared<S>> {
        // A writer that panicked wrote all of its records or none: the vector is whole.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Split> Default for MemoryLog<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Split> BindingLog<S> for MemoryLog<S> {
    fn read(&mut self) -> Result<LogContents<S>, LogError> {
        Ok(self.lock().contents.clone())
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<S>],
    ) -> Result<Appended, LogError> {
        let mut shared = self.lock();
        let next = shared.contents.next();
        if expected != next || shared.incarnation > incarnation {
            return Ok(Appended::Fenced);
        }
        let contents = &mut shared.contents;
        if let [LogRecord::Snapshot(_), ..] = records {
            contents.first = next;
            contents.records.clear();
        }
        contents.records.extend_from_slice(records);
        shared.incarnation = incarnation;
        Ok(Appended::Durable)
    }
}
