//! Records for the tests of logs.

use super::{LogRecord, Stored, StoredError};
use crate::binding::{Binding, SplitError, SplitRange};
use crate::coordinator::{SNAPSHOT_VERSION, Snapshot, SplitSnapshot};
use crate::epoch::{Incarnation, MetadataEpoch, SplitEpoch};
use crate::letters::{Letter, Letters};
use crate::loss::Aftermath;
use crate::tick::Tick;

impl Stored for Letter {
    fn store(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        let text = std::str::from_utf8(bytes).ok();
        let letter = text.and_then(|text| text.chars().next());
        letter
            .map(Self)
            .ok_or_else(|| StoredError::new("letter", "it is empty or no text"))
    }
}

impl Stored for Letters {
    fn store(&self) -> Vec<u8> {
        self.0
            .iter()
            .map(|letter| letter.0)
            .collect::<String>()
            .into_bytes()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        let text =
            std::str::from_utf8(bytes).map_err(|_| StoredError::new("letters", "no text"))?;
        Ok(Self::of(text))
    }
}

pub(super) type Record = LogRecord<Letter>;

const RUN: Incarnation = Incarnation(1);

pub(super) fn binding(tick: u64, from: u64, to: u64) -> Record {
    let split = Letter('a');
    LogRecord::Binding(Binding {
        tick: Tick(tick),
        ranges: vec![SplitRange { split, from, to }],
        errors: vec![SplitError {
            split,
            position: to,
            message: "gone".to_owned(),
            then: Aftermath::Stays,
        }],
    })
}

pub(super) fn snapshot(tick: u64) -> Record {
    LogRecord::Snapshot(snapshot_of(tick))
}

/// The same, as version 2 wrote it.
pub(super) fn snapshot_2(tick: u64) -> Record {
    LogRecord::Snapshot(Snapshot {
        version: 2,
        split_epochs: SplitEpoch::default(),
        ..snapshot_3_of(tick)
    })
}

/// The same, as version 3 wrote it.
pub(super) fn snapshot_3(tick: u64) -> Record {
    LogRecord::Snapshot(snapshot_3_of(tick))
}

fn snapshot_3_of(tick: u64) -> Snapshot<Letter> {
    let mut snapshot = snapshot_4_of(tick);
    for split in &mut snapshot.splits {
        split.stop = None;
    }
    Snapshot {
        version: 3,
        all_found: false,
        ..snapshot
    }
}

/// The same, as version 4 wrote it.
pub(super) fn snapshot_4(tick: u64) -> Record {
    LogRecord::Snapshot(snapshot_4_of(tick))
}

fn snapshot_4_of(tick: u64) -> Snapshot<Letter> {
    let mut snapshot = snapshot_of(tick);
    for split in &mut snapshot.splits {
        split.end = None;
    }
    Snapshot {
        version: 4,
        target: None,
        ..snapshot
    }
}

fn snapshot_of(tick: u64) -> Snapshot<Letter> {
    Snapshot {
        version: SNAPSHOT_VERSION,
        incarnation: RUN,
        reserved: Tick(tick + 5),
        bound: Some(Tick(tick)),
        metadata: Some((MetadataEpoch(3), Letters::of("ab"))),
        target: Some(Letters::of("b")),
        first: Some(Letters::of("ab")),
        count: 1,
        splits: vec![SplitSnapshot {
            split: Letter('a'),
            position: 7,
            quarantined: true,
            paused: true,
            identity: Some(()),
            unlisted_since: Some(Tick(3)),
            stop: Some(9),
            end: Some(8),
        }],
        split_epochs: SplitEpoch(1_000),
        rewound: false,
        all_found: true,
    }
}

/// One append a line, every kind of record once at least.
pub(super) fn appends() -> Vec<Vec<Record>> {
    let split = Letter('a');
    let interim = LogRecord::Metadata {
        epoch: MetadataEpoch(4),
        metadata: Letters::of("ab"),
        target: Some(Letters::of("b")),
        at: Tick(3),
    };
    let end = Some(8);
    let mut appends = fourth_appends();
    appends.push(vec![interim, LogRecord::End { split, end }]);
    appends.push(vec![LogRecord::End { split, end: None }]);
    appends
}

/// The same, of the kinds that there were before anything was drained.
pub(super) fn fourth_appends() -> Vec<Vec<Record>> {
    let start = LogRecord::Start {
        split: Letter('c'),
        start: 5,
        stop: Some(9),
    };
    let mut appends = third_appends();
    appends.push(vec![start, LogRecord::AllFound]);
    appends
}

/// The same, of the kinds that there were before reading could stop.
pub(super) fn third_appends() -> Vec<Vec<Record>> {
    let mut appends = second_appends();
    appends.push(vec![LogRecord::ReservedEpochs(SplitEpoch(1_000))]);
    appends
}

/// The same, of the kinds that there were before split epochs were reserved.
pub(super) fn second_appends() -> Vec<Vec<Record>> {
    let split = Letter('a');
    let mut appends = first_appends();
    appends.push(vec![LogRecord::Paused(split), LogRecord::Resumed(split)]);
    appends.push(vec![LogRecord::Identified {
        split,
        identity: (),
    }]);
    appends
}

/// The same, of the kinds that there were at first.
pub(super) fn first_appends() -> Vec<Vec<Record>> {
    let metadata = LogRecord::Metadata {
        epoch: MetadataEpoch(3),
        metadata: Letters::of("ab"),
        target: None,
        at: Tick(0),
    };
    let start = LogRecord::Start {
        split: Letter('a'),
        start: 5,
        stop: None,
    };
    vec![
        vec![LogRecord::Incarnation(RUN), LogRecord::Reserved(Tick(100))],
        vec![metadata, start],
        vec![binding(1, 5, 7), LogRecord::Readmitted(Letter('a'))],
        vec![LogRecord::Forgotten(Letter('b'))],
        vec![binding(2, 7, 7)],
    ]
}
