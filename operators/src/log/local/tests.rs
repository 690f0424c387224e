//! A log on a disk that is cut, damaged, full and used twice.

use super::*;
use crate::binding::{Binding, SplitError, SplitRange};
use crate::conformance::{Kit, LogRig};
use crate::coordinator::{SNAPSHOT_VERSION, Snapshot, SplitSnapshot};
use crate::epoch::MetadataEpoch;
use crate::letters::{Letter, Letters};
use crate::log::StoredError;

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

impl Stored for u64 {
    fn store(&self) -> Vec<u8> {
        self.to_le_bytes().to_vec()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        let bytes = bytes
            .try_into()
            .map_err(|_| StoredError::new("number", "not eight bytes"))?;
        Ok(Self::from_le_bytes(bytes))
    }
}

type Record = LogRecord<Letter>;
type Log = LocalLog<Letter>;

const RUN: Incarnation = Incarnation(1);

fn binding(tick: u64, from: u64, to: u64) -> Record {
    let split = Letter('a');
    LogRecord::Binding(Binding {
        tick: Tick(tick),
        ranges: vec![SplitRange { split, from, to }],
        errors: vec![SplitError {
            split,
            position: to,
            message: "gone".to_owned(),
        }],
    })
}

fn snapshot(tick: u64) -> Record {
    LogRecord::Snapshot(Snapshot {
        version: SNAPSHOT_VERSION,
        incarnation: RUN,
        reserved: Tick(tick + 5),
        bound: Some(Tick(tick)),
        metadata: Some((MetadataEpoch(3), Letters::of("ab"))),
        count: 1,
        splits: vec![SplitSnapshot {
            split: Letter('a'),
            position: 7,
            quarantined: true,
            identity: Some(()),
            unlisted_since: Some(Tick(3)),
        }],
        rewound: false,
    })
}

/// One append a line, every kind of record once at least.
fn appends() -> Vec<Vec<Record>> {
    let metadata = LogRecord::Metadata {
        epoch: MetadataEpoch(3),
        metadata: Letters::of("ab"),
        at: Tick(0),
    };
    let start = LogRecord::Start {
        split: Letter('a'),
        start: 5,
    };
    vec![
        vec![LogRecord::Incarnation(RUN), LogRecord::Reserved(Tick(100))],
        vec![metadata, start],
        vec![binding(1, 5, 7), LogRecord::Readmitted(Letter('a'))],
        vec![LogRecord::Forgotten(Letter('b'))],
        vec![binding(2, 7, 7)],
    ]
}

fn write(log: &mut Log, appends: &[Vec<Record>]) -> Vec<Record> {
    let mut next = log.read().unwrap().next();
    for records in appends {
        assert_eq!(log.append(RUN, next, records).unwrap(), Appended::Durable);
        next.0 += records.len() as u64;
    }
    appends.concat()
}

fn only_segment(folder: &Path) -> PathBuf {
    folder.join(segment::name(LogSequence(0)))
}

#[test]
fn what_was_written_is_read_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(&mut Log::at(folder.path()), &appends());

    let mut again = Log::at(folder.path());

    assert_eq!(again.read().unwrap().records, written);
    assert_eq!(again.read().unwrap().records, written, "also twice");
}

#[test]
fn a_second_run_is_refused_with_the_first_one_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Log::at(folder.path());
    first.read().unwrap();

    let refused = Log::at(folder.path()).read().unwrap_err();

    let path = folder.path().display();
    let process = std::process::id();
    assert_eq!(
        refused.to_string(),
        format!(
            "binding log {path}: it is in use by process {process}; expected one run at a time: end \
             that one first"
        )
    );
    drop(first);
    assert!(Log::at(folder.path()).read().is_ok());
}

#[test]
fn an_append_at_another_place_or_of_an_older_incarnation_is_fenced() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::at(folder.path());
    write(&mut log, &appends());
    let next = log.read().unwrap().next();

    let elsewhere = log.append(RUN, LogSequence(next.0 + 1), &[binding(3, 7, 8)]);
    let older = log.append(Incarnation(0), next, &[binding(3, 7, 8)]);

    assert_eq!(elsewhere.unwrap(), Appended::Fenced);
    assert_eq!(older.unwrap(), Appended::Fenced);
}

/// Whatever byte an interrupted append ends at, what is read are whole appends, from the first on.
#[test]
fn a_log_that_is_cut_anywhere_is_read_up_to_the_last_whole_append() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Log::at(folder.path()), &appends());
    let whole = segment::bytes_of(&only_segment(folder.path())).unwrap();

    for length in 0..whole.len() {
        let cut = tempfile::tempdir().unwrap();
        fs::write(only_segment(cut.path()), &whole[..length]).unwrap();
        let mut log = Log::at(cut.path());

        let read = log.read().unwrap().records;

        let prefixes: Vec<_> = (0..=appends().len())
            .map(|n| appends()[..n].concat())
            .collect();
        assert!(prefixes.contains(&read), "cut at {length}: {read:?}");
        // It goes on where it was cut.
        let next = LogSequence(read.len() as u64);
        let more = [binding(9, 0, 1)];
        assert_eq!(log.append(RUN, next, &more).unwrap(), Appended::Durable);
        drop(log);
        let after = Log::at(cut.path()).read().unwrap().records;
        assert_eq!(after, [read, more.to_vec()].concat());
    }
}

