//! Batches for the tests of this folder.

use std::ops::Range;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use super::{BatchBuilder, Record, RecordBatch, RecordParts, RecordTime, RecordTimeType, varint};
use crate::model::{ClusterId, Generation, KafkaSplit, Offset, Partition, TopicName};

pub(super) fn split(cluster: &str, partition: i32) -> KafkaSplit {
    KafkaSplit::new(
        ClusterId::new(cluster).unwrap(),
        TopicName::new("orders").unwrap(),
        Partition(partition),
    )
}

pub(super) fn parts<'a>(
    offset: u64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
) -> RecordParts<'a> {
    RecordParts {
        offset: Offset::new(offset),
        record_time: RecordTime {
            millis: 1_000,
            kind: RecordTimeType::Create,
        },
        key,
        value,
    }
}

/// Records with their offset as value.
pub(super) fn batch(cluster: &str, partition: i32, offsets: Range<u64>) -> RecordBatch {
    let mut builder = BatchBuilder::new();
    for offset in offsets {
        let value = offset.to_string();
        builder.push(&parts(offset, None, Some(value.as_bytes())));
    }
    builder.finish(&split(cluster, partition))
}

/// A batch of `rows`, which are of one split.
pub(super) fn batch_of(rows: &[Record]) -> RecordBatch {
    let mut builder = BatchBuilder::new();
    for row in rows {
        builder.push(&RecordParts {
            offset: row.offset,
            record_time: row.record_time,
            key: row.key.as_deref(),
            value: row.value.as_deref(),
        });
        for (key, value) in &row.headers {
            builder.push_header(key, value.as_deref());
        }
    }
    rows.first()
        .map_or_else(RecordBatch::default, |row| builder.finish(&row.split))
}

pub(super) fn rows_of(batch: &RecordBatch) -> Vec<Record> {
    batch.iter().map(|record| record.to_record()).collect()
}

/// Rows of one split in the order of their offsets, with gaps, and with all that a record may have.
pub(super) fn rows() -> impl Strategy<Value = Vec<Record>> {
    let part = || vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let kind = prop_oneof![
        Just(RecordTimeType::NotAvailable),
        Just(RecordTimeType::Create),
        Just(RecordTimeType::LogAppend),
    ];
    let time = (any::<i64>(), kind).prop_map(|(millis, kind)| RecordTime { millis, kind });
    let header = (
        prop_oneof![Just(Bytes::from_static(b"trace")), part()],
        option::of(part()),
    );
    let row = (
        1..1_000_u64,
        time,
        option::of(part()),
        option::of(part()),
        vec(header, 0..4),
    );
    let splits = ("[a-z]{1,9}", any::<i32>(), any::<u32>());
    (splits, vec(row, 0..30)).prop_map(|((cluster, partition, generation), rows)| {
        let split = KafkaSplit {
            generation: Generation(generation),
            ..split(&cluster, partition)
        };
        let mut next = 0;
        let record = |(gap, record_time, key, value, headers)| {
            next += gap;
            Record {
                split: split.clone(),
                offset: Offset::new(next),
                record_time,
                key,
                value,
                headers,
            }
        };
        rows.into_iter().map(record).collect()
    })
}

/// The bytes of `rows`, which are of one split and have one kind of time, as Kafka writes them.
pub(super) fn wire_of(rows: &[Record]) -> Vec<u8> {
    let first = rows.first();
    let base_offset = first.map_or(0, |row| row.offset.get()).cast_signed();
    let base_time = first.map_or(0, |row| row.record_time.millis);
    let is_appended = first.is_some_and(|row| row.record_time.kind == RecordTimeType::LogAppend);
    let mut records = Vec::new();
    for row in rows {
        let mut record = vec![0];
        varint::push(&mut record, row.record_time.millis.wrapping_sub(base_time));
        varint::push(&mut record, row.offset.get().cast_signed() - base_offset);
        push_part(&mut record, row.key.as_ref());
        push_part(&mut record, row.value.as_ref());
        varint::push(&mut record, i64::try_from(row.headers.len()).unwrap());
        for (key, value) in &row.headers {
            push_part(&mut record, Some(key));
            push_part(&mut record, value.as_ref());
        }
        varint::push(&mut records, i64::try_from(record.len()).unwrap());
        records.extend(record);
    }
    let length = u32::try_from(49 + records.len()).unwrap();
    let attributes = if is_appended { 1_u16 << 3 } else { 0 };
    let mut wire = Vec::new();
    wire.extend(base_offset.to_be_bytes());
    wire.extend(length.to_be_bytes());
    wire.extend([0, 0, 0, 5, 2, 0, 0, 0, 0]); // leader epoch, format, checksum
    wire.extend(attributes.to_be_bytes());
    wire.extend([0; 4]); // the last offset
    wire.extend(base_time.to_be_bytes());
    wire.extend(base_time.to_be_bytes());
    wire.extend([0xff; 14]); // no producer
    wire.extend(u32::try_from(rows.len()).unwrap().to_be_bytes());
    wire.extend(records);
    wire
}

fn push_part(record: &mut Vec<u8>, part: Option<&Bytes>) {
    let length = part.map_or(-1, |part| i64::try_from(part.len()).unwrap());
    varint::push(record, length);
    record.extend_from_slice(part.map_or(&[], |part| &part[..]));
}
