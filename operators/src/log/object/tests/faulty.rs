//! A store that fails when it is told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::*;

/// What becomes of the next put of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It fails, and nothing is there.
    BeforePut,
    /// It is done, and said to have failed.
    AfterPut,
    /// It is refused.
    Denied,
    /// It is said to have failed, and is done later.
    Late,
    /// It is never answered.
    Hangs,
    /// It is done whatever is there, now and later.
    Overwrites,
    /// It is said not to be there, now and later.
    NotImplemented,
}

impl Fault {
    /// One after the other, of those after which a log has to go on.
    pub(super) fn in_turn() -> Self {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let faults = [Self::BeforePut, Self::AfterPut, Self::Denied];
        faults[TURN.fetch_add(1, Ordering::Relaxed) % faults.len()]
    }
}

#[derive(Debug)]
pub(super) struct FaultyStore {
    inner: InMemory,
    fault: Mutex<Option<Fault>>,
    late: Mutex<Option<(Path, PutPayload)>>,
    gets: AtomicUsize,
}

impl FaultyStore {
    pub(super) fn new(inner: InMemory) -> Arc<Self> {
        Arc::new(Self {
            inner,
            fault: Mutex::default(),
            late: Mutex::default(),
            gets: AtomicUsize::new(0),
        })
    }

    pub(super) fn fail(&self, fault: Fault) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    /// What was late gets there.
    pub(super) fn arrive(&self) {
        let late = self.late.lock().unwrap().take();
        let (path, payload) = late.expect("something is late");
        let options = PutOptions::from(PutMode::Create);
        wait(self.inner.put_opts(&path, payload, options)).unwrap();
    }

    pub(super) fn gets(&self) -> usize {
        self.gets.load(Ordering::Relaxed)
    }

    /// The names of the objects of a folder, in order.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let listed = self.inner.list(Some(&Path::from(folder)));
        let listed: Vec<ObjectMeta> = wait(listed.try_collect()).unwrap();
        let mut names: Vec<_> = (listed.into_iter())
            .map(|object| object.location.to_string())
            .collect();
        names.sort();
        names
    }

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        let path = Path::from(name);
        wait(async { self.inner.get(&path).await?.bytes().await })
            .unwrap()
            .to_vec()
    }

    pub(super) fn replace(&self, name: &str, bytes: Option<&[u8]>) {
        let path = Path::from(name);
        match bytes {
            Some(bytes) => {
                wait(self.inner.put(&path, bytes.to_vec().into())).unwrap();
            }
            None => wait(self.inner.delete(&path)).unwrap(),
        }
    }

    fn error() -> Error {
        Error::Generic {
            store: "faulty",
            source: "it fails on purpose".into(),
        }
    }
}

fn wait<T>(operation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(operation)
}

impl Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty store")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        if options.mode != PutMode::Create {
            return self.inner.put_opts(path, payload, options).await;
        }
        let fault = {
            let mut fault = self.fault.lock().unwrap();
            match *fault {
                Some(Fault::Overwrites | Fault::NotImplemented) => *fault,
                _ => fault.take(),
            }
        };
        match fault {
            Some(Fault::BeforePut) => return Err(Self::error()),
            Some(Fault::Denied) => {
                return Err(Error::PermissionDenied {
                    path: path.to_string(),
                    source: "it is denied on purpose".into(),
                });
            }
            Some(Fault::Late) => {
                *self.late.lock().unwrap() = Some((path.clone(), payload));
                return Err(Self::error());
            }
            Some(Fault::Hangs) => return std::future::pending().await,
            Some(Fault::NotImplemented) => {
                return Err(Error::NotImplemented {
                    operation: "put".to_owned(),
                    implementer: "faulty store".to_owned(),
                });
            }
            Some(Fault::Overwrites) => options.mode = PutMode::Overwrite,
            Some(Fault::AfterPut) | None => {}
        }
        let put = self.inner.put_opts(path, payload, options).await?;
        match fault {
            Some(Fault::AfterPut) => Err(Self::error()),
            _ => Ok(put),
        }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
