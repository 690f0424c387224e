//! Memory of batches that are gone, for those to come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use bytes::Bytes;

/// How many vectors wait at most.
///
/// As many as there are batches between the reader that makes them and whoever drops them, while
/// nobody is behind.
const WAITING_MAX: usize = 16;

/// Vectors that come back, from whichever thread they are dropped on.
///
/// The one that came last goes first: it is the one that is still in a cache.
///
/// # Invariants
///
/// What waits is empty, and has room for as much as it should, and twice as much at most.
#[derive(Clone, Debug)]
pub(super) struct Pool<V> {
    capacity: usize,
    home: Home<V>,
}

/// Where vectors wait. It is locked for no longer than it takes to move one.
#[derive(Debug)]
struct Home<V>(Arc<Mutex<Vec<Vec<V>>>>);

impl<V> Home<V> {
    fn take(&self) -> Option<Vec<V>> {
        self.lock().pop()
    }

    /// Lets `vector` wait, unless enough do.
    fn put(&self, vector: Vec<V>) {
        let mut waiting = self.lock();
        if waiting.len() < WAITING_MAX {
            waiting.push(vector);
        } else {
            // It is given back to the system, which takes longer.
            drop(waiting);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Clone for Home<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V: Pod + Send> Pool<V> {
    /// A pool of vectors with room for `capacity` values.
    pub(super) fn new(capacity: usize) -> Self {
        let home = Home(Arc::default());
        Self { capacity, home }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Has `vector`, which is empty, have room.
    #[inline]
    pub(super) fn fill(&self, vector: &mut Vec<V>) {
        if vector.capacity() < self.capacity {
            let waiting = self.home.take();
            *vector = waiting.unwrap_or_else(|| Vec::with_capacity(self.capacity));
        }
    }

    /// The content of `vector`, which is empty afterwards, and the bytes of memory that it takes: at most
    /// twice as many as it has.
    ///
    /// If it fills half of its memory, that comes back when nobody shares the content any more.
    /// Otherwise it is copied.
    pub(super) fn finish(&self, vector: &mut Vec<V>) -> (Bytes, usize) {
        let has_grown = vector.capacity() > 2 * self.capacity;
        if vector.len() < vector.capacity() / 2 {
            let content = Bytes::copy_from_slice(bytemuck::cast_slice(vector));
            vector.clear();
            if has_grown {
                *vector = Vec::new();
            }
            let memory = content.len();
            return (content, memory);
        }
        let content = std::mem::take(vector);
        let memory = content.capacity() * size_of::<V>();
        let home = (!has_grown).then(|| self.home.clone());
        (Bytes::from_owner(Lent { content, home }), memory)
    }
}

/// A vector that goes back to its pool.
struct Lent<V> {
    content: Vec<V>,
    home: Option<Home<V>>,
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
            home.put(content);
        }
    }
}
