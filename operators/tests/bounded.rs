//! Sources that read up to somewhere and end by themselves, over splits in memory.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

#[expect(dead_code, reason = "other tests need more of it")]
mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely::Config;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Inspect, Probe};
use timely_splits::control::SourceControl;
use timely_splits::event::{Observer, SourceEvent};
use timely_splits::health::{FailureKind, HealthStatus};
use timely_splits::log::{LogRecord, MemoryLog};
use timely_splits::reader::Admission;
use timely_splits::resume::Resume;
use timely_splits::source::{SourceOptions, read_splits};
use timely_splits::tick::{Tick, TimeMap};

use support::{Letter, Row, World};

/// How many times a worker steps, at most, before a test is called hung.
const STEPS_MAX: usize = 100_000;

/// What a run has emitted and told so far.
#[derive(Default)]
struct Seen {
    rows: Vec<(u64, Row)>,
    told: Vec<SourceEvent<Letter>>,
}

impl Seen {
    fn offsets(&self) -> BTreeMap<char, Vec<u64>> {
        let mut offsets: BTreeMap<char, Vec<u64>> = BTreeMap::new();
        for (_, (split, offset)) in &self.rows {
            offsets.entry(*split).or_default().push(*offset);
        }
        offsets
    }

    /// How often each split was told to be finished, and where.
    fn finished(&self) -> Vec<(char, u64)> {
        let finished = self.told.iter().filter_map(|event| match event {
            SourceEvent::SplitFinished { split, position } => Some((split.0, *position)),
            _ => None,
        });
        let mut finished: Vec<_> = finished.collect();
        finished.sort_unstable();
        finished
    }

    fn waits(&self) -> Option<&str> {
        self.told.iter().find_map(|event| match event {
            SourceEvent::Health(health) if health.status == HealthStatus::Waiting => {
                Some(health.message.as_str())
            }
            _ => None,
        })
    }
}

type Script = dyn Fn(&Seen, &SourceControl<Letter>) + Send + Sync;

/// A source that nobody ends.
struct Bounded {
    workers: usize,
    world: World,
    log: MemoryLog<Letter>,
    resume: Resume,
    /// Whether every other piece is held back once.
    held: bool,
    /// Called on worker 0 after each step.
    script: Arc<Script>,
}

impl Bounded {
    fn new(workers: usize, world: &World, log: &MemoryLog<Letter>) -> Self {
        Self {
            workers,
            world: world.clone(),
            log: log.clone(),
            resume: Resume::Continue,
            held: false,
            script: Arc::new(|_, _| ()),
        }
    }

    /// Reads until it has ended by itself, and all frontiers are empty.
    fn run(self) -> Seen {
        let control = SourceControl::new();
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (world, log, script) = (self.world, Mutex::new(Some(self.log)), self.script);
        let (resume, held, shared) = (self.resume, self.held, Arc::clone(&seen));
        let guards = timely::execute(Config::process(self.workers), move |worker| {
            let index = worker.index();
            let own = (index == 0).then(|| log.lock().unwrap().take().expect("one worker 0"));
            let enumeration = own.map(|own| {
                let mut enumeration = world.enumeration(own);
                enumeration.coordination.bounded = true;
                enumeration.coordination.resume = resume;
                enumeration
            });
            let probe = ProbeHandle::new();
            let (rows, told) = (Arc::clone(&shared), Arc::clone(&shared));
            worker.dataflow::<u64, _, _>(|scope| {
                let mut source = SourceOptions::new("letters", TimeMap::identity());
                source.tick_interval = Duration::from_millis(2);
                source.control = control.clone();
                source.observer = Observer::new(move |event| {
                    told.lock().unwrap().told.push(event.clone());
                });
                let mut reading = world.reading();
                let mut pieces = 0;
                if held {
                    reading.admission = Some(Box::new(move |_| {
                        pieces += 1;
                        match pieces % 2 {
                            0 => Admission::Admit,
                            _ => Admission::Hold,
                        }
                    }));
                }
                let streams = read_splits(scope, &source, enumeration, reading);
                streams
                    .batches
                    .inspect_core(move |event| {
                        if let Ok((stamp, batch)) = event {
                            let time = *stamp.iter().next().expect("a batch has a time");
                            let timed = batch.iter().map(|row| (time, *row));
                            rows.lock().unwrap().rows.extend(timed);
                        }
                    })
                    .probe_with(&probe);
                streams.bindings.probe_with(&probe);
            });
            let mut steps = 0;
            while !probe.done() {
                worker.step_or_park(Some(Duration::from_millis(1)));
                steps += 1;
                if steps > STEPS_MAX {
                    let events = &shared.lock().unwrap().told;
                    panic!("the source does not end: {events:?}");
                }
                if index == 0 {
                    script(&shared.lock().unwrap(), &control);
                }
            }
        });
        for guard in guards.expect("workers start").join() {
            guard.expect("a worker ended well");
        }
        std::mem::take(&mut *seen.lock().unwrap())
    }
}

