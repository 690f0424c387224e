//! Batches for the tests of this folder.

use std::ops::Range;

use super::{BatchBuilder, RecordBatch, RecordParts, RecordTime, RecordTimeType};
use crate::model::{ClusterId, KafkaSplit, Offset, Partition, TopicName};

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
