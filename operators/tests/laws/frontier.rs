//! If the frontier has passed a tick, the log has its binding, and nothing comes at it any more.

use std::collections::BTreeMap;
use std::time::Duration;

use timely_splits::binding::Binding;
use timely_splits::log::{LogRecord, MemoryLog};

use crate::run::{Run, Watch};
use crate::support::{Letter, Row, World};

/// How many records a run reads.
const RECORDS: u64 = 300;

/// Compares what every worker sees with what is in the log at that moment.
struct Law {
    log: MemoryLog<Letter>,
    /// The rows of ticks that no frontier has passed.
    open: BTreeMap<u64, Vec<Row>>,
    /// The greatest frontier that any worker has seen.
    frontier: u64,
    passed: u64,
    wanted: u64,
    looks: usize,
    broken: Option<String>,
}

impl Law {
    fn new(log: &MemoryLog<Letter>, wanted: u64) -> Self {
        Self {
            log: log.clone(),
            open: BTreeMap::new(),
            frontier: 0,
            passed: 0,
            wanted,
            looks: 0,
            broken: None,
        }
    }

    fn break_by(&mut self, words: String) {
        self.broken.get_or_insert(words);
    }

    /// The bindings in the log, and the last tick that is reserved in it.
    fn in_log(&self) -> (BTreeMap<u64, Binding<Letter>>, u64) {
        let (mut bindings, mut reserved) = (BTreeMap::new(), 0);
        for record in self.log.records() {
            match record {
                LogRecord::Binding(binding) => {
                    bindings.insert(binding.tick.0, binding);
                }
                LogRecord::Reserved(tick) => reserved = reserved.max(tick.0),
                _ => {}
            }
        }
        (bindings, reserved)
    }
}

impl Watch for Law {
    fn rows(&mut self, tick: u64, rows: &[Row]) {
        if tick < self.frontier {
            self.break_by(format!(
                "{rows:?} came at {tick}, after a frontier at {}",
                self.frontier
            ));
        }
        self.open.entry(tick).or_default().extend(rows);
    }

    fn frontier(&mut self, frontier: Option<u64>) {
        let at = frontier.unwrap_or(u64::MAX);
        if at <= self.frontier {
            return;
        }
        self.frontier = at;
        let later = self.open.split_off(&at);
        let over = std::mem::replace(&mut self.open, later);
        let (bindings, reserved) = self.in_log();
        self.looks += 1;
        if frontier.is_some_and(|frontier| frontier > reserved) {
            self.break_by(format!(
                "the frontier is at {at}, and ticks up to {reserved} are reserved"
            ));
        }
        for (tick, rows) in over {
            self.passed += rows.len() as u64;
            let binding = bindings.get(&tick);
            for (letter, offset) in rows {
                let mut ranges = binding.iter().flat_map(|binding| &binding.ranges);
                let bound = ranges.any(|range| {
                    range.split.0 == letter && (range.from..range.to).contains(&offset)
                });
                if !bound {
                    self.break_by(format!(
                        "the frontier is at {at}, and the log does not bind {letter} {offset} at \
                         {tick}: {binding:?}"
                    ));
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.passed >= self.wanted
    }

    fn is_broken(&self) -> bool {
        self.broken.is_some()
    }
}

#[test]
fn no_tick_passes_without_its_binding_in_the_log_and_none_comes_back() {
    for workers in [1, 2, 4] {
        let world = World::default();
        let log = MemoryLog::new().keep_for(Duration::MAX);
        // Twice, so that it holds for what comes after a restart as well.
        for round in 0..2 {
            let mut run = Run::new(workers + round, &world, &log);
            run.writes = RECORDS;

            let law = run.watched(Law::new(&log, RECORDS));

            assert_eq!(law.broken, None, "{workers} workers");
            assert_eq!(law.passed, RECORDS);
            assert!(law.looks > 5, "{} looks", law.looks);
        }
    }
}

/// The law is not blind.
#[cfg(feature = "defects")]
#[test]
fn a_frontier_that_is_released_before_the_log_answers_is_noticed() {
    use timely_splits::defect::{self, Defect};

    for workers in [1, 2, 4] {
        let world = World::default();
        let log = MemoryLog::new().keep_for(Duration::MAX);
        let mut run = Run::new(workers, &world, &log);
        run.writes = RECORDS;
        run.begin = || defect::seed(Some(Defect::FrontierBeforeDurable));

        let law = run.watched(Law::new(&log, RECORDS));

        let broken = law.broken.expect("the law is broken");
        assert!(broken.contains("the log does not bind"), "{broken}");
    }
}
