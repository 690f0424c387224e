//! Asks a metadata service, on threads of its own.
//!
//! Two threads: one is inside the service and may hang there; the other keeps the time, so that a
//! service that hangs is reported, and ends at once when nobody wants answers any more. Neither is
//! joined: nobody can end a thread that hangs in somebody else's code.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};
use timely_splits::health::FailureKind;

use super::nearest::nearest_key;
use super::{MetadataError, MetadataService};
use crate::model::StreamsMetadata;

/// How much longer than its deadline a service is waited for before it is late.
const GRACE: Duration = Duration::from_secs(1);

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
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(5),
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
    /// Starts to ask `service`; `on_event` is called with what happens.
    pub(crate) fn start(
        service: Box<dyn MetadataService>,
        options: MetadataOptions,
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
            on_event,
            stopped,
            ask,
            answers,
            last: None,
            consecutive: 0,
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
            Answer { said, interval }
        }));
        let answer = asked.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let message = text.unwrap_or_else(|| "without words".to_owned());
            Answer {
                said: Err(MetadataError::Panicked { message }),
                interval: None,
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
    on_event: OnMetadata,
    stopped: Receiver<()>,
    ask: Sender<Instant>,
    answers: Receiver<Answer>,
    last: Option<StreamsMetadata>,
    consecutive: u32,
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
            ControlFlow::Continue(Answer { said, interval }) => {
                match said.and_then(|metadata| described(&metadata).map(|()| metadata)) {
                    Ok(metadata) => {
                        self.succeeded(metadata)?;
                        let Some(interval) = interval else {
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
                }
            }
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

    fn succeeded(&mut self, metadata: StreamsMetadata) -> Flow {
        self.reported = None;
        if std::mem::take(&mut self.consecutive) > 0 {
            (self.on_event)(MetadataEvent::Recovered)?;
        }
        if self.last.as_ref() == Some(&metadata) {
            return ControlFlow::Continue(());
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

/// Checks that every cluster that a stream names is described.
fn described(metadata: &StreamsMetadata) -> Result<(), MetadataError> {
    let Some((stream, cluster)) = metadata.undescribed() else {
        return Ok(());
    };
    let nearest = nearest_key(cluster.as_str(), &metadata.clusters).cloned();
    Err(MetadataError::Undescribed {
        stream: stream.clone(),
        cluster: cluster.clone(),
        nearest,
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::metadata::FixedMetadataService;
    use crate::model::{ClientProperties, KafkaStream};

    /// A guard against hangs alone.
    const SOON: Duration = Duration::from_secs(30);

    /// Asks a closure.
    struct Scripted<F>(F);

    impl<F> MetadataService for Scripted<F>
    where
        F: FnMut() -> Result<StreamsMetadata, MetadataError> + Send + 'static,
    {
        fn ask(&mut self, _deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
            (self.0)()
        }

        fn interval(&self) -> Option<Duration> {
            Some(Duration::from_millis(1))
        }
    }

    fn options() -> MetadataOptions {
        MetadataOptions {
            deadline: SOON,
            backoff_min: Duration::from_millis(1),
            backoff_max: Duration::from_millis(2),
        }
    }

    fn orders(topic: &str) -> StreamsMetadata {
        let read = KafkaStream::new().with_topics("a", [topic]).unwrap();
        StreamsMetadata::new()
            .with_cluster("a", ClientProperties::new())
            .and_then(|metadata| metadata.with_stream("orders", read))
            .unwrap()
    }

    /// Starts `service`, and gives what it is told in words. The channel ends with the thread.
    fn start(
        service: impl MetadataService,
        options: MetadataOptions,
    ) -> (MetadataThread, Receiver<String>) {
        let (send, events) = bounded(100);
        let on_event = move |event| {
            let words = match event {
                MetadataEvent::Answered(metadata) => {
                    let topics: Vec<_> = metadata.topics().into_values().flatten().collect();
                    format!("answered {}", topics[0])
                }
                MetadataEvent::Failed { consecutive, error } => {
                    format!("failed {consecutive}: {}", error.words())
                }
                MetadataEvent::Recovered => "recovered".to_owned(),
            };
            match send.send(words) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        let thread = MetadataThread::start(Box::new(service), options, Box::new(on_event));
        (thread.unwrap(), events)
    }

    fn take(events: &Receiver<String>, count: usize) -> Vec<String> {
        let next = |_| events.recv_timeout(SOON).unwrap();
        (0..count).map(next).collect()
    }

    /// S11.
    #[test]
    fn failures_are_counted_from_one_again_after_an_answer() {
        let mut asked = 0;
        let service = Scripted(move || {
            asked += 1;
            match asked {
                1 | 2 | 5 => Err(MetadataError::unavailable(io::Error::other("down"))),
                3 | 4 | 6 => Ok(orders("x")),
                _ => Ok(orders("y")),
            }
        });

        let (_thread, events) = start(service, options());

        assert_eq!(
            take(&events, 7),
            [
                "failed 1: metadata service: asking failed: down",
                "failed 2: metadata service: asking failed: down",
                "recovered",
                "answered x",
                "failed 1: metadata service: asking failed: down",
                "recovered",
                "answered y",
            ]
        );
    }

    #[test]
    fn a_service_that_panics_fails_and_is_asked_again() {
        let mut asked = 0;
        let service = Scripted(move || {
            asked += 1;
            assert!(asked > 1, "not today");
            Ok(orders("x"))
        });

        let (_thread, events) = start(service, options());

        assert_eq!(
            take(&events, 3),
            [
                "failed 1: metadata service: panicked: not today",
                "recovered",
                "answered x"
            ]
        );
    }

    #[test]
    fn a_service_without_an_interval_is_asked_once() {
        let (_thread, events) = start(FixedMetadataService::new(orders("x")), options());

        assert_eq!(take(&events, 1), ["answered x"]);
        let ended = events.recv_timeout(SOON);
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn an_answer_that_names_a_cluster_it_does_not_describe_is_a_failure() {
        let mut metadata = orders("x");
        let cluster = metadata.clusters.pop_first().unwrap().1;
        metadata.clusters.insert("b".try_into().unwrap(), cluster);

        let (_thread, events) = start(FixedMetadataService::new(metadata), options());

        assert_eq!(
            take(&events, 1),
            ["failed 1: stream orders: cluster 'a' is not described; \
                 expected one of the described clusters; did you mean 'b'?"]
        );
    }

    #[test]
    fn a_definite_failure_that_stays_the_same_is_reported_once_a_delay() {
        let mut asked = 0;
        let service = Scripted(move || {
            asked += 1;
            if asked < 50 {
                Err(MetadataError::invalid("no streams"))
            } else {
                Ok(orders("x"))
            }
        });
        let slow = MetadataOptions {
            backoff_min: SOON,
            backoff_max: SOON,
            ..options()
        };

        let (_thread, events) = start(service, slow);

        assert_eq!(
            take(&events, 3),
            [
                "failed 1: metadata service: the answer cannot be used: no streams",
                "recovered",
                "answered x",
            ]
        );
    }

    /// The service hangs until the test lets go of it.
    #[test]
    fn a_service_that_hangs_is_reported_and_does_not_hold_up_the_end() {
        let (release, hanging) = bounded::<()>(0);
        let service = Scripted(move || {
            let released = hanging.recv();
            assert!(released.is_err(), "nothing is sent");
            Ok(orders("x"))
        });
        let impatient = MetadataOptions {
            deadline: Duration::from_millis(2),
            ..options()
        };

        let (thread, events) = start(service, impatient);
        let late = take(&events, 2);
        drop(thread);
        while events.recv_timeout(SOON).is_ok() {}

        assert!(late[0].starts_with("failed 1: metadata service: no answer after 0.0 s"));
        assert!(late[1].starts_with("failed 2: metadata service: no answer after 0.0 s"));
        assert_eq!(
            events.recv_timeout(SOON),
            Err(RecvTimeoutError::Disconnected)
        );
        drop(release);
    }

    #[test]
    fn the_delay_doubles_up_to_its_limit() {
        let options = MetadataOptions::default();
        let millis = |failures| options.backoff(failures).as_millis();

        assert_eq!(
            [1, 2, 3, 5, 6, 99].map(millis),
            [200, 400, 800, 3200, 5000, 5000]
        );
    }
}