/// Splits `a`, `b` and `c` of 50 records, which stop at 20, at their end and before their first record.
fn stretches() -> World {
    let world = World::default();
    world.list("abc");
    for (letter, stop) in [('a', 20), ('b', 50), ('c', 0)] {
        world.write(letter, 50);
        world.stop_at(letter, stop);
    }
    world
}

fn expected(stretches: &[(char, std::ops::Range<u64>)]) -> BTreeMap<char, Vec<u64>> {
    let offsets = stretches.iter().cloned();
    offsets
        .map(|(split, offsets)| (split, offsets.collect()))
        .collect()
}

/// C28. To see it fail, have a reader not cut a piece at the stop, or the coordinator forget the stops
/// of the log.
#[test]
fn what_was_read_to_its_stop_ends_and_is_not_read_again() {
    for (workers, held) in [(1, false), (2, true), (4, false)] {
        let (world, log) = (stretches(), MemoryLog::new());
        // Pieces go beyond the stop.
        world.bring(7);
        let mut bounded = Bounded::new(workers, &world, &log);
        bounded.held = held;
        let first = bounded.run();
        world.write('a', 50);
        world.list("abcd");
        let again = Bounded::new(workers, &world, &log).run();

        let all = [('a', 20), ('b', 50), ('c', 0)];
        assert_eq!(first.finished(), all, "each is told once");
        assert_eq!(first.offsets(), expected(&[('a', 0..20), ('b', 0..50)]));
        assert!(again.rows.is_empty() && again.finished().is_empty());
        let starts = |record: &LogRecord<_>| matches!(record, LogRecord::Start { .. });
        assert_eq!(log.records().iter().filter(|one| starts(one)).count(), 3);
    }
}

/// C28, S28.
#[test]
fn a_source_of_nothing_ends() {
    for letters in ["", "ab"] {
        let world = World::default();
        world.list(letters);
        letters.chars().for_each(|letter| world.stop_at(letter, 0));

        let seen = Bounded::new(2, &world, &MemoryLog::new()).run();

        assert!(seen.rows.is_empty(), "{letters}");
        assert!(matches!(seen.told.last(), Some(SourceEvent::Ended)));
    }
}

/// S28: a removed topic.
#[test]
fn what_is_not_listed_any_more_is_not_waited_for() {
    let (world, log) = (stretches(), MemoryLog::new());
    world.stop_at('b', 1_000);
    let mut bounded = Bounded::new(2, &world, &log);
    let removed = world.clone();
    bounded.script = Arc::new(move |seen, _| {
        if seen.rows.len() == 70 && seen.finished().len() == 2 {
            removed.list("ac");
        }
    });

    let seen = bounded.run();

    assert_eq!(seen.offsets(), expected(&[('a', 0..20), ('b', 0..50)]));
    // It is read on where it was once it is back.
    world.write('b', 950);
    world.list("abc");
    let again = Bounded::new(2, &world, &log).run();
    assert_eq!(again.offsets(), expected(&[('b', 50..1_000)]));
}

/// A bounded source that ended would say that it has read everything.
#[test]
fn what_is_quarantined_or_paused_is_waited_for_and_named() {
    for paused in [false, true] {
        let world = stretches();
        if !paused {
            world.break_once('b', FailureKind::Definite);
        }
        let mut bounded = Bounded::new(2, &world, &MemoryLog::new());
        bounded.script = Arc::new(move |seen, control| {
            let known = |event: &_| matches!(event, SourceEvent::AllFound { splits: 3 });
            if let Some(words) = seen.waits() {
                assert!(words.contains("readmits or resumes b"), "{words}");
                control.readmit(Letter('b'));
                control.resume(Letter('b'));
            } else if paused && seen.told.iter().any(known) {
                control.pause(Letter('b'));
            }
        });
        if paused {
            // It would be over before it is paused.
            world.stop_at('b', 3_000);
            world.write('b', 2_950);
        }

        let seen = bounded.run();

        let offsets = seen.offsets();
        let of_b = offsets[&'b'].len();
        assert_eq!(of_b, if paused { 3_000 } else { 50 });
        assert!(paused || seen.waits().is_some());
    }
}

/// What was read to its stop is given again, at the same ticks, and ends again.
#[test]
fn a_replay_of_what_has_ended_ends() {
    let (world, log) = (stretches(), MemoryLog::new());
    world.bring(7);
    let first = Bounded::new(2, &world, &log).run();
    world.list("abc");
    let mut replay = Bounded::new(4, &world, &log);
    replay.resume = Resume::Replay { from: Tick(0) };

    let again = replay.run();

    let sorted = |seen: &Seen| {
        let mut rows = seen.rows.clone();
        rows.sort_unstable();
        rows
    };
    assert!(!first.rows.is_empty());
    assert_eq!(sorted(&first), sorted(&again));
}
