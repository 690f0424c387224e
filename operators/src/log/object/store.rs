//! The objects of a log: how they are named, and how they are read and written from a thread.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio::runtime::Runtime;

use crate::epoch::LogSequence;
use crate::health::FailureKind;
use crate::log::error;
use crate::log::extent::SnapshotAt;
use crate::tick::Tick;

/// How many objects are in a folder: a listing never gives many more than are wanted.
pub(super) const FOLDER: u64 = 1_000;

/// How many objects are read or deleted at the same time.
pub(super) const PARALLEL: usize = 32;

/// What the store in a folder calls itself in its errors.
const FILES: &str = "LocalFileSystem";

/// The codes by which a store that speaks the protocol of S3 says that it was asked by the wrong one, or
/// for what it does not have. In the answer to a listing nothing else tells.
const REFUSALS: [&str; 10] = [
    "AccessDenied",
    "AllAccessDisabled",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "InvalidAccessKeyId",
    "InvalidBucketName",
    "InvalidToken",
    "NoSuchBucket",
    "PermanentRedirect",
    "SignatureDoesNotMatch",
];

/// A place from which reading can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// The object.
    pub(super) number: u64,
    /// The sequence of its first record.
    pub(super) sequence: LogSequence,
    /// The snapshot that it is, unless it is where the log begins.
    pub(super) snapshot: Option<SnapshotAt>,
}

/// How an operation of a store failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error(transparent)]
    Store(#[from] Error),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("an object is named {0:?}, which is no name that this version gives")]
    Name(String),
}

impl StoreError {
    /// Whether there is an object already where one was to be put.
    pub(super) fn exists(&self) -> bool {
        matches!(
            self,
            Self::Store(Error::AlreadyExists { .. } | Error::Precondition { .. })
        )
    }

    pub(super) fn unsupported(&self) -> bool {
        matches!(
            self,
            Self::Store(Error::NotSupported { .. } | Error::NotImplemented { .. })
        )
    }

    /// Whether it may pass: what the store itself does not name as a refusal does.
    pub(super) fn kind(&self) -> FailureKind {
        match self {
            Self::System(error) => error::kind_of(error),
            Self::Late(_) => FailureKind::Transient,
            Self::Name(_) => FailureKind::Definite,
            Self::Store(Error::Generic {
                store: FILES,
                source,
            }) => error::kind_behind(&**source),
            Self::Store(Error::Generic { source, .. }) => {
                let words = source.to_string();
                let refused = REFUSALS.iter().any(|code| {
                    // The code is an element of the answer, which the words end with.
                    words.contains(&format!("<Code>{code}</Code>"))
                });
                if refused {
                    FailureKind::Definite
                } else {
                    FailureKind::Transient
                }
            }
            Self::Store(
                Error::JoinError { .. } | Error::AlreadyExists { .. } | Error::Precondition { .. },
            ) => FailureKind::Transient,
            Self::Store(_) => FailureKind::Definite,
        }
    }

    /// Whether a write that failed like this was certainly refused.
    pub(super) fn refused(&self) -> bool {
        let denied = matches!(
            self,
            Self::Store(
                Error::PermissionDenied { .. }
                    | Error::Unauthenticated { .. }
                    | Error::InvalidPath { .. }
                    | Error::NotFound { .. }
            )
        );
        denied || self.unsupported()
    }
}

/// A store, below one prefix, for one thread that waits.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) store: Arc<dyn ObjectStore>,
    prefix: Path,
    time_limit: Duration,
    runtime: Runtime,
}

