//! What is not admitted takes memory as well, and waits for nothing but the hook.
#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

#[expect(dead_code, reason = "others need more of it")]
mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Inspect, Probe};
use timely_splits::budget::ByteBudget;
use timely_splits::control::SourceControl;
use timely_splits::epoch::{MetadataEpoch, SplitEpoch};
use timely_splits::event::{Observer, SourceEvent};
use timely_splits::fetcher::{Fetched, Polled, SplitFetcher};
use timely_splits::log::MemoryLog;
use timely_splits::reader::{Admission, AdmissionHook};
use timely_splits::source::{Reading, SourceOptions, read_splits};
use timely_splits::tick::TimeMap;

use support::{Letter, Letters, Row, World, WorldFetcher};

/// How many times a worker steps, at most, before a test is called hung.
const STEPS_MAX: usize = 200_000;
/// How many bytes, which are rows, may be in flight: less than a piece of each split.
const BUDGET: usize = 40;
const SPLITS: &str = "abcdefghijklmnopqrstuvwxyz";
/// The rows of each split.
const ROWS: u64 = 100;
/// The rows of a piece.
const PIECE: u64 = 5;
/// Bindings for which nothing more may be fetched before reading counts as stopped.
const BINDINGS: usize = 50;

/// The fetcher of the tests' world, which counts what was fetched and has not reached the user.
struct Counting {
    inner: WorldFetcher,
    unreleased: Arc<AtomicUsize>,
}

impl SplitFetcher<Letter> for Counting {
    type Batch = Vec<Row>;

    fn adopt(&mut self, epoch: MetadataEpoch, metadata: &Letters) {
        self.inner.adopt(epoch, metadata);
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
        // What belongs to a split that is held back already is dropped by the reader, and not counted here.
        let polled = self.inner.poll(bytes_max, fetched);
        for one in fetched.iter() {
            if let Fetched::Piece(piece) = one {
                self.unreleased.fetch_add(piece.bytes, Ordering::Relaxed);
            }
        }
        polled
    }

    fn unreleased_bytes(&self) -> usize {
        self.unreleased.load(Ordering::Relaxed)
    }
}

/// What has come so far.
#[derive(Default)]
struct Seen {
    rows: Vec<Row>,
    bindings: usize,
    /// The bytes that are held back of each split.
    held: BTreeMap<Letter, usize>,
    /// When more was held back than ever before: how much, and at which binding.
    most: (usize, usize),
}

impl Seen {
    fn hold(&mut self, split: Letter, bytes: usize) {
        self.held.insert(split, bytes);
        let held = self.held.values().sum();
        if held > self.most.0 {
            self.most = (held, self.bindings);
        }
    }

    /// Whether nothing more was fetched for long.
    fn stands(&self) -> bool {
        self.most.0 > 0 && self.bindings >= self.most.1 + BINDINGS
    }
}

/// Admits nothing until `is_open`.
fn hook(seen: Arc<Mutex<Seen>>, is_open: Arc<AtomicBool>) -> AdmissionHook<Letter, Vec<Row>> {
    Box::new(move |piece| {
        let mut held = seen.lock().unwrap();
        if is_open.load(Ordering::Relaxed) {
            held.held.remove(&piece.split);
            return Admission::Admit;
        }
        held.hold(piece.split, piece.bytes);
        Admission::Hold
    })
}

/// Reads with a hook that admits nothing until nothing more is fetched, and then everything; says how much was
/// held back then.
fn read(has_probe: bool) -> usize {
    let world = World::default();
    world.bring(PIECE);
    SPLITS.chars().for_each(|letter| world.write(letter, ROWS));
    world.list(SPLITS);
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let kept = Arc::clone(&seen);
    timely::execute_directly(move |worker| {
        let (control, admits) = (SourceControl::new(), Arc::new(AtomicBool::new(false)));
        let unreleased: Arc<AtomicUsize> = Arc::default();
        let (fetcher, counted) = (world.reading().fetcher, Arc::clone(&unreleased));
        let (held, is_open) = (Arc::clone(&seen), Arc::clone(&admits));
        let reading = Reading {
            fetcher: Box::new(move |waker| Counting {
                inner: fetcher(waker),
                unreleased: counted,
            }),
            admission: Some(hook(held, is_open)),
        };
        let (rows, events, probe) = (Arc::clone(&seen), Arc::clone(&seen), ProbeHandle::new());
        worker.dataflow::<u64, _, _>(|scope| {
            let mut options = SourceOptions::new("letters", TimeMap::identity());
            options.tick_interval = Duration::from_millis(2);
            options.control = control.clone();
            options.probe = has_probe.then(|| probe.clone());
            options.budget = ByteBudget::new(BUDGET).source();
            options.observer = Observer::new(move |event| {
                if matches!(event, SourceEvent::Bound { .. }) {
                    events.lock().unwrap().bindings += 1;
                }
            });
            let enumeration = Some(world.enumeration(MemoryLog::new()));
            read_splits(scope, &options, enumeration, reading)
                .batches
                .inspect(move |row| {
                    unreleased.fetch_sub(1, Ordering::Relaxed);
                    rows.lock().unwrap().rows.push(*row);
                })
                .probe_with(&probe);
        });
        let now = || probe.with_frontier(|frontier| frontier.first().copied());
        let mut before = None;
        for _ in 0..STEPS_MAX {
            worker.step_or_park(Some(Duration::from_millis(1)));
            let so_far = seen.lock().unwrap();
            if so_far.most.0 > 0 && before.is_none() {
                before = now();
            }
            if so_far.stands() && !admits.swap(true, Ordering::Relaxed) {
                assert!(now() > before, "the frontier stands");
                assert!(so_far.rows.is_empty(), "what is held back came");
            }
            if so_far.rows.len() == SPLITS.len() * usize::try_from(ROWS).unwrap() {
                control.stop();
            }
            if probe.done() {
                return;
            }
        }
        let most = seen.lock().unwrap().most;
        panic!("it does not end: {most:?} were held back");
    });
    let mut came = kept.lock().unwrap();
    came.rows.sort_unstable();
    let all = SPLITS.chars();
    let all = all.flat_map(|letter| (0..ROWS).map(move |offset| (letter, offset)));
    assert!(came.rows.iter().copied().eq(all), "each row comes once");
    came.most.0
}

/// What was held back was in no budget, so that a hook that waits for something took a piece of every split.
#[test]
fn what_is_held_back_takes_no_more_than_what_is_emitted() {
    let held = read(true);

    let piece = usize::try_from(PIECE).unwrap();
    assert!(
        held < BUDGET + piece,
        "{held} bytes of {BUDGET} are held back"
    );
}

/// Held back pieces counted as not dropped, which left no room to offer them again.
#[test]
fn what_is_held_back_is_admitted_though_there_is_no_room() {
    let held = read(false);

    let piece = usize::try_from(PIECE).unwrap();
    assert!(
        held < BUDGET + piece,
        "{held} bytes of {BUDGET} are held back"
    );
}
