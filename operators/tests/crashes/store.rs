//! An object store in memory that fails in every way that a store may, for one run.
//!
//! What a log does about a store that fails, the log does by itself here: it looks whether a put that was
//! not answered took place, and claims its place when it is opened.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use timely_splits::epoch::LogSequence;
use timely_splits::log::{BindingLog, LogRecord, ObjectLog, Stored, StoredError};

use crate::disk::{Crash, Disk, Fate, State};
use crate::support::{Letter, Letters};

impl Stored for Letter {
    fn store(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    fn restore(bytes: &[u8]) -> std::result::Result<Self, StoredError> {
        let text = std::str::from_utf8(bytes).ok();
        let letter = text.and_then(|text| text.chars().next());
        letter
            .map(Self)
            .ok_or_else(|| StoredError::new("letter", "it is empty or no text"))
    }
}

impl Stored for Letters {
    fn store(&self) -> Vec<u8> {
        let letters = self.0.iter().map(|letter| letter.0);
        letters.collect::<String>().into_bytes()
    }

    fn restore(bytes: &[u8]) -> std::result::Result<Self, StoredError> {
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| StoredError::new("letters", "no text"))?;
        Ok(Self::of(text))
    }
}

/// The log in a store, read by somebody who has nothing to do with the run.
fn looked_at(store: &Arc<InMemory>) -> ObjectLog<Letter> {
    let store: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(store);
    ObjectLog::in_store(store, "log")
}

/// Does something with a log on a thread of its own: logs wait, and this may be called by one that does.
fn apart<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(act).join().expect("looking does not fail"))
}

/// A store, and who looks at what gets there.
pub(crate) struct Objects {
    store: Arc<InMemory>,
    looking: Option<ObjectLog<Letter>>,
}

impl Objects {
    pub(crate) fn new() -> Self {
        Self {
            store: Arc::default(),
            looking: None,
        }
    }

    /// The records from `from` on, of which all before were looked at.
    pub(crate) fn more(&mut self, from: u64) -> Vec<LogRecord<Letter>> {
        let Self { store, looking } = self;
        apart(|| {
            let log = looking.get_or_insert_with(|| {
                let mut log = looked_at(store).read_only();
                log.open().expect("the store does not fail");
                log
            });
            let mut records = Vec::new();
            loop {
                let next = LogSequence(from + records.len() as u64);
                let more = log.read(next, 100).expect("the log is whole");
                if more.is_empty() {
                    return records;
                }
                records.extend(more);
            }
        })
    }

    /// The log of a run, in this store, which fails.
    pub(crate) fn log(&self, disk: &Disk, run: u64) -> ObjectLog<Letter> {
        let store: Arc<dyn ObjectStore> = Arc::new(RunStore {
            disk: disk.clone(),
            run,
            inner: Arc::clone(&self.store),
        });
        ObjectLog::in_store(store, "log").keep_for(Duration::MAX)
    }
}

/// Somebody else takes the log over.
fn take_over(store: &Arc<InMemory>) {
    apart(|| looked_at(store).open().expect("the store does not fail"));
}

/// The store as one run has it: once the run is no more, nothing gets there.
#[derive(Clone)]
struct RunStore {
    disk: Disk,
    run: u64,
    inner: Arc<InMemory>,
}

impl fmt::Debug for RunStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunStore")
    }
}

impl Display for RunStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("store")
    }
}

fn failed() -> Error {
    Error::Generic {
        store: "store",
        source: "it fails on purpose".into(),
    }
}

/// A put of an object of records that was begun.
pub(crate) struct LatePut {
    store: Arc<InMemory>,
    path: Path,
    payload: PutPayload,
}

impl LatePut {
    /// It gets there, unless there is something already.
    pub(crate) fn arrive(self) {
        put(&self.store, &self.path, self.payload).ok();
    }
}

/// A store in memory answers at once.
fn put(store: &InMemory, path: &Path, payload: PutPayload) -> Result<PutResult> {
    let options = PutOptions::from(PutMode::Create);
    let put = store.put_opts(path, payload, options).now_or_never();
    put.expect("it is in memory")
}

impl RunStore {
    /// What becomes of a put of records; the answer to it.
    fn put_records(
        &self,
        state: &mut State,
        fate: Fate,
        path: &Path,
        payload: PutPayload,
    ) -> Result<PutResult> {
        if !state.lives(self.run) {
            return Err(failed());
        }
        state.appends += 1;
        let appends = state.appends;
        if state.crash == Crash::AppendBegun(appends) {
            state.crash();
            return Err(failed());
        }
        if let Some(late) = state.late_put.take() {
            late.arrive();
        }
        state.count(&format!("put {fate:?}"));
        let answer = match fate {
            Fate::Well | Fate::Slow => put(&self.inner, path, payload),
            Fate::Fails => Err(Error::PermissionDenied {
                path: path.to_string(),
                source: "it is denied on purpose".into(),
            }),
            Fate::Lost => Err(failed()),
            Fate::AnswerLost => {
                put(&self.inner, path, payload).ok();
                Err(failed())
            }
            Fate::Late => {
                let (store, path) = (Arc::clone(&self.inner), path.clone());
                state.late_put = Some(LatePut {
                    store,
                    path,
                    payload,
                });
                Err(failed())
            }
            Fate::TakenOver => {
                take_over(&self.inner);
                state.fenced = true;
                put(&self.inner, path, payload)
            }
        };
        state.look();
        if state.crash == Crash::AppendWritten(appends) {
            state.crash();
            return Err(failed());
        }
        answer
    }

    /// Whether a question is not answered. A log that cannot be read when it is opened ends the run.
    fn is_silent(&self) -> bool {
        let mut state = self.disk.lock();
        let faults = if state.appends > 0 { state.faults } else { 0 };
        // Many objects are read at once, and it takes one that fails for all to be read again.
        !state.lives(self.run) || state.chance(faults / 16)
    }
}

#[async_trait]
impl ObjectStore for RunStore {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let of_records = options.mode == PutMode::Create && payload.content_length() > CLAIM_BYTES;
        if !of_records || !path.as_ref().contains("records") {
            let state = self.disk.lock();
            if !state.lives(self.run) {
                return Err(failed());
            }
            let put = self.inner.put_opts(path, payload, options).now_or_never();
            return put.expect("it is in memory");
        }
        let fate = self.disk.lock().fate();
        if fate == Fate::Slow {
            // Nobody sends anything: this is how long it takes.
            let (_sender, nothing) = mpsc::channel::<()>();
            nothing.recv_timeout(Duration::from_millis(8)).ok();
        }
        let mut state = self.disk.lock();
        self.put_records(&mut state, fate, path, payload)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        if self.is_silent() {
            return Err(failed());
        }
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        if self.is_silent() {
            return stream::once(async { Err(failed()) }).boxed();
        }
        self.disk.lock().count("deleted");
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.is_silent() {
            return stream::once(async { Err(failed()) }).boxed();
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// How long an object is that has no records.
const CLAIM_BYTES: usize = 64;
