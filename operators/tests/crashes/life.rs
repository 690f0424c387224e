//! One run of a source, on real workers, until it crashes or ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely::Config;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Inspect, Probe};
use timely::progress::Stamp;
use timely::worker::Worker;
use timely_splits::binding::SplitError;
use timely_splits::control::SourceControl;
use timely_splits::epoch::ReaderId;
use timely_splits::event::{Observer, SourceEvent};
use timely_splits::health::FailureKind;
use timely_splits::log::MemoryLog;
use timely_splits::resume::Resume;
use timely_splits::source::{SourceOptions, read_splits};
use timely_splits::tick::{Tick, TimeMap};

use crate::disk::{Crash, Disk};
use crate::random::Random;
use crate::support::{Letter, Row, World};

/// The splits there are: `D` is drained when it is removed, `N` before others that come.
pub(crate) const LETTERS: &str = "abcDN";

/// How many steps a run takes, at most, before it is called hung.
const STEPS_MAX: u64 = 30_000;

/// How many steps a run that was taken over goes on for.
const AFTER_FENCE: u64 = 15;

/// How many steps the moment of a crash is waited for.
const STEPS_UNTIL_CRASH: u64 = 150;

/// What one run does.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) workers: usize,
    pub(crate) resume: Resume,
    /// The sink has everything up to this tick.
    pub(crate) stored: Tick,
    pub(crate) crash: Crash,
    pub(crate) faults: u64,
    pub(crate) seed: u64,
    pub(crate) snapshot_every: u32,
    /// How many records are written meanwhile, at most.
    pub(crate) writes: u64,
    /// Whether the metadata changes meanwhile, and splits fail for good.
    pub(crate) changes: bool,
    /// Whether the log is compacted meanwhile, up to what is stored.
    pub(crate) compacts: bool,
}

/// What is outside the source: the splits, and how many records were written to each.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    pub(crate) world: World,
    pub(crate) written: Arc<Mutex<BTreeMap<char, u64>>>,
}

impl Outside {
    fn write(&self, letter: char, count: u64) {
        *self.written.lock().unwrap().entry(letter).or_default() += count;
        self.world.write(letter, count);
    }

    pub(crate) fn total(&self) -> u64 {
        self.written.lock().unwrap().values().sum()
    }
}

/// What worker 0 does beside reading.
struct Script {
    outside: Outside,
    control: SourceControl<Letter>,
    random: Random,
    writes: u64,
}

impl Script {
    fn letter(&mut self) -> char {
        let index = self.random.index(LETTERS.len());
        LETTERS.chars().nth(index).expect("it is below the length")
    }

    /// A step.
    fn step(&mut self, life: &Life) {
        if self.writes > 0 && self.random.chance(25) {
            let (letter, count) = (self.letter(), 1 + self.random.below(5));
            let count = count.min(self.writes);
            self.writes -= count;
            self.outside.write(letter, count);
        }
        if self.random.chance(8) {
            let to = ReaderId(self.random.index(life.workers));
            let letter = Letter(self.letter());
            self.control.move_split(letter, to);
        }
        if life.changes && self.random.chance(3) {
            let (gone, all) = (self.letter(), self.random.chance(40));
            let listed = LETTERS.chars().filter(|letter| all || *letter != gone);
            self.outside.world.list(&listed.collect::<String>());
        }
        if life.changes && self.random.chance(3) {
            let letter = self.letter();
            self.outside.world.break_once(letter, FailureKind::Definite);
        }
        // Whoever is not quarantined is not readmitted.
        if self.random.chance(6) {
            let letter = Letter(self.letter());
            self.control.readmit(letter);
        }
    }
}

/// Runs it, until it has crashed or ended.
pub(crate) fn live(disk: &Disk, outside: &Outside, life: &Life) -> Result<(), String> {
    outside.world.list(LETTERS);
    outside.world.mend();
    let mut random = Random::of(life.seed, 3);
    outside.world.bring(random.pick(&[1, 3, 50]));
    let run = Run {
        number: disk.begin(life.workers, life.stored, life.crash, life.faults),
        disk: disk.clone(),
        outside: outside.clone(),
        life: life.clone(),
        control: SourceControl::new(),
    };
    let config = Config::process(life.workers);
    let guards = timely::execute(config, move |worker| run.work(worker))?;
    let joined = guards.join().into_iter();
    joined.collect::<Result<Vec<()>, _>>().map(|_| ())
}

/// What the workers of a run share.
struct Run {
    number: u64,
    disk: Disk,
    outside: Outside,
    life: Life,
    control: SourceControl<Letter>,
}

