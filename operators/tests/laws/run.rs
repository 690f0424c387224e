//! One run of a source of letters whose records are written and whose splits move meanwhile.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely::Config;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Inspect, Probe};
use timely::progress::Stamp;
use timely_splits::control::SourceControl;
use timely_splits::discovery::SplitDiscovery;
use timely_splits::enumerator::Enumeration;
use timely_splits::epoch::{Incarnation, LogSequence, ReaderId};
use timely_splits::log::{Appended, BindingLog, LogError, LogExtent, LogRecord, MemoryLog};
use timely_splits::resume::Resume;
use timely_splits::source::{SourceOptions, read_splits};
use timely_splits::tick::{Tick, TimeMap};

use crate::random::Random;
use crate::support::{Letter, Row, World};

/// The splits there are.
pub(crate) const LETTERS: &str = "abcd";

/// How many times a worker steps, at most, before a test is called hung.
const STEPS_MAX: usize = 40_000;

/// What watches a run: called on the workers' threads, which do not go on meanwhile.
pub(crate) trait Watch: Send + 'static {
    /// Rows came at a tick.
    fn rows(&mut self, tick: u64, rows: &[Row]);

    /// The frontier of a worker moved, past everything if it is `None`.
    fn frontier(&mut self, frontier: Option<u64>);

    /// Whether worker 0 should end the run, in order.
    fn is_done(&self) -> bool;

    /// Whether there is no need to go on.
    fn is_broken(&self) -> bool {
        false
    }
}

/// What wraps a discovery.
pub(crate) type Wrap =
    dyn Fn(Box<dyn SplitDiscovery<Letter>>) -> Box<dyn SplitDiscovery<Letter>> + Send + Sync;

/// A run.
pub(crate) struct Run {
    pub(crate) workers: usize,
    pub(crate) resume: Resume,
    pub(crate) world: World,
    pub(crate) log: MemoryLog<Letter>,
    /// How many records are written meanwhile.
    pub(crate) writes: u64,
    pub(crate) seed: u64,
    pub(crate) wrap: Option<Arc<Wrap>>,
    /// Called on each worker's thread before anything else.
    pub(crate) begin: fn(),
    /// Held by what the log is written by.
    under_way: Mutex<Option<Sender<()>>>,
}

impl Run {
    pub(crate) fn new(workers: usize, world: &World, log: &MemoryLog<Letter>) -> Self {
        Self {
            workers,
            resume: Resume::Continue,
            world: world.clone(),
            log: log.clone(),
            writes: 0,
            seed: workers as u64,
            wrap: None,
            begin: || (),
            under_way: Mutex::default(),
        }
    }

    /// Runs it until it is done, and gives back what watched it.
    pub(crate) fn watched<W: Watch>(self, watch: W) -> W {
        self.world.list(LETTERS);
        let (sender, ended) = mpsc::channel();
        *self.under_way.lock().unwrap() = Some(sender);
        let shared = Arc::new(Mutex::new(Some(watch)));
        let (watching, workers) = (Arc::clone(&shared), self.workers);
        let control = SourceControl::new();
        let guards = timely::execute(Config::process(workers), move |worker| {
            (self.begin)();
            let index = worker.index();
            let enumeration = (index == 0).then(|| self.enumeration());
            let probe = ProbeHandle::new();
            let seen = Arc::clone(&watching);
            worker.dataflow::<u64, _, _>(|scope| {
                let mut source = SourceOptions::new("letters", TimeMap::identity());
                source.tick_interval = Duration::from_millis(2);
                source.control = control.clone();
                let streams = read_splits(scope, &source, enumeration, self.world.reading());
                let batches = streams.batches.inspect_core(move |event| {
                    let mut hearing = seen.lock().unwrap();
                    hear(hearing.as_mut().expect("it is there until the end"), event);
                });
                batches.probe_with(&probe);
            });
            let mut script = Script::new(&self, &control);
            let mut stopped = false;
            for step in 0.. {
                worker.step_or_park(Some(Duration::from_millis(1)));
                let looking = watching.lock().unwrap();
                let looking = looking.as_ref().expect("it is there until the end");
                if probe.done() || looking.is_broken() {
                    break;
                }
                assert!(
                    step < STEPS_MAX,
                    "the source does not end: {} to write, stopped {stopped}, done {}",
                    script.writes,
                    looking.is_done()
                );
                if index > 0 {
                    continue;
                }
                script.step();
                if script.writes == 0 && looking.is_done() && !stopped {
                    stopped = true;
                    control.stop();
                }
            }
            for dataflow in worker.installed_dataflows() {
                worker.drop_dataflow(dataflow);
            }
        });
        for guard in guards.expect("workers start").join() {
            guard.expect("a worker ended well");
        }
        // What the last append is about is not bound, and yet the next run must not meet it.
        ended.recv().expect_err("nothing is sent");
        let watched = shared.lock().unwrap().take();
        watched.expect("it is there until the end")
    }

