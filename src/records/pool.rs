//! Memory of batches that are gone, for those to come.

use bytemuck::Pod;
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};

/// How many vectors wait at most.
///
/// As many as there are batches between the reader that makes them and whoever drops them, while
/// nobody is behind.
const WAITING_MAX: usize = 16;

/// Vectors that come back, from whichever thread they are dropped on.
///
/// # Invariants
///
/// What waits is empty, and of about the capacity that was asked for: at most twice as much.
#[derive(Clone, Debug)]
pub(super) struct Pool<V> {
    home: Sender<Vec<V>>,
    waiting: Receiver<Vec<V>>,
}

impl<V> Default for Pool<V> {
    fn default() -> Self {
        let (home, waiting) = bounded(WAITING_MAX);
        Self { home, waiting }
    }
}

impl<V: Pod + Send> Pool<V> {
    /// An empty vector with room for `capacity` values at least.
    pub(super) fn take(&self, capacity: usize) -> Vec<V> {
        let mut vector = self.waiting.try_recv().unwrap_or_default();
        vector.reserve(capacity);
        vector
    }

    /// The content of a vector, which comes back when nobody shares it any more. One that has grown
    /// beyond twice of `capacity` does not.
    pub(super) fn lend(&self, content: Vec<V>, capacity: usize) -> Bytes {
        let fits = content.capacity() <= 2 * capacity;
        Bytes::from_owner(Lent {
            content,
            home: fits.then(|| self.home.clone()),
        })
    }
}

/// A vector that goes back to its pool.
struct Lent<V> {
    content: Vec<V>,
    home: Option<Sender<Vec<V>>>,
}

impl<V: Pod> AsRef<[u8]> for Lent<V> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.content)
    }
}

impl<V> Drop for Lent<V> {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            let mut content = std::mem::take(&mut self.content);
            content.clear();
            // If enough wait already, or the builder is gone, it is given back to the system.
            drop(home.try_send(content));
        }
    }
}
