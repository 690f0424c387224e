//! A log in a folder of a local disk.

mod segment;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use self::segment::{OpenSegment, SegmentError};
use super::{Appended, BindingLog, LogContents, LogError, LogRecord, Stored, record};
use crate::epoch::{Incarnation, LogSequence};
use crate::split::Split;
use crate::tick::Tick;

/// The name of the file that says who uses the log.
const LOCK: &str = "lock";

/// Keeps the records in a folder of a local disk: they survive the process and the machine.
///
/// The records are in append-only files with checksums; every append is synced before it counts as
/// durable. A file that a snapshot begins is begun now and then, and files before it are deleted
/// once they are [old enough](Self::keep_for).
///
/// One process uses a log at a time: the folder is locked, by the operating system, for as long as
/// the log is open, and a second run is refused with the first one named.
///
/// # Invariants
///
/// What is read is what was written. What an interrupted append left at the end is cut off; anything
/// else that is not as it was written is refused with the file and the byte.
#[derive(Debug)]
pub struct LocalLog<S> {
    folder: PathBuf,
    keep_for: Duration,
    open: Option<Open>,
    splits: PhantomData<fn() -> S>,
}

#[derive(Debug)]
struct Open {
    segment: OpenSegment,
    next: LogSequence,
    incarnation: Incarnation,
    /// The segments that begin with a snapshot, with its tick, oldest first.
    snapshots: Vec<(LogSequence, Tick)>,
    /// Held for as long as the log is open.
    _lock: File,
}

impl<S> LocalLog<S> {
    /// A log in `folder`, which is made when the log is opened.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            keep_for: Duration::from_secs(24 * 60 * 60),
            open: None,
            splits: PhantomData,
        }
    }

    /// For how long records are kept at least; a day by default. Ticks that are older cannot be read
    /// again.
    #[must_use]
    pub fn keep_for(mut self, time: Duration) -> Self {
        self.keep_for = time;
        self
    }

    fn error(&self, message: impl Display) -> LogError {
        LogError {
            name: self.folder.display().to_string(),
            message: message.to_string(),
            source: None,
        }
    }

    fn failed(&self, doing: &str) -> impl FnOnce(io::Error) -> LogError {
        let name = self.folder.display().to_string();
        let message = format!("{doing} failed");
        move |error| LogError {
            name,
            message: format!("{message}: {error}"),
            source: Some(Box::new(error)),
        }
    }

    /// Takes the log for this process.
    fn lock(&self) -> Result<File, LogError> {
        fs::create_dir_all(&self.folder).map_err(self.failed("making the folder"))?;
        let path = self.folder.join(LOCK);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(self.failed("opening the lock"))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            // Who holds it is a courtesy: that somebody does is known without.
            file.read_to_string(&mut holder).ok();
            let holder = holder.trim();
            return Err(self.error(format!(
                "it is in use by {}; expected one run at a time: end that one first",
                if holder.is_empty() {
                    "another process"
                } else {
                    holder
                }
            )));
        }
        let written = (file.set_len(0))
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "process {}", std::process::id()));
        written.map_err(self.failed("writing the lock"))?;
        Ok(file)
    }

    /// The segments, oldest first.
    fn segments(&self) -> Result<Vec<PathBuf>, LogError> {
        let list = || -> io::Result<Vec<PathBuf>> {
            let mut found = Vec::new();
            for entry in fs::read_dir(&self.folder)? {
                let path = entry?.path();
                if path.extension().is_some_and(|extension| extension == "log") {
                    found.push(path);
                }
            }
            found.sort();
            Ok(found)
        };
        list().map_err(self.failed("listing the folder"))
    }

    fn broken(&self, path: &Path, error: &SegmentError) -> LogError {
        let file = path.file_name().unwrap_or_default().display();
        self.error(format!("file {file}: {error}"))
    }
}

