//! A log of objects in a store.

mod format;
mod open;
mod store;
#[cfg(test)]
mod tests;
mod write;

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;

use self::open::Open;
use self::store::{Objects, StoreError};
use super::extent::Retention;
use super::{Appended, BindingLog, LogError, LogExtent, LogRecord, Stored};
use crate::epoch::{Incarnation, LogSequence};
use crate::split::Split;
use crate::tick::Tick;

/// Keeps the records in an object store, so that a source can be started again on another machine.
///
/// Every append is one object with the next number, put only if there is none. Bindings that wait
/// while an append is under way are appended together, so a slow store gets fewer and larger objects.
///
/// Whoever opens the log takes it over at once; the run that had it is
/// [fenced](Appended::Fenced) by its next append, its frontier stays, and it ends. To look at a log
/// that is in use, open it [read only](Self::read_only).
///
/// # Invariants
///
/// What is read is what was written: every object has checksums, and its number and place in them. One
/// that is not as it was written, or is missing, is refused by its name. A store that cannot put an
/// object only if it is absent is refused when the log is opened.
///
/// An append of which the store does not say whether it was written is [`Appended::Unknown`]; the
/// object says who wrote it, so that reading it tells.
pub struct ObjectLog<S> {
    place: Result<Place, String>,
    name: String,
    retention: Retention,
    time_limit: Duration,
    read_only: bool,
    open: Option<Open>,
    splits: PhantomData<fn() -> S>,
}

/// Where the objects are.
#[derive(Clone, Debug)]
enum Place {
    Store(Arc<dyn ObjectStore>, Path),
    Folder(PathBuf),
}

impl<S> ObjectLog<S> {
    /// A log in the store, with names that begin with `prefix`.
    ///
    /// A folder of a disk is better opened by [`in_folder`](Self::in_folder), which syncs.
    pub fn in_store(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        let name = format!("{store}/{prefix}");
        match Path::parse(prefix) {
            Ok(path) => Self::new(Ok(Place::Store(store, path)), name),
            Err(error) => Self::new(Err(error.to_string()), name),
        }
    }

    /// A log in a folder of a disk, which is made when the log is opened. Every object is synced.
    ///
    /// Several machines can share it if the disk is shared. On a disk that nobody else uses,
    /// [`LocalLog`](super::LocalLog) is cheaper.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let name = folder.display().to_string();
        Self::new(Ok(Place::Folder(folder)), name)
    }

    /// A log in a bucket that is reached by the protocol of S3, configured by the variables of the
    /// environment that begin with `AWS_`.
    ///
    /// # Errors
    ///
    /// If the variables or the address, as in `s3://bucket/prefix`, are not understood.
    #[cfg(feature = "s3")]
    pub fn in_s3(url: &str) -> Result<Self, LogError> {
        let wrong = |error: String| LogError::definite(url, error);
        let Some((bucket, prefix)) = (url.strip_prefix("s3://"))
            .map(|rest| rest.split_once('/').unwrap_or((rest, "")))
            .filter(|(bucket, _)| !bucket.is_empty())
        else {
            return Err(wrong(
                "expected an address as in s3://bucket/prefix".to_owned(),
            ));
        };
        let store = object_store::aws::AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        let mut log = Self::in_store(Arc::new(store), prefix);
        url.clone_into(&mut log.name);
        Ok(log)
    }

    fn new(place: Result<Place, String>, name: String) -> Self {
        Self {
            place,
            name,
            retention: Retention::of(Duration::from_secs(24 * 60 * 60)),
            time_limit: Duration::from_secs(30),
            read_only: false,
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

    /// For how long the store is waited for before an operation counts as failed, 30 seconds by
    /// default. Longer: a slow store is not asked twice. Shorter: one that hangs is told sooner.
    #[must_use]
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.time_limit = time;
        self
    }

    /// Only looks at the log: opening it takes it from nobody, and appending fails. Opening it again
    /// looks again.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    fn objects(&self) -> Result<Objects, LogError> {
        let place = (self.place.as_ref()).map_err(|message| self.error(message))?;
        let (store, prefix) = match place {
            Place::Store(store, prefix) => (Arc::clone(store), prefix.clone()),
            Place::Folder(folder) => {
                let made = std::fs::create_dir_all(folder);
                made.map_err(|error| self.failed("making the folder")(error.into()))?;
                let store = LocalFileSystem::new_with_prefix(folder);
                let store =
                    store.map_err(|error| self.failed("opening the folder")(error.into()))?;
                let store: Arc<dyn ObjectStore> = Arc::new(store.with_fsync(true));
                (store, Path::default())
            }
        };
        Objects::new(store, prefix, self.time_limit)
            .map_err(|error| self.failed("making a runtime")(error.into()))
    }

    fn error(&self, message: impl Display) -> LogError {
        LogError::definite(&self.name, message.to_string())
    }

    fn failed(&self, doing: &str) -> impl FnOnce(StoreError) -> LogError + use<S> {
        let name = self.name.clone();
        let message = format!("{doing} failed");
        move |error| LogError {
            name,
            message: format!("{message}: {error}"),
            kind: error.kind(),
            source: Some(Box::new(error)),
        }
    }
}

impl<S> fmt::Debug for ObjectLog<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectLog")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<S> BindingLog<S> for ObjectLog<S>
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    fn open(&mut self) -> Result<LogExtent, LogError> {
        if self.read_only || self.open.is_none() {
            self.open = None;
            self.open = Some(self.look(self.objects()?)?);
            self.note_starts();
        }
        let open = self.open.as_ref().map(|open| open.extent.clone());
        open.ok_or_else(|| self.error("it is not open"))
    }

    fn read(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<S>>, LogError> {
        self.with_open(|log, open| log.read_some(open, from, records_max))
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<S>],
    ) -> Result<Appended, LogError> {
        if self.read_only {
            return Err(self.error("it is open to be read only"));
        }
        if self.open.is_none() {
            BindingLog::<S>::open(self)?;
        }
        let appended =
            self.with_open(|log, open| log.append_to(open, incarnation, expected, records))?;
        if let (Appended::Durable, [LogRecord::Snapshot(_), ..]) = (appended, records) {
            self.note_starts();
            // Old objects that stay do no harm; they are tried again with the next snapshot.
            self.drop_old().or_else(|error| {
                tracing::warn!("{error}");
                Ok(())
            })?;
        }
        Ok(appended)
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        self.retention.since = self.retention.since.max(since);
        self.drop_old()
    }
}

impl<S> ObjectLog<S> {
    fn with_open<T>(
        &mut self,
        then: impl FnOnce(&Self, &mut Open) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let Some(mut open) = self.open.take() else {
            return Err(self.error("it is not open"));
        };
        let done = then(self, &mut open);
        self.open = Some(open);
        done
    }
}
