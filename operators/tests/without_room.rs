//! What goes on while a user who does not keep up has nothing read.

#[expect(dead_code, reason = "others need more of it")]
mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely::Config;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Input, Inspect, Probe};
use timely_splits::budget::ByteBudget;
use timely_splits::control::SourceControl;
use timely_splits::epoch::{MetadataEpoch, ReaderId, SplitEpoch};
use timely_splits::event::{Observer, SourceEvent};
use timely_splits::fetcher::{Fetched, Polled, Prepared, SplitFetcher};
use timely_splits::health::{Health, HealthStatus};
use timely_splits::log::MemoryLog;
use timely_splits::source::{Reading, SourceOptions, read_splits};
use timely_splits::tick::TimeMap;
use timely_splits::wake::Waker;

use support::{Letter, Letters, Row, World, WorldFetcher};

/// How many times a worker steps, at most, before a test is called hung.
const STEPS_MAX: usize = 200_000;
/// How many bytes, which are rows, may be in flight.
const IN_FLIGHT: usize = 60;
/// The rows of each of two splits.
const ROWS: u64 = 1_000;
/// Bindings for which nothing more may come before reading counts as stopped.
const BINDINGS: usize = 50;

/// The fetcher of the tests' world, which takes its time to prepare, and says that it is asked to.
struct Speaking {
    inner: WorldFetcher,
    waker: Waker,
    said: Vec<Fetched<Letter, Vec<Row>>>,
}

impl SplitFetcher<Letter> for Speaking {
    type Batch = Vec<Row>;

    fn adopt(&mut self, epoch: MetadataEpoch, metadata: &Letters) {
        self.inner.adopt(epoch, metadata);
    }

    fn prepare(&mut self, split: &Letter) -> Prepared {
        let health = Health::new("fetcher", HealthStatus::Waiting, "it prepares");
        self.said.push(Fetched::Health(health));
        self.said.push(Fetched::Prepared(*split));
        self.waker.wake();
        Prepared::Later
    }

    fn assign(&mut self, split: &Letter, split_epoch: SplitEpoch, start: &u64) {
        self.inner.assign(split, split_epoch, start);
    }

    fn unassign(&mut self, split: &Letter, split_epoch: SplitEpoch) {
        self.inner.unassign(split, split_epoch);
    }

    fn cut(&mut self, batch: Vec<Row>, at: &[u64]) -> Vec<Option<Vec<Row>>> {
        self.inner.cut(batch, at)
    }

    fn poll(&mut self, bytes_max: usize, fetched: &mut Vec<Fetched<Letter, Vec<Row>>>) -> Polled {
        fetched.append(&mut self.said);
        self.inner.poll(bytes_max, fetched)
    }
}

/// What has come so far.
#[derive(Default)]
struct Seen {
    rows: Vec<Row>,
    bindings: usize,
    /// Who has the first split.
    owner: Option<ReaderId>,
    health: bool,
}

impl Seen {
    fn hear(&mut self, event: &SourceEvent<Letter>) {
        match event {
            SourceEvent::Bound { .. } => self.bindings += 1,
            SourceEvent::Assigned { split, reader, .. } if *split == Letter('a') => {
                self.owner = Some(*reader);
            }
            SourceEvent::Health(health) if health.subject == "fetcher" => self.health = true,
            _ => {}
        }
    }
}

/// How far the test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// So many rows had come at that binding.
    Stopping { rows: usize, at: usize },
    /// The first split moves to a reader, after so many rows and bindings.
    Moving {
        to: ReaderId,
        rows: usize,
        at: usize,
    },
    /// The user has let go.
    Reading,
}

/// The stage after `stage`, as it is now.
fn next(stage: Stage, seen: &Seen, control: &SourceControl<Letter>) -> Stage {
    let (rows_now, now) = (seen.rows.len(), seen.bindings);
    match stage {
        Stage::Stopping { rows, .. } if rows_now > rows || rows == 0 => Stage::Stopping {
            rows: rows_now,
            at: now,
        },
        Stage::Stopping { rows, at } if now >= at + BINDINGS => {
            let to = ReaderId(1 - seen.owner.expect("it is read").0);
            control.move_split(Letter('a'), to);
            Stage::Moving { to, rows, at: now }
        }
        Stage::Moving { to, rows, at }
            if seen.owner == Some(to) && seen.health && now >= at + BINDINGS =>
        {
            assert_eq!(rows_now, rows, "rows came although there was no room");
            Stage::Reading
        }
        stage => stage,
    }
}

/// Whoever moved a split to a reader whose user stood still waited for as long as the user did.
#[test]
fn a_reader_without_room_prepares_for_a_split_and_says_how_it_fares() {
    let world = World::default();
    world.list("ab");
    "ab".chars().for_each(|letter| world.write(letter, ROWS));
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let stage = Arc::new(Mutex::new(Stage::Stopping { rows: 0, at: 0 }));
    let (kept, budget) = (Arc::clone(&seen), ByteBudget::new(IN_FLIGHT).source());
    let guards = timely::execute(Config::process(2), move |worker| {
        let control = SourceControl::new();
        let enumeration = (worker.index() == 0).then(|| {
            let mut enumeration = world.enumeration(MemoryLog::new());
            enumeration.coordination.prepare = true;
            enumeration.coordination.prepare_deadline = Duration::from_secs(3_600);
            enumeration.coordination.calm_for = Duration::ZERO;
            enumeration
        });
        let fetcher = world.reading().fetcher;
        let reading = Reading {
            fetcher: Box::new(move |waker| Speaking {
                inner: fetcher(waker.clone()),
                waker,
                said: Vec::new(),
            }),
            admission: None,
        };
        let (rows, events) = (Arc::clone(&seen), Arc::clone(&seen));
        let (probe, user) = (ProbeHandle::new(), ProbeHandle::new());
        let gate = worker.dataflow::<u64, _, _>(|scope| {
            // What the user deals with, which is nothing until the gate is dropped.
            let (gate, gated) = scope.new_input::<Vec<()>>();
            gated.probe_with(&user);
            let mut options = SourceOptions::new("letters", TimeMap::identity());
            options.tick_interval = Duration::from_millis(2);
            options.control = control.clone();
            options.probe = Some(user);
            options.budget = budget.clone();
            options.observer = Observer::new(move |event| events.lock().unwrap().hear(event));
            read_splits(scope, &options, enumeration, reading)
                .batches
                .inspect(move |row| rows.lock().unwrap().rows.push(*row))
                .probe_with(&probe);
            gate
        });
        let mut gate = Some(gate);
        for _ in 0..STEPS_MAX {
            worker.step_or_park(Some(Duration::from_millis(1)));
            let (mut stage, seen) = (stage.lock().unwrap(), seen.lock().unwrap());
            if worker.index() == 0 {
                *stage = next(*stage, &seen, &control);
            }
            if *stage == Stage::Reading {
                gate = None;
            }
            if seen.rows.len() as u64 == 2 * ROWS {
                control.stop();
            }
            if probe.done() {
                return;
            }
        }
        drop(gate);
        panic!("it does not end: {:?}", stage.lock().unwrap());
    });
    for guard in guards.expect("workers start").join() {
        guard.expect("a worker ended well");
    }
    let mut rows = std::mem::take(&mut kept.lock().unwrap().rows);
    rows.sort_unstable();
    let all = |letter| (0..ROWS).map(move |offset| (letter, offset));
    assert!(rows.into_iter().eq(all('a').chain(all('b'))));
}