impl<S> LocalLog<S>
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    /// Opens the log, unless it is open, and reads all of it.
    fn open(&mut self) -> Result<LogContents<S>, LogError> {
        let lock = match self.open.take() {
            Some(open) => open._lock,
            None => self.lock()?,
        };
        let paths = self.segments()?;
        let mut contents = LogContents::empty();
        let mut last = None;
        let mut snapshots = Vec::new();
        for (index, path) in paths.iter().enumerate() {
            let bytes = segment::bytes_of(path).map_err(self.failed("reading"))?;
            let is_last = index + 1 == paths.len();
            let read = segment::read(&bytes, is_last);
            let Some(found) = read.map_err(|error| self.broken(path, &error))? else {
                // Its making was interrupted: nothing was ever in it.
                fs::remove_file(path).map_err(self.failed("removing an unfinished file"))?;
                continue;
            };
            let expected = contents.first.0 + contents.records.len() as u64;
            if index == 0 {
                contents.first = found.first;
            } else if found.first.0 != expected {
                let what = "records between it and the file before are missing";
                let error = SegmentError::Damaged { at: 16, what };
                return Err(self.broken(path, &error));
            }
            for frame in &found.frames {
                let records = record::decode(frame.payload).map_err(|error| {
                    self.error(format!("{} at byte {}: {error}", path.display(), frame.at))
                })?;
                if records.len() as u64 != frame.records {
                    let what = "a frame does not hold as many records as it says";
                    let error = SegmentError::Damaged { at: frame.at, what };
                    return Err(self.broken(path, &error));
                }
                if let [LogRecord::Snapshot(snapshot), ..] = records.as_slice()
                    && frame.at == found.frames[0].at
                {
                    snapshots.push((found.first, snapshot.bound.unwrap_or_default()));
                }
                contents.records.extend(records);
            }
            last = Some((path, found.whole));
        }
        if contents.first.0 > 0
            && snapshots.first().map(|(first, _)| *first) != Some(contents.first)
        {
            return Err(
                self.error("its first file is missing; expected one that a snapshot begins")
            );
        }
        let next = LogSequence(contents.first.0 + contents.records.len() as u64);
        let segment = match last {
            Some((path, whole)) => OpenSegment::open(path, whole),
            None => OpenSegment::create(&self.folder, next),
        };
        self.open = Some(Open {
            segment: segment.map_err(self.failed("opening the last file"))?,
            next,
            incarnation: newest(&contents.records),
            snapshots,
            _lock: lock,
        });
        Ok(contents)
    }

    /// Deletes the segments that are not needed any more.
    fn compact(&mut self, now: Tick) -> Result<(), LogError> {
        let keep = u64::try_from(self.keep_for.as_millis()).unwrap_or(u64::MAX);
        let since = Tick(now.0.saturating_sub(keep));
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let old = open.snapshots.iter().rposition(|(_, tick)| *tick <= since);
        let Some(begin) = old.filter(|index| *index > 0) else {
            return Ok(());
        };
        open.snapshots.drain(..begin);
        let first = segment::name(open.snapshots[0].0);
        for path in self.segments()? {
            let is_old = path
                .file_name()
                .is_some_and(|name| *name.to_string_lossy() < *first);
            if is_old {
                fs::remove_file(&path).map_err(self.failed("deleting an old file"))?;
            }
        }
        Ok(())
    }
}

impl Open {
    /// Writes records to the open segment, or to another one if they begin it.
    fn write<S>(&mut self, folder: &Path, records: &[LogRecord<S>], begin: bool) -> io::Result<()>
    where
        S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
    {
        let count = u32::try_from(records.len())
            .map_err(|_| io::Error::other("an append of four billion records or more"))?;
        // A segment that was begun by an append that failed is still empty, and is used.
        if begin && self.segment.path != folder.join(segment::name(self.next)) {
            self.segment = OpenSegment::create(folder, self.next)?;
        }
        self.segment
            .append(self.next, count, &record::encode(records))
    }
}

/// The newest incarnation that is in `records`.
fn newest<S: Split>(records: &[LogRecord<S>]) -> Incarnation {
    let incarnations = records.iter().filter_map(|record| match record {
        LogRecord::Incarnation(incarnation) => Some(*incarnation),
        LogRecord::Snapshot(snapshot) => Some(snapshot.incarnation),
        LogRecord::Reserved(_)
        | LogRecord::Metadata { .. }
        | LogRecord::Start { .. }
        | LogRecord::Identified { .. }
        | LogRecord::Binding(_)
        | LogRecord::Readmitted(_)
        | LogRecord::Forgotten(_) => None,
    });
    incarnations.max().unwrap_or_default()
}

impl<S> BindingLog<S> for LocalLog<S>
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    fn read(&mut self) -> Result<LogContents<S>, LogError> {
        self.open()
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<S>],
    ) -> Result<Appended, LogError> {
        if self.open.is_none() {
            self.open()?;
        }
        let name = self.folder.display().to_string();
        let Some(open) = &mut self.open else {
            return Err(self.error("it is not open"));
        };
        if incarnation < open.incarnation || expected != open.next {
            return Ok(Appended::Fenced);
        }
        let snapshot = match records {
            [LogRecord::Snapshot(snapshot), ..] => Some(snapshot.bound.unwrap_or_default()),
            _ => None,
        };
        let written = open.write(&self.folder, records, snapshot.is_some());
        written.map_err(|error| LogError {
            name,
            message: format!("writing failed: {error}"),
            source: Some(Box::new(error)),
        })?;
        if let Some(tick) = snapshot {
            open.snapshots.push((open.next, tick));
        }
        open.next.0 += records.len() as u64;
        open.incarnation = open.incarnation.max(newest(records)).max(incarnation);
        if let Some(tick) = snapshot {
            // Old files that stay do no harm; they are tried again with the next snapshot.
            self.compact(tick).or_else(|error| {
                tracing::warn!("{error}");
                Ok(())
            })?;
        }
        Ok(Appended::Durable)
    }
}
