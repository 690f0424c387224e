//! A log on a disk that is full, that fails, and that forgets what was not synced.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::files::OpenFile;
use super::*;
use crate::conformance::{Kit, LogRig};
use crate::letters::{Letter, Letters};
use crate::log::testing::{Record, appends, binding, snapshot};

const RUN: Incarnation = Incarnation(1);

/// How much the model writes back at once.
const PAGE: usize = 64;

/// What goes wrong next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// So many bytes can be written, and then the disk is full.
    FullAfter(usize),
    /// A sync fails. What was to be written back is not, and reads as if it had been.
    Sync,
    /// A file cannot be cut.
    Truncate,
    /// A file cannot be removed.
    Remove,
}

/// A file: what programs see, and what is there after a crash.
#[derive(Clone, Debug, Default)]
struct Content {
    seen: Vec<u8>,
    disk: Vec<u8>,
    /// The pages that are to be written back, and whether the length is.
    dirty: Vec<usize>,
}

#[derive(Debug, Default)]
struct State {
    /// What programs see, and the names that are there after a crash.
    files: BTreeMap<PathBuf, Arc<Mutex<Content>>>,
    durable: BTreeMap<PathBuf, Arc<Mutex<Content>>>,
    fault: Option<Fault>,
}

/// A disk with a cache before it, as of Linux: a page whose writing back fails is taken for clean.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<State>>);

#[derive(Debug)]
struct DiskFile(Disk, Arc<Mutex<Content>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    fn fail(&self, fault: Fault) {
        lock(&self.0).fault = Some(fault);
    }

    /// Whether this goes wrong now.
    fn fails(&self, fault: Fault) -> bool {
        lock(&self.0).fault.take_if(|next| *next == fault).is_some()
    }

    /// What is left after the machine went down.
    fn crash(&self) -> Self {
        let durable = lock(&self.0).durable.clone();
        let files: BTreeMap<_, _> = (durable.into_iter())
            .map(|(path, content)| {
                let disk = lock(&content).disk.clone();
                let seen = disk.clone();
                let dirty = Vec::new();
                (path, Arc::new(Mutex::new(Content { seen, disk, dirty })))
            })
            .collect();
        Self(Arc::new(Mutex::new(State {
            durable: files.clone(),
            files,
            fault: None,
        })))
    }

    fn content(&self, path: &Path) -> io::Result<Arc<Mutex<Content>>> {
        let found = lock(&self.0).files.get(path).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn log(&self, folder: &Path) -> LocalLog<Letter> {
        let mut log = LocalLog::at(folder);
        log.files = Box::new(self.clone());
        log
    }
}

fn failure() -> io::Error {
    io::Error::other("input/output error")
}

impl Files for Disk {
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let state = lock(&self.0);
        let files = state.files.keys();
        Ok(files
            .filter(|path| path.starts_with(folder))
            .cloned()
            .collect())
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(lock(&*self.content(path)?).seen.len() as u64)
    }

    fn read(&self, path: &Path, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let content = self.content(path)?;
        let seen = &lock(&content).seen;
        let at = usize::try_from(at).unwrap().min(seen.len());
        Ok(seen[at..seen.len().min(at + length)].to_vec())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        let content = Arc::new(Mutex::new(Content::default()));
        let mut state = lock(&self.0);
        let old = state.files.insert(path.to_owned(), Arc::clone(&content));
        // The same file, emptied, if it was there.
        if old.is_some() && state.durable.contains_key(path) {
            state.durable.insert(path.to_owned(), Arc::clone(&content));
        }
        Ok(Box::new(DiskFile(self.clone(), content)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(DiskFile(self.clone(), self.content(path)?)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if self.fails(Fault::Remove) {
            return Err(failure());
        }
        lock(&self.0).files.remove(path);
        Ok(())
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        let mut state = lock(&self.0);
        state.durable = state.files.clone();
        Ok(())
    }
}

impl OpenFile for DiskFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut room = bytes.len();
        let mut state = lock(&self.0.0);
        if let Some(Fault::FullAfter(left)) = &mut state.fault {
            room = room.min(*left);
            *left -= room;
        }
        let full = room < bytes.len();
        if full {
            state.fault = None;
        }
        let content = &mut *lock(&self.1);
        let at = usize::try_from(at).unwrap();
        let end = at + room;
        let length = content.seen.len().max(end);
        content.seen.resize(length, 0);
        content.seen[at..end].copy_from_slice(&bytes[..room]);
        content.dirty.extend(at / PAGE..=end / PAGE);
        if full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if self.0.fails(Fault::Truncate) {
            return Err(failure());
        }
        let content = &mut *lock(&self.1);
        let length = usize::try_from(length).unwrap();
        content.seen.resize(length, 0);
        content.dirty.push(length / PAGE);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let fails = self.0.fails(Fault::Sync);
        let content = &mut *lock(&self.1);
        let dirty = std::mem::take(&mut content.dirty);
        content.disk.resize(content.seen.len(), 0);
        if fails {
            return Err(failure());
        }
        for page in dirty {
            let begin = (page * PAGE).min(content.seen.len());
            let end = (begin + PAGE).min(content.seen.len());
            content.disk[begin..end].copy_from_slice(&content.seen[begin..end]);
        }
        Ok(())
    }
}

/// Appends, trying again as the writer does, and says how often that failed.
fn write(log: &mut LocalLog<Letter>, appends: &[Vec<Record>]) -> usize {
    let mut next = log.open().unwrap().next;
    let mut failures = 0;
    for records in appends {
        while let Err(error) = log.append(RUN, next, records) {
            assert!(error.message.contains("writing failed"), "{error}");
            failures += 1;
            assert!(failures < 10, "{error}");
        }
        next.0 += records.len() as u64;
    }
    failures
}

fn faults() -> Vec<Fault> {
    let full = (0..400).map(Fault::FullAfter);
    full.chain([Fault::Sync]).collect()
}

/// The disk is full after any byte, or a sync fails: no half of an append stays before the next one,
/// and what was durable is there after a crash, from the disk and not from the memory before it.
#[test]
fn what_was_durable_is_there_after_failures_and_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    for fault in faults() {
        for before in [appends(), vec![vec![binding(1, 0, 1)], vec![snapshot(1)]]] {
            let disk = Disk::default();
            let mut log = disk.log(folder.path());
            write(&mut log, &before);
            disk.fail(fault);
            let after = [
                vec![binding(3, 7, 8)],
                vec![snapshot(3)],
                vec![binding(4, 8, 9), binding(5, 9, 9)],
            ];

            let failures = write(&mut log, &after);

            assert!(failures <= 1, "{fault:?}");
            drop(log);
            let written = [before, after.to_vec()].concat().concat();
            let read = disk.crash().log(folder.path()).read_all().unwrap();
            assert_eq!(read, written, "{fault:?}");
        }
    }
}

