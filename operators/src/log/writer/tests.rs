//! The writer before logs that fail, are away and lose answers.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::*;
use crate::letters::Letter;
use crate::log::testing::{Record, binding, snapshot};
use crate::log::{LogExtent, MemoryLog};
use crate::tick::Tick;

const RUN: Incarnation = Incarnation(1);

/// Longer than any test takes, where an answer has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// What becomes of an append, or of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fails,
    /// It is written, and the answer is lost.
    AnswerLost,
    /// It is not written, and the answer is lost.
    Lost,
    CannotBeRead,
    CannotBeCompacted,
}

/// A clock that goes on when somebody waits for it, and only then.
#[derive(Clone, Default)]
struct Clock(Arc<Mutex<Duration>>);

impl Clock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As patient as a run is, by this clock.
    fn patience(&self) -> Patience {
        let clock = self.clone();
        Patience {
            timer: Box::new(move |time| {
                *clock.0.lock().unwrap_or_else(PoisonError::into_inner) += time;
                after(Duration::ZERO)
            }),
            ..Patience::default()
        }
    }
}

/// When a log cannot be reached, and what it says then.
#[derive(Clone, Copy, Debug)]
struct Outage {
    /// How often it is read before, be it opened.
    reads_before: usize,
    time: Duration,
    kind: FailureKind,
    /// When it is over, once it has begun.
    over: Option<Duration>,
}

/// A log in memory whose appends meet their fates one after the other.
#[derive(Clone)]
struct FatefulLog {
    inner: MemoryLog<Letter>,
    fates: Arc<Mutex<VecDeque<Fate>>>,
    clock: Clock,
    outage: Arc<Mutex<Option<Outage>>>,
}

impl FatefulLog {
    fn of(fates: impl IntoIterator<Item = Fate>) -> Self {
        Self {
            inner: MemoryLog::new().keep_for(Duration::MAX),
            fates: Arc::new(Mutex::new(fates.into_iter().collect())),
            clock: Clock::default(),
            outage: Arc::default(),
        }
    }

    fn fail(&self, outage: Outage) {
        *self.outage.lock().unwrap() = Some(outage);
    }

    /// It is opened, or read.
    fn reach(&self) -> Result<(), LogError> {
        let mut coming = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(outage) = &mut *coming else {
            return Ok(());
        };
        if outage.reads_before > 0 {
            outage.reads_before -= 1;
            return Ok(());
        }
        let now = self.clock.now();
        if now >= *outage.over.get_or_insert(now + outage.time) {
            *coming = None;
            return Ok(());
        }
        Err(LogError {
            kind: outage.kind,
            ..LogError::transient("fateful", "no answer")
        })
    }

    /// The next fate, if it is one of these.
    fn meets(&self, wanted: &[Fate]) -> Option<Fate> {
        let mut fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        fates.pop_front_if(|fate| wanted.contains(fate))
    }

    fn error() -> LogError {
        LogError::transient("fateful", "it fails on purpose")
    }
}

impl BindingLog<Letter> for FatefulLog {
    fn open(&mut self) -> Result<LogExtent, LogError> {
        self.reach()?;
        self.inner.open()
    }

    fn read(&mut self, from: LogSequence, records_max: usize) -> Result<Vec<Record>, LogError> {
        self.reach()?;
        match self.meets(&[Fate::CannotBeRead]) {
            Some(_) => Err(Self::error()),
            None => self.inner.read(from, records_max.min(1)),
        }
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[Record],
    ) -> Result<Appended, LogError> {
        match self.meets(&[Fate::Fails, Fate::AnswerLost, Fate::Lost]) {
            Some(Fate::Fails) => Err(Self::error()),
            Some(Fate::AnswerLost) => {
                self.inner.append(incarnation, expected, records)?;
                Ok(Appended::Unknown)
            }
            Some(_) => Ok(Appended::Unknown),
            None => self.inner.append(incarnation, expected, records),
        }
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        match self.meets(&[Fate::CannotBeCompacted]) {
            Some(_) => Err(Self::error()),
            None => self.inner.compact(since),
        }
    }
}

fn start(log: &FatefulLog, resume: Resume) -> LogWriter<Letter> {
    let (waker, patience) = (Waker::calling(|| ()), log.clock.patience());
    LogWriter::start_patient(Box::new(log.clone()), resume, waker, patience).unwrap()
}

