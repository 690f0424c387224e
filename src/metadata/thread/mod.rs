//! Asks a metadata service, on threads of its own.
//!
//! Two threads: one is inside the service and may hang there; the other keeps the time, so that a
//! service that hangs is reported, and ends at once when nobody wants answers any more. Neither is
//! joined: nobody can end a thread that hangs in somebody else's code.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};
use timely_splits::coordinator::{FailureThreshold, ShrinkGuard};
use timely_splits::health::FailureKind;

use super::{MetadataError, MetadataService};
use crate::model::StreamsMetadata;

/// How much longer than its deadline a service is waited for before it is late.
const GRACE: Duration = Duration::from_secs(1);

/// How often it is told that an answer was repeated, at most.
const REPEATED_EVERY: Duration = Duration::from_millis(100);

/// How a metadata service is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataOptions {
    /// How long an answer may take before it is reported as late; 10 s by default.
    pub deadline: Duration,
    /// How long after a first failure the service is asked again; each further one doubles it.
    /// 200 ms by default.
    pub backoff_min: Duration,
    /// The longest time after a failure until the service is asked again; 5 s by default.
    pub backoff_max: Duration,
    /// When an answer that loses much of what is in force is held back until it is given again; by
    /// default when it loses more than half of the streams, clusters or topics, or all of them, and
    /// until it is given again a second or longer after the first time. `None`: never.
    pub shrink_guard: Option<ShrinkGuard>,
    /// How many failures in a row end the source, and how; `None`, the default: it waits for ever.
    ///
    /// A definite failure that stays the same counts once in the time after which a transient one
    /// would be asked about again.
    pub failure_threshold: Option<FailureThreshold>,
    /// How long a service may fail before the health stream says how old what is in force is, and says
    /// it again each time it is twice as old; 60 s by default. `None`: it never does.
    pub stale_after: Option<Duration>,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(5),
            shrink_guard: Some(ShrinkGuard {
                loss_percent_max: 50,
                confirmed_after: Duration::from_secs(1),
            }),
            failure_threshold: None,
            stale_after: Some(Duration::from_secs(60)),
        }
    }
}

impl MetadataOptions {
    /// The delay after `consecutive` failures.
    fn backoff(&self, consecutive: u32) -> Duration {
        let doublings = consecutive.saturating_sub(1).min(31);
        let backoff = self.backoff_min.saturating_mul(1 << doublings);
        backoff.min(self.backoff_max)
    }
}

/// What happens to a metadata service.
#[derive(Debug)]
pub(crate) enum MetadataEvent {
    /// It gave an answer that differs from the last one.
    Answered(StreamsMetadata),
    /// It gave the last answer again. It is not told each time of a service that is asked all the time.
    Repeated,
    /// It gives no other answer than the last one, ever.
    Settled,
    /// It gave no answer. A definite failure that stays the same is reported again only after the
    /// delay that a transient one would have, although it is asked at its own interval.
    Failed {
        /// How many failures were reported since the last answer.
        consecutive: u32,
        /// Why there is no answer.
        error: MetadataError,
    },
    /// It answers again, with whatever answer; what differs follows as `Answered`.
    Recovered,
}

/// What is called with what happens; it ends the thread by `Break`.
pub(crate) type OnMetadata = Box<dyn FnMut(MetadataEvent) -> ControlFlow<()> + Send>;

/// Says whether an answer can be used; one that cannot is a failure.
pub(crate) type CheckAnswer = Box<dyn Fn(&StreamsMetadata) -> Result<(), MetadataError> + Send>;

/// Asks a metadata service until it is dropped.
///
/// Dropping it does not wait: `on_event` can be running at that moment, and is not called again
/// after that call. It is dropped when the thread ends, which it also does by itself once a service
/// without an interval has answered.
#[derive(Debug)]
pub(crate) struct MetadataThread {
    /// Disconnected by the drop, which is what the thread waits for.
    _stop: Sender<()>,
}

impl MetadataThread {
    /// Starts to ask `service`; `on_event` is called with what happens, and with answers that `check`
    /// lets pass.
    pub(crate) fn start(
        service: Box<dyn MetadataService>,
        options: MetadataOptions,
        check: CheckAnswer,
        on_event: OnMetadata,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = bounded(0);
        let (ask, questions) = bounded(1);
        let (answer, answers) = bounded(1);
        thread::Builder::new()
            .name("metadata-service".to_owned())
            .spawn(move || serve(service, &questions, &answer))?;
        let asker = Asker {
            options,
            check,
            on_event,
            stopped,
            ask,
            answers,
            last: None,
            newest: None,
            consecutive: 0,
            repeated: None,
            reported: None,
        };
        thread::Builder::new()
            .name("metadata".to_owned())
            .spawn(move || asker.run())?;
        Ok(Self { _stop: stop })
    }
}

/// What the service said, and when it wants to be asked again.
struct Answer {
    said: Result<StreamsMetadata, MetadataError>,
    interval: Option<Duration>,
    version: Option<u64>,
}