impl Objects {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        prefix: Path,
        time_limit: Duration,
    ) -> io::Result<Self> {
        Ok(Self {
            store,
            prefix,
            time_limit,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
        })
    }

    fn folder(&self, number: u64) -> Path {
        self.prefix
            .clone()
            .join("records")
            .join(format!("{:017}", number / FOLDER))
    }

    pub(super) fn path(&self, number: u64) -> Path {
        self.folder(number).join(format!("{number:020}"))
    }

    fn start_path(&self, start: &Start) -> Path {
        let (number, sequence) = (start.number, start.sequence);
        let bound = match start.snapshot {
            None => "begin".to_owned(),
            Some(SnapshotAt { bound: None, .. }) => "none".to_owned(),
            Some(SnapshotAt {
                bound: Some(tick), ..
            }) => format!("{:020}", tick.0),
        };
        let name = format!("{number:020}-{sequence:020}-{bound}", sequence = sequence.0);
        self.prefix.clone().join("starts").join(name)
    }

    fn wait<T>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.runtime.block_on(async {
            (tokio::time::timeout(self.time_limit, operation).await)
                .unwrap_or(Err(StoreError::Late(self.time_limit)))
        })
    }

    /// Puts an object if there is none with its number.
    pub(super) fn put(&self, number: u64, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.wait(async {
            let options = PutOptions::from(PutMode::Create);
            let path = self.path(number);
            self.store.put_opts(&path, bytes.into(), options).await?;
            Ok(())
        })
    }

    /// The bytes of an object, if it is there.
    pub(super) fn get(&self, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.wait(self.get_later(number))
    }

    async fn get_later(&self, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        match self.store.get(&self.path(number)).await {
            Ok(found) => Ok(Some(found.bytes().await?.to_vec())),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes of `count` objects from `first` on, up to the first that is not there.
    pub(super) fn get_some(&self, first: u64, count: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        self.wait(async {
            let numbers = first..first + count as u64;
            stream::iter(numbers.map(|number| self.get_later(number)))
                .buffered(PARALLEL)
                .try_take_while(|found| std::future::ready(Ok(found.is_some())))
                .try_filter_map(|found| std::future::ready(Ok(found)))
                .try_collect()
                .await
        })
    }

    pub(super) fn is_there(&self, number: u64) -> Result<bool, StoreError> {
        self.wait(async {
            match self.store.head(&self.path(number)).await {
                Ok(_) => Ok(true),
                Err(Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// The objects of the folder of object `of`, and how long each is, in order.
    pub(super) fn list(&self, of: u64) -> Result<Vec<(u64, u64)>, StoreError> {
        self.wait(async {
            let folder = self.folder(of);
            let mut found = Vec::new();
            let mut list = self.store.list(Some(&folder));
            while let Some(object) = list.try_next().await? {
                let name = object.location.filename().unwrap_or_default();
                let number = name
                    .parse()
                    .map_err(|_| StoreError::Name(name.to_owned()))?;
                found.push((number, object.size));
            }
            found.sort_unstable();
            Ok(found)
        })
    }

    /// The first numbers of all folders, in order.
    pub(super) fn folders(&self) -> Result<Vec<u64>, StoreError> {
        self.wait(async {
            let records = self.prefix.clone().join("records");
            let found = self.store.list_with_delimiter(Some(&records)).await?;
            let mut folders = Vec::new();
            for path in found.common_prefixes {
                let name = path.filename().unwrap_or_default();
                let folder: u64 = name
                    .parse()
                    .map_err(|_| StoreError::Name(name.to_owned()))?;
                folders.push(folder * FOLDER);
            }
            folders.sort_unstable();
            Ok(folders)
        })
    }

    /// The places from which reading can start, in order.
    pub(super) fn starts(&self) -> Result<Vec<Start>, StoreError> {
        self.wait(async {
            let folder = self.prefix.clone().join("starts");
            let mut starts = Vec::new();
            let mut list = self.store.list(Some(&folder));
            while let Some(object) = list.try_next().await? {
                let name = object.location.filename().unwrap_or_default();
                starts.push(start(name).ok_or_else(|| StoreError::Name(name.to_owned()))?);
            }
            starts.sort_unstable_by_key(|start| start.number);
            Ok(starts)
        })
    }

    /// Notes a place from which reading can start. It is put as often as need be: it says the same.
    pub(super) fn put_start(&self, start: &Start) -> Result<(), StoreError> {
        self.wait(async {
            let path = self.start_path(start);
            self.store.put(&path, Vec::new().into()).await?;
            Ok(())
        })
    }

    pub(super) fn delete_start(&self, start: &Start) -> Result<(), StoreError> {
        self.wait(async { self.delete_path(self.start_path(start)).await })
    }

    /// Deletes objects, in no order.
    pub(super) fn delete(&self, numbers: &[u64]) -> Result<(), StoreError> {
        for some in numbers.chunks(PARALLEL) {
            self.wait(async {
                let deletes = some
                    .iter()
                    .map(|number| self.delete_path(self.path(*number)));
                stream::iter(deletes)
                    .buffer_unordered(PARALLEL)
                    .try_collect::<Vec<()>>()
                    .await
            })?;
        }
        Ok(())
    }

    async fn delete_path(&self, path: Path) -> Result<(), StoreError> {
        match self.store.delete(&path).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The place that an object of the folder `starts` names.
fn start(name: &str) -> Option<Start> {
    let mut parts = name.split('-');
    let number = parts.next()?.parse().ok()?;
    let sequence = LogSequence(parts.next()?.parse().ok()?);
    let bound = match parts.next()? {
        "begin" => None,
        "none" => Some(None),
        tick => Some(Some(Tick(tick.parse().ok()?))),
    };
    let snapshot = bound.map(|bound| SnapshotAt {
        at: sequence,
        bound,
    });
    parts.next().is_none().then_some(Start {
        number,
        sequence,
        snapshot,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(
        store: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> StoreError {
        let source = source.into();
        StoreError::Store(Error::Generic { store, source })
    }

    #[test]
    fn what_a_store_refuses_is_definite_and_what_else_fails_may_pass() {
        let answer = |code: &str| {
            let words = format!("status code: 403 Forbidden: <Error><Code>{code}</Code></Error>");
            generic("S3", words)
        };
        for code in REFUSALS {
            assert_eq!(answer(code).kind(), FailureKind::Definite, "{code}");
        }
        let denied = Error::PermissionDenied {
            path: "records".to_owned(),
            source: "it is denied".into(),
        };
        assert_eq!(StoreError::Store(denied).kind(), FailureKind::Definite);
        for passes in [
            answer("SlowDown"),
            answer("InternalError"),
            generic("S3", "connection refused"),
            StoreError::Late(Duration::from_secs(30)),
        ] {
            assert_eq!(passes.kind(), FailureKind::Transient, "{passes}");
        }
    }

    #[test]
    fn a_folder_fails_as_its_disk_does() {
        let errno = |errno| generic(FILES, io::Error::from_raw_os_error(errno));
        // EACCES and EIO
        assert_eq!(errno(13).kind(), FailureKind::Definite);
        assert_eq!(errno(5).kind(), FailureKind::Transient);
    }

    /// The name by which errors of a folder are known is the store's own.
    #[test]
    fn the_store_in_a_folder_calls_itself_as_expected() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("file");
        std::fs::write(&place, "a file, and no folder").unwrap();
        let store = object_store::local::LocalFileSystem::new_with_prefix(folder.path()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let below = Path::from("file/below");
        let put = store.put(&below, "bytes".into());
        let error = runtime.block_on(put).unwrap_err();
        assert!(
            matches!(error, Error::Generic { store: FILES, .. }),
            "{error:?}"
        );
    }
}
