//! The thread that writes the log.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, bounded, select};

use super::past::Past;
use super::{Appended, BindingLog, LogError, LogRecord, READ_RECORDS};
use crate::binding::Binding;
use crate::coordinator::{Restoration, RestoreError, Restored};
use crate::epoch::{Incarnation, LogSequence};
use crate::health::FailureKind;
use crate::resume::Resume;
use crate::split::Split;
use crate::tick::Tick;
use crate::wake::Waker;

/// How long the writer waits before it tries again what has failed.
struct Patience {
    first: Duration,
    most: Duration,
    /// Answers after a time.
    timer: Box<dyn Fn(Duration) -> Receiver<Instant> + Send>,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(50),
            most: Duration::from_secs(2),
            timer: Box::new(after),
        }
    }
}

/// Events that wait to be polled, at most: the thread sends one an append and one a failure, and
/// waits when nobody polls.
const EVENTS_MAX: usize = 16;

/// Finds out from the log where to go on, and then appends to it and reads what is to be given again,
/// on a thread of its own.
///
/// # Invariants
///
/// One append is under way at most, and one question about the past: the coordinator asks for the
/// next one when it has the answer.
/// A log that does not answer therefore holds a message of each kind and nobody's thread but its own.
#[derive(Debug)]
pub(crate) struct LogWriter<S: Split> {
    wanted: Sender<Wanted<S>>,
    /// Whether an append is under way.
    appending: Cell<bool>,
    events: Receiver<LogEvent<S>>,
    /// The tick up to which none is needed any more, if that was not dropped; zero otherwise.
    since: Arc<AtomicU64>,
}

/// What is wanted of the thread.
///
/// It comes through one channel: whoever wakes a thread that waits for several holds locks that the thread
/// takes when it wakes, so that both are switched more often than they have to be.
enum Wanted<S: Split> {
    Append(Incarnation, Vec<LogRecord<S>>),
    /// To drop what is not needed any more, if there is time.
    DropOld,
    /// The next bindings that are to be given again.
    Past,
}

/// One of each kind.
const WANTED_MAX: usize = 3;

/// What the log answered.
#[derive(Debug)]
pub(crate) enum LogEvent<S: Split> {
    /// The log was opened, and this is what to go on from.
    Opened(Box<Result<Restored<S>, RestoreError>>),
    /// The next bindings to be given again; none at the end.
    Past(Vec<Binding<S>>),
    /// The append is durable.
    Appended,
    /// Another incarnation has taken over.
    Fenced,
    /// The attempt failed and is repeated.
    Failed(LogError),
    /// What is not needed any more could not be dropped; that stops nothing.
    NotCompacted(LogError),
    /// The log cannot be used.
    Unusable(LogError),
}

impl<S: Split> LogWriter<S> {
    /// Starts the thread. It ends when the writer is dropped, or once the log answers after that.
    pub(crate) fn start(
        log: Box<dyn BindingLog<S>>,
        resume: Resume,
        waker: Waker,
    ) -> std::io::Result<Self> {
        Self::start_patient(log, resume, waker, Patience::default())
    }

    fn start_patient(
        log: Box<dyn BindingLog<S>>,
        resume: Resume,
        waker: Waker,
        patience: Patience,
    ) -> std::io::Result<Self> {
        let (wanted, wanted_receiver) = bounded(WANTED_MAX);
        let (event_sender, events) = bounded(EVENTS_MAX);
        let since = Arc::new(AtomicU64::new(0));
        let thread = WriterThread {
            log,
            wanted: wanted_receiver,
            waiting: VecDeque::new(),
            events: event_sender,
            since: Arc::clone(&since),
            resume,
            past: None,
            waker,
            written: LogSequence::default(),
            patience,
        };
        thread::Builder::new()
            .name("binding-log".to_owned())
            .spawn(move || thread.run_caught())?;
        Ok(Self {
            wanted,
            appending: Cell::new(false),
            events,
            since,
        })
    }

