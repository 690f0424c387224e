//! What one simulated source is like. Each seed mixes other options, so that no common middle hides
//! what only extremes show.

use std::rc::Rc;
use std::time::Duration;

use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::loss::{LossPolicies, LossPolicy};
use timely_splits::reader::ReaderOptions;

use crate::fickle::{Fickle, Mood};
use crate::model::Settings;
use crate::random::Random;

/// The options of one simulated source. Delays are the longest that are drawn.
#[derive(Clone, Debug)]
pub(crate) struct Swarm {
    pub(crate) readers: usize,
    pub(crate) trees: u64,
    pub(crate) leaves: u64,
    pub(crate) tick_interval: Duration,
    pub(crate) ticks_waiting_max: usize,
    pub(crate) reserve_ahead: Duration,
    pub(crate) plan_debounce: Duration,
    pub(crate) calm_for: Duration,
    pub(crate) plan_interval: Option<Duration>,
    pub(crate) start_deadline: Duration,
    pub(crate) release_deadline: Duration,
    pub(crate) kept_for: Duration,
    pub(crate) kept_max: usize,
    pub(crate) prepare: bool,
    pub(crate) prepare_deadline: Duration,
    pub(crate) epochs_ahead: u64,
    pub(crate) snapshot_every: u32,
    /// Whether the assignor moves splits for no reason while there are faults.
    pub(crate) fickle: bool,
    pub(crate) crashes_max: u32,
    pub(crate) stuck_after: Duration,
    pub(crate) metadata_apart: bool,
    pub(crate) link: u64,
    pub(crate) log: u64,
    /// Whether the log takes as long every time.
    pub(crate) steady: bool,
    pub(crate) discovery: u64,
    pub(crate) fetch: u64,
    /// How often what was fetched arrives although its split was unassigned, in percent.
    pub(crate) late: u64,
    /// How often a piece is not admitted, in percent.
    pub(crate) held_back: u64,
    /// How often the discovery finds only some splits, in percent.
    pub(crate) partial: u64,
    pub(crate) losses: LossPolicy,
    pub(crate) identify_every: Option<Duration>,
    pub(crate) identify_within: Duration,
    /// Whether reading starts at the end of a split, not at its beginning.
    pub(crate) latest: bool,
    /// Whether reading a split stops somewhere.
    pub(crate) stops: bool,
    /// What is added to the path to each tree: from 2 on trees are drained when they are removed, from 4 on
    /// before others that are added.
    pub(crate) drains: u8,
    /// For how long there are faults, and how many.
    pub(crate) trouble: Duration,
    pub(crate) faults: usize,
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Swarm {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::of(seed, 1);
        let day = ms(24 * 60 * 60 * 1_000);
        Self {
            readers: 1 + random.index(4),
            trees: 1 + random.below(3),
            leaves: 1 + random.below(3),
            tick_interval: random.pick(&[ms(20), ms(50), ms(100)]),
            ticks_waiting_max: 1 + random.index(4),
            reserve_ahead: random.pick(&[ms(100), ms(500), ms(10_000)]),
            plan_debounce: random.pick(&[ms(0), ms(0), ms(10), ms(150)]),
            calm_for: random.pick(&[ms(0), ms(50), ms(500)]),
            plan_interval: random.pick(&[None, Some(ms(100)), Some(ms(300))]),
            start_deadline: random.pick(&[ms(100), ms(1_000)]),
            release_deadline: random.pick(&[ms(30), ms(500)]),
            kept_for: random.pick(&[ms(100), ms(1_000), day, day]),
            kept_max: random.pick(&[1, 3, 1_000, 1_000]),
            prepare: random.chance(30),
            prepare_deadline: random.pick(&[ms(20), ms(300)]),
            // Drawn apart, so that a seed is the source that it was before there were blocks of epochs.
            epochs_ahead: Random::of(seed, 6).pick(&[0, 1, 4, 1_000]),
            snapshot_every: random.pick(&[1, 5, 1_000]),
            fickle: random.chance(50),
            crashes_max: random.pick(&[2, 5]),
            stuck_after: random.pick(&[ms(400), ms(30_000)]),
            metadata_apart: random.chance(20),
            link: random.pick(&[0, 2, 20, 150]),
            log: random.pick(&[0, 5, 80, 300]),
            steady: random.chance(30),
            discovery: random.pick(&[1, 30, 400]),
            fetch: random.pick(&[1, 10, 80]),
            late: random.pick(&[0, 30, 100]),
            held_back: random.pick(&[0, 0, 20]),
            partial: random.pick(&[0, 40]),
            latest: random.chance(20),
            losses: random.pick(&[
                LossPolicy::Fail,
                LossPolicy::Skip,
                LossPolicy::Restart,
                LossPolicy::Wait,
            ]),
            identify_every: random.pick(&[None, Some(ms(0)), Some(ms(0)), Some(ms(200))]),
            identify_within: random.pick(&[ms(30), ms(2_000)]),
            trouble: random.pick(&[ms(300), ms(1_000), ms(2_000)]),
            faults: random.pick(&[4, 12, 25]),
            stops: random.chance(25),
            // Drawn apart, so that a seed is the source that it was before anything was drained.
            drains: Random::of(seed, 7).pick(&[0, 0, 0, 2, 4]),
        }
    }

