//! What outlives a run: the objects of the log, and what the sink has stored.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use timely_kafka::{BindingLog, KafkaSplit, LogRecord, LogSequence, Resume};
use timely_splits::binding::Binding;
use timely_splits::log::ObjectLog;

use super::crash::Crash;
use super::store::{Fate, LatePut, Mistake, put};
use crate::random::Random;

/// A partition: cluster, topic without the number of the round, number.
pub(super) type Part = (&'static str, &'static str, i32);

/// A record by its partition and offset.
pub(super) type Row = (Part, u64);

/// Which records are at which tick.
pub(super) type Rows = BTreeMap<Row, u64>;

/// All partitions there are.
pub(super) const PARTS: [Part; 5] = [
    ("a", "orders", 0),
    ("a", "orders", 1),
    ("b", "orders", 0),
    ("b", "orders", 1),
    ("b", "audit", 0),
];

pub(super) fn part(split: &KafkaSplit) -> Part {
    let topic = split.topic.as_str().split('-').next();
    let found = PARTS.into_iter().find(|(cluster, name, partition)| {
        (*cluster, Some(*name), *partition) == (split.cluster.as_str(), topic, split.partition.0)
    });
    found.expect("only what is there is read")
}

/// One run, as the store and the sink know it.
pub(super) struct RunState {
    crash: Crash,
    /// How many of a hundred puts do not go well.
    faults: u64,
    dead: bool,
    /// How often it said that it was taken over and ends.
    words: u64,
    appends: u64,
    emitted: u64,
    /// How many of the emitted records are at ticks that the frontier has not passed.
    open: u64,
    pub(super) passes: u64,
    releases: u64,
    health: Vec<String>,
}

/// Clones are the same.
#[derive(Clone)]
pub(super) struct Home(Arc<Inner>);

struct Inner {
    objects: Arc<InMemory>,
    state: Mutex<State>,
    changed: Condvar,
}

pub(super) struct State {
    /// The log, read by somebody who has nothing to do with the runs.
    looking: ObjectLog<KafkaSplit>,
    looked_at: u64,
    /// All bindings that ever were in the log, also those that are void since.
    bindings: BTreeMap<u64, Binding<KafkaSplit>>,
    /// What the bindings in force say.
    pub(super) bound: Rows,
    reserved: u64,
    /// What is on its way to the store.
    pub(super) late: Vec<LatePut>,
    pub(super) mistake: Option<Mistake>,
    random: Random,
    runs: BTreeMap<u64, RunState>,
    /// The run whose claim of the log came last.
    claimed_by: u64,
    /// The run that the sink takes anything from.
    writer: u64,
    /// It reads on behind what is bound, and has stored nothing so far.
    reads_on: bool,
    /// The numbers that were written to each partition.
    pub(super) written: BTreeMap<Part, Vec<u64>>,
    /// What is stored.
    pub(super) rows: Rows,
    /// Of each worker, the tick up to which it has stored everything.
    pub(super) up_to: Vec<u64>,
    /// The tick up to which the log may have dropped what only older ones need.
    pub(super) since: u64,
    pub(super) counts: BTreeMap<String, u64>,
    pub(super) wrong: Vec<String>,
}

