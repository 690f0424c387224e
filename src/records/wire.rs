//! Batches over the bytes that Kafka sends.

use super::entry::{Entry, Part};
use super::record_ref::Headers;
use super::{RecordTime, RecordTimeType, varint};

/// What is wrong with the bytes of a record batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// It ends within its head, or has another length than its head says.
    #[error("a record batch has {there} bytes, expected {expected}")]
    Length {
        /// How many there are.
        there: usize,
        /// How many there should be, at least if there is not a whole head.
        expected: u64,
    },
    /// It is in a format that has its records elsewhere.
    #[error(
        "a record batch is in format {0}, expected 2; those before it were last written by Kafka 0.10"
    )]
    Format(u8),
    /// Its records are compressed; they are to be taken out first.
    #[error("the records of a batch are compressed (codec {0}): decompress them before")]
    Compressed(u16),
    /// It marks the end of a transaction and holds no records.
    #[error("a record batch is a marker of a transaction: there are no records in it")]
    Control,
    /// One of its records ends elsewhere than it says, or has lengths that cannot be.
    #[error("record {0} of a batch is damaged")]
    Record(usize),
}

/// The bytes before the first record.
pub(super) const HEAD_BYTES: usize = 61;

/// The bytes before those that the length in the head counts.
const UNCOUNTED_BYTES: u64 = 12;

/// The most bytes of a number of 32 bits.
const NUMBER_BYTES: u32 = 5;

const CODEC: u16 = 0b111;
const LOG_APPEND_TIME: u16 = 1 << 3;
const CONTROL: u16 = 1 << 5;

/// A batch of format 2 that is not compressed, whose head was looked at.
///
/// Its checksum is not.
pub(super) struct WireBatch<'a> {
    wire: &'a [u8],
    base_offset: i64,
    base_time: RecordTime,
    /// What of a record's own time counts: nothing, if the broker has set one for all.
    time_mask: i64,
    /// How many records there are, as the head says.
    count: usize,
}

impl<'a> WireBatch<'a> {
    pub(super) fn of(wire: &'a [u8]) -> Result<Self, WireError> {
        let there = wire.len();
        let head = wire.first_chunk::<HEAD_BYTES>().ok_or(WireError::Length {
            there,
            expected: HEAD_BYTES as u64,
        })?;
        // Negative, it is an error below: nothing is that long.
        let length = i32::from_be_bytes(part(head, 8));
        let expected = u64::try_from(length).map_or(u64::MAX, |length| length + UNCOUNTED_BYTES);
        if head[16] != 2 {
            return Err(WireError::Format(head[16]));
        }
        if expected != there as u64 {
            return Err(WireError::Length { there, expected });
        }
        let attributes = u16::from_be_bytes(part(head, 21));
        if attributes & CODEC != 0 {
            return Err(WireError::Compressed(attributes & CODEC));
        }
        if attributes & CONTROL != 0 {
            return Err(WireError::Control);
        }
        let (kind, at, time_mask) = if attributes & LOG_APPEND_TIME == 0 {
            (RecordTimeType::Create, 27, -1)
        } else {
            (RecordTimeType::LogAppend, 35, 0)
        };
        Ok(Self {
            wire,
            base_offset: i64::from_be_bytes(part(head, 0)),
            base_time: RecordTime {
                millis: i64::from_be_bytes(part(head, at)),
                kind,
            },
            time_mask,
            count: u32::from_be_bytes(part(head, 57)) as usize,
        })
    }

    /// No fewer than there are records, and no more than there is room for in the bytes.
    pub(super) fn records_max(&self) -> usize {
        // A record has seven bytes at least.
        self.count.min(self.wire.len() / 7)
    }

    /// Appends an entry for each record to `index`.
    pub(super) fn index(&self, index: &mut Vec<Entry>) -> Result<(), WireError> {
        let mut at = HEAD_BYTES;
        let mut offset_min = 0;
        for record in 0..self.count {
            let next = match self.small_record(at, offset_min) {
                Some((entry, end)) => {
                    offset_min = entry.offset + 1;
                    index.push(entry);
                    Some(end)
                }
                None => self.index_record(at, &mut offset_min, index),
            };
            at = next.ok_or(WireError::Record(record))?;
        }
        if at == self.wire.len() {
            Ok(())
        } else {
            Err(WireError::Record(self.count))
        }
    }

    /// Appends the entry of the record that begins at `at`, and says where it ends.
    ///
    /// Apart from where small records are appended, so that entries of those are made where they stay.
    #[cold]
    #[inline(never)]
    fn index_record(
        &self,
        at: usize,
        offset_min: &mut u64,
        index: &mut Vec<Entry>,
    ) -> Option<usize> {
        let (entry, end) = self.record(at)?;
        if entry.offset < *offset_min {
            return None;
        }
        *offset_min = entry.offset + 1;
        index.push(entry);
        Some(end)
    }

