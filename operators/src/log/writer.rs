//! The thread that writes the log.

use std::panic::{self, AssertUnwindSafe};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};

use super::{Appended, BindingLog, LogError, LogRecord};
use crate::epoch::{Incarnation, LogSequence};
use crate::split::Split;
use crate::wake::Waker;

/// How long the writer waits before it tries a failed append again, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Events that wait to be polled, at most: the thread sends one an append and one a failure, and
/// waits when nobody polls.
const EVENTS_MAX: usize = 16;

/// Reads the log once and then appends to it, on a thread of its own.
///
/// # Invariants
///
/// One append is under way at most: the coordinator asks for the next one when it has the answer.
/// A log that does not answer therefore holds one message and nobody's thread but its own.
#[derive(Debug)]
pub(crate) struct LogWriter<S: Split> {
    appends: Sender<(Incarnation, Vec<LogRecord<S>>)>,
    events: Receiver<LogEvent<S>>,
}

/// What the log answered.
#[derive(Debug)]
pub(crate) enum LogEvent<S: Split> {
    /// The log was opened and holds these records.
    Opened(Vec<LogRecord<S>>),
    /// The append is durable.
    Appended,
    /// Another incarnation has taken over.
    Fenced,
    /// The attempt failed and is repeated.
    Failed(LogError),
    /// The log cannot be used.
    Unusable(LogError),
}

impl<S: Split> LogWriter<S> {
    /// Starts the thread. It ends when the writer is dropped, or once the log answers after that.
    pub(crate) fn start(log: Box<dyn BindingLog<S>>, waker: Waker) -> std::io::Result<Self> {
        let (appends, append_receiver) = bounded(1);
        let (event_sender, events) = bounded(EVENTS_MAX);
        let thread = WriterThread {
            log,
            appends: append_receiver,
            events: event_sender,
            waker,
            written: LogSequence::default(),
        };
        thread::Builder::new()
            .name("binding-log".to_owned())
            .spawn(move || thread.run_caught())?;
        Ok(Self { appends, events })
    }

    /// Begins to append `records`; the append before has been answered.
    ///
    /// # Panics
    ///
    /// Panics if an append is under way: the coordinator asked twice.
    pub(crate) fn append(&self, incarnation: Incarnation, records: Vec<LogRecord<S>>) {
        let sent = self.appends.try_send((incarnation, records));
        assert!(
            !matches!(sent, Err(TrySendError::Full(_))),
            "one append at a time"
        );
        // A thread that is gone has said why as its last event.
    }

    /// The next answer, if there is one.
    pub(crate) fn poll(&self) -> Option<LogEvent<S>> {
        self.events.try_recv().ok()
    }
}

struct WriterThread<S: Split> {
    log: Box<dyn BindingLog<S>>,
    appends: Receiver<(Incarnation, Vec<LogRecord<S>>)>,
    events: Sender<LogEvent<S>>,
    waker: Waker,
    written: LogSequence,
}

impl<S: Split> WriterThread<S> {
    /// Runs, and says so if the log panics: nobody else would notice.
    fn run_caught(mut self) {
        // Nothing of the thread is used after a panic but what says that there was one.
        let ran = panic::catch_unwind(AssertUnwindSafe(|| self.run()));
        if ran.is_err() {
            self.say(LogEvent::Unusable(LogError {
                name: String::new(),
                message: "it panicked; this run cannot go on without it".to_owned(),
                source: None,
            }));
        }
    }

    fn run(&mut self) {
        match self.log.read() {
            Ok(contents) => {
                self.written = contents.next();
                if !self.say(LogEvent::Opened(contents.records)) {
                    return;
                }
            }
            Err(error) => {
                self.say(LogEvent::Unusable(error));
                return;
            }
        }
        while let Ok((incarnation, records)) = self.appends.recv() {
            if !self.append(incarnation, &records) {
                return;
            }
        }
    }

    /// Appends until it is known that the records are in the log; false if that is never to be.
    fn append(&mut self, incarnation: Incarnation, records: &[LogRecord<S>]) -> bool {
        let mut backoff = BACKOFF.0;
        loop {
            let error = match self.log.append(incarnation, self.written, records) {
                Ok(Appended::Durable) => {
                    self.written.0 += records.len() as u64;
                    return self.say(LogEvent::Appended);
                }
                Ok(Appended::Fenced) => {
                    self.say(LogEvent::Fenced);
                    return false;
                }
                Ok(Appended::Unknown) => match self.was_written(records) {
                    Ok(true) => {
                        self.written.0 += records.len() as u64;
                        return self.say(LogEvent::Appended);
                    }
                    // Not written: the same append is tried again.
                    Ok(false) => continue,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !self.say(LogEvent::Failed(error)) || !self.pause(backoff) {
                return false;
            }
            backoff = (backoff * 2).min(BACKOFF.1);
        }
    }

    /// Finds out by reading whether an append whose outcome is unknown took place.
    fn was_written(&mut self, records: &[LogRecord<S>]) -> Result<bool, LogError> {
        let all = self.log.read()?;
        let before = self.written.0.saturating_sub(all.first.0);
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        Ok(all
            .records
            .get(before..)
            .is_some_and(|tail| tail == records))
    }

    /// Waits, and is false if the writer was dropped meanwhile.
    fn pause(&self, time: Duration) -> bool {
        // No append can arrive while one is under way, so only the end of the channel cuts it short.
        matches!(
            self.appends.recv_timeout(time),
            Err(RecvTimeoutError::Timeout)
        )
    }

    fn say(&self, event: LogEvent<S>) -> bool {
        let heard = self.events.send(event).is_ok();
        self.waker.wake();
        heard
    }
}