/// Answers `questions`, each of which is the deadline, by `service`, until nobody asks.
fn serve(
    mut service: Box<dyn MetadataService>,
    questions: &Receiver<Instant>,
    answers: &Sender<Answer>,
) {
    for deadline in questions {
        let asked = catch_unwind(AssertUnwindSafe(|| {
            let said = service.ask(deadline);
            let interval = service.interval();
            let version = service.version();
            Answer {
                said,
                interval,
                version,
            }
        }));
        let answer = asked.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let message = text.unwrap_or_else(|| "without words".to_owned());
            Answer {
                said: Err(MetadataError::Panicked { message }),
                interval: None,
                version: None,
            }
        });
        if answers.send(answer).is_err() {
            return;
        }
    }
}

/// What the thread is to do after an event.
type Flow = ControlFlow<()>;

struct Asker {
    options: MetadataOptions,
    check: CheckAnswer,
    on_event: OnMetadata,
    stopped: Receiver<()>,
    ask: Sender<Instant>,
    answers: Receiver<Answer>,
    last: Option<StreamsMetadata>,
    /// The greatest version of an answer that could be used.
    newest: Option<u64>,
    consecutive: u32,
    /// When it was last told that an answer was repeated.
    repeated: Option<Instant>,
    /// The last failure that was reported, and until when the same one is not reported again.
    reported: Option<(String, Instant)>,
}

impl Asker {
    fn run(mut self) {
        while self.round().is_continue() {}
    }

    /// Asks once, reports what is said, and waits until the service is asked again.
    fn round(&mut self) -> Flow {
        let wait = match self.answer() {
            ControlFlow::Break(()) => return ControlFlow::Break(()),
            ControlFlow::Continue(Answer {
                said,
                interval,
                version,
            }) => match said.and_then(|metadata| self.usable(metadata, version)) {
                Ok(metadata) => {
                    self.succeeded(metadata)?;
                    let Some(interval) = interval else {
                        (self.on_event)(MetadataEvent::Settled)?;
                        return ControlFlow::Break(());
                    };
                    interval
                }
                Err(error) => {
                    let kind = error.kind();
                    self.failed(error)?;
                    let backoff = self.options.backoff(self.consecutive);
                    match kind {
                        FailureKind::Definite => interval.unwrap_or(backoff),
                        FailureKind::Transient => backoff,
                    }
                }
            },
        };
        match self.stopped.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => ControlFlow::Continue(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => ControlFlow::Break(()),
        }
    }

    /// The next answer, however late; each deadline that passes is a failure.
    fn answer(&mut self) -> ControlFlow<(), Answer> {
        let asked = Instant::now();
        if self.ask.send(asked + self.options.deadline).is_err() {
            return ControlFlow::Break(());
        }
        // A little longer: a service that keeps its deadline says why it has no answer.
        let patience = self.options.deadline + self.options.deadline.min(GRACE);
        loop {
            let (answers, stopped) = (self.answers.clone(), self.stopped.clone());
            select! {
                recv(answers) -> answer => return match answer {
                    Ok(answer) => ControlFlow::Continue(answer),
                    Err(_) => ControlFlow::Break(()),
                },
                recv(stopped) -> _ => return ControlFlow::Break(()),
                default(patience) => {
                    let waited = asked.elapsed();
                    self.failed(MetadataError::Late { waited })?;
                }
            }
        }
    }

    /// An answer that can be used.
    fn usable(
        &mut self,
        metadata: StreamsMetadata,
        version: Option<u64>,
    ) -> Result<StreamsMetadata, MetadataError> {
        if let (Some(version), Some(newest)) = (version, self.newest)
            && version < newest
        {
            return Err(MetadataError::Old { version, newest });
        }
        // The last answer was checked when it came.
        if self.last.as_ref() != Some(&metadata) {
            metadata.check_described()?;
            (self.check)(&metadata)?;
        }
        self.newest = version.or(self.newest);
        Ok(metadata)
    }

    fn succeeded(&mut self, metadata: StreamsMetadata) -> Flow {
        self.reported = None;
        let recovered = std::mem::take(&mut self.consecutive) > 0;
        if recovered {
            (self.on_event)(MetadataEvent::Recovered)?;
        }
        if self.last.as_ref() == Some(&metadata) {
            let now = Instant::now();
            let told = self.repeated.is_some_and(|at| now < at + REPEATED_EVERY);
            if told && !recovered {
                return ControlFlow::Continue(());
            }
            self.repeated = Some(now);
            return (self.on_event)(MetadataEvent::Repeated);
        }
        self.last = Some(metadata.clone());
        (self.on_event)(MetadataEvent::Answered(metadata))
    }

    fn failed(&mut self, error: MetadataError) -> Flow {
        let words = error.words();
        let now = Instant::now();
        if let Some((reported, until)) = &self.reported
            && error.kind() == FailureKind::Definite
            && *reported == words
            && now < *until
        {
            return ControlFlow::Continue(());
        }
        self.consecutive = self.consecutive.saturating_add(1);
        let consecutive = self.consecutive;
        self.reported = Some((words, now + self.options.backoff(consecutive)));
        (self.on_event)(MetadataEvent::Failed { consecutive, error })
    }
}
