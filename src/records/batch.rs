//! Records of one split over shared bytes.

use std::fmt;
use std::iter::FusedIterator;
use std::slice::ChunksExact;
use std::sync::Arc;

use bytes::Bytes;
use timely::Accountable;
use timely::container::DrainContainer;

use super::entry::{ENTRY_BYTES, Entry};
use super::{BatchGuard, RecordRef};
use crate::model::{KafkaSplit, Offset};

/// Records of one split, in the order of their offsets: the container of the stream.
///
/// Cloning is cheap, since clones share the records. Iterating gives [`RecordRef`]s, which borrow
/// key, value and headers from the batch; so do timely's operators that drain a container.
/// [`Record`](super::Record)s made of it share its memory and keep all of it alive.
///
/// # Invariants
///
/// * A batch has a split if and only if it has records.
/// * Offsets increase. They need not be dense: Kafka leaves gaps where transactions end and where
///   compaction removed records.
#[derive(Clone, Default)]
pub struct RecordBatch {
    /// `None` if there are no records, so that an empty batch costs nothing.
    content: Option<Arc<BatchContent>>,
    guard: Option<Arc<BatchGuard>>,
}

/// What the clones of a batch share.
///
/// # Invariants
///
/// `index` is not empty and consists of whole entries that are valid for `payload`, and the headers
/// of every record are whole.
pub(super) struct BatchContent {
    pub(super) split: KafkaSplit,
    pub(super) index: Bytes,
    pub(super) payload: Bytes,
    /// The bytes of memory that are held for the records, with what is left over.
    memory: usize,
}

/// Equal if the records are, however they lie in memory.
impl PartialEq for BatchContent {
    fn eq(&self, other: &Self) -> bool {
        if self.split != other.split || self.index.len() != other.index.len() {
            return false;
        }
        let same = self.index == other.index && self.payload == other.payload;
        same || Records::of(self).eq(Records::of(other))
    }
}

impl RecordBatch {
    /// A batch of what upholds the invariants of [`BatchContent`], and for which `memory` bytes are
    /// held.
    pub(super) fn new(split: KafkaSplit, index: Bytes, payload: Bytes, memory: usize) -> Self {
        Self {
            content: Some(Arc::new(BatchContent {
                split,
                index,
                payload,
                memory,
            })),
            guard: None,
        }
    }

    #[inline]
    pub(super) fn content(&self) -> Option<&BatchContent> {
        self.content.as_deref()
    }

    /// The batch, holding `guard` until the last of its clones is dropped.
    ///
    /// The guard does not go with the batch to another process.
    #[must_use]
    pub(crate) fn with_guard(mut self, guard: Arc<BatchGuard>) -> Self {
        self.guard = Some(guard);
        self
    }

    /// The split that the records are of, `None` if there are no records.
    #[must_use]
    pub fn split(&self) -> Option<&KafkaSplit> {
        self.content().map(|content| &content.split)
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.content()
            .map_or(0, |content| content.index.len() / ENTRY_BYTES)
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.content.is_none()
    }

    /// The bytes that the records take as they lie in memory, and their index.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.content()
            .map_or(0, |content| content.index.len() + content.payload.len())
    }

    /// The bytes of memory that the batch keeps: its [`bytes`](Self::bytes), and as much again at most
    /// that was reserved and is left over.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.content().map_or(0, |content| content.memory)
    }

    /// The smallest offset, `None` if there are no records.
    #[must_use]
    pub fn first_offset(&self) -> Option<Offset> {
        self.iter().next().map(|record| record.offset())
    }

    /// The greatest offset, `None` if there are no records.
    #[must_use]
    pub fn last_offset(&self) -> Option<Offset> {
        self.iter().next_back().map(|record| record.offset())
    }

    /// The records, in the order of their offsets.
    #[must_use]
    #[inline]
    pub fn iter(&self) -> Records<'_> {
        match self.content() {
            Some(content) => Records::of(content),
            None => Records {
                content: None,
                entries: [].chunks_exact(ENTRY_BYTES),
            },
        }
    }

    /// The keys of the records; null is `None`.
    #[inline]
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.iter().map(|record| record.key())
    }

    /// The values of the records; null is `None`.
    #[inline]
    pub fn values(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.iter().map(|record| record.value())
    }
}

/// The records of a [`RecordBatch`], in the order of their offsets.
#[derive(Clone)]
pub struct Records<'a> {
    content: Option<&'a BatchContent>,
    entries: ChunksExact<'a, u8>,
}

impl<'a> Records<'a> {
    #[inline]
    fn of(content: &'a BatchContent) -> Self {
        Self {
            content: Some(content),
            entries: content.index.chunks_exact(ENTRY_BYTES),
        }
    }

    #[inline]
    fn record(&self, entry: &[u8]) -> Option<RecordRef<'a>> {
        // An index that came from another process need not be aligned.
        let entry = bytemuck::pod_read_unaligned::<Entry>(entry);
        self.content.map(|content| RecordRef::new(content, entry))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = RecordRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecordRef<'a>> {
        let entry = self.entries.next()?;
        self.record(entry)
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<RecordRef<'a>> {
        let entry = self.entries.nth(n)?;
        self.record(entry)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl DoubleEndedIterator for Records<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next_back()?;
        self.record(entry)
    }
}

