//! Records as they are on the disk: protobuf messages, so that fields can be added.

mod messages;

use prost::Message;

use self::messages::{
    BindingMessage, EndMessage, ErrorMessage, FirstMessage, FrameMessage, IdentityMessage, Kind,
    MetadataMessage, PositionMessage, RangeMessage, RecordMessage, SnapshotMessage,
};
use super::{LogRecord, Stored, StoredError};
use crate::binding::{Binding, SplitError, SplitRange};
use crate::coordinator::{Snapshot, SplitSnapshot};
use crate::epoch::{Incarnation, MetadataEpoch, SplitEpoch};
use crate::loss::Aftermath;
use crate::split::Split;
use crate::tick::Tick;

/// The bytes of `records`.
pub(super) fn encode<S>(records: &[LogRecord<S>]) -> Vec<u8>
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    let records = records.iter().map(message).collect();
    FrameMessage { records }.encode_to_vec()
}

/// The records of `bytes`.
pub(super) fn decode<S>(bytes: &[u8]) -> Result<Vec<LogRecord<S>>, StoredError>
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    let frame = FrameMessage::decode(bytes)
        .map_err(|error| StoredError::new("record", error.to_string()))?;
    frame.records.into_iter().map(record).collect()
}

fn message<S>(record: &LogRecord<S>) -> RecordMessage
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    let kind = match record {
        LogRecord::Incarnation(incarnation) => Kind::Incarnation(incarnation.0),
        LogRecord::Reserved(tick) => Kind::Reserved(tick.0),
        LogRecord::ReservedEpochs(epoch) => Kind::ReservedEpochs(epoch.0),
        LogRecord::Metadata {
            epoch,
            metadata,
            target,
            at,
        } => {
            let message = MetadataMessage {
                epoch: epoch.0,
                metadata: metadata.store(),
                at: at.0,
                target: target.as_ref().map(Stored::store),
            };
            match target {
                None => Kind::Metadata(message),
                Some(_) => Kind::Interim(message),
            }
        }
        LogRecord::End { split, end } => Kind::End(EndMessage {
            split: split.store(),
            end: end.as_ref().map(Stored::store),
        }),
        LogRecord::Start { split, start, stop } => {
            let start = PositionMessage {
                split: split.store(),
                position: start.store(),
                stop: stop.as_ref().map(Stored::store),
                ..PositionMessage::default()
            };
            match stop {
                None => Kind::Start(start),
                Some(_) => Kind::Stretch(start),
            }
        }
        LogRecord::AllFound => Kind::AllFound(true),
        LogRecord::Identified { split, identity } => Kind::Identified(IdentityMessage {
            split: split.store(),
            identity: identity.store(),
        }),
        LogRecord::Binding(binding) => Kind::Binding(binding_message(binding)),
        LogRecord::Readmitted(split) => Kind::Readmitted(split.store()),
        LogRecord::Forgotten(split) => Kind::Forgotten(split.store()),
        LogRecord::Paused(split) => Kind::Paused(split.store()),
        LogRecord::Resumed(split) => Kind::Resumed(split.store()),
        LogRecord::Snapshot(snapshot) => Kind::Snapshot(snapshot_message(snapshot)),
    };
    RecordMessage { kind: Some(kind) }
}

fn binding_message<S>(binding: &Binding<S>) -> BindingMessage
where
    S: Split<Position: Stored> + Stored,
{
    let ranges = binding.ranges.iter().map(|range| RangeMessage {
        split: range.split.store(),
        from: range.from.store(),
        to: range.to.store(),
    });
    let errors = binding.errors.iter().map(|error| {
        let (next, other, stop) = match &error.then {
            Aftermath::Stays => (None, None, None),
            Aftermath::Skipped(to) => (Some(to), None, None),
            Aftermath::StartedOver { split, start, stop } => {
                (Some(start), Some(split), stop.as_ref())
            }
        };
        ErrorMessage {
            split: error.split.store(),
            position: error.position.store(),
            message: error.message.clone(),
            next: next.map(Stored::store),
            started_over: other.map(Stored::store),
            stop: stop.map(Stored::store),
        }
    });
    BindingMessage {
        tick: binding.tick.0,
        ranges: ranges.collect(),
        errors: errors.collect(),
    }
}

