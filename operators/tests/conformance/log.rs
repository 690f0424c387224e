//! Logs that keep the contract, and logs that break it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use timely_splits::conformance::LogRig;
use timely_splits::epoch::{Incarnation, LogSequence};
use timely_splits::log::{Appended, BindingLog, LogError, LogExtent, LogRecord, MemoryLog};
use timely_splits::tick::Tick;

use super::support::{Letter, Letters};
use super::{assert_broken, kit};

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    Nothing,
    AppendsWherever,
    LosesTheLastOfMany,
    TurnsThemAround,
    IsDurableInMemoryAlone,
    LetsOlderOnesWrite,
    FailsAfterWriting,
    TakesFailuresForDone,
    SkipsOneInReading,
    DropsAllUpToTheLastSnapshot,
}

struct Faulty {
    inner: MemoryLog<Letter>,
    defect: Defect,
    failing: Arc<AtomicBool>,
}

impl Faulty {
    fn failure() -> LogError {
        LogError::transient("memory", "it fails on purpose")
    }
}

impl BindingLog<Letter> for Faulty {
    fn open(&mut self) -> Result<LogExtent, LogError> {
        self.inner.open()
    }

    fn read(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<Letter>>, LogError> {
        let skips = self.defect == Defect::SkipsOneInReading && from.0 == 5;
        let from = LogSequence(from.0 + u64::from(skips));
        self.inner.read(from, records_max)
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        let drops_all = self.defect == Defect::DropsAllUpToTheLastSnapshot;
        self.inner
            .compact(if drops_all { Tick(u64::MAX) } else { since })
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<Letter>],
    ) -> Result<Appended, LogError> {
        let mut records = records.to_vec();
        let end = LogSequence(self.inner.records().len() as u64);
        let mut at = (incarnation, expected);
        let failing = self.failing.swap(false, Ordering::SeqCst);
        match self.defect {
            Defect::TakesFailuresForDone if failing => return Ok(Appended::Durable),
            Defect::FailsAfterWriting if failing => {
                self.inner.append(incarnation, expected, &records)?;
                return Err(Self::failure());
            }
            _ if failing => return Err(Self::failure()),
            Defect::AppendsWherever => at.1 = end,
            Defect::LetsOlderOnesWrite => at.0 = Incarnation(u64::MAX),
            Defect::LosesTheLastOfMany if records.len() > 1 => records.truncate(records.len() - 1),
            Defect::TurnsThemAround => records.reverse(),
            _ => {}
        }
        self.inner.append(at.0, at.1, &records)
    }
}

struct Rig {
    log: MemoryLog<Letter>,
    defect: Defect,
    failing: Arc<AtomicBool>,
}

impl Rig {
    fn new(defect: Defect) -> Self {
        Self {
            log: MemoryLog::new().keep_for(Duration::MAX),
            defect,
            failing: Arc::default(),
        }
    }
}

impl LogRig for Rig {
    type Split = Letter;
    type Log = Faulty;

    fn open(&mut self) -> Faulty {
        if self.defect == Defect::IsDurableInMemoryAlone {
            self.log = MemoryLog::new().keep_for(Duration::MAX);
        }
        Faulty {
            inner: self.log.clone(),
            defect: self.defect,
            failing: Arc::clone(&self.failing),
        }
    }

    fn split(&self) -> Letter {
        Letter('a')
    }

    fn position(&self, number: u64) -> u64 {
        number
    }

    fn metadata(&self, number: u64) -> Letters {
        Letters::of(if number.is_multiple_of(2) { "a" } else { "ab" })
    }

    fn fail_next(&mut self) -> bool {
        self.failing.store(true, Ordering::SeqCst);
        true
    }
}

/// The log in memory as it is, whose storage never fails.
struct MemoryRig(MemoryLog<Letter>);

impl LogRig for MemoryRig {
    type Split = Letter;
    type Log = MemoryLog<Letter>;

    fn open(&mut self) -> MemoryLog<Letter> {
        self.0.clone()
    }

    fn keeps_little(&self) -> bool {
        true
    }

    fn split(&self) -> Letter {
        Letter('a')
    }

    fn position(&self, number: u64) -> u64 {
        number
    }

    fn metadata(&self, number: u64) -> Letters {
        Letters::of(if number.is_multiple_of(2) { "a" } else { "ab" })
    }
}

#[test]
fn the_log_in_memory_keeps_its_contract() {
    kit()
        .log(|| MemoryRig(MemoryLog::new()))
        .assert_kept_but(&["L5"]);
    kit()
        .log(|| MemoryRig(MemoryLog::new().keep_for(Duration::MAX)))
        .assert_kept_but(&["L5"]);
    kit().log(|| Rig::new(Defect::Nothing)).assert_kept_but(&[]);
}

#[test]
fn each_broken_log_is_rejected_by_the_obligation_that_it_breaks() {
    let broken = [
        (Defect::AppendsWherever, "L1"),
        (Defect::LosesTheLastOfMany, "L2"),
        (Defect::TurnsThemAround, "L2"),
        (Defect::IsDurableInMemoryAlone, "L3"),
        (Defect::LetsOlderOnesWrite, "L4"),
        (Defect::FailsAfterWriting, "L5"),
        (Defect::TakesFailuresForDone, "L5"),
        (Defect::SkipsOneInReading, "L6"),
        (Defect::DropsAllUpToTheLastSnapshot, "L7"),
    ];
    for (defect, number) in broken {
        let report = kit().log(move || Rig::new(defect));

        println!("{defect:?}\n{report}");
        assert_broken(&report, number);
    }
}
