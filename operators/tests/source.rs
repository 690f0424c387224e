//! The whole source under real workers, over splits in memory.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

#[expect(dead_code, reason = "replays need more of it")]
mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use timely::Config;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::capture::Extract;
use timely::dataflow::operators::{Capture, Inspect, Probe};
use timely_splits::binding::Binding;
use timely_splits::budget::ByteBudget;
use timely_splits::control::SourceControl;
use timely_splits::epoch::{Incarnation, LogSequence};
use timely_splits::event::{Observer, SourceEvent};
use timely_splits::health::FailureKind;
use timely_splits::log::{Appended, BindingLog, LogError, LogExtent, LogRecord, MemoryLog};
use timely_splits::reader::Admission;
use timely_splits::source::{SourceOptions, read_splits};
use timely_splits::tick::{Tick, TimeMap};

use support::{Letter, Row, World};

/// What a run emitted: rows and bindings with their times.
type Run = (Vec<(u64, Vec<Row>)>, Vec<(u64, Vec<Binding<Letter>>)>);

/// How many times a worker steps, at most, before a test is called hung.
const STEPS_MAX: usize = 2_000_000;

struct Scenario {
    workers: usize,
    world: World,
    options: fn(&mut SourceOptions<u64, Letter>),
    /// Called on worker 0 after each step, with what was read until now, and how many ticks are over; true
    /// ends the source.
    script: Arc<Script>,
}

type Script = dyn Fn(&mut Vec<Row>, usize) -> bool + Send + Sync;

impl Scenario {
    fn run(self, log: impl BindingLog<Letter>) -> Run {
        let log = Mutex::new(Some(log));
        let control = SourceControl::new();
        let read: Arc<Mutex<Vec<Row>>> = Arc::default();
        let (world, script, options) = (self.world, self.script, self.options);
        let ticks: Arc<AtomicUsize> = Arc::default();
        let guards = timely::execute(Config::process(self.workers), move |worker| {
            let index = worker.index();
            let log = (index == 0).then(|| log.lock().unwrap().take().expect("one worker 0"));
            let enumeration = log.map(|log| world.enumeration(log));
            let probe = ProbeHandle::new();
            let seen = Arc::clone(&read);
            let (rows, bindings) = worker.dataflow::<u64, _, _>(|scope| {
                let mut source = SourceOptions::new("letters", TimeMap::identity());
                source.tick_interval = std::time::Duration::from_millis(2);
                source.control = control.clone();
                let over = Arc::clone(&ticks);
                source.observer = Observer::new(move |event| {
                    if let SourceEvent::Bound { .. } = event {
                        over.fetch_add(1, Ordering::Relaxed);
                    }
                });
                options(&mut source);
                let streams = read_splits(scope, &source, enumeration, world.reading());
                let rows = streams
                    .batches
                    .inspect(move |row| seen.lock().unwrap().push(*row))
                    .probe_with(&probe)
                    .capture();
                (rows, streams.bindings.capture())
            });
            let mut steps = 0;
            while !probe.done() {
                worker.step_or_park(Some(std::time::Duration::from_millis(1)));
                steps += 1;
                assert!(steps < STEPS_MAX, "the source does not end");
                let over = ticks.load(Ordering::Relaxed);
                if index == 0 && script(&mut read.lock().unwrap(), over) {
                    control.stop();
                }
            }
            (rows, bindings)
        })
        .expect("workers start");
        let mut run: Run = Default::default();
        for guard in guards.join() {
            let (rows, bindings): (Receiver<_>, Receiver<_>) = guard.expect("a worker ended well");
            run.0.extend(rows.extract());
            run.1.extend(bindings.extract());
        }
        run.0.sort();
        run
    }
}

/// Asserts that each tick's rows are exactly the ranges of its binding, and all rows these.
fn assert_exact(run: &Run, expected: &[(char, u64)]) {
    let mut next: BTreeMap<char, u64> = BTreeMap::new();
    let mut rows: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    for (time, batch) in &run.0 {
        rows.entry(*time).or_default().extend(batch);
    }
    for (time, bindings) in &run.1 {
        for binding in bindings {
            assert_eq!(binding.tick.0, *time, "a binding is emitted at its tick");
            let mut bound = Vec::new();
            for range in &binding.ranges {
                let from = next.insert(range.split.0, range.to).unwrap_or(0);
                assert_eq!(from, range.from, "ranges join");
                bound.extend((range.from..range.to).map(|offset| (range.split.0, offset)));
            }
            let mut read = rows.remove(time).unwrap_or_default();
            read.sort_unstable();
            assert_eq!(read, bound, "the rows of tick {time} are its binding");
        }
    }
    assert!(rows.is_empty(), "rows without a binding: {rows:?}");
    let expected: BTreeMap<_, _> = expected.iter().copied().collect();
    assert_eq!(next, expected);
}

fn ends_when(rows: usize) -> Arc<Script> {
    Arc::new(move |read, _| read.len() >= rows)
}

