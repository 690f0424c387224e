//! A log in stores that fail, are damaged, and are used by two runs.

use object_store::ObjectStoreExt;
use object_store::memory::InMemory;

use super::*;
use crate::conformance::{Kit, LogRig};
use crate::letters::{Letter, Letters};
use crate::log::testing::{Record, appends, binding, second_appends, snapshot};

mod faulty;
#[cfg(feature = "s3")]
mod s3;

use faulty::{Fault, FaultyStore};

type Log = ObjectLog<Letter>;

const RUN: Incarnation = Incarnation(1);

fn write(log: &mut Log, appends: &[Vec<Record>]) -> Vec<Record> {
    let mut next = log.open().unwrap().next;
    for records in appends {
        assert_eq!(log.append(RUN, next, records).unwrap(), Appended::Durable);
        next.0 += records.len() as u64;
    }
    appends.concat()
}

/// Logs in one store, which fails when it is told to.
struct Rig<L>(Arc<FaultyStore>, L);

impl<L: Fn(&Arc<FaultyStore>) -> Log + 'static> LogRig for Rig<L> {
    type Split = Letter;
    type Log = Log;

    fn open(&mut self) -> Log {
        (self.1)(&self.0)
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

    fn fail_next(&mut self) -> bool {
        self.0.fail(Fault::in_turn());
        true
    }
}

fn in_store(store: &Arc<FaultyStore>) -> Log {
    let store: Arc<dyn ObjectStore> = Arc::<FaultyStore>::clone(store);
    Log::in_store(store, "orders/log")
}

#[test]
fn the_log_in_a_store_keeps_its_contract() {
    let make = || Rig(FaultyStore::new(InMemory::new()), in_store);
    Kit::new().log(make).assert_kept_but(&[]);
}

struct Folder(tempfile::TempDir);

impl LogRig for Folder {
    type Split = Letter;
    type Log = Log;