    /// Begins to append `records`; the append before has been answered.
    ///
    /// # Panics
    ///
    /// Panics if an append is under way: the coordinator asked twice.
    pub(crate) fn append(&self, incarnation: Incarnation, records: Vec<LogRecord<S>>) {
        assert!(!self.appending.replace(true), "one append at a time");
        // A thread that is gone has said why as its last event.
        let append = Wanted::Append(incarnation, records);
        self.wanted.try_send(append).ok();
    }

    /// Lets the log drop what only ticks up to and with `since` need, when it has time for that.
    pub(crate) fn compact(&self, since: Tick) {
        // A thread that was told before and has not looked yet will see this one as well.
        if since > Tick(0) && self.since.fetch_max(since.0, Ordering::Relaxed) == 0 {
            self.wanted.try_send(Wanted::DropOld).ok();
        }
    }

    /// Asks for the next bindings that are to be given again; those before have come.
    pub(crate) fn ask_past(&self) {
        // A thread that is gone has said why as its last event.
        self.wanted.try_send(Wanted::Past).ok();
    }

    /// The next answer, if there is one.
    pub(crate) fn poll(&self) -> Option<LogEvent<S>> {
        self.events.try_recv().ok().map(|event| self.heard(event))
    }

    fn heard(&self, event: LogEvent<S>) -> LogEvent<S> {
        if matches!(event, LogEvent::Appended) {
            self.appending.set(false);
        }
        event
    }
}

struct WriterThread<S: Split> {
    log: Box<dyn BindingLog<S>>,
    wanted: Receiver<Wanted<S>>,
    /// What came while an append was to be tried again.
    waiting: VecDeque<Wanted<S>>,
    events: Sender<LogEvent<S>>,
    since: Arc<AtomicU64>,
    resume: Resume,
    /// What is to be given again, if anything is.
    past: Option<Past>,
    waker: Waker,
    written: LogSequence,
    patience: Patience,
}

impl<S: Split> WriterThread<S> {
    /// Runs, and says so if the log panics: nobody else would notice.
    fn run_caught(mut self) {
        // Nothing of the thread is used after a panic but what says that there was one.
        let ran = panic::catch_unwind(AssertUnwindSafe(|| self.run()));
        if ran.is_err() {
            let panicked = "it panicked; this run cannot go on without it";
            self.say(LogEvent::Unusable(LogError::definite("", panicked)));
        }
    }

