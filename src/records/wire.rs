//! Batches over the bytes that Kafka sends.

use bytes::Bytes;

use super::entry::Entry;
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

/// Appends an entry for each record of `wire`, in a batch of format 2 that is not compressed.
///
/// The checksum is not looked at.
pub(super) fn index(wire: &Bytes, index: &mut Vec<Entry>) -> Result<(), WireError> {
    let there = wire.len();
    let head = wire.first_chunk::<HEAD_BYTES>().ok_or(WireError::Length {
        there,
        expected: HEAD_BYTES as u64,
    })?;
    let base_offset = i64::from_be_bytes(part(head, 0));
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
    let base_time = i64::from_be_bytes(part(head, 27));
    let append_time = (attributes & LOG_APPEND_TIME != 0).then(|| RecordTime {
        millis: i64::from_be_bytes(part(head, 35)),
        kind: RecordTimeType::LogAppend,
    });
    let count = u32::from_be_bytes(part(head, 57)) as usize;
    let common = Common {
        wire,
        base_offset,
        base_time,
        append_time,
    };
    // A record has seven bytes at least, so that a count that is wrong reserves no more than there is.
    index.reserve(count.min(there / 7));
    let mut rest = &wire[HEAD_BYTES..];
    for record in 0..count {
        let entry = common
            .take_record(&mut rest)
            .ok_or(WireError::Record(record))?;
        if index.last().is_some_and(|last| last.offset >= entry.offset) {
            return Err(WireError::Record(record));
        }
        index.push(entry);
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(WireError::Record(count))
    }
}

/// What the records of one batch have in common.
struct Common<'a> {
    wire: &'a [u8],
    base_offset: i64,
    base_time: i64,
    /// The one time of them all, if the broker set it.
    append_time: Option<RecordTime>,
}

impl Common<'_> {
    #[inline]
    fn time(&self, delta: i64) -> RecordTime {
        self.append_time.unwrap_or_else(|| RecordTime {
            millis: self.base_time.wrapping_add(delta),
            kind: RecordTimeType::Create,
        })
    }

    /// The entry of the record at the front of `rest`, which it is taken off.
    #[inline]
    fn take_record(&self, rest: &mut &[u8]) -> Option<Entry> {
        let length = usize::try_from(varint::take(rest)?).ok()?;
        let left = rest.len().checked_sub(length)?;
        // Attributes, none of which is in use.
        *rest = rest.get(1..)?;
        let time = self.time(varint::take(rest)?);
        let offset = self.base_offset.checked_add(varint::take(rest)?)?;
        let key_length = varint::take(rest)?;
        let start = rest.as_ptr().addr() - self.wire.as_ptr().addr();
        let key = part_of(rest, key_length)?;
        let before_length = rest.len();
        let value_length = varint::take(rest)?;
        let value_gap = gap(before_length - rest.len())?;
        let value = part_of(rest, value_length)?;
        let before_count = rest.len();
        let count = varint::take(rest)?;
        let headers_gap = gap(before_count - rest.len())?;
        let headers_length = rest.len().checked_sub(left)?;
        let (headers, after) = rest.split_at_checked(headers_length)?;
        let count = usize::try_from(count).ok()?;
        // Most have no headers.
        let is_whole = if count == 0 {
            headers.is_empty()
        } else {
            Headers::new(headers).whole() == Some(count)
        };
        if !is_whole {
            return None;
        }
        *rest = after;
        let offset = u64::try_from(offset).ok()?;
        let headers_length = u32::try_from(headers_length).ok()?;
        let entry = Entry::new(offset, time, start, key, value);
        Some(entry.with_gaps(value_gap, headers_gap, headers_length))
    }
}

/// The bytes that a number of 32 bits took; `None` if it has more.
#[inline]
fn gap(bytes: usize) -> Option<u32> {
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes <= NUMBER_BYTES)
}

/// Takes `length` bytes off the front of `record`, `None` inside if it is that of null.
#[inline]
#[expect(clippy::option_option, reason = "damage is not null")]
fn part_of<'a>(record: &mut &'a [u8], length: i64) -> Option<Option<&'a [u8]>> {
    if length == -1 {
        return Some(None);
    }
    let (part, rest) = record.split_at_checked(usize::try_from(length).ok()?)?;
    *record = rest;
    Some(Some(part))
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
