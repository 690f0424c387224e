//! A log in a folder of a local disk.

#[cfg(test)]
mod faults;
mod files;
mod open;
mod read;
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
use rustix::io::Errno;

use self::files::{Files, LocalFiles};
use self::open::Open;
use self::segment::SegmentError;
use super::extent::Retention;
use super::outline::Outline;
use super::{Appended, BindingLog, LogError, LogExtent, LogRecord, Stored, error, frame, record};
use crate::epoch::{Incarnation, LogSequence};
use crate::split::Split;
use crate::tick::Tick;

/// The name of the file that says who uses the log.
const LOCK: &str = "lock";

/// How long a log is waited for that a run of this process uses, which may be about to end.
const OWN_RUN_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// How often it is looked whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Keeps the records in a folder of a local disk: they survive the process and the machine.
///
/// The records are in append-only files with checksums; every append is synced before it counts as
/// durable. A snapshot begins another file, and so does a file that is long enough; files are deleted
/// once a snapshot that is [old enough](Self::keep_for) follows. Opening looks at the headers of the
/// files and at what follows the last snapshot.
///
/// One process uses a log at a time: the folder is locked, by the operating system, for as long as
/// the log is open, and a second run is refused with the first one named. If that is of the same
/// process it is waited for some seconds, since it may be about to end.
///
/// # Invariants
///
/// What is read is what was written. What an interrupted append left at the end is cut off; anything
/// else that is not as it was written is refused with the file and the byte, when it is read at the
/// latest.
#[derive(Debug)]
pub struct LocalLog<S> {
    folder: PathBuf,
    retention: Retention,
    /// How long a file gets before another one is begun.
    segment_bytes: u64,
    files: Box<dyn Files>,
    open: Option<Open>,
    splits: PhantomData<fn() -> S>,
}

impl<S> LocalLog<S> {
    /// A log in `folder`, which is made when the log is opened.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            retention: Retention::of(Duration::from_secs(24 * 60 * 60)),
            segment_bytes: 64 << 20,
            files: Box::new(LocalFiles),
            open: None,
            splits: PhantomData,
        }
    }

    /// For how long records are kept at least; a day by default. Ticks that are older cannot be read
    /// again.
    #[must_use]
    pub fn keep_for(mut self, time: Duration) -> Self {
        self.retention.keep_for = time;
        self
    }

    fn error(&self, message: impl Display) -> LogError {
        LogError::definite(self.folder.display().to_string(), message.to_string())
    }

    fn failed(&self, doing: &str) -> impl FnOnce(io::Error) -> LogError + use<S> {
        let name = self.folder.display().to_string();
        let message = format!("{doing} failed");
        move |error| LogError {
            name,
            message: format!("{message}: {error}"),
            kind: error::kind_of(&error),
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
        let this = format!("process {}", std::process::id());
        let mut looks = 0;
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != Errno::WOULDBLOCK {
                return Err(self.failed("locking")(error.into()));
            }
            let mut holder = String::new();
            // Who holds it is a courtesy: that somebody does is known without.
            let read = (file.rewind()).and_then(|()| file.read_to_string(&mut holder));
            read.ok();
            let holder = holder.trim();
            if holder == this && LOOK_AGAIN * looks < OWN_RUN_ENDS_WITHIN {
                looks += 1;
                // A run that has ended in this process lets go of it on a thread of its own.
                crossbeam_channel::after(LOOK_AGAIN).recv().ok();
                continue;
            }
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
            .and_then(|()| writeln!(file, "{this}"));
        written.map_err(self.failed("writing the lock"))?;
        Ok(file)
    }

    fn broken(&self, path: &Path, error: &SegmentError) -> LogError {
        let file = path.file_name().unwrap_or_default().display();
        let mut broken = self.error(format!("file {file}: {error}"));
        if let SegmentError::Io(error) = error {
            broken.kind = error::kind_of(error);
        }
        broken
    }
}

impl<S> BindingLog<S> for LocalLog<S>
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    fn open(&mut self) -> Result<LogExtent, LogError> {
        if self.open.is_none() {
            let lock = self.lock()?;
            self.open = Some(self.look(lock)?);
        }
        let open = self.open.as_ref().map(|open| open.extent.clone());
        open.ok_or_else(|| self.error("it is not open"))
    }

    fn read(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<S>>, LogError> {
        self.read_some(from, records_max)
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<S>],
    ) -> Result<Appended, LogError> {
        let next = BindingLog::<S>::open(self)?.next;
        let too_long = self.error("an append is of four billion records or bytes, or more");
        let failed = self.failed("writing");
        let Some(open) = &mut self.open else {
            return Err(self.error("it is not open"));
        };
        if incarnation < open.writer || expected != next {
            return Ok(Appended::Fenced);
        }
        let outlines: Vec<_> = records.iter().map(Outline::of).collect();
        let frame = frame::encode(next, records.len(), &record::encode(records)).ok_or(too_long)?;
        let place = (self.folder.as_path(), self.segment_bytes);
        open.write(&*self.files, place, &frame, &outlines)
            .map_err(failed)?;
        let snapshot = matches!(outlines[..], [Outline::Snapshot { .. }, ..]);
        open.extent.extend(outlines);
        open.writer = open.extent.incarnation.max(incarnation);
        if snapshot {
            // Old files that stay do no harm; they are tried again with the next snapshot.
            self.drop_old().or_else(|error| {
                tracing::warn!("{error}");
                Ok(())
            })?;
        }
        Ok(Appended::Durable)
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        self.retention.since = self.retention.since.max(since);
        self.drop_old()
    }
}
