//! An object store in memory as one run has it: it fails in every way that a store may, and once the
//! run is killed it says nothing more.

use std::fmt::{self, Display};
use std::future;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, Extensions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::crash::Crash;
use super::home::{Home, State};

/// How long an object is that has no records: whoever opens the log puts one to take it over.
const CLAIM_BYTES: usize = 64;

/// How long a put takes that is slow.
const SLOW: Duration = Duration::from_millis(8);

/// What becomes of a put of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Well,
    Slow,
    /// Nothing is written, and it says so.
    Refused,
    /// Nothing is written, and it cannot say so.
    Lost,
    /// It is written, and the answer is lost.
    AnswerLost,
    /// The answer is lost, and it is written some time later, be it that its run is no more.
    Late,
    /// It is written, and there is never an answer.
    Unanswered,
}

impl Fate {
    pub(super) const FAULTS: [Self; 8] = [
        Self::Refused,
        Self::Lost,
        Self::AnswerLost,
        Self::AnswerLost,
        Self::Late,
        Self::Late,
        Self::Slow,
        Self::Unanswered,
    ];
}

/// A mistake that a store makes on purpose: a campaign that does not find it is blind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// It says that records are written when they are not, and may never be.
    WrittenBeforeItIs,
    /// It tells a run that was taken over that its records are written.
    FenceIgnored,
}

impl Mistake {
    pub(super) const ALL: [Self; 2] = [Self::WrittenBeforeItIs, Self::FenceIgnored];
}

/// A put of records on its way.
pub(super) struct LatePut {
    pub(super) path: Path,
    pub(super) payload: PutPayload,
}

/// A store in memory answers at once.
pub(super) fn put(store: &InMemory, path: &Path, payload: PutPayload) -> Result<PutResult> {
    let options = PutOptions::from(PutMode::Create);
    let put = store.put_opts(path, payload, options).now_or_never();
    put.expect("it is in memory")
}

pub(super) struct RunStore {
    home: Home,
    run: u64,
    inner: Arc<InMemory>,
}

/// What a question gets.
enum Answer<T> {
    Given(T),
    /// Nothing, ever.
    Silence,
}

impl<T> Answer<T> {
    async fn wait(self) -> T {
        match self {
            Self::Given(answer) => answer,
            Self::Silence => future::pending().await,
        }
    }
}

impl RunStore {
    pub(super) fn new(home: &Home, run: u64) -> Self {
        Self {
            home: home.clone(),
            run,
            inner: home.objects(),
        }
    }

    /// The first of what is put by whoever opens the log.
    fn put_claim(&self, path: &Path, payload: PutPayload) -> Answer<Result<PutResult>> {
        let mut state = self.home.lock();
        if !state.lives(self.run) {
            return Answer::Silence;
        }
        state.some_arrive(&self.inner);
        let fails = state.fails(self.run);
        if fails && state.chance(50) {
            return Answer::Given(Err(failed()));
        }
        let answer = put(&self.inner, path, payload);
        state.look();
        if answer.is_ok() {
            state.taken_over_by(self.run);
        }
        Answer::Given(if fails { Err(failed()) } else { answer })
    }

    fn put_records(&self, path: &Path, payload: PutPayload) -> Answer<Result<PutResult>> {
        let fate = self.home.lock().fate(self.run);
        if fate == Fate::Slow {
            // Nobody sends anything: this is how long it takes.
            let (_sender, nothing) = mpsc::channel::<()>();
            nothing.recv_timeout(SLOW).ok();
        }
        let mut state = self.home.lock();
        if !state.lives(self.run) {
            return Answer::Silence;
        }
        let appends = state.append_begun(self.run);
        if state.crash_of(self.run) == Crash::AppendBegun(appends) {
            state.kill(self.run);
            return Answer::Silence;
        }
        state.some_arrive(&self.inner);
        state.count(&format!("put {fate:?}"));
        let mistaken = self.err(&mut state, path, &payload);
        let answer = mistaken.unwrap_or_else(|| self.meet(&mut state, fate, path, payload));
        state.look();
        if state.crash_of(self.run) == Crash::AppendWritten(appends) {
            state.kill(self.run);
            return Answer::Silence;
        }
        answer
    }

    fn meet(
        &self,
        state: &mut State,
        fate: Fate,
        path: &Path,
        payload: PutPayload,
    ) -> Answer<Result<PutResult>> {
        Answer::Given(match fate {
            Fate::Well | Fate::Slow => put(&self.inner, path, payload),
            Fate::Refused => Err(Error::PermissionDenied {
                path: path.to_string(),
                source: "it is denied on purpose".into(),
            }),
            Fate::Lost => Err(failed()),
            Fate::AnswerLost => {
                put(&self.inner, path, payload).ok();
                Err(failed())
            }
            Fate::Late => {
                let path = path.clone();
                state.late.push(LatePut { path, payload });
                Err(failed())
            }
            Fate::Unanswered => {
                put(&self.inner, path, payload).ok();
                return Answer::Silence;
            }
        })
    }

    /// Makes the mistake of this store, if it makes one and it is the moment.
    fn err(
        &self,
        state: &mut State,
        path: &Path,
        payload: &PutPayload,
    ) -> Option<Answer<Result<PutResult>>> {
        match state.mistake? {
            Mistake::WrittenBeforeItIs => {
                let (path, payload) = (path.clone(), payload.clone());
                state.late.push(LatePut { path, payload });
            }
            Mistake::FenceIgnored if state.is_taken_over(self.run) => {}
            Mistake::FenceIgnored => return None,
        }
        Some(Answer::Given(Ok(PutResult {
            e_tag: None,
            version: None,
            extensions: Extensions::default(),
        })))
    }

    /// Whether a question other than a put is answered well. A log is to be opened some time, however many
    /// objects are read for that.
    fn question(&self) -> Answer<Result<()>> {
        let mut state = self.home.lock();
        if !state.lives(self.run) {
            return Answer::Silence;
        }
        // Many objects are read at once, and it takes one that fails for all to be read again.
        let fails = state.has_appended(self.run) && state.fails(self.run) && state.chance(5);
        Answer::Given(if fails { Err(failed()) } else { Ok(()) })
    }
}

fn failed() -> Error {
    Error::Generic {
        store: "store",
        source: "it fails on purpose".into(),
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
        if options.mode != PutMode::Create || !path.as_ref().contains("records") {
            self.question().wait().await?;
            return self.inner.put_opts(path, payload, options).await;
        }
        let answer = match payload.content_length() > CLAIM_BYTES {
            true => self.put_records(path, payload),
            false => self.put_claim(path, payload),
        };
        answer.wait().await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.question().wait().await?;
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.question() {
            Answer::Given(Ok(())) => self.inner.delete_stream(paths),
            Answer::Given(Err(error)) => stream::once(future::ready(Err(error))).boxed(),
            Answer::Silence => stream::pending().boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.question() {
            Answer::Given(Ok(())) => self.inner.list(prefix),
            Answer::Given(Err(error)) => stream::once(future::ready(Err(error))).boxed(),
            Answer::Silence => stream::pending().boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.question().wait().await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

impl fmt::Debug for RunStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStore")
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

impl Display for RunStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("store")
    }
}
