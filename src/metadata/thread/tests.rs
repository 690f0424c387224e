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
        ..MetadataOptions::default()
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
            // As often as it is asked.
            MetadataEvent::Repeated | MetadataEvent::Settled => {
                return ControlFlow::Continue(());
            }
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
    let check = |metadata: &StreamsMetadata| metadata.check_agreed();
    let on_event = Box::new(on_event);
    let thread = MetadataThread::start(Box::new(service), options, Box::new(check), on_event);
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

/// Answers with a version, from a list.
struct Numbered(Vec<(u64, &'static str)>, u64);

impl MetadataService for Numbered {
    fn ask(&mut self, _deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        let (version, topic) = match self.0.as_slice() {
            [last] => *last,
            _ => self.0.remove(0),
        };
        self.1 = version;
        Ok(orders(topic))
    }

    fn interval(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn version(&self) -> Option<u64> {
        Some(self.1)
    }
}

/// S22. To see it fail, do not compare versions in `Asker::usable`.
#[test]
fn an_answer_that_is_older_than_one_before_changes_nothing() {
    let answers = vec![(1, "x"), (3, "z"), (2, "y"), (3, "z"), (4, "w")];

    let (_thread, events) = start(Numbered(answers, 0), options());

    assert_eq!(
        take(&events, 5),
        [
            "answered x",
            "answered z",
            "failed 1: metadata service: the answer is old: its version is 2, after 3",
            "recovered",
            "answered w",
        ]
    );
}

/// S22: nothing else is asked while an answer is late, so that it is the next one whenever it comes.
#[test]
fn an_answer_that_comes_late_is_the_next_one_and_counts() {
    let (release, released) = bounded::<()>(1);
    let service = Scripted(move || {
        // Whoever asks again finds that it was released.
        match released.recv_timeout(SOON) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(orders("late")),
            Err(RecvTimeoutError::Timeout) => Err(MetadataError::unavailable("never released")),
        }
    });
    let impatient = MetadataOptions {
        deadline: Duration::from_millis(10),
        ..options()
    };

    let (_thread, events) = start(service, impatient);
    let first = take(&events, 1);
    drop(release);

    assert!(first[0].starts_with("failed 1: metadata service: no answer after"));
    let rest = events.iter().skip_while(|said| said.starts_with("failed"));
    let rest: Vec<_> = rest.take(2).collect();
    assert_eq!(rest, ["recovered", "answered late"]);
}

/// S18: maps are told in their order, whatever the order in which they are given.
#[test]
fn answers_in_another_order_are_the_same_answer() {
    let both = |names: [&str; 2]| {
        let all = names.iter().fold(StreamsMetadata::new(), |all, cluster| {
            all.with_cluster(cluster, ClientProperties::new()).unwrap()
        });
        let streams = names.iter();
        streams.fold(all, |all, cluster| {
            let read = KafkaStream::new().with_topics(cluster, ["x", "y"]).unwrap();
            all.with_stream(cluster, read).unwrap()
        })
    };
    let mut asked = 0;
    let service = Scripted(move || {
        asked += 1;
        Ok(match asked {
            1..1_000 if asked % 2 == 0 => both(["a", "b"]),
            1..1_000 => both(["b", "a"]),
            _ => orders("z"),
        })
    });

    let (_thread, events) = start(service, options());

    assert_eq!(take(&events, 2), ["answered x", "answered z"]);
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
