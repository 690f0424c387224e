//! What a source does while nothing comes, counted: no figure here depends on how busy the machine is.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

#[expect(dead_code, reason = "other tests need more of it")]
mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely::Config;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::Probe;
use timely::logging::{StartStop, TimelyEvent, TimelyEventBuilder, TimelyProgressEventBuilder};
use timely::worker::Worker;
use timely_splits::control::SourceControl;
use timely_splits::epoch::{Incarnation, LogSequence};
use timely_splits::event::{Observer, SourceEvent};
use timely_splits::log::{Appended, BindingLog, LogError, LogExtent, LogRecord, MemoryLog};
use timely_splits::source::{SourceOptions, read_splits};
use timely_splits::tick::{Tick, TimeMap};

use support::{Letter, World};

/// How many ticks pass before it is counted, and in how many it is.
const BEFORE: usize = 20;
const COUNTED: usize = 100;

/// Ticks that are counted in part, and what is done once, like a reservation.
const SLACK: usize = 10;

/// How many times a worker steps, at most, before a test is called hung.
const STEPS_MAX: usize = 20_000;

/// What one worker did.
#[derive(Debug, Default)]
struct Counts {
    /// How often operators ran.
    enumerator: usize,
    reader: usize,
    /// Messages to other workers.
    messages: usize,
    /// Changes of progress that all workers were told.
    progress: usize,
}

/// Counts from here on what `worker` does.
fn count(worker: &Worker) -> Rc<RefCell<Counts>> {
    let counts = Rc::new(RefCell::new(Counts::default()));
    let mut register = worker.log_register().expect("timely has its logs");
    let (ran, told) = (Rc::clone(&counts), Rc::clone(&counts));
    let mut names = BTreeMap::new();
    register.insert::<TimelyEventBuilder, _>("timely", move |_, events| {
        let mut ran = ran.borrow_mut();
        for (_, event) in events.iter().flatten() {
            match event {
                TimelyEvent::Operates(operator) => {
                    names.insert(operator.id, operator.name.clone());
                }
                TimelyEvent::Schedule(one) if one.start_stop == StartStop::Start => {
                    match names.get(&one.id).map(String::as_str) {
                        Some("letters: enumerator") => ran.enumerator += 1,
                        Some("letters: reader") => ran.reader += 1,
                        Some(_) | None => {}
                    }
                }
                TimelyEvent::Messages(one) if one.is_send && one.source != one.target => {
                    ran.messages += 1;
                }
                _ => {}
            }
        }
    });
    register.insert::<TimelyProgressEventBuilder<u64>, _>(
        "timely/progress/u64",
        move |_, events| {
            let sent = events.iter().flatten().filter(|(_, one)| one.is_send);
            told.borrow_mut().progress += sent.count();
        },
    );
    counts
}

/// What each worker does in `COUNTED` ticks of a source that reads nothing, and how often the log is
/// written to meanwhile.
fn idle(workers: usize) -> (Vec<Counts>, usize) {
    let world = World::default();
    world.list("abcdef");
    let log = SeenLog::default();
    let seen = Arc::clone(&log.seen);
    let (heard, log) = (Arc::clone(&seen), Mutex::new(Some(log)));
    let control = SourceControl::new();
    let guards = timely::execute(Config::process(workers), move |worker| {
        let counts = count(worker);
        let log = (worker.index() == 0).then(|| log.lock().unwrap().take().expect("one worker 0"));
        let enumeration = log.map(|log| world.enumeration(log));
        let probe = ProbeHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            let mut source = SourceOptions::new("letters", TimeMap::identity());
            source.tick_interval = Duration::from_millis(10);
            source.control = control.clone();
            let hears = Arc::clone(&heard);
            source.observer = Observer::new(move |event| {
                if let SourceEvent::Bound { tick, .. } = event {
                    hears.lock().unwrap().ticks.push(*tick);
                }
            });
            let streams = read_splits(scope, &source, enumeration, world.reading());
            streams.batches.probe_with(&probe);
        });
        let mut steps = 0..STEPS_MAX;
        let mut step = || {
            steps.next().expect("the frontier moves");
            worker.step_or_park(Some(Duration::from_millis(20)));
        };
        let passed = |ticks: usize| {
            let tick = heard.lock().unwrap().ticks.get(ticks).copied();
            tick.is_some_and(|tick| !probe.less_equal(&tick.0))
        };
        while !passed(BEFORE) {
            step();
        }
        counts.take();
        while !passed(BEFORE + COUNTED) {
            step();
        }
        let counted = counts.take();
        control.stop();
        while !probe.done() {
            step();
        }
        counted
    });
    let counts = guards.expect("workers start").join().into_iter();
    let counts = counts.map(|guard| guard.expect("a worker ended well"));
    let counts = counts.collect();
    let appends = seen.lock().unwrap().appends;
    (counts, appends)
}

/// Readers all held the frontier until they were told what is durable, and control messages were at the
/// time that is held: an idle worker was woken and woke others for each of that.
///
/// An operator runs once for what wakes it; for a message a second time, since timely tells it that it took
/// one. Seen to fail with `Durable` sent to all readers, and with `message_time` the least time.
#[test]
fn a_tick_without_records_takes_two_messages_a_worker_and_no_append() {
    for workers in [1, 2, 4] {
        let (counts, appends) = idle(workers);

        let at_most = |each_tick: usize| each_tick * COUNTED + SLACK;
        let told = format!("{workers} workers, {appends} appends: {counts:#?}");
        assert!(appends <= 1, "{told}");
        for (worker, did) in counts.iter().enumerate() {
            // A tick begins and is durable.
            let (enumerator, reader, messages) = if worker == 0 {
                (1 + 2 * workers, 2 + 2, workers - 1)
            } else {
                (1, 2, 1)
            };
            assert!(did.enumerator <= at_most(enumerator), "{told}");
            assert!(did.reader <= at_most(reader), "{told}");
            assert!(did.messages <= at_most(messages), "{told}");
            assert!(did.progress <= at_most(1), "{told}");
        }
    }
}

/// A log in memory that counts how often it is written to.
#[derive(Default)]
struct SeenLog {
    log: MemoryLog<Letter>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// The ticks that are over.
    ticks: Vec<Tick>,
    /// How many appends there were while it was counted.
    appends: usize,
}

impl BindingLog<Letter> for SeenLog {
    fn open(&mut self) -> Result<LogExtent, LogError> {
        self.log.open()
    }

    fn read(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<Letter>>, LogError> {
        self.log.read(from, records_max)
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<Letter>],
    ) -> Result<Appended, LogError> {
        let mut seen = self.seen.lock().unwrap();
        if (BEFORE..BEFORE + COUNTED).contains(&seen.ticks.len()) {
            seen.appends += 1;
        }
        drop(seen);
        self.log.append(incarnation, expected, records)
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        self.log.compact(since)
    }
}