    /// What the model is set up with; the assignor is in `mood`.
    pub(crate) fn settings(&self, mood: &Mood) -> Settings {
        let mood = self.fickle.then(|| mood.clone());
        let coordinator = CoordinatorOptions {
            tick_interval: self.tick_interval,
            ticks_waiting_max: self.ticks_waiting_max,
            reserve_ahead: self.reserve_ahead,
            plan_debounce: self.plan_debounce,
            calm_for: self.calm_for,
            plan_interval: self.plan_interval,
            start_deadline: self.start_deadline,
            release_deadline: self.release_deadline,
            kept_for: self.kept_for,
            kept_max: self.kept_max,
            prepare: self.prepare,
            prepare_deadline: self.prepare_deadline,
            epochs_ahead: self.epochs_ahead,
            snapshot_every: self.snapshot_every,
            identify_every: self.identify_every,
            identify_within: self.identify_within,
            losses: LossPolicies {
                records: self.losses,
                recreated: self.losses,
            },
            ..CoordinatorOptions::new(self.readers)
        };
        Settings {
            coordinator,
            reader: ReaderOptions {
                crashes_max: self.crashes_max,
                stuck_after: self.stuck_after,
            },
            assignor: Rc::new(move || Box::new(Fickle::new(mood.clone()))),
            metadata_apart: self.metadata_apart,
        }
    }

    /// Simpler sources that are like this one.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        let with = |change: fn(&mut Self)| {
            let mut simpler = self.clone();
            change(&mut simpler);
            simpler
        };
        vec![
            with(|swarm| swarm.readers = 1),
            with(|swarm| swarm.readers = 2),
            with(|swarm| swarm.trees = 1),
            with(|swarm| swarm.leaves = 1),
            with(|swarm| swarm.fickle = false),
            with(|swarm| swarm.plan_interval = None),
            with(|swarm| swarm.plan_debounce = ms(0)),
            with(|swarm| swarm.calm_for = ms(0)),
            with(|swarm| swarm.metadata_apart = false),
            with(|swarm| swarm.prepare = false),
            with(|swarm| swarm.kept_max = 1_000),
            with(|swarm| swarm.kept_for = Duration::from_secs(1_000_000)),
            with(|swarm| (swarm.partial, swarm.held_back) = (0, 0)),
            with(|swarm| swarm.late = 0),
            with(|swarm| swarm.losses = LossPolicy::Fail),
            with(|swarm| swarm.identify_every = None),
            with(|swarm| swarm.link = 0),
            with(|swarm| swarm.log = 0),
            with(|swarm| swarm.discovery = 1),
            with(|swarm| swarm.fetch = 1),
            with(|swarm| swarm.latest = false),
            with(|swarm| swarm.stops = false),
            with(|swarm| swarm.drains = swarm.drains.min(2)),
            with(|swarm| swarm.reserve_ahead = ms(10_000)),
            with(|swarm| swarm.epochs_ahead = 1_000),
        ]
    }
}
