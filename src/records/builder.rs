//! Makes a batch of what was fetched.

use bytes::Bytes;

use super::entry::{ENTRY_BYTES, Entry, Part, length};
use super::pool::Pool;
use super::wire::{WireBatch, WireError};
use super::{RecordBatch, RecordTime, varint};
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
/// A builder is kept and used again: the memory of batches that are gone is that of later ones, as
/// long as batches are about a quarter of a mebibyte. So such a batch costs a few allocations of a
/// few bytes, however many records it has. A small batch is copied into memory of its size.
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
#[derive(Debug)]
pub struct BatchBuilder {
    index: Vec<Entry>,
    payload: Vec<u8>,
    indexes: Pool<Entry>,
    payloads: Pool<u8>,
}

/// The most records of a batch that is made of pooled memory alone.
const INDEX_RECORDS: usize = 4 * 1024;

/// The bytes at which a payload is full.
const PAYLOAD_FULL_BYTES: usize = 256 * 1024;

/// The bytes that are reserved for a payload, so that few of the records that make it full make it
/// grow.
const PAYLOAD_BYTES: usize = PAYLOAD_FULL_BYTES + 64 * 1024;

impl Default for BatchBuilder {
    fn default() -> Self {
        Self {
            index: Vec::new(),
            payload: Vec::new(),
            indexes: Pool::new(INDEX_RECORDS),
            payloads: Pool::new(PAYLOAD_BYTES),
        }
    }
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
    /// If key or value have 2 GiB or more, which Kafka does not allow, and in debug builds if the
    /// offset is not greater than that of the record before.
    #[expect(
        clippy::inline_always,
        reason = "called for every record: a call, and the record handed over in memory, take as long as the rest"
    )]
    #[inline(always)]
    pub fn push(&mut self, record: &RecordParts<'_>) {
        debug_assert!(
            self.index
                .last()
                .is_none_or(|last| last.offset < record.offset.get()),
            "offset {} was pushed after an offset that is not smaller",
            record.offset
        );
        if self.index.is_empty() {
            self.indexes.fill(&mut self.index);
            self.payloads.fill(&mut self.payload);
        }
        self.index.push(Entry::new(
            record.offset.get(),
            record.record_time,
            self.payload.len(),
            Part::of(record.key),
            Part::of(record.value),
        ));
        if let Some(key) = record.key {
            self.payload.extend_from_slice(key);
        }
        if let Some(value) = record.value {
            self.payload.extend_from_slice(value);
        }
    }

    /// Adds a header to the record that was pushed last, after the headers that it has.
    ///
    /// # Panics
    ///
    /// If no record was pushed.
    pub fn push_header(&mut self, key: &[u8], value: Option<&[u8]>) {
        let record = self.index.last_mut().expect("a header follows its record");
        let mut bytes = varint::push(&mut self.payload, i64::from(length(key)));
        self.payload.extend_from_slice(key);
        let value_length = value.map_or(-1, |value| i64::from(length(value)));
        bytes += varint::push(&mut self.payload, value_length);
        let content = value.unwrap_or_default();
        self.payload.extend_from_slice(content);
        record.extend_headers(bytes + key.len() + content.len());
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

    /// Whether the next record would better be in another batch.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.index.len() >= INDEX_RECORDS || self.payload.len() >= PAYLOAD_FULL_BYTES
    }

    /// The memory, in bytes, that the records so far and their index take.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        (self.index.len() * ENTRY_BYTES).saturating_add(self.payload.len())
    }

    /// The batch of the records so far, which are of `split`. The builder is empty afterwards.
    #[must_use]
    pub fn finish(&mut self, split: &KafkaSplit) -> RecordBatch {
        if self.is_empty() {
            return RecordBatch::default();
        }
        let (index, index_memory) = self.indexes.finish(&mut self.index);
        let (payload, payload_memory) = self.payloads.finish(&mut self.payload);
        let memory = index_memory + payload_memory;
        RecordBatch::new(split.clone(), index, payload, memory)
    }

    /// A batch of the records in `wire`, whose bytes it shares: one record batch as Kafka stores and sends
    /// it, in format 2 and not compressed. Its checksum is not looked at. What was pushed stays.
    ///
    /// For whoever has such bytes; what [`push`](Self::push) copies is only indexed here.
    ///
    /// # Errors
    ///
    /// If it is not what it should be.
    pub fn share(&self, split: &KafkaSplit, wire: Bytes) -> Result<RecordBatch, WireError> {
        let batch = WireBatch::of(&wire)?;
        let mut index = self.indexes.with_room(batch.records_max());
        batch.index(&mut index)?;
        if index.is_empty() {
            return Ok(RecordBatch::default());
        }
        let (index, memory) = self.indexes.finish(&mut index);
        let memory = memory + wire.len();
        Ok(RecordBatch::new(split.clone(), index, wire, memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::testing::{parts, split};

    /// A batch of `records` records with values of 100 bytes.
    fn batch_of(builder: &mut BatchBuilder, records: u64) -> RecordBatch {
        for offset in 0..records {
            builder.push(&parts(offset, None, Some(&[7; 100])));
        }
        builder.finish(&split("east", 0))
    }

    fn place_of(batch: &RecordBatch) -> *const u8 {
        batch.values().next().unwrap().unwrap().as_ptr()
    }

    #[test]
    fn a_batch_is_made_of_the_memory_of_one_that_is_gone() {
        let mut builder = BatchBuilder::new();
        let first = batch_of(&mut builder, 2_000);
        let place = place_of(&first);
        let row = first.iter().next().unwrap().to_record();
        drop(first);

        let second = batch_of(&mut builder, 2_000);
        assert_ne!(place_of(&second), place, "a row still has it");
        drop(row);
        let third = batch_of(&mut builder, 2_000);

        assert_eq!(place_of(&third), place);
        assert_eq!(third.len(), 2_000);
        assert!((third.bytes()..=2 * third.bytes()).contains(&third.memory_bytes()));
    }

    #[test]
    fn what_came_back_last_goes_first() {
        let mut builder = BatchBuilder::new();
        let batches = [0; 3].map(|_| batch_of(&mut builder, 2_000));
        let places: Vec<_> = batches.iter().map(place_of).collect();
        for batch in batches {
            drop(batch);
        }

        let again = [0; 3].map(|_| batch_of(&mut builder, 2_000));

        let order = |place: &_| places.iter().position(|one| one == place);
        let order: Vec<_> = again.iter().map(place_of).map(|at| order(&at)).collect();
        assert_eq!(order, [Some(2), Some(1), Some(0)]);
    }

    #[test]
    fn a_small_batch_takes_what_it_needs() {
        let mut builder = BatchBuilder::new();
        for records in 1..100 {
            let batch = batch_of(&mut builder, records);

            let records = usize::try_from(records).unwrap();
            assert_eq!(batch.bytes(), records * (ENTRY_BYTES + 100));
            assert!((batch.bytes()..=2 * batch.bytes()).contains(&batch.memory_bytes()));
        }
        assert!(builder.payload.capacity() >= PAYLOAD_BYTES);
    }

    #[test]
    fn what_one_record_made_grow_is_given_back() {
        let mut builder = BatchBuilder::new();
        builder.push(&parts(0, None, Some(&vec![7; 8 << 20])));
        drop(builder.finish(&split("east", 0)));
        builder.push(&parts(1, None, Some(b"small")));

        assert!(builder.payload.capacity() < 2 * PAYLOAD_BYTES);
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
