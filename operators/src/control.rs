//! What a user can ask a running source for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::wake::Waker;

/// Asks a running source to do something, from any thread of any of its processes.
///
/// Clones speak to the same source.
#[derive(Clone, Debug, Default)]
pub struct SourceControl {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// The readers of this process.
    readers: Mutex<Vec<Waker>>,
}

impl SourceControl {
    /// A control that no source listens to yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the source: what was read is closed in a last tick, and when that is durable, the
    /// frontier becomes empty and the dataflow can end.
    ///
    /// It ends on all workers of all processes, whoever asks. Asking again does nothing.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for reader in self.lock().iter() {
            reader.wake();
        }
    }

    /// Whether the source was asked to end, in this process.
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.shared.stop.load(Ordering::SeqCst)
    }

    pub(crate) fn listen(&self, reader: Waker) {
        self.lock().push(reader);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.shared
            .readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
