//! Makes a batch of what was fetched.

use bytes::Bytes;

use super::entry::{ENTRY_BYTES, Entry, HEADER_LENGTHS_BYTES, NULL_LENGTH, length};
use super::{RecordBatch, RecordTime};
use crate::model::{KafkaSplit, Offset};

/// One record as it is put into a batch: borrowed, and without its headers.
#[derive(Clone, Copy, Debug)]
pub struct RecordParts<'a> {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub record_time: RecordTime,
    /// Its key; null is `None`, which differs from an empty key.
    pub key: Option<&'a [u8]>,
    /// Its value; null is `None`, which differs from an empty value.
    pub value: Option<&'a [u8]>,
}

/// Collects records of one split into a [`RecordBatch`].
///
/// A builder is kept and used again: it asks for as much memory as the batch before took, so that
/// batches of like size cost two allocations for their content, however many records they have.
///
/// # Invariants
///
/// The records of one batch are pushed in the order of their offsets.
///
/// # Examples
///
/// ```
/// use timely_kafka::model::{ClusterId, KafkaSplit, Offset, Partition, TopicName};
/// use timely_kafka::records::{BatchBuilder, RecordParts, RecordTime};
///
/// let split = KafkaSplit::new(ClusterId::new("east")?, TopicName::new("orders")?, Partition(0));
/// let mut builder = BatchBuilder::new();
/// builder.push(&RecordParts {
///     offset: Offset::new(41),
///     record_time: RecordTime::NOT_AVAILABLE,
///     key: None,
///     value: Some(b"two coffees"),
/// });
/// builder.push_header(b"trace", Some(b"7"));
/// let batch = builder.finish(&split);
///
/// for record in &batch {
///     assert_eq!(record.key(), None);
///     assert_eq!(record.value(), Some(&b"two coffees"[..]));
///     assert_eq!(record.headers().count(), 1);
/// }
/// # Ok::<(), timely_kafka::model::NameError>(())
/// ```
#[derive(Debug, Default)]
pub struct BatchBuilder {
    index: Vec<Entry>,
    payload: Vec<u8>,
    /// Lengths of index and payload of the batch before.
    before: (usize, usize),
}

impl BatchBuilder {
    /// A builder without records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record.
    ///
    /// # Panics
    ///
    /// If key or value have 4 GiB or more, which Kafka does not allow, and in debug builds if the
    /// offset is not greater than that of the record before.
    // Called for every record: a real call would take as long as the rest of it.
    #[inline]
    pub fn push(&mut self, record: &RecordParts<'_>) {
        debug_assert!(
            self.index
                .last()
                .is_none_or(|last| last.offset < record.offset.get()),
            "offset {} was pushed after an offset that is not smaller",
            record.offset
        );
        if self.index.is_empty() {
            self.index.reserve(self.before.0);
            self.payload.reserve(self.before.1);
        }
        self.index.push(Entry::new(
            record.offset.get(),
            record.record_time,
            self.payload.len(),
            record.key,
            record.value,
        ));
        self.payload
            .extend_from_slice(record.key.unwrap_or_default());
        self.payload
            .extend_from_slice(record.value.unwrap_or_default());
    }

    /// Adds a header to the record that was pushed last, after the headers that it has.
    ///
    /// # Panics
    ///
    /// If no record was pushed.
    pub fn push_header(&mut self, key: &[u8], value: Option<&[u8]>) {
        let record = self.index.last_mut().expect("a header follows its record");
        let content = value.unwrap_or_default();
        let value_length = value.map_or(NULL_LENGTH, length);
        self.payload.extend_from_slice(&length(key).to_ne_bytes());
        self.payload.extend_from_slice(&value_length.to_ne_bytes());
        self.payload.extend_from_slice(key);
        self.payload.extend_from_slice(content);
        record.extend_headers(HEADER_LENGTHS_BYTES + key.len() + content.len());
    }

    /// How many records were pushed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no record was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The memory, in bytes, that a batch of the records so far takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.index.len() * ENTRY_BYTES).saturating_add(self.payload.len())
    }

    /// The batch of the records so far, which are of `split`. The builder is empty afterwards.
    #[must_use]
    pub fn finish(&mut self, split: &KafkaSplit) -> RecordBatch {
        if self.is_empty() {
            return RecordBatch::default();
        }
        self.before = (self.index.len(), self.payload.len());
        let mut index = std::mem::take(&mut self.index);
        let mut payload = std::mem::take(&mut self.payload);
        trim(&mut index);
        trim(&mut payload);
        RecordBatch::new(
            split.clone(),
            Bytes::from_owner(Index(index)),
            payload.into(),
        )
    }
}

/// Gives memory back that more than a quarter of the content would be wasted on.
fn trim<V>(content: &mut Vec<V>) {
    if content.capacity() - content.len() > content.len() / 4 {
        content.shrink_to_fit();
    }
}

/// The finished index, as bytes.
struct Index(Vec<Entry>);

impl AsRef<[u8]> for Index {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::testing::{parts, split};

    #[test]
    fn a_batch_like_the_one_before_asks_for_memory_once() {
        let mut builder = BatchBuilder::new();
        for offset in 0..1_000 {
            builder.push(&parts(offset, Some(b"key"), Some(b"value")));
        }
        let bytes = builder.bytes();
        let batch = builder.finish(&split("east", 0));

        builder.push(&parts(1_000, Some(b"key"), Some(b"value")));

        assert_eq!(batch.bytes(), bytes);
        assert!(builder.index.capacity() >= 1_000);
        assert!(builder.payload.capacity() >= 8_000);
    }

    #[test]
    fn memory_follows_the_size_of_the_batch_before() {
        let mut builder = BatchBuilder::new();
        builder.push(&parts(0, None, Some(&vec![7; 1 << 20])));
        drop(builder.finish(&split("east", 0)));
        builder.push(&parts(1, None, Some(b"small")));
        assert!(builder.payload.capacity() >= 1 << 20);

        drop(builder.finish(&split("east", 0)));
        builder.push(&parts(2, None, Some(b"small")));

        assert!(builder.payload.capacity() < 100);
    }

    #[test]
    #[should_panic(expected = "a header follows its record")]
    fn a_header_without_a_record_is_a_bug() {
        BatchBuilder::new().push_header(b"trace", None);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "offset 4 was pushed after an offset that is not smaller")]
    fn a_record_out_of_order_is_a_bug() {
        let mut builder = BatchBuilder::new();
        builder.push(&parts(4, None, None));

        builder.push(&parts(4, None, None));
    }
}