    fn open(&mut self) -> Log {
        Log::in_folder(self.0.path())
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

/// L5 is looked at in a store that can be made to fail.
#[test]
fn the_log_in_a_folder_keeps_its_contract() {
    let make = || Folder(tempfile::tempdir().unwrap());
    Kit::new().log(make).assert_kept_but(&["L5"]);
}

#[test]
fn a_store_that_cannot_put_if_absent_is_refused_with_what_to_do() {
    for fault in [Fault::Overwrites, Fault::NotImplemented] {
        let store = FaultyStore::new(InMemory::new());
        store.fail(fault);

        let refused = in_store(&store).open().unwrap_err().to_string();

        assert!(
            refused.contains("the store cannot put an object only if there is none of its name"),
            "{refused}"
        );
    }
}

#[test]
fn a_log_that_is_looked_at_is_taken_from_nobody() {
    let store = FaultyStore::new(InMemory::new());
    let mut log = in_store(&store);
    let mut written = write(&mut log, &appends());
    let mut looks = in_store(&store).read_only();

    assert_eq!(looks.read_all().unwrap(), written);
    written.extend(write(
        &mut log,
        &[vec![snapshot(2)], vec![binding(3, 7, 8)]],
    ));

    assert_eq!(looks.read_all().unwrap(), written);
    assert_eq!(looks.open().unwrap(), log.open().unwrap());
    let next = looks.open().unwrap().next;
    looks.append(RUN, next, &[binding(4, 8, 9)]).unwrap_err();
}

#[test]
fn the_one_that_opens_last_has_the_log_whatever_the_other_does() {
    let store = FaultyStore::new(InMemory::new());
    let mut first = in_store(&store);
    let mut written = write(&mut first, &appends());
    let next = first.open().unwrap().next;
    let mut second = in_store(&store);
    second.open().unwrap();

    let fenced = first.append(RUN, next, &[binding(3, 7, 8)]).unwrap();

    assert_eq!(fenced, Appended::Fenced);
    // Also once it has been told so, by a later incarnation, and after more was written.
    written.extend(write(&mut second, &[vec![binding(3, 7, 9)]]));
    let end = second.open().unwrap().next;
    let again = first.append(Incarnation(9), end, &[binding(4, 9, 9)]);
    assert_eq!(again.unwrap(), Appended::Fenced);
    assert_eq!(second.read_all().unwrap(), written);
}

/// Two runs can begin with equal records: the one that is fenced must not take the other's for its own.
#[test]
fn what_another_run_wrote_is_not_taken_for_an_append_whose_answer_was_lost() {
    let store = FaultyStore::new(InMemory::new());
    let mut first = in_store(&store);
    write(&mut first, &appends());
    let next = first.open().unwrap().next;
    let alike = vec![LogRecord::Incarnation(Incarnation(2))];
    store.fail(Fault::BeforePut);
    let lost = first.append(Incarnation(2), next, &alike).unwrap();
    assert_eq!(lost, Appended::Unknown);
    let mut second = in_store(&store);
    second.open().unwrap();
    second.append(Incarnation(2), next, &alike).unwrap();

    assert_eq!(first.read(next, 10).unwrap(), []);
    let again = first.append(Incarnation(2), next, &alike).unwrap();
    assert_eq!(again, Appended::Fenced);
}

/// What the numbers of others are for: one that sleeps through a compaction cannot write where there is
/// nothing any more.
#[test]
fn one_that_wakes_up_after_everything_it_knew_was_deleted_is_fenced() {
    let store = FaultyStore::new(InMemory::new());
    let mut sleeper = in_store(&store);
    write(&mut sleeper, &appends());
    let next = sleeper.open().unwrap().next;
    for tick in 3..6 {
        let mut log = in_store(&store).keep_for(Duration::ZERO);
        write(
            &mut log,
            &[vec![snapshot(tick)], vec![binding(tick + 1, 0, 1)]],
        );
        write(&mut log, &[vec![snapshot(tick + 1)]]);
    }
    // All that is left: a claim of each opening, the last snapshot, and nothing after it.
    assert_eq!(store.names("orders/log/records").len(), 5);

    let appended = sleeper.append(RUN, next, &[binding(3, 7, 8)]).unwrap();

    assert_eq!(appended, Appended::Fenced);
    let left = in_store(&store).read_all().unwrap();
    assert_eq!(left, [snapshot(6)]);
}

#[test]
fn of_many_that_start_at_once_one_has_the_log() {
    for round in 0..20 {
        let store = FaultyStore::new(InMemory::new());
        let runs: Vec<_> = (0..4)
            .map(|run| {
                let mut log = in_store(&store);
                std::thread::spawn(move || {
                    let next = log.open().unwrap().next;
                    let begins = [LogRecord::Incarnation(Incarnation(run + 1))];
                    (
                        log.append(Incarnation(run + 1), next, &begins).unwrap(),
                        run,
                    )
                })
            })
            .collect();
        let ended: Vec<_> = runs.into_iter().map(|run| run.join().unwrap()).collect();

        let durable = ended
            .iter()
            .filter(|(ended, _)| *ended == Appended::Durable);
        let written = in_store(&store).read_all().unwrap();
        assert_eq!(
            durable.clone().count(),
            written.len(),
            "round {round}: {ended:?}"
        );
        // The last that opened was not taken over by anybody, so it wrote; one before may have written
        // before that.
        assert!(durable.count() >= 1, "round {round}: {ended:?}");
    }
}

#[test]
fn an_append_whose_answer_is_lost_is_found_by_reading_and_by_trying_again() {
    for (fault, by_reading) in [(Fault::AfterPut, true), (Fault::AfterPut, false)] {
        let store = FaultyStore::new(InMemory::new());
        let mut log = in_store(&store);
        let mut written = write(&mut log, &appends());
        let next = log.open().unwrap().next;
        let more = vec![binding(3, 7, 8)];
        store.fail(fault);

        let lost = log.append(RUN, next, &more).unwrap();

        assert_eq!(lost, Appended::Unknown);
        if by_reading {
            assert_eq!(log.read(next, 10).unwrap(), more);
        } else {
            assert_eq!(log.append(RUN, next, &more).unwrap(), Appended::Durable);
        }
        written.extend(more);
        written.extend(write(&mut log, &[vec![binding(4, 8, 9)]]));
        assert_eq!(in_store(&store).read_all().unwrap(), written);
    }
}

/// The store takes its time: the answer was given up before the object was there.
#[test]
fn an_append_that_gets_there_late_is_taken_for_the_one_it_is() {
    let store = FaultyStore::new(InMemory::new());
    let mut log = in_store(&store);
    write(&mut log, &appends());
    let next = log.open().unwrap().next;
    let more = vec![binding(3, 7, 8)];
    store.fail(Fault::Late);

    assert_eq!(log.append(RUN, next, &more).unwrap(), Appended::Unknown);
    assert_eq!(log.read(next, 10).unwrap(), []);
    store.arrive();

    assert_eq!(log.append(RUN, next, &more).unwrap(), Appended::Durable);
    let extent = log.open().unwrap();
    assert_eq!(extent.next.0, next.0 + 1);
}

#[test]
fn a_store_that_hangs_is_given_up() {
    let store = FaultyStore::new(InMemory::new());
    let mut log = in_store(&store).time_limit(Duration::from_millis(20));
    write(&mut log, &appends());
    let next = log.open().unwrap().next;
    store.fail(Fault::Hangs);

    let given_up = log.append(RUN, next, &[binding(3, 7, 8)]);

    assert_eq!(given_up.unwrap(), Appended::Unknown);
    write(&mut log, &[vec![binding(3, 7, 8)]]);
}

#[test]
fn what_is_cut_or_flipped_or_missing_is_refused_by_its_name() {
    let store = FaultyStore::new(InMemory::new());
    let mut log = in_store(&store);
    write(&mut log, &appends());
    write(&mut log, &[vec![snapshot(2)], vec![binding(3, 7, 8)]]);
    let names = store.names("orders/log/records");
    for name in &names {
        let whole = store.bytes(name);
        let refused = |bytes: Option<&[u8]>| {
            store.replace(name, bytes);
            let error = in_store(&store).read_only().read_all();
            store.replace(name, Some(&whole));
            let error = error.expect_err("damage is found").to_string();
            assert!(error.contains(name.as_str()), "{name}: {error}");
        };
        for length in 0..whole.len() {
            refused(Some(&whole[..length]));
        }
        for byte in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[byte] ^= 1 << (byte % 8);
            refused(Some(&flipped));
        }
        // Without the last one the log ends before it, and without the first it begins with the
        // snapshot, as after a compaction: a store that loses these is not found out.
        if Some(name) != names.last() && Some(name) != names.first() {
            refused(None);
        }
    }
}

#[test]
fn a_newer_version_is_refused_with_what_to_do() {
    let store = FaultyStore::new(InMemory::new());
    write(&mut in_store(&store), &appends());
    let name = &store.names("orders/log/records")[1];
    let mut bytes = store.bytes(name);
    bytes[8] = 9;
    let checksum = crc32c::crc32c(&bytes[..56]);
    bytes[56..60].copy_from_slice(&checksum.to_le_bytes());
    store.replace(name, Some(&bytes));

    let refused = in_store(&store).open().unwrap_err().to_string();

    assert!(
        refused.ends_with(
            "it is of version 9; expected at most 1: use the version that wrote it, or a newer one"
        ),
        "{refused}"
    );
}

/// The golden folder: what version 1 wrote, of the kinds of records that there were.
#[test]
fn a_log_of_version_1_is_read() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/objects-v1");
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        write(&mut Log::in_folder(&golden), &second_appends());
    }

    let read = Log::in_folder(golden).read_only().read_all().unwrap();

    assert_eq!(read, second_appends().concat());
}

