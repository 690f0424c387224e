//! A source whose log is away when it starts.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

#[expect(dead_code, reason = "other tests need more of it")]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely::Config;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Inspect, Probe};
use timely_splits::control::SourceControl;
use timely_splits::epoch::{Incarnation, LogSequence};
use timely_splits::event::{Observer, SourceEvent};
use timely_splits::health::{FailureKind, Health, HealthStatus};
use timely_splits::log::{Appended, BindingLog, LogError, LogExtent, LogRecord, MemoryLog};
use timely_splits::source::{SourceOptions, read_splits};
use timely_splits::tick::{Tick, TimeMap};

use support::{Letter, World};

/// How many times a worker steps, at most, before a test is called hung.
const STEPS_MAX: usize = 200_000;

/// A log in memory that cannot be opened at first.
struct AwayLog {
    inner: MemoryLog<Letter>,
    /// How often it is still to fail, and with what.
    failures: Arc<AtomicUsize>,
    kind: FailureKind,
}

impl BindingLog<Letter> for AwayLog {
    fn open(&mut self) -> Result<LogExtent, LogError> {
        let failed = (self.failures).fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        match failed {
            Ok(_) => Err(LogError {
                kind: self.kind,
                ..LogError::transient("s3://bindings/orders", "no answer within 30s")
            }),
            Err(_) => self.inner.open(),
        }
    }

    fn read(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<Letter>>, LogError> {
        self.inner.read(from, records_max)
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<Letter>],
    ) -> Result<Appended, LogError> {
        self.inner.append(incarnation, expected, records)
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        self.inner.compact(since)
    }
}

/// What came of a run that was asked to end.
#[derive(Default)]
struct Run {
    rows: usize,
    health: Vec<Health>,
    /// Whether the frontier came to its end.
    ended: bool,
}

/// Runs two workers over a split of ten records, and asks for the end when `enough` says so. One that
/// cannot end is left after so many steps.
fn run(
    log: AwayLog,
    steps_max: usize,
    enough: impl Fn(&Run) -> bool + Send + Sync + 'static,
) -> Run {
    let world = World::default();
    world.list("a");
    world.write('a', 10);
    let (log, control) = (Mutex::new(Some(log)), SourceControl::new());
    let run: Arc<Mutex<Run>> = Arc::default();
    let shared = Arc::clone(&run);
    let guards = timely::execute(Config::process(2), move |worker| {
        let index = worker.index();
        let log = (index == 0).then(|| log.lock().unwrap().take().expect("one worker 0"));
        let enumeration = log.map(|log| world.enumeration(log));
        let probe = ProbeHandle::new();
        let (heard, rows) = (Arc::clone(&shared), Arc::clone(&shared));
        worker.dataflow::<u64, _, _>(|scope| {
            let mut source = SourceOptions::new("letters", TimeMap::identity());
            source.tick_interval = Duration::from_millis(2);
            source.control = control.clone();
            source.observer = Observer::new(move |event| {
                if let SourceEvent::Health(health) = event {
                    heard.lock().unwrap().health.push(health.clone());
                }
            });
            let streams = read_splits(scope, &source, enumeration, world.reading());
            streams
                .batches
                .inspect(move |_| rows.lock().unwrap().rows += 1)
                .probe_with(&probe);
        });
        for _ in 0..steps_max {
            if probe.done() {
                shared.lock().unwrap().ended = true;
                return;
            }
            worker.step_or_park(Some(Duration::from_millis(1)));
            if index == 0 && enough(&shared.lock().unwrap()) {
                control.stop();
            }
        }
        // A dataflow that cannot end would be stepped for ever.
        let left = worker.installed_dataflows();
        left.into_iter()
            .for_each(|dataflow| worker.drop_dataflow(dataflow));
    })
    .expect("workers start");
    for guard in guards.join() {
        guard.expect("a worker ended well");
    }
    std::mem::take(&mut *run.lock().unwrap())
}

/// The lines about the log that are of one status.
fn of_log(run: &Run, status: HealthStatus) -> Vec<&str> {
    let lines = run.health.iter();
    lines
        .filter(|line| line.subject == "binding log" && line.status == status)
        .map(|line| line.message.as_str())
        .collect()
}

#[test]
fn a_log_that_is_away_is_waited_for_and_health_says_so_in_its_words() {
    let inner = MemoryLog::new();
    let log = AwayLog {
        inner: inner.clone(),
        failures: Arc::new(AtomicUsize::new(3)),
        kind: FailureKind::Transient,
    };

    let run = run(log, STEPS_MAX, |run| run.rows == 10);

    assert!(run.ended);
    assert_eq!(run.rows, 10);
    let words = "binding log s3://bindings/orders: no answer within 30s; trying again";
    let failing = HealthStatus::Failing(FailureKind::Transient);
    assert_eq!(of_log(&run, failing), [words; 3]);
    assert!(
        of_log(&run, HealthStatus::Well).contains(&"it is open"),
        "{:?}",
        run.health
    );
    let bound = |record: &LogRecord<Letter>| matches!(record, LogRecord::Binding(_));
    assert!(inner.records().iter().any(bound));
}

#[test]
fn a_source_whose_log_is_away_can_be_ended() {
    let log = AwayLog {
        inner: MemoryLog::new(),
        failures: Arc::new(AtomicUsize::new(usize::MAX)),
        kind: FailureKind::Transient,
    };

    let run = run(log, STEPS_MAX, |run| !run.health.is_empty());

    assert!(run.ended);
    assert_eq!(run.rows, 0);
}

#[test]
fn a_log_that_cannot_be_used_is_told_once_and_nothing_is_read() {
    let failures = Arc::new(AtomicUsize::new(usize::MAX));
    let log = AwayLog {
        inner: MemoryLog::new(),
        failures: Arc::clone(&failures),
        kind: FailureKind::Definite,
    };

    let run = run(log, 1_000, |_| false);

    assert!(!run.ended);
    assert_eq!(run.rows, 0);
    let failing = HealthStatus::Failing(FailureKind::Definite);
    let words = "binding log s3://bindings/orders: no answer within 30s";
    assert_eq!(of_log(&run, failing), [words]);
    assert_eq!(failures.load(Ordering::SeqCst), usize::MAX - 1);
}