fn snapshot_message<S>(snapshot: &Snapshot<S>) -> SnapshotMessage
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    let metadata = snapshot.metadata.as_ref();
    let splits = snapshot.splits.iter().map(|one| PositionMessage {
        split: one.split.store(),
        position: one.position.store(),
        quarantined: one.quarantined,
        paused: one.paused,
        identity: one.identity.as_ref().map(Stored::store),
        unlisted_since: one.unlisted_since.map(|tick| tick.0),
        stop: one.stop.as_ref().map(Stored::store),
        end: one.end.as_ref().map(Stored::store),
    });
    SnapshotMessage {
        version: snapshot.version,
        incarnation: snapshot.incarnation.0,
        reserved: snapshot.reserved.0,
        bound: snapshot.bound.map(|tick| tick.0),
        metadata: metadata.map(|(epoch, metadata)| MetadataMessage {
            epoch: epoch.0,
            metadata: metadata.store(),
            at: 0,
            target: snapshot.target.as_ref().map(Stored::store),
        }),
        count: snapshot.count,
        splits: splits.collect(),
        rewound: snapshot.rewound,
        split_epochs: snapshot.split_epochs.0,
        first: Some(FirstMessage {
            metadata: snapshot.first.as_ref().map(Stored::store),
        }),
        all_found: snapshot.all_found,
    }
}

fn record<S>(message: RecordMessage) -> Result<LogRecord<S>, StoredError>
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    // A kind that this version does not know is not skipped: it may change what the others mean.
    let kind = message.kind.ok_or_else(|| {
        StoredError::new(
            "record",
            "its kind is not known; expected one of this version: use the version that wrote it",
        )
    })?;
    Ok(match kind {
        Kind::Incarnation(incarnation) => LogRecord::Incarnation(Incarnation(incarnation)),
        Kind::Reserved(tick) => LogRecord::Reserved(Tick(tick)),
        Kind::ReservedEpochs(epoch) => LogRecord::ReservedEpochs(SplitEpoch(epoch)),
        Kind::Metadata(metadata) | Kind::Interim(metadata) => LogRecord::Metadata {
            epoch: MetadataEpoch(metadata.epoch),
            metadata: S::Metadata::restore(&metadata.metadata)?,
            target: restore_some(metadata.target)?,
            at: Tick(metadata.at),
        },
        Kind::End(ended) => LogRecord::End {
            split: S::restore(&ended.split)?,
            end: restore_some(ended.end)?,
        },
        Kind::Identified(identified) => LogRecord::Identified {
            split: S::restore(&identified.split)?,
            identity: S::Identity::restore(&identified.identity)?,
        },
        Kind::Start(start) | Kind::Stretch(start) => LogRecord::Start {
            split: S::restore(&start.split)?,
            start: S::Position::restore(&start.position)?,
            stop: restore_some(start.stop)?,
        },
        Kind::AllFound(_) => LogRecord::AllFound,
        Kind::Binding(binding) => LogRecord::Binding(restore_binding(binding)?),
        Kind::Readmitted(split) => LogRecord::Readmitted(S::restore(&split)?),
        Kind::Forgotten(split) => LogRecord::Forgotten(S::restore(&split)?),
        Kind::Paused(split) => LogRecord::Paused(S::restore(&split)?),
        Kind::Resumed(split) => LogRecord::Resumed(S::restore(&split)?),
        Kind::Snapshot(snapshot) => LogRecord::Snapshot(restore_snapshot(snapshot)?),
    })
}

fn restore_some<T: Stored>(bytes: Option<Vec<u8>>) -> Result<Option<T>, StoredError> {
    bytes.as_deref().map(T::restore).transpose()
}