impl Run {
    fn work(&self, worker: &mut Worker) {
        let probe = self.dataflow(worker);
        let mut script = Script {
            outside: self.outside.clone(),
            control: self.control.clone(),
            random: Random::of(self.life.seed, 4),
            writes: self.life.writes,
        };
        let (mut fenced_since, mut stopped) = (None, false);
        for step in 0.. {
            worker.step_or_park(Some(Duration::from_millis(1)));
            let mut state = self.disk.lock();
            if probe.done() || !state.lives(self.number) {
                break;
            }
            if worker.index() > 0 {
                continue;
            }
            let fenced = state.fenced && step > *fenced_since.get_or_insert(step) + AFTER_FENCE;
            if fenced || self.crashes_at(step) {
                state.crash();
            }
            if step == STEPS_MAX {
                let (rows, all) = (state.rows.len(), self.outside.total());
                let health = state.health.join("; ");
                let wrong = format!("it does not end: {rows} of {all} rows; {health}");
                state.wrong.push(wrong);
                state.crash();
            }
            let stored = state.rows.len() as u64;
            let since = state.up_to.iter().min().copied().unwrap_or_default();
            if self.life.compacts && since > state.since && script.random.chance(5) {
                state.since = since;
                self.control.compact(since);
            }
            drop(state);
            script.step(&self.life);
            let ends = script.writes == 0 && self.life.crash == Crash::Never;
            if ends && !stopped && stored >= self.outside.total() {
                stopped = true;
                self.control.stop();
            }
        }
        for dataflow in worker.installed_dataflows() {
            worker.drop_dataflow(dataflow);
        }
    }

    /// Whether it crashes for the time that it has taken.
    fn crashes_at(&self, step: u64) -> bool {
        let late = self.life.crash != Crash::Never && step > STEPS_UNTIL_CRASH;
        late || self.life.crash == Crash::Stepped(step)
    }

    fn dataflow(&self, worker: &mut Worker) -> ProbeHandle<u64> {
        let (index, probe) = (worker.index(), ProbeHandle::new());
        let enumeration = (index == 0).then(|| {
            let mut enumeration = self.outside.world.enumeration(MemoryLog::new());
            enumeration.log = self.disk.log(self.number);
            enumeration.coordination.resume = self.life.resume;
            enumeration.coordination.snapshot_every = self.life.snapshot_every;
            enumeration.coordination.reserve_ahead = Duration::from_millis(40);
            enumeration.coordination.calm_for = Duration::ZERO;
            enumeration
        });
        let reading = self.outside.world.reading();
        let mut sink = Sink {
            disk: self.disk.clone(),
            run: self.number,
            worker: index,
            passed: self.life.stored,
            waiting: BTreeMap::new(),
        };
        let mut failures = Failures {
            disk: self.disk.clone(),
            run: self.number,
            waiting: BTreeSet::new(),
        };
        let (told, heard) = (self.disk.clone(), self.disk.clone());
        worker.dataflow::<u64, _, _>(|scope| {
            let mut source = SourceOptions::new("letters", TimeMap::identity());
            source.tick_interval = Duration::from_millis(2);
            source.control = self.control.clone();
            source.probe = Some(probe.clone());
            source.observer = Observer::new(move |event| {
                if let SourceEvent::Assigned {
                    split, split_epoch, ..
                } = event
                {
                    heard.lock().assigned(*split, *split_epoch);
                }
            });
            let streams = read_splits(scope, &source, enumeration, reading);
            streams
                .batches
                .inspect_core(move |event| sink.hear(event))
                .probe_with(&probe);
            streams
                .errors
                .inspect_core(move |event| failures.hear(event))
                .probe_with(&probe);
            streams
                .health
                .inspect(move |line| told.lock().health.push(line.to_string()));
        });
        probe
    }
}

/// What one worker stores.
struct Sink {
    disk: Disk,
    run: u64,
    worker: usize,
    /// The frontier has passed everything up to this tick.
    passed: Tick,
    waiting: BTreeMap<Tick, Vec<Row>>,
}

impl Sink {
    fn hear(&mut self, event: Result<(&Stamp<u64>, &Vec<Row>), &[u64]>) {
        let mut state = self.disk.lock();
        match event {
            Ok((stamp, rows)) => {
                let tick = Tick(*stamp.expect_singleton());
                if tick <= self.passed {
                    let wrong = format!("{rows:?} at {tick}, but {} has passed", self.passed);
                    state.wrong.push(wrong);
                }
                self.waiting.entry(tick).or_default().extend(rows);
                state.emitted(self.run, rows.len() as u64);
            }
            Err(frontier) => {
                let last = self.waiting.keys().next_back().copied();
                let passed = match frontier.first() {
                    Some(time) => Tick(time.saturating_sub(1)),
                    None => last.unwrap_or_default(),
                };
                self.passed = self.passed.max(passed);
                let later = self.waiting.split_off(&Tick(self.passed.0 + 1));
                let ticks = std::mem::replace(&mut self.waiting, later);
                state.commit(self.run, self.worker, self.passed, ticks);
            }
        }
    }
}

type Errors = Vec<SplitError<Letter>>;

/// The definite errors that one worker has seen at ticks that the frontier has not passed.
struct Failures {
    disk: Disk,
    run: u64,
    waiting: BTreeSet<(Tick, Row)>,
}

impl Failures {
    fn hear(&mut self, event: Result<(&Stamp<u64>, &Errors), &[u64]>) {
        match event {
            Ok((stamp, errors)) => {
                let tick = Tick(*stamp.expect_singleton());
                let rows = errors.iter().map(|error| (error.split.0, error.position));
                self.waiting.extend(rows.map(|row| (tick, row)));
            }
            Err(frontier) => {
                let at = frontier.first().copied().map_or(Tick(u64::MAX), Tick);
                let later = self.waiting.split_off(&(at, ('\0', 0)));
                let passed = std::mem::replace(&mut self.waiting, later);
                self.disk.lock().failed(self.run, &passed);
            }
        }
    }
}