/// A second sync that succeeds says nothing about what the first one failed to write.
#[test]
fn nothing_is_durable_by_a_sync_that_only_follows_one_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let mut log = disk.log(folder.path());
    write(&mut log, &appends());
    let next = log.open().unwrap().next;
    disk.fail(Fault::Sync);
    log.append(RUN, next, &[binding(3, 7, 8)]).unwrap_err();

    // The same thing as if it had been left as it was: what is on the disk is damaged or cut.
    let left = disk.crash().log(folder.path()).read_all();
    assert_ne!(
        left.ok(),
        Some([appends().concat(), vec![binding(3, 7, 8)]].concat())
    );

    assert_eq!(write(&mut log, &[vec![binding(3, 7, 8)]]), 0);
    drop(log);
    let read = disk.crash().log(folder.path()).read_all().unwrap();
    assert_eq!(read, [appends().concat(), vec![binding(3, 7, 8)]].concat());
}

#[test]
fn what_a_failed_append_left_is_not_read_also_while_it_cannot_be_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let mut log = disk.log(folder.path());
    write(&mut log, &appends());
    let next = log.open().unwrap().next;
    disk.fail(Fault::FullAfter(30));
    log.append(RUN, next, &[binding(3, 7, 8)]).unwrap_err();
    disk.fail(Fault::Truncate);
    log.append(RUN, next, &[binding(3, 7, 8)]).unwrap_err();

    assert_eq!(log.read_all().unwrap(), appends().concat());
    assert_eq!(log.read(next, 10).unwrap(), []);
    assert_eq!(write(&mut log, &[vec![binding(3, 7, 9)]]), 0);
    let written = [appends().concat(), vec![binding(3, 7, 9)]].concat();
    assert_eq!(log.read_all().unwrap(), written);
}

#[test]
fn files_that_could_not_be_removed_are_removed_the_next_time() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let mut log = disk.log(folder.path());
    write(&mut log, &appends());
    write(&mut log, &[vec![snapshot(2)], vec![binding(3, 7, 8)]]);
    disk.fail(Fault::Remove);

    log.compact(Tick(2)).unwrap_err();

    let kept = [snapshot(2), binding(3, 7, 8)];
    assert_eq!(log.read_all().unwrap(), kept);
    assert_eq!(disk.list(folder.path()).unwrap().len(), 2);
    log.compact(Tick(2)).unwrap();
    assert_eq!(disk.list(folder.path()).unwrap().len(), 1);
    drop(log);
    assert_eq!(disk.crash().log(folder.path()).read_all().unwrap(), kept);
}

/// A log on a disk that fails when it is told to.
struct Rig(tempfile::TempDir, Disk, usize);

impl LogRig for Rig {
    type Split = Letter;
    type Log = LocalLog<Letter>;

    fn open(&mut self) -> LocalLog<Letter> {
        self.1.log(self.0.path())
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

    fn fail_next(&mut self) -> bool {
        self.2 += 1;
        let full = Fault::FullAfter(self.2 * 20);
        self.1.fail(if self.2.is_multiple_of(2) {
            full
        } else {
            Fault::Sync
        });
        true
    }
}

#[test]
fn the_log_keeps_its_contract_also_when_the_disk_fails() {
    let make = || Rig(tempfile::tempdir().unwrap(), Disk::default(), 0);
    Kit::new().log(make).assert_kept_but(&[]);
}