#[test]
fn every_record_is_emitted_once_at_the_tick_that_its_binding_says() {
    for workers in [1, 2, 4] {
        let world = World::default();
        world.list("abcdef");
        "abcdef".chars().for_each(|letter| world.write(letter, 50));
        let log = MemoryLog::new();
        let scenario = Scenario {
            workers,
            world,
            options: |_| (),
            script: ends_when(300),
        };

        let run = scenario.run(log.clone());

        let expected: Vec<_> = "abcdef".chars().map(|letter| (letter, 50)).collect();
        assert_exact(&run, &expected);
        let logged = log.records().into_iter().filter_map(|record| match record {
            LogRecord::Binding(binding) if !binding.is_empty() => Some(binding),
            _ => None,
        });
        let published: Vec<_> = run
            .1
            .into_iter()
            .flat_map(|(_, bindings)| bindings)
            .filter(|binding| !binding.is_empty())
            .collect();
        assert_eq!(logged.collect::<Vec<_>>(), published);
    }
}

/// S5, without a broker: what does not change is given to its fetcher once.
#[test]
fn splits_that_come_and_go_lose_nothing_and_do_not_disturb_the_others() {
    for workers in [1, 2, 4] {
        let world = World::default();
        world.list("ab");
        world.write('a', 20);
        world.write('b', 20);
        let (stage, outside) = (Mutex::new(0), world.clone());
        let script = move |read: &mut Vec<Row>, _: usize| {
            let mut stage = stage.lock().unwrap();
            match (*stage, read.len()) {
                (0, 40) => {
                    outside.list("abcd");
                    "abcd".chars().for_each(|letter| outside.write(letter, 30));
                    *stage = 1;
                }
                (1, 160) => {
                    outside.list("bcd");
                    *stage = 2;
                    outside.write('b', 5);
                }
                (2, 165) => {
                    outside.write('a', 7);
                    outside.list("abcd");
                    *stage = 3;
                }
                _ => {}
            }
            read.len() >= 172
        };
        let scenario = Scenario {
            workers,
            world: world.clone(),
            options: |_| (),
            script: Arc::new(script),
        };

        let run = scenario.run(MemoryLog::new());

        assert_exact(&run, &[('a', 57), ('b', 55), ('c', 30), ('d', 30)]);
        assert!(world.assignments('b') <= 2, "b moves at most for balance");
        if workers == 1 {
            assert_eq!(world.assignments('b'), 1);
        }
    }
}

/// S31.
#[test]
fn a_source_without_splits_has_a_frontier_that_goes_on() {
    for workers in [1, 2, 4] {
        let scenario = Scenario {
            workers,
            world: World::default(),
            options: |_| (),
            script: Arc::new(|_, ticks| ticks > 10),
        };

        let run = scenario.run(MemoryLog::new());

        assert!(run.1.len() > 5);
        assert_exact(&run, &[]);
    }
}

/// A log that answers appends only when it is told to.
struct GatedLog {
    inner: MemoryLog<Letter>,
    gate: Receiver<()>,
}

impl BindingLog<Letter> for GatedLog {
    fn open(&mut self) -> Result<LogExtent, LogError> {
        self.inner.open()
    }

    fn read(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<Letter>>, LogError> {
        self.inner.read(from, records_max)
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        self.inner.compact(since)
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<Letter>],
    ) -> Result<Appended, LogError> {
        let binding = |record: &LogRecord<_>| matches!(record, LogRecord::Binding(binding) if !binding.ranges.is_empty());
        if records.iter().any(binding) {
            self.gate.recv().expect("the test opens the gate");
        }
        self.inner.append(incarnation, expected, records)
    }
}

#[test]
fn a_log_that_does_not_answer_holds_the_frontier_at_its_tick_while_records_come() {
    let (open, gate): (Sender<()>, _) = channel();
    let world = World::default();
    world.list("a");
    world.write('a', 10);
    let inner = MemoryLog::new();
    let (outside, log) = (world.clone(), inner.clone());
    let state = Mutex::new((10, false));
    let script = move |read: &mut Vec<Row>, _: usize| {
        let (written, opened) = &mut *state.lock().unwrap();
        let durable = |record: &LogRecord<Letter>| matches!(record, LogRecord::Binding(binding) if !binding.ranges.is_empty());
        let durable = log.records().iter().any(durable);
        if !*opened {
            // No binding with a range is durable, and still records come.
            assert!(!durable);
            if read.len() == *written {
                outside.write('a', 10);
                *written += 10;
                *opened = *written == 2_000;
            }
            if *opened {
                (0..1_000).for_each(|_| open.send(()).unwrap());
            }
            return false;
        }
        durable && read.len() == *written
    };
    let scenario = Scenario {
        workers: 2,
        world,
        options: |_| (),
        script: Arc::new(script),
    };

    let run = scenario.run(GatedLog { inner, gate });

    let read: usize = run.0.iter().map(|(_, rows)| rows.len()).sum();
    assert_exact(&run, &[('a', read as u64)]);
}