    /// The entry of the record that begins at `at`, and where it ends, if it is as nearly all are:
    /// without headers, with numbers of one or two bytes, and with an offset from `offset_min` on.
    ///
    /// [`record`](Self::record) comes to the same and costs more. Here numbers are taken in a
    /// register and not byte by byte, so little is kept meanwhile that all of it is in registers, and where
    /// the next one begins is known before the rest of this one is, so that both can be under way.
    #[inline]
    fn small_record(&self, at: usize, offset_min: u64) -> Option<(Entry, usize)> {
        let mut numbers = SmallNumbers::at(self.wire, at)?;
        let length = Part::of_number(numbers.take()?)?;
        let end = at + (numbers.taken + length.length) as usize;
        // Attributes, none of which is in use.
        numbers.skip();
        let time = varint::signed(numbers.take()?);
        let offset = varint::signed(numbers.take()?);
        let key = Part::of_number(numbers.take()?)?;
        let start = at + numbers.taken_of_them()? as usize;

        let key_end = start + key.length as usize;
        let mut behind_key = SmallNumbers::at(self.wire, key_end)?;
        let value = Part::of_number(behind_key.take()?)?;
        let value_gap = behind_key.taken_of_them()?;

        let headers = key_end + (value_gap + value.length) as usize;
        let has_headers = *self.wire.get(headers)? != 0;
        let offset = self.offset(offset)?;
        // Null is no length of a record, and would be the same as zero, which none has.
        if has_headers || headers + 1 != end || offset < offset_min {
            return None;
        }
        let entry = Entry::new(offset, self.time(time), start, key, value);
        Some((entry.with_gaps(value_gap, 1, 0), end))
    }

    /// The entry of the record that begins at `at`, whatever it is like, and where it ends.
    fn record(&self, at: usize) -> Option<(Entry, usize)> {
        let mut rest = self.wire.get(at..)?;
        let length = usize::try_from(varint::take(&mut rest)?).ok()?;
        let left = rest.len().checked_sub(length)?;
        // Attributes, none of which is in use.
        rest = rest.get(1..)?;
        let time = varint::take(&mut rest)?;
        let offset = varint::take(&mut rest)?;
        let key_length = varint::take(&mut rest)?;
        let start = self.wire.len() - rest.len();
        let key = take_part(&mut rest, key_length)?;
        let before_length = rest.len();
        let value_length = varint::take(&mut rest)?;
        let value_gap = gap(before_length - rest.len())?;
        let value = take_part(&mut rest, value_length)?;
        let before_count = rest.len();
        let count = usize::try_from(varint::take(&mut rest)?).ok()?;
        let headers_gap = gap(before_count - rest.len())?;
        let headers_length = rest.len().checked_sub(left)?;
        let headers = rest.get(..headers_length)?;
        if Headers::new(headers).whole() != Some(count) {
            return None;
        }
        let headers_length = u32::try_from(headers_length).ok()?;
        let entry = Entry::new(self.offset(offset)?, self.time(time), start, key, value);
        let entry = entry.with_gaps(value_gap, headers_gap, headers_length);
        Some((entry, self.wire.len() - left))
    }

    /// The offset that is `delta` behind that of the batch.
    #[inline]
    fn offset(&self, delta: i64) -> Option<u64> {
        u64::try_from(self.base_offset.checked_add(delta)?).ok()
    }

    /// The time that is `delta` behind that of the batch.
    #[inline]
    fn time(&self, delta: i64) -> RecordTime {
        RecordTime {
            millis: self.base_time.millis.wrapping_add(delta & self.time_mask),
            kind: self.base_time.kind,
        }
    }
}

/// Numbers of one or two bytes, in a register.
struct SmallNumbers {
    rest: u64,
    /// How many bytes were taken, of those too that are not there and are taken for zeros.
    taken: u32,
}

impl SmallNumbers {
    /// Those at `at`, if there are enough bytes to fill the register.
    #[inline]
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let bytes = bytes.get(at..)?.first_chunk()?;
        Some(Self {
            rest: u64::from_le_bytes(*bytes),
            taken: 0,
        })
    }

    /// The next number, with the sign where it is; `None` if it has more bytes.
    #[inline]
    fn take(&mut self) -> Option<u64> {
        let rest = self.rest;
        if rest & 0x80 == 0 {
            self.skip();
            Some(rest & 0x7f)
        } else if rest & 0x8000 == 0 {
            self.rest >>= 16;
            self.taken += 2;
            Some(rest & 0x7f | rest >> 1 & 0x3f80)
        } else {
            None
        }
    }

    /// Takes a byte.
    #[inline]
    fn skip(&mut self) {
        self.rest >>= 8;
        self.taken += 1;
    }

    /// How many bytes were taken; `None` if not all of them are there.
    #[inline]
    fn taken_of_them(&self) -> Option<u32> {
        Some(self.taken).filter(|taken| *taken <= u64::BITS / 8)
    }
}

/// The bytes that a number of 32 bits took; `None` if it has more.
fn gap(bytes: usize) -> Option<u32> {
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes <= NUMBER_BYTES)
}

/// Takes the part that is `length` bytes long off the front of `record`.
fn take_part(record: &mut &[u8], length: i64) -> Option<Part> {
    if length == -1 {
        return Some(Part::NULL);
    }
    let (part, rest) = record.split_at_checked(usize::try_from(length).ok()?)?;
    *record = rest;
    Some(Part::of(Some(part)))
}