#[test]
fn opening_reads_what_follows_the_last_snapshot_and_compaction_deletes_what_is_old() {
    let store = FaultyStore::new(InMemory::new());
    let mut log = in_store(&store);
    let mut last = Vec::new();
    for tick in 1..=2_500 {
        last.extend(write(&mut log, &[vec![binding(tick, tick, tick + 1)]]));
        if tick % 500 == 0 {
            last = write(&mut log, &[vec![snapshot(tick)]]);
        }
    }
    let extent = log.open().unwrap();
    let all = log.read_all().unwrap();
    let before = store.gets();

    let mut again = in_store(&store);
    assert_eq!(again.open().unwrap(), extent);

    assert!(store.gets() - before < 10, "{}", store.gets() - before);
    let tail: Vec<Record> = again.read(extent.last_state(), 100).unwrap();
    assert_eq!(tail, last);
    assert_eq!(again.read_all().unwrap(), all);
    again.compact(Tick(1_700)).unwrap();
    let kept = again.read_all().unwrap();
    assert_eq!(kept[0], snapshot(1_500));
    assert_eq!(kept.len(), 1 + 1_000 + 2);
    assert_eq!(store.names("orders/log/starts").len(), 3);
    // The claims stay: of the first opening, and those who opened after.
    let records = store.names("orders/log/records").len();
    assert_eq!(records, kept.len() + 2);
    assert_eq!(in_store(&store).read_all().unwrap(), kept);
    let mut seen = 0;
    for from in [0, 1, 400, 999, 1_002] {
        let from = LogSequence(again.open().unwrap().first.0 + from);
        seen += BindingLog::<Letter>::read(&mut again, from, 5)
            .unwrap()
            .len();
    }
    assert_eq!(seen, 5 + 5 + 5 + 4 + 1);
}
