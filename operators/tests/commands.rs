//! What a person can ask a running source for, through real operators and from any worker.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

#[expect(dead_code, reason = "commands need less of it than the source does")]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely::Config;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Inspect, Probe};
use timely_splits::control::SourceControl;
use timely_splits::epoch::{MetadataEpoch, ReaderId, SplitEpoch};
use timely_splits::event::{Observer, SourceEvent};
use timely_splits::fetcher::{Fetched, Polled, Prepared, SplitFetcher};
use timely_splits::health::FailureKind;
use timely_splits::log::MemoryLog;
use timely_splits::source::{Reading, SourceOptions, read_splits};
use timely_splits::tick::TimeMap;
use timely_splits::wake::Waker;

use support::{Letter, Letters, Row, World, WorldFetcher};

/// How many times a worker steps, at most, before a test is called hung.
const STEPS_MAX: usize = 200_000;

/// What a fetcher was told, in the order in which all of them were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Prepare,
    Assign,
    Unassign,
}

type Notes = Arc<Mutex<Vec<(usize, Told, Letter)>>>;

/// The fetcher of the tests' world, which notes what it is told.
struct Noting {
    inner: WorldFetcher,
    reader: usize,
    notes: Notes,
    waker: Waker,
    preparing: Vec<Letter>,
}

impl Noting {
    fn note(&self, told: Told, split: Letter) {
        let mut notes = self.notes.lock().unwrap();
        notes.push((self.reader, told, split));
    }
}

impl SplitFetcher<Letter> for Noting {
    type Batch = Vec<Row>;

    fn adopt(&mut self, epoch: MetadataEpoch, metadata: &Letters) {
        self.inner.adopt(epoch, metadata);
    }

    fn prepare(&mut self, split: &Letter) -> Prepared {
        self.note(Told::Prepare, *split);
        // Every other one takes its time.
        if self.reader % 2 == 1 {
            self.preparing.push(*split);
            self.waker.wake();
            return Prepared::Later;
        }
        Prepared::AtOnce
    }

    fn assign(&mut self, split: &Letter, split_epoch: SplitEpoch, start: &u64) {
        self.note(Told::Assign, *split);
        self.inner.assign(split, split_epoch, start);
    }

    fn unassign(&mut self, split: &Letter, split_epoch: SplitEpoch) {
        self.note(Told::Unassign, *split);
        self.inner.unassign(split, split_epoch);
    }

    fn cut(&mut self, batch: Vec<Row>, at: &[u64]) -> Vec<Option<Vec<Row>>> {
        self.inner.cut(batch, at)
    }

    fn poll(&mut self, bytes_max: usize, fetched: &mut Vec<Fetched<Letter, Vec<Row>>>) -> Polled {
        let preparing = self.preparing.drain(..);
        fetched.extend(preparing.map(Fetched::Prepared));
        self.inner.poll(bytes_max, fetched)
    }
}

/// What has happened, as far as a script can see.
#[derive(Default)]
struct Seen {
    rows: Vec<Row>,
    events: Vec<SourceEvent<Letter>>,
    /// Who reads each split.
    owners: BTreeMap<Letter, ReaderId>,
}

impl Seen {
    fn hear(&mut self, event: &SourceEvent<Letter>) {
        match event {
            SourceEvent::Assigned { split, reader, .. } => {
                self.owners.insert(*split, *reader);
            }
            SourceEvent::Released { split, .. } => {
                self.owners.remove(split);
            }
            // There are very many of these.
            SourceEvent::Bound { .. } => return,
            _ => {}
        }
        self.events.push(event.clone());
    }

    fn count(&self, letter: char) -> usize {
        self.rows.iter().filter(|row| row.0 == letter).count()
    }

    fn held_by(&self, reader: usize) -> usize {
        let owners = self.owners.values();
        owners.filter(|owner| owner.0 == reader).count()
    }

    fn health(&self, words: &str) -> bool {
        self.events.iter().any(|event| {
            matches!(event, SourceEvent::Health(health) if health.to_string().contains(words))
        })
    }
}

/// What the script of a test can use.
struct Stage<'a> {
    seen: &'a Seen,
    control: &'a SourceControl<Letter>,
    world: &'a World,
    notes: &'a Notes,
}

