//! A run of a source over the world of the tests, and what it emitted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely::Config;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Inspect, Probe};
use timely::progress::Stamp;
use timely_splits::binding::{Binding, SplitError};
use timely_splits::budget::ByteBudget;
use timely_splits::control::SourceControl;
use timely_splits::epoch::{Incarnation, LogSequence};
use timely_splits::log::{Appended, BindingLog, MemoryLog};
use timely_splits::reader::Admission;
use timely_splits::resume::Resume;
use timely_splits::source::{SourceOptions, read_splits};
use timely_splits::tick::{Tick, TimeMap};

use crate::support::{Letter, Row, World};

/// How many times a worker steps, at most, before a test is called hung.
const STEPS_MAX: usize = 20_000;

/// What a run has emitted until now, on all workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) rows: BTreeMap<Tick, BTreeSet<Row>>,
    pub(crate) count: usize,
    pub(crate) bindings: Vec<Binding<Letter>>,
    pub(crate) errors: Vec<(Tick, SplitError<Letter>)>,
    pub(crate) health: Vec<String>,
    /// The least frontier of the workers that have one.
    pub(crate) frontiers: BTreeMap<usize, Option<u64>>,
}

pub(crate) struct Run {
    pub(crate) workers: usize,
    pub(crate) world: World,
    pub(crate) log: MemoryLog<Letter>,
    pub(crate) resume: Resume,
    pub(crate) snapshot_every: u32,
    pub(crate) in_flight_bytes_max: usize,
    /// Holds every other piece back, once.
    pub(crate) hesitant: bool,
    /// Called on worker 0 after each step; true ends the source.
    pub(crate) script: Arc<Script>,
    /// Leaves without waiting for the end once the script says so.
    pub(crate) leaves: bool,
}

pub(crate) type Script = dyn Fn(&Seen, &SourceControl<Letter>) -> bool + Send + Sync;

impl Run {
    pub(crate) fn new(world: &World, log: &MemoryLog<Letter>, resume: Resume) -> Self {
        Self {
            workers: 2,
            world: world.clone(),
            log: log.clone(),
            resume,
            snapshot_every: 1_000,
            in_flight_bytes_max: 1 << 20,
            hesitant: false,
            script: Arc::new(|_, _| true),
            leaves: false,
        }
    }

    pub(crate) fn until(
        mut self,
        script: impl Fn(&Seen, &SourceControl<Letter>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.script = Arc::new(script);
        self
    }

    pub(crate) fn run(self) -> Seen {
        let all: Arc<Mutex<Seen>> = Arc::default();
        let left = Arc::new(Mutex::new(false));
        let control = SourceControl::new();
        let (run, shared) = (self, Arc::clone(&all));
        let guards = timely::execute(Config::process(run.workers), move |worker| {
            let index = worker.index();
            let probe = run.dataflow(worker, &control, &shared);
            for step in 0.. {
                assert!(step < STEPS_MAX, "the source does not end: {shared:?}");
                worker.step_or_park(Some(Duration::from_millis(1)));
                if probe.done() || *left.lock().unwrap() {
                    break;
                }
                let mut shown = shared.lock().unwrap();
                let frontier = probe.with_frontier(|frontier| frontier.first().copied());
                shown.frontiers.insert(index, frontier);
                if index == 0 && (run.script)(&shown, &control) {
                    control.stop();
                    *left.lock().unwrap() = run.leaves;
                }
            }
            if run.leaves {
                for dataflow in worker.installed_dataflows() {
                    worker.drop_dataflow(dataflow);
                }
            }
        });
        for guard in guards.expect("workers start").join() {
            guard.expect("a worker ends well");
        }
        all.lock().unwrap().clone()
    }

    fn dataflow(
        &self,
        worker: &mut timely::worker::Worker,
        control: &SourceControl<Letter>,
        seen: &Arc<Mutex<Seen>>,
    ) -> ProbeHandle<u64> {
        let index = worker.index();
        let probe = ProbeHandle::new();
        let enumeration = (index == 0).then(|| {
            let mut enumeration = self.world.enumeration(self.log.clone());
            enumeration.coordination.resume = self.resume;
            enumeration.coordination.snapshot_every = self.snapshot_every;
            enumeration
        });
        let mut reading = self.world.reading();
        let mut held = BTreeSet::new();
        if self.hesitant {
            reading.admission = Some(Box::new(move |piece| {
                if held.insert((piece.split, piece.start)) {
                    Admission::Hold
                } else {
                    Admission::Admit
                }
            }));
        }
        worker.dataflow::<u64, _, _>(|scope| {
            let mut source = SourceOptions::new("letters", TimeMap::identity());
            source.tick_interval = Duration::from_millis(2);
            source.control = control.clone();
            source.budget = ByteBudget::new(self.in_flight_bytes_max).source();
            source.probe = Some(probe.clone());
            let streams = read_splits(scope, &source, enumeration, reading);
            let (rows, passed) = (Arc::clone(seen), probe.clone());
            streams
                .batches
                .inspect_core(move |event| {
                    let mut shown = rows.lock().unwrap();
                    for (tick, row) in at_ticks(event) {
                        assert!(passed.less_equal(&tick.0), "{row:?} is late at {tick}");
                        let new = shown.rows.entry(tick).or_default().insert(row);
                        assert!(new, "{row:?} came twice at {tick}");
                        shown.count += 1;
                    }
                })
                .probe_with(&probe);
            let bindings = Arc::clone(seen);
            streams.bindings.inspect_core(move |event| {
                for (tick, binding) in at_ticks(event) {
                    assert_eq!(tick, binding.tick, "a binding is emitted at its tick");
                    bindings.lock().unwrap().bindings.push(binding);
                }
            });
            let errors = Arc::clone(seen);
            streams.errors.inspect_core(move |event| {
                errors.lock().unwrap().errors.extend(at_ticks(event));
            });
            let health = Arc::clone(seen);
            streams.health.inspect(move |line| {
                health.lock().unwrap().health.push(line.to_string());
            });
        });
        probe
    }
}

/// What was emitted, each with its tick.
fn at_ticks<D: Clone>(event: Result<(&Stamp<u64>, &Vec<D>), &[u64]>) -> Vec<(Tick, D)> {
    let Ok((stamp, data)) = event else {
        return Vec::new();
    };
    let tick = Tick(*stamp.expect_singleton());
    data.iter().map(|one| (tick, one.clone())).collect()
}

/// Another log that holds the same: a run that replays goes on after it.
pub(crate) fn copy_of(log: &MemoryLog<Letter>) -> MemoryLog<Letter> {
    let records = log.clone().read_all().unwrap();
    let mut copy = new_log();
    let appended = copy.append(Incarnation(1), LogSequence(0), &records);
    assert_eq!(appended.unwrap(), Appended::Durable);
    copy
}

/// A log that keeps all ticks.
pub(crate) fn new_log() -> MemoryLog<Letter> {
    MemoryLog::new().keep_for(Duration::from_secs(3_600))
}