    fn run(&mut self) {
        let Some(restored) = self.open() else {
            return;
        };
        if !self.say(LogEvent::Opened(Box::new(restored))) {
            return;
        }
        while let Some(wanted) = (self.waiting.pop_front()).or_else(|| self.wanted.recv().ok()) {
            let goes_on = match wanted {
                Wanted::Append(incarnation, records) => self.append(incarnation, &records),
                Wanted::DropOld => self.drop_old(),
                Wanted::Past => self.read_past(),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Tries until it is done. `None` if it is not to be: the log says so for good, or nobody waits for
    /// it any more.
    fn patiently<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, LogError>,
    ) -> Option<T> {
        let mut backoff = self.patience.first;
        loop {
            let error = match attempt(self) {
                Ok(done) => return Some(done),
                Err(error) => error,
            };
            if error.kind == FailureKind::Definite {
                self.say(LogEvent::Unusable(error));
                return None;
            }
            if !self.say(LogEvent::Failed(error)) {
                return None;
            }
            // An append may be asked for meanwhile, and is to be found when this is over.
            (self.patience.timer)(backoff).recv().ok();
            backoff = (backoff * 2).min(self.patience.most);
        }
    }

    /// Opens the log, and works off what is needed of it, however long the log is away.
    fn open(&mut self) -> Option<Result<Restored<S>, RestoreError>> {
        let extent = self.patiently(|thread| thread.log.open())?;
        let begin = match self.resume.base() {
            Some(base) => (extent.snapshot_before(base)).map_or(extent.first, |found| found.at),
            None => extent.last_state(),
        };
        let mut restoration = Restoration::new(self.resume);
        let mut next = begin;
        loop {
            // Not from the beginning each time: a long log whose store fails now and then has an end too.
            let records = self.patiently(|thread| thread.log.read(next, READ_RECORDS))?;
            if records.is_empty() {
                break;
            }
            next.0 += records.len() as u64;
            let mut worked = records.iter().map(|record| restoration.apply(record));
            if let Some(error) = worked.find_map(Result::err) {
                return Some(Err(error));
            }
        }
        self.written = next;
        if let Resume::Replay { from } = self.resume {
            self.past = Some(Past::new(&extent, begin, next, from));
        }
        Some(restoration.finish())
    }

    /// Reads the next bindings that are to be given again.
    fn read_past(&mut self) -> bool {
        let read = self.patiently(|thread| match &mut thread.past {
            Some(past) => past.read(&mut *thread.log),
            None => Ok(Vec::new()),
        });
        read.is_some_and(|bindings| self.say(LogEvent::Past(bindings)))
    }

    fn drop_old(&mut self) -> bool {
        let since = Tick(self.since.swap(0, Ordering::Relaxed));
        match self.log.compact(since) {
            Ok(()) => true,
            Err(error) => self.say(LogEvent::NotCompacted(error)),
        }
    }

    /// Appends until it is known that the records are in the log; false if that is never to be.
    fn append(&mut self, incarnation: Incarnation, records: &[LogRecord<S>]) -> bool {
        let mut backoff = self.patience.first;
        // Whether it has to be read before anything can be appended: the place may be taken already,
        // by these very records.
        let mut unknown = false;
        loop {
            let failed = if unknown {
                match self.was_written(records) {
                    Ok(true) => return self.appended(records),
                    // The same append is tried again: should the one before get there late, it is
                    // found to be the same.
                    Ok(false) => {
                        unknown = false;
                        None
                    }
                    Err(error) => Some(error),
                }
            } else {
                match self.log.append(incarnation, self.written, records) {
                    Ok(Appended::Durable) => return self.appended(records),
                    Ok(Appended::Fenced) => {
                        self.say(LogEvent::Fenced);
                        return false;
                    }
                    Ok(Appended::Unknown) => {
                        unknown = true;
                        continue;
                    }
                    Err(error) => Some(error),
                }
            };
            let told = failed.is_none_or(|error| self.say(LogEvent::Failed(error)));
            if !told || !self.pause(backoff) {
                return false;
            }
            backoff = (backoff * 2).min(self.patience.most);
        }
    }

    fn appended(&mut self, records: &[LogRecord<S>]) -> bool {
        self.written.0 += records.len() as u64;
        self.say(LogEvent::Appended)
    }

    /// Finds out by reading whether an append whose outcome is unknown took place.
    ///
    /// Equal records are not enough to tell that nobody else wrote: if somebody did, the log of this
    /// run is fenced, and the next append says so.
    fn was_written(&mut self, records: &[LogRecord<S>]) -> Result<bool, LogError> {
        let mut read = Vec::new();
        while read.len() < records.len() {
            let next = LogSequence(self.written.0 + read.len() as u64);
            let more = self.log.read(next, records.len() - read.len())?;
            if more.is_empty() {
                break;
            }
            read.extend(more);
        }
        read.truncate(records.len());
        Ok(read == records)
    }

    /// Waits, and is false if the writer was dropped meanwhile.
    fn pause(&mut self, time: Duration) -> bool {
        let over = (self.patience.timer)(time);
        loop {
            select! {
                recv(over) -> _ => return true,
                recv(self.wanted) -> wanted => match wanted {
                    Ok(wanted) => self.waiting.push_back(wanted),
                    Err(_) => return false,
                },
            }
        }
    }

    fn say(&self, event: LogEvent<S>) -> bool {
        let heard = self.events.send(event).is_ok();
        self.waker.wake();
        heard
    }
}

#[cfg(test)]
mod tests;