#[test]
fn a_split_whose_fetcher_stops_is_read_on_where_it_stopped() {
    let world = World::default();
    world.list("ab");
    world.write('a', 5);
    world.write('b', 5);
    let (outside, broken) = (world.clone(), Mutex::new(false));
    let script = move |read: &mut Vec<Row>, _: usize| {
        let mut broken = broken.lock().unwrap();
        if read.len() == 10 && !*broken {
            *broken = true;
            outside.break_once('a', FailureKind::Transient);
            outside.write('a', 5);
        }
        read.len() >= 15
    };
    let scenario = Scenario {
        workers: 2,
        world,
        options: |_| (),
        script: Arc::new(script),
    };

    let run = scenario.run(MemoryLog::new());

    assert_exact(&run, &[('a', 10), ('b', 5)]);
}

#[test]
fn a_definite_failure_is_an_error_in_the_binding_of_its_tick_and_stops_that_split_alone() {
    let world = World::default();
    world.list("ab");
    world.write('a', 5);
    let (outside, broken) = (world.clone(), Mutex::new(false));
    let script = move |read: &mut Vec<Row>, _: usize| {
        let mut broken = broken.lock().unwrap();
        if read.len() == 5 && !*broken {
            *broken = true;
            outside.break_once('a', FailureKind::Definite);
            outside.write('a', 5);
            outside.write('b', 5);
        }
        read.len() >= 10
    };
    let scenario = Scenario {
        workers: 2,
        world,
        options: |_| (),
        script: Arc::new(script),
    };

    let run = scenario.run(MemoryLog::new());

    assert_exact(&run, &[('a', 5), ('b', 5)]);
    let errors: Vec<_> = (run.1.iter())
        .flat_map(|(_, bindings)| bindings)
        .flat_map(|binding| &binding.errors)
        .collect();
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].split, errors[0].position), (Letter('a'), 5));
}

/// A user that holds all batches back at a time: reading stops, ticks do not.
#[test]
fn back_pressure_stops_reading_and_not_the_ticks() {
    let world = World::default();
    world.list("a");
    world.write('a', 1_000);
    let scenario = Scenario {
        workers: 1,
        world,
        options: |options| {
            // A probe that nobody ever advances: as if the user dealt with nothing.
            options.probe = Some(ProbeHandle::new());
            options.budget = ByteBudget::new(30).source();
        },
        script: Arc::new(|read, ticks| {
            assert!(read.len() <= 1_000);
            ticks > 50
        }),
    };

    let run = scenario.run(MemoryLog::new());

    let read: usize = run.0.iter().map(|(_, rows)| rows.len()).sum();
    assert!(read > 0);
    assert_exact(&run, &[('a', read as u64)]);
}

#[test]
fn a_piece_that_is_held_back_holds_nobody_else() {
    let world = World::default();
    world.list("ab");
    world.write('a', 6);
    world.write('b', 6);
    let control = SourceControl::new();
    let (open, stop) = (Arc::new(Mutex::new(false)), control.clone());
    let read: Arc<Mutex<Vec<Row>>> = Arc::default();
    let run = timely::execute(Config::thread(), move |worker| {
        let (probe, enumeration) = (ProbeHandle::new(), world.enumeration(MemoryLog::new()));
        let mut reading = world.reading();
        let (gate, seen) = (Arc::clone(&open), Arc::clone(&read));
        reading.admission = Some(Box::new(move |piece| {
            let admitted = piece.split != Letter('a') || *gate.lock().unwrap();
            if admitted {
                Admission::Admit
            } else {
                Admission::Hold
            }
        }));
        let (rows, bindings) = worker.dataflow::<u64, _, _>(|scope| {
            let mut source = SourceOptions::new("letters", TimeMap::identity());
            source.tick_interval = std::time::Duration::from_millis(2);
            source.control = control.clone();
            let streams = read_splits(scope, &source, Some(enumeration), reading);
            let rows = streams
                .batches
                .inspect(move |row| seen.lock().unwrap().push(*row));
            (
                rows.probe_with(&probe).capture(),
                streams.bindings.capture(),
            )
        });
        let (mut steps, mut held_for) = (0, 0);
        while !probe.done() {
            worker.step_or_park(Some(std::time::Duration::from_millis(1)));
            steps += 1;
            assert!(steps < STEPS_MAX, "the source does not end");
            let emitted = read.lock().unwrap().clone();
            if emitted.len() == 6 && held_for < 50 {
                assert!(emitted.iter().all(|(letter, _)| *letter == 'b'));
                held_for += 1;
            } else if emitted.len() == 6 {
                *open.lock().unwrap() = true;
            } else if emitted.len() >= 12 {
                stop.stop();
            }
        }
        (rows, bindings)
    })
    .expect("workers start")
    .join()
    .pop()
    .expect("one worker")
    .expect("the worker ended well");

    assert_exact(&(run.0.extract(), run.1.extract()), &[('a', 6), ('b', 6)]);
}
