//! Memory of batches that are gone, for those to come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use bytes::Bytes;

/// How many vectors of one size wait at most.
///
/// As many as there are batches between the reader that makes them and whoever drops them, while
/// nobody is behind.
const WAITING_MAX: usize = 16;

/// How many sizes there are, each half of the one before.
const SIZES: usize = 6;

/// Vectors that come back, from whichever thread they are dropped on.
///
/// What comes from the system instead is given back to it, and taken again page by page. The one that came
/// last goes first: it is the one that is still in a cache.
///
/// # Invariants
///
/// What waits is empty, and has room for as much as it should, and twice as much at most.
#[derive(Clone, Debug)]
pub(super) struct Pool<V> {
    largest: usize,
    homes: [Home<V>; SIZES],
}

impl<V: Pod + Send> Pool<V> {
    /// A pool of vectors with room for `largest` values, and for a half, a quarter, ... of that.
    pub(super) fn new(largest: usize) -> Self {
        Self {
            largest,
            homes: Default::default(),
        }
    }

    /// Has `vector`, which is empty, have room for as much as the largest.
    #[inline]
    pub(super) fn fill(&self, vector: &mut Vec<V>) {
        if vector.capacity() < self.largest {
            *vector = self.with_room(self.largest);
        }
    }

    /// An empty vector with room for `count` values, and for twice as many at most.
    pub(super) fn with_room(&self, count: usize) -> Vec<V> {
        let sizes = (0..SIZES).map(|at| self.largest >> at).enumerate();
        let fitting = sizes.take_while(|(_, size)| *size >= count).last();
        match fitting.filter(|(_, size)| *size <= 2 * count) {
            Some((at, size)) => (self.homes[at].take())
                .filter(|waiting| waiting.capacity() <= 2 * count)
                .unwrap_or_else(|| Vec::with_capacity(size)),
            None => Vec::with_capacity(count),
        }
    }

    /// The content of `vector`, which is empty afterwards, and the bytes of memory that it takes: at most
    /// twice as many as it has.
    ///
    /// If it fills half of its memory, that comes back when nobody shares the content any more.
    /// Otherwise it is copied, to memory that does.
    pub(super) fn finish(&self, vector: &mut Vec<V>) -> (Bytes, usize) {
        let content = if vector.len() < vector.capacity() / 2 {
            let mut content = self.with_room(vector.len());
            content.extend_from_slice(vector);
            vector.clear();
            if vector.capacity() > 2 * self.largest {
                *vector = Vec::new();
            }
            content
        } else {
            std::mem::take(vector)
        };
        let memory = content.capacity() * size_of::<V>();
        let home = self.home_of(content.capacity()).cloned();
        (Bytes::from_owner(Lent { content, home }), memory)
    }

    /// Where vectors with room for `capacity` values wait.
    fn home_of(&self, capacity: usize) -> Option<&Home<V>> {
        let at = (0..SIZES).find(|at| self.largest >> at <= capacity)?;
        (capacity <= 2 * (self.largest >> at)).then(|| &self.homes[at])
    }
}

/// Where vectors of one size wait. It is locked for no longer than it takes to move one.
#[derive(Debug)]
struct Home<V>(Arc<Mutex<Vec<Vec<V>>>>);

impl<V> Home<V> {
    fn take(&self) -> Option<Vec<V>> {
        self.lock().pop()
    }

    /// Lets `vector` wait, unless enough do: then it is given back to the system.
    fn put(&self, vector: Vec<V>) {
        let mut waiting = self.lock();
        if waiting.len() < WAITING_MAX {
            waiting.push(vector);
        } else {
            drop(waiting); // The system takes longer.
            drop(vector);
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

impl<V> Default for Home<V> {
    fn default() -> Self {
        Self(Arc::default())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_takes_at_most_twice_its_bytes_and_its_memory_comes_back() {
        let pool = Pool::<u64>::new(1024);
        for count in (1..3_000).chain([5_000, 10_000]) {
            let mut vector = Vec::new();
            pool.fill(&mut vector);
            vector.extend((0..count).map(|number| number as u64));
            let (content, memory) = pool.finish(&mut vector);

            assert!(vector.is_empty());
            assert_eq!(content.len(), count * size_of::<u64>());
            assert!(
                (content.len()..=2 * content.len()).contains(&memory),
                "{count}"
            );
            let place = content.as_ptr();
            drop(content);
            let home = pool.home_of(memory / size_of::<u64>());
            assert_eq!(home.is_some(), (16..=2048).contains(&count), "{count}");
            if let Some(home) = home {
                let again = home.take().unwrap();
                assert_eq!(again.as_ptr().cast::<u8>(), place, "{count}");
                home.put(again);
            }
        }
    }

    /// One that has grown waits among the largest, and is too large for a content that just needs one of those.
    #[test]
    fn what_has_grown_is_not_taken_for_much_less() {
        let pool = Pool::<u8>::new(1024);
        let grown = [0; 3].map(|_| pool.finish(&mut vec![7; 2048]));
        drop(grown);
        let mut vector = Vec::new();
        pool.fill(&mut vector);
        assert_eq!(vector.capacity(), 2048);

        vector.extend([7; 600]);
        let (content, memory) = pool.finish(&mut vector);

        assert!((600..=1200).contains(&memory), "{memory}");
        assert_eq!(content.len(), 600);
    }

    #[test]
    fn no_more_wait_than_may() {
        let pool = Pool::<u8>::new(1024);
        let contents: Vec<_> = (0..2 * WAITING_MAX)
            .map(|_| pool.finish(&mut vec![7; 1024]))
            .collect();
        drop(contents);

        assert_eq!(pool.homes[0].lock().len(), WAITING_MAX);
    }
}