/// A step of a script: when it is its turn it may do something, and is over when it says so.
type Step = Box<dyn Fn(&Stage<'_>) -> bool + Send + Sync>;

/// Does something once.
fn once(act: impl Fn(&Stage<'_>) + Send + Sync + 'static) -> Step {
    Box::new(move |stage| {
        act(stage);
        true
    })
}

/// Waits for something.
fn until(done: impl Fn(&Stage<'_>) -> bool + Send + Sync + 'static) -> Step {
    Box::new(done)
}

/// Runs a source on `workers` workers, with a script that runs on the last one and whose commands
/// enter there. Returns what was seen, and what fetchers were told.
fn run(workers: usize, world: &World, prepare: bool, steps: Vec<Step>) -> (Seen, Notes) {
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let notes: Notes = Arc::default();
    let at = Arc::new(Mutex::new(0));
    let (world, kept, told) = (world.clone(), Arc::clone(&seen), Arc::clone(&notes));
    let noted = Arc::clone(&notes);
    let guards = timely::execute(Config::process(workers), move |worker| {
        let index = worker.index();
        let control = SourceControl::new();
        let enumeration = (index == 0).then(|| {
            let mut enumeration = world.enumeration(MemoryLog::new());
            enumeration.coordination.prepare = prepare;
            enumeration.coordination.prepare_deadline = Duration::from_secs(3_600);
            // Splits that come do not put off what is asked for.
            enumeration.coordination.calm_for = Duration::ZERO;
            enumeration
        });
        let (world_fetcher, noting) = (world.reading().fetcher, Arc::clone(&noted));
        let reading = Reading {
            fetcher: Box::new(move |waker| Noting {
                inner: world_fetcher(waker.clone()),
                reader: index,
                notes: noting,
                waker,
                preparing: Vec::new(),
            }),
            admission: None,
        };
        let (probe, rows, events) = (ProbeHandle::new(), Arc::clone(&seen), Arc::clone(&seen));
        worker.dataflow::<u64, _, _>(|scope| {
            let mut options = SourceOptions::new("letters", TimeMap::identity());
            options.tick_interval = Duration::from_millis(2);
            options.control = control.clone();
            options.observer = Observer::new(move |event| events.lock().unwrap().hear(event));
            let streams = read_splits(scope, &options, enumeration, reading);
            let rows = streams
                .batches
                .inspect(move |row| rows.lock().unwrap().rows.push(*row));
            rows.probe_with(&probe);
        });
        let mut taken = 0;
        while !probe.done() {
            worker.step_or_park(Some(Duration::from_millis(1)));
            taken += 1;
            let mut at = at.lock().unwrap();
            let so_far = || seen.lock().unwrap().events.clone();
            assert!(taken < STEPS_MAX, "step {at} does not end: {:#?}", so_far());
            if index + 1 < workers {
                continue;
            }
            let stage = Stage {
                seen: &seen.lock().unwrap(),
                control: &control,
                world: &world,
                notes: &told,
            };
            match steps.get(*at) {
                Some(step) if step(&stage) => *at += 1,
                Some(_) => {}
                None => control.stop(),
            }
        }
    });
    for guard in guards.expect("workers start").join() {
        guard.expect("a worker ended well");
    }
    let all = std::mem::take(&mut *kept.lock().unwrap());
    (all, notes)
}

/// Six splits with ten records each, all of them read.
fn six() -> (World, Vec<Step>) {
    let world = World::default();
    world.list("abcdef");
    "abcdef".chars().for_each(|letter| world.write(letter, 10));
    let read = until(|stage| stage.seen.rows.len() == 60 && stage.seen.owners.len() == 6);
    (world, vec![read])
}

/// Asserts that of each split exactly this many records came, each once.
fn assert_once(seen: &Seen, expected: &[(char, u64)]) {
    let mut rows = seen.rows.clone();
    rows.sort_unstable();
    let expected = expected.iter();
    let all = expected.flat_map(|(letter, count)| (0..*count).map(|offset| (*letter, offset)));
    assert_eq!(rows, all.collect::<Vec<_>>());
}

fn each(counts: [u64; 6]) -> Vec<(char, u64)> {
    "abcdef".chars().zip(counts).collect()
}

#[test]
fn a_split_is_moved_where_it_is_asked_to_go_and_is_read_on_there() {
    for workers in [1, 2, 4] {
        let (world, mut steps) = six();
        for to in (0..workers).chain([0]) {
            steps.extend([
                once(move |stage| stage.control.move_split(Letter('a'), ReaderId(to))),
                until(move |stage| stage.seen.owners.get(&Letter('a')) == Some(&ReaderId(to))),
            ]);
        }
        steps.extend([
            once(|stage| stage.world.write('a', 5)),
            until(|stage| stage.seen.count('a') == 15),
        ]);

        let (seen, _) = run(workers, &world, false, steps);

        assert_once(&seen, &each([15, 10, 10, 10, 10, 10]));
    }
}

#[test]
fn a_drained_reader_has_nothing_until_it_is_refilled() {
    for workers in [2, 4] {
        let last = workers - 1;
        let (world, mut steps) = six();
        steps.extend([
            once(move |stage| stage.control.drain(ReaderId(last))),
            until(move |stage| stage.seen.held_by(last) == 0 && stage.seen.owners.len() == 6),
            once(|stage| {
                stage.world.list("abcdefg");
                stage.world.write('g', 5);
            }),
            until(|stage| stage.seen.count('g') == 5),
            once(move |stage| {
                assert_eq!(stage.seen.held_by(last), 0, "a drained reader got a split");
                stage.control.refill(ReaderId(last));
            }),
            until(move |stage| stage.seen.held_by(last) > 0 && stage.seen.owners.len() == 7),
        ]);

        let (seen, _) = run(workers, &world, false, steps);

        let mut expected = each([10; 6]);
        expected.push(('g', 5));
        assert_once(&seen, &expected);
    }
}

/// Somebody has to read.
#[test]
fn readers_that_are_all_drained_go_on() {
    for workers in [1, 2] {
        let (world, mut steps) = six();
        steps.push(once(move |stage| {
            (0..workers).for_each(|reader| stage.control.drain(ReaderId(reader)));
            stage.world.list("abcdefg");
            stage.world.write('g', 5);
        }));
        steps.push(until(|stage| {
            stage.seen.count('g') == 5 && stage.seen.owners.len() == 7
        }));

        let (seen, _) = run(workers, &world, false, steps);

        let mut expected = each([10; 6]);
        expected.push(('g', 5));
        assert_once(&seen, &expected);
    }
}

#[test]
fn a_paused_split_brings_nothing_until_it_is_resumed_where_it_was() {
    for workers in [1, 2, 4] {
        let (world, mut steps) = six();
        steps.extend([
            once(|stage| stage.control.pause(Letter('b'))),
            until(|stage| !stage.seen.owners.contains_key(&Letter('b'))),
            once(|stage| {
                "abc"
                    .chars()
                    .for_each(|letter| stage.world.write(letter, 5));
            }),
            until(|stage| stage.seen.count('a') == 15 && stage.seen.count('c') == 15),
            once(|stage| {
                assert_eq!(stage.seen.count('b'), 10, "a paused split was read");
                stage.control.resume(Letter('b'));
            }),
            until(|stage| stage.seen.count('b') == 15),
        ]);

        let (seen, _) = run(workers, &world, false, steps);

        assert_once(&seen, &each([15, 15, 15, 10, 10, 10]));
    }
}

#[test]
fn a_quarantined_split_is_read_on_where_it_failed_when_it_is_readmitted() {
    for workers in [1, 2, 4] {
        let (world, mut steps) = six();
        steps.extend([
            once(|stage| {
                stage.world.break_once('c', FailureKind::Definite);
                stage.world.write('c', 5);
            }),
            until(|stage| {
                stage.seen.events.iter().any(|event| {
                    matches!(event, SourceEvent::FetcherDown { split, kind, .. }
                        if *split == Letter('c') && *kind == FailureKind::Definite)
                })
            }),
            once(|stage| {
                assert_eq!(stage.seen.count('c'), 10);
                stage.control.readmit(Letter('c'));
            }),
            until(|stage| stage.seen.count('c') == 15),
        ]);

        let (seen, _) = run(workers, &world, false, steps);

        assert_once(&seen, &each([10, 10, 15, 10, 10, 10]));
    }
}

/// What was moved by hand stays where it is until somebody asks for a plan.
#[test]
fn a_plan_is_shown_without_being_done_and_is_done_when_it_is_asked_for() {
    for workers in [2, 4] {
        let (world, mut steps) = six();
        for letter in "abcdef".chars() {
            steps.push(once(move |stage| {
                stage.control.move_split(Letter(letter), ReaderId(0));
            }));
        }
        steps.extend([
            until(|stage| stage.seen.held_by(0) == 6),
            once(|stage| stage.control.show_plan()),
            until(|stage| shown(stage.seen).is_some()),
            once(|stage| {
                let moves = shown(stage.seen).unwrap();
                assert!(
                    moves
                        .iter()
                        .all(|(_, from, to)| *from == Some(ReaderId(0)) && to.0 > 0)
                );
                assert!(!moves.is_empty());
                assert_eq!(
                    stage.seen.held_by(0),
                    6,
                    "it was done, and only to be shown"
                );
                stage.control.rebalance();
            }),
            until(|stage| stage.seen.owners.len() == 6 && stage.seen.held_by(0) < 6),
        ]);

        let (seen, _) = run(workers, &world, false, steps);

        assert_once(&seen, &each([10; 6]));
        // What was done is what was shown.
        let moved: BTreeSet<_> = shown(&seen)
            .unwrap()
            .into_iter()
            .map(|(split, ..)| split)
            .collect();
        for (split, owner) in &seen.owners {
            assert_eq!(owner.0 > 0, moved.contains(split), "split {split}");
        }
    }
}

type Moves = Vec<(Letter, Option<ReaderId>, ReaderId)>;

fn shown(seen: &Seen) -> Option<Moves> {
    seen.events.iter().find_map(|event| match event {
        SourceEvent::PlanShown { moves } => Some(moves.clone()),
        _ => None,
    })
}

#[test]
fn what_cannot_be_done_is_said_and_changes_nothing() {
    for workers in [1, 2, 4] {
        let (world, mut steps) = six();
        steps.extend([
            once(|stage| {
                stage.control.move_split(Letter('a'), ReaderId(9));
                stage.control.move_split(Letter('z'), ReaderId(0));
                stage.control.pause(Letter('z'));
                stage.control.readmit(Letter('a'));
                stage.control.drain(ReaderId(9));
            }),
            until(|stage| {
                let said = ["reader 9", "split z", "cannot be readmitted"];
                said.iter().all(|words| stage.seen.health(words))
            }),
            once(|stage| stage.world.write('a', 5)),
            until(|stage| stage.seen.count('a') == 15),
        ]);

        let (seen, _) = run(workers, &world, false, steps);

        assert_once(&seen, &each([15, 10, 10, 10, 10, 10]));
        assert_eq!(seen.owners.len(), 6);
    }
}

#[test]
fn a_reader_prepares_for_a_split_before_the_one_that_has_it_lets_go() {
    for workers in [2, 4] {
        let (world, mut steps) = six();
        for to in (0..workers).chain([0]) {
            steps.extend([
                once(move |stage| stage.control.move_split(Letter('a'), ReaderId(to))),
                until(move |stage| stage.seen.owners.get(&Letter('a')) == Some(&ReaderId(to))),
                // The event is told when the assignment is sent.
                until(move |stage| {
                    let notes = stage.notes.lock().unwrap();
                    let mut latest = notes.iter().rev();
                    let last = latest.find(|(_, _, split)| *split == Letter('a'));
                    matches!(last, Some((reader, Told::Assign, _)) if *reader == to)
                }),
            ]);
        }

        let (seen, notes) = run(workers, &world, true, steps);

        assert_once(&seen, &each([10; 6]));
        let notes = notes.lock().unwrap();
        let of_a: Vec<_> = (notes.iter())
            .filter(|(_, _, split)| *split == Letter('a'))
            .map(|(reader, told, _)| (*reader, *told))
            .collect();
        // What is left at the end is that it is taken from its last owner.
        let moves = of_a[1..].chunks_exact(3);
        assert!(moves.len() >= workers, "{of_a:?}");
        let mut owner = of_a[0].0;
        for one in moves {
            let order = [Told::Prepare, Told::Unassign, Told::Assign];
            let readers = [one[0].0, owner, one[0].0];
            let expected: Vec<_> = readers.into_iter().zip(order).collect();
            assert_eq!(one, expected, "of {of_a:?}");
            owner = one[0].0;
        }
    }
}
