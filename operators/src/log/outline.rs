//! What has to be known of records to find one's way in a log, without what they say.

use prost::Message;

use super::{LogRecord, StoredError};
use crate::epoch::Incarnation;
use crate::split::Split;
use crate::tick::Tick;

/// What kind of record it is, as far as that matters for finding records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outline {
    Incarnation(Incarnation),
    Snapshot {
        incarnation: Incarnation,
        bound: Option<Tick>,
    },
    Other,
}

impl Outline {
    pub(super) fn of<S: Split>(record: &LogRecord<S>) -> Self {
        match record {
            LogRecord::Incarnation(incarnation) => Self::Incarnation(*incarnation),
            LogRecord::Snapshot(snapshot) => Self::Snapshot {
                incarnation: snapshot.incarnation,
                bound: snapshot.bound,
            },
            LogRecord::Reserved(_)
            | LogRecord::ReservedEpochs(_)
            | LogRecord::Metadata { .. }
            | LogRecord::Start { .. }
            | LogRecord::End { .. }
            | LogRecord::AllFound
            | LogRecord::Identified { .. }
            | LogRecord::Binding(_)
            | LogRecord::Readmitted(_)
            | LogRecord::Forgotten(_)
            | LogRecord::Paused(_)
            | LogRecord::Resumed(_) => Self::Other,
        }
    }
}

/// A frame's payload, with only those fields of `record.rs` that are looked at here.
#[derive(Clone, PartialEq, Message)]
struct FrameOutline {
    #[prost(message, repeated, tag = "1")]
    records: Vec<RecordOutline>,
}

#[derive(Clone, PartialEq, Message)]
struct RecordOutline {
    #[prost(uint64, optional, tag = "1")]
    incarnation: Option<u64>,
    #[prost(message, optional, tag = "8")]
    snapshot: Option<SnapshotOutline>,
}

#[derive(Clone, PartialEq, Message)]
struct SnapshotOutline {
    #[prost(uint64, tag = "2")]
    incarnation: u64,
    #[prost(uint64, optional, tag = "4")]
    bound: Option<u64>,
}

/// The outlines of the records of a payload.
pub(super) fn decode(payload: &[u8]) -> Result<Vec<Outline>, StoredError> {
    let frame = FrameOutline::decode(payload)
        .map_err(|error| StoredError::new("record", error.to_string()))?;
    let records = frame.records.into_iter().map(|record| match record {
        RecordOutline {
            incarnation: Some(incarnation),
            ..
        } => Outline::Incarnation(Incarnation(incarnation)),
        RecordOutline {
            snapshot: Some(snapshot),
            ..
        } => Outline::Snapshot {
            incarnation: Incarnation(snapshot.incarnation),
            bound: snapshot.bound.map(Tick),
        },
        RecordOutline { .. } => Outline::Other,
    });
    Ok(records.collect())
}