fn restore_binding<S>(message: BindingMessage) -> Result<Binding<S>, StoredError>
where
    S: Split<Position: Stored> + Stored,
{
    let ranges = message.ranges.into_iter().map(|range| {
        Ok(SplitRange {
            split: S::restore(&range.split)?,
            from: S::Position::restore(&range.from)?,
            to: S::Position::restore(&range.to)?,
        })
    });
    let errors = message.errors.into_iter().map(|error| {
        let next = error
            .next
            .as_deref()
            .map(S::Position::restore)
            .transpose()?;
        let other = error.started_over.as_deref().map(S::restore).transpose()?;
        let stop = error.stop.as_deref();
        let stop = stop.map(S::Position::restore).transpose()?;
        let then = match (next, other) {
            (Some(start), Some(split)) => Aftermath::StartedOver { split, start, stop },
            (Some(to), None) => Aftermath::Skipped(to),
            (None, _) => Aftermath::Stays,
        };
        Ok(SplitError {
            split: S::restore(&error.split)?,
            position: S::Position::restore(&error.position)?,
            message: error.message,
            then,
        })
    });
    Ok(Binding {
        tick: Tick(message.tick),
        ranges: ranges.collect::<Result<_, _>>()?,
        errors: errors.collect::<Result<_, _>>()?,
    })
}

fn restore_snapshot<S>(message: SnapshotMessage) -> Result<Snapshot<S>, StoredError>
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    let (mut metadata, mut target) = (None, None);
    if let Some(message) = message.metadata {
        let restored = S::Metadata::restore(&message.metadata)?;
        metadata = Some((MetadataEpoch(message.epoch), restored));
        target = restore_some(message.target)?;
    }
    let first = match message.first {
        Some(first) => restore_some(first.metadata)?,
        None => metadata.as_ref().map(|(_, metadata)| metadata.clone()),
    };
    let splits = message.splits.into_iter().map(|one| {
        Ok(SplitSnapshot {
            split: S::restore(&one.split)?,
            position: S::Position::restore(&one.position)?,
            quarantined: one.quarantined,
            paused: one.paused,
            identity: restore_some(one.identity)?,
            unlisted_since: one.unlisted_since.map(Tick),
            stop: restore_some(one.stop)?,
            end: restore_some(one.end)?,
        })
    });
    Ok(Snapshot {
        version: message.version,
        incarnation: Incarnation(message.incarnation),
        reserved: Tick(message.reserved),
        bound: message.bound.map(Tick),
        metadata,
        target,
        first,
        count: message.count,
        splits: splits.collect::<Result<_, _>>()?,
        rewound: message.rewound,
        split_epochs: SplitEpoch(message.split_epochs),
        all_found: message.all_found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::letters::Letter;

    #[test]
    fn what_comes_after_an_error_is_restored() {
        let aftermaths = [
            Aftermath::Stays,
            Aftermath::Skipped(7),
            Aftermath::StartedOver {
                split: Letter('b'),
                start: 3,
                stop: None,
            },
            Aftermath::StartedOver {
                split: Letter('b'),
                start: 3,
                stop: Some(9),
            },
        ];
        let errors = aftermaths.map(|then| SplitError {
            split: Letter('a'),
            position: 5,
            message: "gone".to_owned(),
            then,
        });
        let binding = Binding {
            tick: Tick(9),
            ranges: Vec::new(),
            errors: errors.into(),
        };
        let records = [LogRecord::Binding(binding)];

        let restored = decode::<Letter>(&encode(&records));

        assert_eq!(restored.unwrap(), records);
    }

    #[test]
    fn a_record_of_a_kind_that_a_newer_version_has_is_refused_with_what_to_do() {
        // A frame with one record, which has a field 17 and nothing else: a number.
        let frame = [0x0a, 0x03, 0x88, 0x01, 0x07];

        let refused = decode::<Letter>(&frame).unwrap_err().to_string();

        assert!(
            refused.contains("use the version that wrote it"),
            "{refused}"
        );
    }
}