    fn enumeration(&self) -> Enumeration<Letter> {
        let under_way = self.under_way.lock().unwrap().take();
        let mut enumeration = self.world.enumeration(SlowLog(self.log.clone(), under_way));
        enumeration.coordination.resume = self.resume;
        enumeration.coordination.calm_for = Duration::ZERO;
        enumeration.coordination.snapshot_every = 10;
        if let Some(wrap) = self.wrap.clone() {
            let discovery = enumeration.discovery;
            enumeration.discovery = Box::new(move |waker| wrap(discovery(waker)));
        }
        enumeration
    }
}

fn hear(watch: &mut impl Watch, event: Result<(&Stamp<u64>, &Vec<Row>), &[u64]>) {
    match event {
        Ok((stamp, rows)) => watch.rows(*stamp.expect_singleton(), rows),
        Err(frontier) => watch.frontier(frontier.first().copied()),
    }
}

/// What worker 0 does beside reading: records are written and splits move, so that ticks are never
/// like each other.
struct Script {
    world: World,
    control: SourceControl<Letter>,
    random: Random,
    workers: usize,
    writes: u64,
}

impl Script {
    fn new(run: &Run, control: &SourceControl<Letter>) -> Self {
        Self {
            world: run.world.clone(),
            control: control.clone(),
            random: Random::of(run.seed, 1),
            workers: run.workers,
            writes: run.writes,
        }
    }

    fn letter(&mut self) -> char {
        let index = self.random.index(LETTERS.len());
        LETTERS.chars().nth(index).expect("it is below the length")
    }

    fn step(&mut self) {
        if self.writes > 0 && self.random.chance(15) {
            let count = (1 + self.random.below(5)).min(self.writes);
            self.writes -= count;
            let letter = self.letter();
            self.world.write(letter, count);
        }
        if self.random.chance(15) {
            let to = ReaderId(self.random.index(self.workers));
            let letter = self.letter();
            self.control.move_split(Letter(letter), to);
        }
    }
}

/// A log in memory that takes some milliseconds, so that ticks are closed for a while before they are
/// durable.
struct SlowLog(
    MemoryLog<Letter>,
    #[expect(dead_code, reason = "it is dropped with the log")] Option<Sender<()>>,
);

impl BindingLog<Letter> for SlowLog {
    fn open(&mut self) -> Result<LogExtent, LogError> {
        self.0.open()
    }

    fn read(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<Letter>>, LogError> {
        self.0.read(from, records_max)
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<Letter>],
    ) -> Result<Appended, LogError> {
        // Nobody sends anything: this is how long it takes.
        let (_sender, nothing) = mpsc::channel::<()>();
        nothing.recv_timeout(Duration::from_millis(4)).ok();
        self.0.append(incarnation, expected, records)
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        self.0.compact(since)
    }
}
