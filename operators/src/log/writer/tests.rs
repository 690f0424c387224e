//! The writer before logs that fail, are away and lose answers.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::*;
use crate::letters::Letter;
use crate::log::testing::{Record, binding, snapshot};
use crate::log::{LogExtent, MemoryLog};

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

/// A log in memory whose appends meet their fates one after the other.
#[derive(Clone)]
struct FatefulLog {
    inner: MemoryLog<Letter>,
    fates: Arc<Mutex<VecDeque<Fate>>>,
}

impl FatefulLog {
    fn of(fates: impl IntoIterator<Item = Fate>) -> Self {
        Self {
            inner: MemoryLog::new().keep_for(Duration::MAX),
            fates: Arc::new(Mutex::new(fates.into_iter().collect())),
        }
    }

    /// The next fate, if it is one of these.
    fn meets(&self, wanted: &[Fate]) -> Option<Fate> {
        let mut fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        fates.pop_front_if(|fate| wanted.contains(fate))
    }

    fn error() -> LogError {
        LogError {
            name: "fateful".to_owned(),
            message: "it fails on purpose".to_owned(),
            source: None,
        }
    }
}

impl BindingLog<Letter> for FatefulLog {
    fn open(&mut self) -> Result<LogExtent, LogError> {
        self.inner.open()
    }

    fn read(&mut self, from: LogSequence, records_max: usize) -> Result<Vec<Record>, LogError> {
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

/// A writer that is open, and what it came to.
fn open(log: &FatefulLog) -> (LogWriter<Letter>, Result<Restored<Letter>, RestoreError>) {
    let waker = Waker::calling(|| ());
    let backoff = (Duration::ZERO, Duration::from_micros(10));
    let writer =
        LogWriter::start_patient(Box::new(log.clone()), Resume::Continue, waker, backoff).unwrap();
    match writer.events.recv_timeout(PATIENCE).unwrap() {
        LogEvent::Opened(restored) => (writer, *restored),
        event => panic!("expected it to be open, and not {event:?}"),
    }
}

/// Appends, and says how many failures were told until it was durable.
fn append(writer: &LogWriter<Letter>, records: Vec<Record>) -> usize {
    writer.append(RUN, records);
    let mut failures = 0;
    loop {
        match writer.events.recv_timeout(PATIENCE).unwrap() {
            LogEvent::Appended => return failures,
            LogEvent::Failed(_) => failures += 1,
            event => panic!("expected it to be appended, and not {event:?}"),
        }
    }
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
    let told = writer.events.recv_timeout(PATIENCE).unwrap();

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