impl Home {
    pub(super) fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let objects = Arc::new(InMemory::new());
        let store: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(&objects);
        let mut looking = ObjectLog::in_store(store, "log").read_only();
        looking.open().expect("a store in memory does not fail");
        let state = State {
            looking,
            looked_at: 0,
            bindings: BTreeMap::new(),
            bound: Rows::new(),
            reserved: 0,
            late: Vec::new(),
            mistake,
            random: Random::of(seed, 1),
            runs: BTreeMap::new(),
            claimed_by: 0,
            writer: 0,
            reads_on: false,
            written: BTreeMap::new(),
            rows: Rows::new(),
            up_to: Vec::new(),
            since: 0,
            counts: BTreeMap::new(),
            wrong: Vec::new(),
        };
        Self(Arc::new(Inner {
            objects,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }))
    }

    pub(super) fn objects(&self) -> Arc<InMemory> {
        Arc::clone(&self.0.objects)
    }

    /// What is found wrong is said at the end of the run; a panic must not hide it.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something, and tells whoever waits for a change.
    pub(super) fn change<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let done = act(&mut self.lock());
        self.0.changed.notify_all();
        done
    }

    /// Waits for a change, for so long at most.
    pub(super) fn await_change(&self, most: Duration) {
        let state = self.lock();
        let waited = self.0.changed.wait_timeout(state, most);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl State {
    /// Begins a run of so many workers: from here on the sink takes nothing from another one.
    pub(super) fn begin(&mut self, workers: usize, crash: Crash, faults: u64, resume: Resume) {
        self.writer = self.runs.len() as u64 + 1;
        let run = RunState {
            crash,
            faults,
            dead: false,
            words: 0,
            appends: 0,
            emitted: 0,
            open: 0,
            passes: 0,
            releases: 0,
            health: Vec::new(),
        };
        self.runs.insert(self.writer, run);
        let stored = match resume {
            Resume::Replay { from } => from.0 - 1,
            Resume::Fresh => 0,
            _ => self.stored(),
        };
        // Some workers were ahead of others.
        self.rows.retain(|_, tick| *tick <= stored);
        self.up_to = vec![stored; workers];
        self.reads_on = matches!(resume, Resume::Continue);
        if self.reads_on {
            self.take_for_stored();
        }
    }

    /// What is bound and not stored is lost to whoever reads on behind it.
    fn take_for_stored(&mut self) {
        self.rows.clone_from(&self.bound);
        let last = self.bound.values().max().copied().unwrap_or_default();
        self.up_to
            .iter_mut()
            .for_each(|tick| *tick = last.max(*tick));
    }

    /// From here on the sink takes nothing from the run that it knows: what it has stays as it is.
    pub(super) fn fence_sink(&mut self) {
        self.writer = 0;
    }

    pub(super) fn writer(&self) -> u64 {
        self.writer
    }

    /// What the sink has of all its workers.
    pub(super) fn stored(&self) -> u64 {
        self.up_to.iter().min().copied().unwrap_or_default()
    }

    pub(super) fn run(&mut self, run: u64) -> &mut RunState {
        self.runs.get_mut(&run).expect("it has begun")
    }

    pub(super) fn lives(&self, run: u64) -> bool {
        self.runs.get(&run).is_some_and(|run| !run.dead)
    }

    /// From here on nothing that the run does has an effect.
    pub(super) fn kill(&mut self, run: u64) {
        let of_run = self.run(run);
        let open = of_run.open > 0;
        if !std::mem::replace(&mut of_run.dead, true) && open {
            self.count("killed between emission and the frontier");
        }
    }

    /// How many records were written and are not stored.
    pub(super) fn lacks(&self) -> usize {
        let written: usize = self.written.values().map(Vec::len).sum();
        written - self.rows.len()
    }

    /// Whether a run was taken over and has not said so.
    pub(super) fn owes_words(&mut self, run: u64) -> bool {
        self.is_taken_over(run) && self.run(run).words == 0
    }

    pub(super) fn crash_of(&self, run: u64) -> Crash {
        self.runs[&run].crash
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.random.chance(percent)
    }

    pub(super) fn has_appended(&self, run: u64) -> bool {
        self.runs.get(&run).is_some_and(|run| run.appends > 0)
    }

    pub(super) fn fails(&mut self, run: u64) -> bool {
        let faults = self.run(run).faults;
        self.random.chance(faults)
    }

    pub(super) fn fate(&mut self, run: u64) -> Fate {
        match self.runs.contains_key(&run) && self.fails(run) {
            true => self.random.pick(&Fate::FAULTS),
            false => Fate::Well,
        }
    }

    pub(super) fn append_begun(&mut self, run: u64) -> u64 {
        let run = self.run(run);
        run.appends += 1;
        run.appends
    }

    pub(super) fn taken_over_by(&mut self, run: u64) {
        self.claimed_by = self.claimed_by.max(run);
    }

    pub(super) fn is_taken_over(&self, run: u64) -> bool {
        run < self.claimed_by
    }

    /// Some of what is on its way gets there, unless there is something already; some never does.
    pub(super) fn some_arrive(&mut self, store: &InMemory) {
        for late in std::mem::take(&mut self.late) {
            match self.random.below(4) {
                0 => {
                    let there = put(store, &late.path, late.payload).is_ok();
                    self.look();
                    self.count(if there {
                        "late put in time"
                    } else {
                        "late put too late"
                    });
                }
                1 => {}
                _ => self.late.push(late),
            }
        }
    }

    pub(super) fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    pub(super) fn break_by(&mut self, run: u64, words: impl std::fmt::Display) {
        self.wrong.push(format!("run {run}: {words}"));
    }

    /// Takes note of what got into the log, before anything of it can be dropped.
    ///
    /// On a thread of its own: a log waits for its store, and this is also called while another does.
    pub(super) fn look(&mut self) {
        thread::scope(|scope| {
            let looked = scope.spawn(|| self.look_here()).join();
            looked.expect("looking does not fail");
        });
    }

    fn look_here(&mut self) {
        loop {
            let more = self.looking.read(LogSequence(self.looked_at), 1_000);
            let more = match more {
                Ok(more) if more.is_empty() => return,
                Ok(more) => more,
                Err(error) => {
                    let at = self.looked_at;
                    self.wrong
                        .push(format!("the log cannot be read at {at}: {error}"));
                    return;
                }
            };
            self.looked_at += more.len() as u64;
            more.into_iter().for_each(|record| self.note(record));
        }
    }

    fn note(&mut self, record: LogRecord<KafkaSplit>) {
        match record {
            LogRecord::Incarnation(_) if self.reads_on => self.take_for_stored(),
            LogRecord::Reserved(tick) => self.reserved = self.reserved.max(tick.0),
            LogRecord::Snapshot(snapshot) => {
                self.reserved = self.reserved.max(snapshot.reserved.0);
                if snapshot.rewound {
                    let last = snapshot.bound.unwrap_or_default().0;
                    self.bound.retain(|_, tick| *tick <= last);
                    self.count("gone back");
                }
            }
            LogRecord::Binding(binding) => self.note_binding(binding),
            _ => {}
        }
    }

    fn note_binding(&mut self, binding: Binding<KafkaSplit>) {
        let tick = binding.tick.0;
        for range in &binding.ranges {
            let part = part(&range.split);
            for offset in range.from.next.get()..range.to.next.get() {
                if let Some(other) = self.bound.insert((part, offset), tick) {
                    let wrong = format!("{part:?} {offset} is bound at {other} and {tick}");
                    self.wrong.push(wrong);
                }
            }
        }
        if let Some(error) = binding.errors.first() {
            self.wrong.push(format!("{error:?} is bound"));
        }
        if self.bindings.insert(tick, binding).is_some() {
            self.wrong.push(format!("{tick} is bound twice"));
        }
    }

    /// Records were emitted by a run.
    pub(super) fn emitted(&mut self, run: u64, rows: usize) {
        let of_run = self.run(run);
        of_run.emitted += rows as u64;
        of_run.open += rows as u64;
        if let Crash::Emitted(count) = of_run.crash
            && of_run.emitted >= count
        {
            self.kill(run);
        }
    }

    /// A split was released by its reader.
    pub(super) fn released(&mut self, run: u64) {
        let of_run = self.run(run);
        of_run.releases += 1;
        if of_run.crash == Crash::Released(of_run.releases) {
            self.kill(run);
        }
    }

    pub(super) fn told(&mut self, run: u64, health: String) {
        let of_run = self.run(run);
        let says = health.contains("another run of this source has taken the log over");
        of_run.words += u64::from(says);
        let words = of_run.words;
        // What is asked for too early is said as well, and often, and what the store does is no news.
        if !health.contains("cannot be moved") && !health.contains("on purpose") {
            of_run.health.push(health);
        }
        if says {
            self.count("taken over, and said so");
            if words > 1 || !self.is_taken_over(run) {
                self.break_by(run, format!("it says {words} times that it was taken over"));
            }
        }
    }

    /// What a run said of its health last.
    pub(super) fn last_health(&self, run: u64) -> String {
        let of_run = &self.runs[&run];
        let health = &of_run.health;
        let last = health[health.len().saturating_sub(8)..].join("; ");
        format!(
            "{} appends, claimed by {}; {last}",
            of_run.appends, self.claimed_by
        )
    }

    /// The frontier of a worker has passed all ticks up to `passed`, at which these rows came.
    ///
    /// That every one of them is in the log holds for a run that was taken over as well.
    pub(super) fn passed(
        &mut self,
        (run, worker): (u64, usize),
        passed: Option<u64>,
        ticks: BTreeMap<u64, Vec<Row>>,
    ) {
        if !self.lives(run) {
            return;
        }
        let over: usize = ticks.values().map(Vec::len).sum();
        self.run(run).open -= over as u64;
        let bound = self.bindings.keys().next_back().copied();
        let used = self.reserved.max(bound.unwrap_or_default());
        if let Some(passed) = passed.filter(|passed| *passed > used) {
            let words = format!("{passed} has passed, and the next run may open {used} and later");
            self.break_by(run, words);
        }
        for (tick, rows) in &ticks {
            if let Some(row) = rows.iter().find(|row| !self.binds(*tick, row)) {
                self.break_by(run, format!("{tick} has passed, and the log lacks {row:?}"));
            }
        }
        if run == self.writer {
            self.store(run, worker, passed, ticks);
        }
        let of_run = self.run(run);
        of_run.passes += 1;
        if of_run.crash == Crash::Passed(of_run.passes) {
            self.kill(run);
        }
    }

    fn binds(&self, tick: u64, row: &Row) -> bool {
        let ranges = self.bindings.get(&tick).map(|binding| &binding.ranges);
        ranges.into_iter().flatten().any(|range| {
            part(&range.split) == row.0
                && (range.from.next.get()..range.to.next.get()).contains(&row.1)
        })
    }

    /// A worker stores, in one transaction, all rows of ticks that its frontier has passed.
    fn store(
        &mut self,
        run: u64,
        worker: usize,
        passed: Option<u64>,
        ticks: BTreeMap<u64, Vec<Row>>,
    ) {
        let last_stored = ticks.keys().next_back().copied();
        for (tick, rows) in ticks {
            let mut last: BTreeMap<Part, u64> = BTreeMap::new();
            for row in rows {
                self.reads_on = false;
                let before = last.insert(row.0, row.1);
                if before.is_some_and(|before| before >= row.1) {
                    self.break_by(run, format!("{row:?} comes after {before:?}"));
                }
                if let Some(other) = self.rows.insert(row, tick) {
                    self.break_by(
                        run,
                        format!("{row:?} is final at {tick}, and was at {other}"),
                    );
                }
            }
        }
        let passed = passed.or(last_stored).unwrap_or_default();
        self.up_to[worker] = self.up_to[worker].max(passed);
    }
}