impl ExactSizeIterator for Records<'_> {}

impl FusedIterator for Records<'_> {}

impl<'a> IntoIterator for &'a RecordBatch {
    type Item = RecordRef<'a>;
    type IntoIter = Records<'a>;

    #[inline]
    fn into_iter(self) -> Records<'a> {
        self.iter()
    }
}

impl Accountable for RecordBatch {
    fn record_count(&self) -> i64 {
        i64::try_from(self.len()).expect("a count of things in memory fits in 63 bits")
    }
}

impl DrainContainer for RecordBatch {
    type Item<'a> = RecordRef<'a>;
    type DrainIter<'a> = Records<'a>;

    /// The records. They stay in the batch, since others may share it.
    fn drain(&mut self) -> Records<'_> {
        self.iter()
    }
}

/// Batches are equal if their records are, whatever guard they hold.
impl PartialEq for RecordBatch {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl Eq for RecordBatch {}

impl fmt::Debug for RecordBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordBatch")
            .field("split", &self.split().map(tracing::field::display))
            .field("first_offset", &self.first_offset())
            .field("last_offset", &self.last_offset())
            .field("records", &self.len())
            .field("bytes", &self.bytes())
            .field("guarded", &self.guard.is_some())
            .finish()
    }
}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::records::testing::{batch, parts, split};
    use crate::records::{BatchBuilder, RecordTime, RecordTimeType};

    #[test]
    fn a_batch_shows_what_was_pushed() {
        let mut builder = BatchBuilder::new();
        let time = RecordTime {
            millis: -5,
            kind: RecordTimeType::LogAppend,
        };
        let mut first = parts(7, Some(b"k"), Some(b"value"));
        first.record_time = time;
        builder.push(&first);
        builder.push(&parts(9, None, Some(b"")));
        builder.push(&parts(12, Some(b""), None));

        let batch = builder.finish(&split("east", 3));

        assert_eq!(batch.split(), Some(&split("east", 3)));
        assert_eq!(batch.len(), 3);
        assert_eq!(batch.record_count(), 3);
        assert_eq!(batch.first_offset(), Some(Offset::new(7)));
        assert_eq!(batch.last_offset(), Some(Offset::new(12)));
        assert_eq!(batch.iter().next().unwrap().record_time(), time);
        let keys: Vec<_> = batch.keys().collect();
        assert_eq!(keys, [Some(&b"k"[..]), None, Some(b"")]);
        let values: Vec<_> = batch.values().collect();
        assert_eq!(values, [Some(&b"value"[..]), Some(b""), None]);
        assert!(builder.is_empty());
    }

    #[test]
    fn a_batch_without_records_has_no_split_and_takes_no_memory() {
        let batch = BatchBuilder::new().finish(&split("east", 0));

        assert_eq!(batch, RecordBatch::default());
        assert_eq!(batch.split(), None);
        assert_eq!(batch.last_offset(), None);
        assert_eq!(batch.bytes(), 0);
        assert_eq!(batch.iter().count(), 0);
        assert!(Accountable::is_empty(&batch));
    }

    #[test]
    fn clones_and_rows_share_the_bytes_of_a_batch() {
        let batch = batch("east", 0, 0..3);
        let value = batch.values().next().unwrap().unwrap();

        let cloned = batch.clone();
        let row = batch.iter().next().unwrap().to_record();

        let of_clone = cloned.values().next().unwrap().unwrap();
        assert_eq!(of_clone.as_ptr(), value.as_ptr());
        assert_eq!(row.value.as_ref().unwrap().as_ptr(), value.as_ptr());
        let detached = row.detached();
        assert_eq!(detached, row);
        assert_ne!(detached.value.unwrap().as_ptr(), value.as_ptr());
    }

    #[test]
    fn a_guard_gives_its_bytes_back_with_the_last_clone() {
        let in_use = Arc::new(AtomicUsize::new(0));
        let batch = batch("east", 0, 0..3);
        let guard = Arc::new(BatchGuard::new(&in_use, batch.bytes()));
        let guarded = batch.clone().with_guard(guard);
        let cloned = guarded.clone();
        let row = guarded.iter().next().unwrap().to_record();

        drop(guarded);

        assert_eq!(in_use.load(Ordering::Relaxed), batch.bytes());
        drop(cloned);
        assert_eq!(in_use.load(Ordering::Relaxed), 0);
        assert_eq!(row.offset, Offset::ZERO);
    }

    #[test]
    fn records_can_be_gone_through_from_both_ends() {
        let batch = batch("east", 0, 0..5);
        let mut records = batch.iter();

        let offsets = [
            records.next_back().unwrap().offset(),
            records.nth(1).unwrap().offset(),
            records.next().unwrap().offset(),
        ];

        assert_eq!(offsets, [4, 1, 2].map(Offset::new));
        assert_eq!(records.len(), 1);
    }
}