/// The field of a head at `at`.
#[inline]
fn part<const N: usize>(head: &[u8; HEAD_BYTES], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&head[at..at + N]);
    bytes
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::collection::vec;
    use proptest::prelude::{any, proptest};
    use proptest::sample::Index;
    use timely::bytes::arc::BytesMut;
    use timely::dataflow::channels::ContainerBytes;

    use super::*;
    use crate::records::testing::{batch_of, rows, rows_of, split, wire_of};
    use crate::records::{BatchBuilder, Record, RecordBatch};

    fn shared(wire: &[u8]) -> Result<RecordBatch, WireError> {
        BatchBuilder::new().share(&split("east", 0), Bytes::copy_from_slice(wire))
    }

    /// The rows as one batch can hold them: of one split, with one kind of time.
    fn of_one_kind(rows: Vec<Record>, appended: bool) -> Vec<Record> {
        let first = rows.first().map(|row| row.record_time.millis);
        let time = |row: &Record| RecordTime {
            millis: first.filter(|_| appended).unwrap_or(row.record_time.millis),
            kind: if appended {
                RecordTimeType::LogAppend
            } else {
                RecordTimeType::Create
            },
        };
        rows.into_iter()
            .map(|row| Record {
                record_time: time(&row),
                split: split("east", 0),
                ..row
            })
            .collect()
    }

    fn sent(batch: &RecordBatch) -> RecordBatch {
        let mut frame = Vec::new();
        batch.into_bytes(&mut frame);
        RecordBatch::from_bytes(BytesMut::from(frame).freeze())
    }

    proptest! {
        #[test]
        fn the_records_of_a_wire_batch_are_its_records(rows in rows(), appended: bool) {
            let rows = of_one_kind(rows, appended);
            let wire = Bytes::from(wire_of(&rows));
            let bytes = wire.as_ptr_range();

            let batch = BatchBuilder::new().share(&split("east", 0), wire).unwrap();

            assert_eq!(rows_of(&batch), rows);
            assert_eq!(batch, batch_of(&rows), "it is equal to one that was copied");
            for value in batch.values().flatten().filter(|value| !value.is_empty()) {
                assert!(bytes.contains(&value.as_ptr()), "it is copied");
            }
        }

        #[test]
        fn damaged_bytes_are_refused_or_read_within_their_bounds(
            rows in rows(),
            damage in vec((any::<Index>(), any::<u8>()), 1..6),
            cut in any::<Index>(),
            cutting: bool,
        ) {
            let mut wire = wire_of(&of_one_kind(rows, false));
            for (at, byte) in damage {
                let at = at.index(wire.len());
                wire[at] = byte;
            }
            if cutting {
                wire.truncate(cut.index(wire.len()));
            }

            if let Ok(batch) = WireBatch::of(&wire) {
                for at in 0..wire.len() {
                    if let Some(found) = batch.small_record(at, 0) {
                        assert_eq!(batch.record(at), Some(found), "at {at}");
                    }
                }
            }
            if let Ok(batch) = shared(&wire) {
                // Whatever it came to can be sent to another process.
                assert_eq!(sent(&batch), batch);
                assert_eq!(rows_of(&sent(&batch)), rows_of(&batch));
            }
        }
    }

    #[test]
    fn what_is_no_batch_of_records_is_refused_with_words() {
        let row = |value: u8| Record {
            split: split("east", 0),
            offset: crate::model::Offset::new(u64::from(value)),
            record_time: RecordTime {
                millis: 5,
                kind: RecordTimeType::Create,
            },
            key: None,
            value: Some(Bytes::copy_from_slice(&[value])),
            headers: Vec::new(),
        };
        let whole = wire_of(&[row(1), row(2)]);
        assert_eq!(shared(&whole).unwrap().len(), 2);
        let with = |at: usize, byte: u8| {
            let mut wire = whole.clone();
            wire[at] = byte;
            wire
        };
        let there = whole.len();
        // No headers is said by a count of zero; here it is one below, and what follows is no header.
        let mut headers_without_end = with(there - 1, 1);
        headers_without_end.push(9);
        headers_without_end[11] += 1;
        let record_length = there - 8;
        headers_without_end[record_length] += 2;
        let cases = [
            (
                whole[..60].to_vec(),
                WireError::Length {
                    there: 60,
                    expected: 61,
                },
            ),
            (
                whole[..there - 1].to_vec(),
                WireError::Length {
                    there: there - 1,
                    expected: there as u64,
                },
            ),
            (with(16, 1), WireError::Format(1)),
            (with(22, 4), WireError::Compressed(4)),
            (with(22, 1 << 5), WireError::Control),
            (with(60, 1), WireError::Record(1)),
            (with(60, 3), WireError::Record(2)),
            (with(61, 100), WireError::Record(0)),
            (headers_without_end, WireError::Record(1)),
        ];
        for (wire, error) in cases {
            assert_eq!(shared(&wire), Err(error.clone()), "{error}");
        }
    }
}