/// A file can be made longer before its bytes are written.
#[test]
fn zeros_at_the_end_are_what_an_interrupted_append_left() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(&mut Log::at(folder.path()), &appends());
    let mut bytes = segment::bytes_of(&only_segment(folder.path())).unwrap();
    bytes.extend([0; 300]);
    fs::write(only_segment(folder.path()), &bytes).unwrap();

    assert_eq!(Log::at(folder.path()).read().unwrap().records, written);
}

#[test]
fn a_flipped_bit_anywhere_is_refused_or_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Log::at(folder.path()), &appends());
    let whole = segment::bytes_of(&only_segment(folder.path())).unwrap();

    for byte in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[byte] ^= 1 << bit;
            let flipped = tempfile::tempdir().unwrap();
            fs::write(only_segment(flipped.path()), &bytes).unwrap();

            let read = Log::at(flipped.path()).read();

            let refused = read.expect_err("a flipped bit is found").to_string();
            assert!(
                refused.contains("file 00000000000000000000.log"),
                "{refused}"
            );
        }
    }
}

#[test]
fn a_missing_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::at(folder.path());
    write(&mut log, &appends());
    write(&mut log, &[vec![snapshot(2)], vec![binding(3, 7, 9)]]);
    write(&mut log, &[vec![snapshot(3)], vec![binding(4, 9, 10)]]);
    drop(log);
    let mut segments = Log::at(folder.path()).segments().unwrap();
    assert_eq!(segments.len(), 3);

    fs::remove_file(segments.remove(1)).unwrap();
    let refused = Log::at(folder.path()).read().unwrap_err().to_string();

    assert!(
        refused.contains("records between it and the file before are missing"),
        "{refused}"
    );
}

#[test]
fn files_that_are_old_enough_are_deleted_when_a_snapshot_begins_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::at(folder.path()).keep_for(Duration::from_millis(100));
    write(&mut log, &appends());
    for tick in 0..20 {
        let tick = tick * 50 + 3;
        write(
            &mut log,
            &[vec![snapshot(tick)], vec![binding(tick + 1, 0, 0)]],
        );
    }

    assert_eq!(log.segments().unwrap().len(), 3);
    let contents = log.read().unwrap();

    assert_eq!(contents.records.len(), 6);
    assert!(contents.first.0 > 0);
    assert_eq!(contents.records[0], snapshot(17 * 50 + 3));
    let next = contents.next();
    assert_eq!(
        log.append(RUN, next, &[binding(999, 0, 1)]).unwrap(),
        Appended::Durable
    );
}

#[test]
fn a_newer_version_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Log::at(folder.path()), &appends());
    let path = only_segment(folder.path());
    let mut bytes = segment::bytes_of(&path).unwrap();
    bytes[8] = 9;
    let checksum = crc32c::crc32c(&bytes[..24]);
    bytes[24..28].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&path, &bytes).unwrap();

    let refused = Log::at(folder.path()).read().unwrap_err().to_string();

    assert!(
        refused.ends_with(
            "it is of version 9; expected at most 1: use the version that wrote it, or a newer one"
        ),
        "{refused}"
    );
}

/// The golden file of version 1: what it holds is `appends`.
#[test]
fn a_log_of_version_1_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/log-v1");
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        write(&mut Log::at(folder.path()), &appends());
        fs::copy(only_segment(folder.path()), &golden).unwrap();
    }
    fs::copy(&golden, only_segment(folder.path())).unwrap();

    assert_eq!(
        Log::at(folder.path()).read().unwrap().records,
        appends().concat()
    );
}

/// A log in a folder of its own.
struct Rig(tempfile::TempDir);

impl LogRig for Rig {
    type Split = Letter;
    type Log = Log;

    fn open(&mut self) -> Log {
        LocalLog::at(self.0.path())
    }

    fn exclusive(&self) -> bool {
        true
    }

    fn split(&self) -> Letter {
        Letter('a')
    }

    fn position(&self, number: u64) -> u64 {
        number
    }

    fn metadata(&self, number: u64) -> Letters {
        Letters::of(if number.is_multiple_of(2) { "a" } else { "ab" })
    }
}

/// L5 is what the tests on a disk that is full are about.
#[test]
fn the_log_keeps_its_contract() {
    let make = || Rig(tempfile::tempdir().unwrap());
    Kit::new().log(make).assert_kept_but(&["L5"]);
}