/// A writer that is open, and what it came to.
fn open(log: &FatefulLog) -> (LogWriter<Letter>, Result<Restored<Letter>, RestoreError>) {
    open_to(log, Resume::Continue)
}

fn open_to(
    log: &FatefulLog,
    resume: Resume,
) -> (LogWriter<Letter>, Result<Restored<Letter>, RestoreError>) {
    let writer = start(log, resume);
    match writer.heard(writer.events.recv_timeout(PATIENCE).unwrap()) {
        LogEvent::Opened(restored) => (writer, *restored),
        event => panic!("expected it to be open, and not {event:?}"),
    }
}

/// Appends, and says how many failures were told until it was durable.
fn append(writer: &LogWriter<Letter>, records: Vec<Record>) -> usize {
    writer.append(RUN, records);
    let mut failures = 0;
    loop {
        match writer.heard(writer.events.recv_timeout(PATIENCE).unwrap()) {
            LogEvent::Appended => return failures,
            LogEvent::Failed(_) => failures += 1,
            event => panic!("expected it to be appended, and not {event:?}"),
        }
    }
}

/// The failures that are told before the next answer, and that.
fn answer(writer: &LogWriter<Letter>) -> (Vec<String>, LogEvent<Letter>) {
    let mut failures = Vec::new();
    loop {
        match writer.heard(writer.events.recv_timeout(PATIENCE).unwrap()) {
            LogEvent::Failed(error) => failures.push(error.to_string()),
            event => return (failures, event),
        }
    }
}

/// A log of three ticks, of which the first is in a snapshot.
fn written() -> FatefulLog {
    let log = FatefulLog::of([]);
    let (writer, _) = open(&log);
    for record in [snapshot(1), binding(2, 7, 9), binding(3, 9, 12)] {
        append(&writer, vec![record]);
    }
    log
}

const AWAY: Outage = Outage {
    reads_before: 0,
    time: Duration::from_secs(300),
    kind: FailureKind::Transient,
    over: None,
};

#[test]
#[should_panic(expected = "one append at a time")]
fn another_append_before_the_answer_is_a_mistake() {
    let log = written();
    let (writer, _) = open(&log);
    writer.append(RUN, Vec::new());
    writer.append(RUN, Vec::new());
}

/// It could not even be opened, or was away once some of it had been read.
#[test]
fn a_run_begins_as_if_nothing_had_been_after_a_log_was_away_for_five_minutes() {
    let undisturbed = open(&written()).1.unwrap();
    for reads_before in 0..=4 {
        let log = written();
        let begun = log.clock.now();
        log.fail(Outage {
            reads_before,
            ..AWAY
        });
        let writer = start(&log, Resume::Continue);

        let (failures, event) = answer(&writer);

        // At two seconds each, but for the first few.
        assert_eq!(failures.len(), 155, "{reads_before}");
        assert_eq!(failures[0], "binding log fateful: no answer");
        let waited = log.clock.now() - begun;
        assert!(waited >= AWAY.time, "{waited:?}");
        let LogEvent::Opened(restored) = event else {
            panic!("expected it to be open, and not {event:?}");
        };
        let restored = restored.unwrap();
        assert_eq!(restored.bound(), undisturbed.bound(), "{reads_before}");
        assert!(
            restored.positions().eq(undisturbed.positions()),
            "{reads_before}"
        );
        append(&writer, vec![binding(4, 12, 13)]);
        let records = log.inner.records();
        assert_eq!(records[records.len() - 1], binding(4, 12, 13));
    }
}

#[test]
fn ticks_are_given_again_as_if_nothing_had_been_after_a_log_was_away_for_five_minutes() {
    let log = written();
    let (writer, restored) = open_to(&log, Resume::Replay { from: Tick(2) });
    assert!(restored.is_ok(), "{restored:?}");
    log.fail(AWAY);

    writer.ask_past();
    let (failures, event) = answer(&writer);

    assert_eq!(failures.len(), 155);
    let LogEvent::Past(bindings) = event else {
        panic!("expected bindings, and not {event:?}");
    };
    let ticks: Vec<_> = bindings.iter().map(|binding| binding.tick).collect();
    assert_eq!(ticks, [Tick(2), Tick(3)]);
    // An append that was asked for meanwhile is not forgotten.
    append(&writer, vec![binding(4, 12, 13)]);
}

