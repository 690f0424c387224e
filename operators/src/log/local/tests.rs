//! A log on a disk that is cut, damaged and used twice.

use super::*;
use crate::conformance::{Kit, LogRig};
use crate::letters::{Letter, Letters};
use crate::log::testing::{
    Record, appends, binding, first_appends, fourth_appends, second_appends, snapshot, snapshot_2,
    snapshot_3, snapshot_4, third_appends,
};

type Log = LocalLog<Letter>;

const RUN: Incarnation = Incarnation(1);

fn write(log: &mut Log, appends: &[Vec<Record>]) -> Vec<Record> {
    let mut next = log.open().unwrap().next;
    for records in appends {
        assert_eq!(log.append(RUN, next, records).unwrap(), Appended::Durable);
        next.0 += records.len() as u64;
    }
    appends.concat()
}

fn only_segment(folder: &Path) -> PathBuf {
    folder.join(segment::name(LogSequence(0)))
}

/// The files of the log, oldest first.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = (fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    paths.sort();
    paths
}

#[test]
fn what_was_written_is_read_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(&mut Log::at(folder.path()), &appends());

    let mut again = Log::at(folder.path());

    assert_eq!(again.read_all().unwrap(), written);
    assert_eq!(again.read_all().unwrap(), written, "also twice");
}

#[test]
fn a_second_run_is_refused_with_the_first_one_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Log::at(folder.path());
    first.open().unwrap();

    let refused = Log::at(folder.path()).open().unwrap_err();

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
    assert!(Log::at(folder.path()).open().is_ok());
}

#[test]
fn an_append_at_another_place_or_of_an_older_incarnation_is_fenced() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::at(folder.path());
    write(&mut log, &appends());
    let next = log.open().unwrap().next;

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
    let whole = fs::read(only_segment(folder.path())).unwrap();

    for length in 0..whole.len() {
        let cut = tempfile::tempdir().unwrap();
        fs::write(only_segment(cut.path()), &whole[..length]).unwrap();
        let mut log = Log::at(cut.path());

        let read = log.read_all().unwrap();

        let prefixes: Vec<_> = (0..=appends().len())
            .map(|n| appends()[..n].concat())
            .collect();
        assert!(prefixes.contains(&read), "cut at {length}: {read:?}");
        // It goes on where it was cut.
        let next = LogSequence(read.len() as u64);
        let more = [binding(9, 0, 1)];
        assert_eq!(log.append(RUN, next, &more).unwrap(), Appended::Durable);
        drop(log);
        let after = Log::at(cut.path()).read_all().unwrap();
        assert_eq!(after, [read, more.to_vec()].concat());
    }
}

/// A file can be made longer before its bytes are written.
#[test]
fn zeros_at_the_end_are_what_an_interrupted_append_left() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(&mut Log::at(folder.path()), &appends());
    let mut bytes = fs::read(only_segment(folder.path())).unwrap();
    bytes.extend([0; 300]);
    fs::write(only_segment(folder.path()), &bytes).unwrap();

    assert_eq!(Log::at(folder.path()).read_all().unwrap(), written);
}

#[test]
fn a_flipped_bit_anywhere_is_refused_or_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Log::at(folder.path()), &appends());
    let whole = fs::read(only_segment(folder.path())).unwrap();

    for byte in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[byte] ^= 1 << bit;
            let flipped = tempfile::tempdir().unwrap();
            fs::write(only_segment(flipped.path()), &bytes).unwrap();

            let read = Log::at(flipped.path()).open();

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
    let mut segments = segments(folder.path());
    assert_eq!(segments.len(), 3);

    fs::remove_file(segments.remove(1)).unwrap();
    let refused = Log::at(folder.path()).open().unwrap_err().to_string();

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

    assert_eq!(segments(folder.path()).len(), 3);
    let extent = log.open().unwrap();
    let records = log.read_all().unwrap();

    assert_eq!(records.len(), 6);
    assert!(extent.first.0 > 0);
    assert_eq!(records[0], snapshot(17 * 50 + 3));
    let next = extent.next;
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
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    let checksum = crc32c::crc32c(&bytes[..40]);
    bytes[40..44].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&path, &bytes).unwrap();

    let refused = Log::at(folder.path()).open().unwrap_err().to_string();

    assert!(
        refused.ends_with(
            "it is of version 9; expected at most 2: use the version that wrote it, or a newer one"
        ),
        "{refused}"
    );
}

