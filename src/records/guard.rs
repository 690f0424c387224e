//! Says when nobody holds a batch any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes taken from a shared budget until this is dropped.
///
/// Batches that carry it ([`RecordBatch::with_guard`](super::RecordBatch::with_guard)) give their
/// bytes back when the last of their clones is dropped, on whichever thread that happens. This is
/// how a source without a probe knows what its batches still take. Rows that were made of a batch
/// and kept share its memory but not its guard: what a user keeps is the user's.
#[derive(Debug)]
pub(crate) struct BatchGuard {
    in_use: Arc<AtomicUsize>,
    bytes: usize,
}

impl BatchGuard {
    /// Adds `bytes` to `in_use`; they are subtracted again when the guard is dropped.
    pub(crate) fn new(in_use: &Arc<AtomicUsize>, bytes: usize) -> Self {
        // The counter orders nothing but itself: no other memory is published with it.
        in_use.fetch_add(bytes, Ordering::Relaxed);
        Self {
            in_use: Arc::clone(in_use),
            bytes,
        }
    }
}

impl Drop for BatchGuard {
    fn drop(&mut self) {
        self.in_use.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
