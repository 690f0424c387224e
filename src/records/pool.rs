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
/// What waits is empty, and has room for as much as it should, and twice as much at most.
#[derive(Clone, Debug)]
pub(super) struct Pool<V> {
    capacity: usize,
    home: Sender<Vec<V>>,
    waiting: Receiver<Vec<V>>,
}

impl<V: Pod + Send> Pool<V> {
    /// A pool of vectors with room for `capacity` values.
    pub(super) fn new(capacity: usize) -> Self {
        let (home, waiting) = bounded(WAITING_MAX);
        Self {
            capacity,
            home,
            waiting,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Has `vector`, which is empty, have room.
    #[inline]
    pub(super) fn fill(&self, vector: &mut Vec<V>) {
        if vector.capacity() < self.capacity {
            *vector =
                (self.waiting.try_recv()).unwrap_or_else(|_| Vec::with_capacity(self.capacity));
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