#[test]
fn what_is_definite_ends_a_run_at_once_with_the_words_of_the_log() {
    for reads_before in 0..3 {
        let log = written();
        log.fail(Outage {
            reads_before,
            kind: FailureKind::Definite,
            ..AWAY
        });

        let (failures, event) = answer(&start(&log, Resume::Continue));

        assert_eq!(failures.len(), 0);
        let LogEvent::Unusable(error) = event else {
            panic!("expected it to be over, and not {event:?}");
        };
        assert_eq!(error.to_string(), "binding log fateful: no answer");
    }
}

/// Damage that is only met there was taken for something that may pass, for ever.
#[test]
fn what_is_definite_ends_a_run_also_while_ticks_are_given_again() {
    let log = written();
    let (writer, restored) = open_to(&log, Resume::Replay { from: Tick(2) });
    assert!(restored.is_ok(), "{restored:?}");
    log.fail(Outage {
        kind: FailureKind::Definite,
        ..AWAY
    });

    writer.ask_past();

    assert!(matches!(answer(&writer), (_, LogEvent::Unusable(_))));
}

/// As many failures as five minutes are at two seconds each.
#[test]
fn a_store_that_is_away_for_long_is_written_to_when_it_is_back() {
    let log = FatefulLog::of([Fate::Fails; 150]);
    let (writer, _) = open(&log);

    assert_eq!(append(&writer, vec![binding(1, 0, 1)]), 150);

    assert_eq!(append(&writer, vec![binding(2, 1, 2)]), 0);
    assert_eq!(log.inner.records(), [binding(1, 0, 1), binding(2, 1, 2)]);
}

#[test]
fn an_append_whose_answer_is_lost_is_written_once() {
    let cases = [
        (vec![Fate::AnswerLost], 0),
        (vec![Fate::Lost, Fate::Lost], 0),
        // A place that is taken by these very records is not another run's.
        (vec![Fate::AnswerLost, Fate::CannotBeRead], 1),
        (vec![Fate::Lost, Fate::CannotBeRead, Fate::Fails], 2),
    ];
    for (fates, expected) in cases {
        let log = FatefulLog::of([]);
        let (writer, _) = open(&log);
        append(&writer, vec![binding(1, 0, 1)]);
        log.fates.lock().unwrap().extend(fates.clone());

        let lost = vec![binding(2, 1, 2), binding(3, 2, 2)];
        assert_eq!(append(&writer, lost.clone()), expected, "{fates:?}");

        append(&writer, vec![binding(4, 2, 3)]);
        let written = [vec![binding(1, 0, 1)], lost, vec![binding(4, 2, 3)]].concat();
        assert_eq!(log.inner.records(), written, "{fates:?}");
    }
}

#[test]
fn what_is_read_begins_with_the_last_snapshot() {
    let log = FatefulLog::of([]);
    let (writer, nothing) = open(&log);
    assert!(nothing.is_ok());
    // The first binding has no start: whoever reads it cannot go on.
    for records in [binding(1, 0, 1), snapshot(1), binding(2, 7, 9)] {
        append(&writer, vec![records]);
    }
    drop(writer);

    let (again, read) = open(&log);

    assert!(read.is_ok(), "{read:?}");
    assert_eq!(append(&again, vec![binding(3, 9, 10)]), 0);
}

#[test]
fn what_is_not_needed_any_more_is_dropped_and_failing_at_that_stops_nothing() {
    let log = FatefulLog::of([]);
    let (writer, _) = open(&log);
    for records in [binding(1, 0, 1), snapshot(1), binding(2, 1, 2)] {
        append(&writer, vec![records]);
    }
    log.fates.lock().unwrap().push_back(Fate::CannotBeCompacted);

    writer.compact(Tick(1));
    let told = writer.heard(writer.events.recv_timeout(PATIENCE).unwrap());

    assert!(matches!(told, LogEvent::NotCompacted(_)), "{told:?}");
    writer.compact(Tick(1));
    // It is done before or after the append: by the time of the next one it is.
    for tick in 3..1_000 {
        append(&writer, vec![binding(tick, 2, 2)]);
        if log.inner.records()[0] == snapshot(1) {
            return;
        }
    }
    panic!("what is old was not dropped");
}