/// The golden files: what each version wrote, by its number.
#[test]
fn a_log_of_any_version_is_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        let folder = tempfile::tempdir().unwrap();
        write(&mut Log::at(folder.path()), &second_appends());
        fs::copy(only_segment(folder.path()), golden.join("log-v2")).unwrap();
    }
    for version in 1..=segment::VERSION {
        let folder = tempfile::tempdir().unwrap();
        let path = only_segment(folder.path());
        fs::copy(golden.join(format!("log-v{version}")), path).unwrap();

        let mut log = Log::at(folder.path());

        let written = match version {
            1 => first_appends(),
            _ => second_appends(),
        };
        assert_eq!(log.read_all().unwrap(), written.concat());
        write(&mut log, &[vec![binding(3, 7, 8)], vec![snapshot(3)]]);
        drop(log);
        let extent = Log::at(folder.path()).open().unwrap();
        assert_eq!(extent.snapshots.len(), 1);
        assert_eq!(extent.next.0, extent.snapshots[0].at.0 + 1);
    }
}

/// The golden files of records: what each version of snapshots came with. The files are of the version
/// of files that there was.
#[test]
fn records_of_any_version_are_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let all = [
        ("log-v2-snapshot-v2", second_appends(), snapshot_2(2)),
        ("log-v2-snapshot-v3", third_appends(), snapshot_3(2)),
        ("log-v2-snapshot-v4", fourth_appends(), snapshot_4(2)),
        ("log-v2-snapshot-v5", appends(), snapshot(2)),
    ];
    for (name, mut written, snapshot) in all {
        let folder = tempfile::tempdir().unwrap();
        written.push(vec![snapshot]);
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            let one = tempfile::tempdir().unwrap();
            let written = written.concat();
            // In one append, so that they stay in one file.
            write(&mut Log::at(one.path()), &[written]);
            fs::copy(only_segment(one.path()), golden.join(name)).unwrap();
        }
        fs::copy(golden.join(name), only_segment(folder.path())).unwrap();

        let read = Log::at(folder.path()).read_all().unwrap();

        assert_eq!(read, written.concat(), "{name}");
    }
}

/// Damage in what opening does not look at is found when it is read.
#[test]
fn a_flipped_bit_in_an_older_file_is_refused_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::at(folder.path());
    write(&mut log, &appends());
    write(&mut log, &[vec![snapshot(2)], vec![binding(3, 7, 9)]]);
    drop(log);
    let path = only_segment(folder.path());
    let whole = fs::read(&path).unwrap();

    for byte in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[byte] ^= 1 << (byte % 8);
        fs::write(&path, &bytes).unwrap();
        let refused = Log::at(folder.path()).read_all().unwrap_err();
        assert!(refused.message.contains("file 0"), "{refused}");
    }
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let refused = Log::at(folder.path()).read_all().unwrap_err();
        assert!(refused.message.contains("file 0"), "{refused}");
    }
}

#[test]
fn a_file_that_is_long_enough_is_followed_by_another_and_read_across() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::at(folder.path());
    log.segment_bytes = 200;
    let mut written = Vec::new();
    for tick in 1..=40 {
        written.extend(write(&mut log, &[vec![binding(tick, tick, tick + 1)]]));
        if tick == 20 {
            written.extend(write(&mut log, &[vec![snapshot(tick)]]));
        }
    }
    let files = segments(folder.path()).len();
    assert!(files > 5, "{files}");

    for again in [false, true] {
        if again {
            drop(log);
            log = Log::at(folder.path());
            log.open().unwrap();
        }
        for from in 0..written.len() {
            let some: Vec<Record> = log.read(LogSequence(from as u64), 2).unwrap();
            assert_eq!(some[..], written[from..from + some.len()]);
            assert!(!some.is_empty());
        }
        assert_eq!(log.read_all().unwrap(), written);
    }
    // What was before the snapshot goes as a whole, however many files it is.
    log.compact(Tick(30)).unwrap();
    let kept = log.read_all().unwrap();
    assert_eq!(kept[..], written[20..]);
    assert!(segments(folder.path()).len() < files);
    drop(log);
    assert_eq!(Log::at(folder.path()).read_all().unwrap(), kept);
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

/// A run was refused because the one before it in its process had not let go of the log yet.
#[test]
fn a_run_of_this_process_that_is_about_to_end_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Log::at(folder.path());
    first.open().unwrap();
    let ends = std::thread::spawn(move || {
        crossbeam_channel::after(LOOK_AGAIN * 5).recv().unwrap();
        drop(first);
    });

    let opened = Log::at(folder.path()).open();

    assert!(opened.is_ok(), "{opened:?}");
    ends.join().unwrap();
}
