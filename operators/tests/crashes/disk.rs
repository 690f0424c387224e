//! What outlives a crash: the log, and what a sink has stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use timely_splits::epoch::{Incarnation, LogSequence, SplitEpoch};
use timely_splits::log::{Appended, BindingLog, LogError, LogExtent, LogRecord, MemoryLog};
use timely_splits::tick::Tick;

use crate::random::Random;
#[cfg(feature = "object-store")]
use crate::store::{LatePut, Objects};
use crate::support::{Letter, Row};

/// Which rows are at which tick.
pub(crate) type Rows = BTreeMap<Row, Tick>;

type Record = LogRecord<Letter>;

/// A mistake that a log makes on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// It says that an append is durable as soon as it is asked for.
    DurableBeforeItIs,
    /// It takes an append of which it heard nothing for done.
    UnknownIgnored,
    /// It tells a run that was taken over that all is well.
    FenceIgnored,
}

impl Mistake {
    pub(crate) const ALL: [Self; 3] = [
        Self::DurableBeforeItIs,
        Self::UnknownIgnored,
        Self::FenceIgnored,
    ];
}

/// When a run crashes, if not by the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// It does not.
    Never,
    /// When so many appends were asked for, and this one is not written.
    AppendBegun(u64),
    /// When so many appends were written, and nobody was told of this one.
    AppendWritten(u64),
    /// When so many rows were emitted.
    Emitted(u64),
    /// When a worker has committed so often.
    Committed(u64),
    /// After so many steps of worker 0.
    Stepped(u64),
}

/// What becomes of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Well,
    /// Nothing is written, and it says so.
    Fails,
    /// Nothing is written, and it cannot say so.
    Lost,
    /// It is written, and the answer is lost.
    AnswerLost,
    /// The answer is lost, and it is written when the next append is asked for.
    Late,
    Slow,
    /// Somebody else takes over before it.
    TakenOver,
}

/// The log and the store of one source; clones share them.
#[derive(Clone)]
pub(crate) struct Disk(Arc<Mutex<State>>);

/// # Invariants
///
/// Only what is done for `run` changes anything. So a crash, which takes that away, is one moment for
/// the log and for the store.
pub(crate) struct State {
    log: MemoryLog<Letter>,
    /// What is used in the place of that log, if it is.
    #[cfg(feature = "object-store")]
    objects: Option<Objects>,
    #[cfg(feature = "object-store")]
    pub(crate) late_put: Option<LatePut>,
    /// All that was ever written, also what the log has dropped since.
    archive: Vec<Record>,
    /// The tick up to which the log may have dropped what only older ones need.
    pub(crate) since: Tick,
    mistake: Option<Mistake>,
    random: Random,
    /// The run that lives.
    run: Option<u64>,
    runs: u64,
    pub(crate) crash: Crash,
    /// How many of a hundred appends do not go well.
    pub(crate) faults: u64,
    pub(crate) appends: u64,
    emitted: u64,
    commits: u64,
    late: Option<(Incarnation, LogSequence, Vec<Record>)>,
    /// The run was taken over.
    pub(crate) fenced: bool,
    /// The greatest tick with a binding in the log.
    bound_to: Tick,
    /// The definite errors that the log has, with their ticks.
    errors: BTreeSet<(Tick, Row)>,
    /// The greatest split epoch that runs before this one have assigned, and the greatest of all.
    assigned: (SplitEpoch, SplitEpoch),
    /// What is stored.
    pub(crate) rows: Rows,
    /// Of each worker, the tick up to which it has stored everything.
    pub(crate) up_to: Vec<Tick>,
    /// How often appends had which fate.
    pub(crate) fates: BTreeMap<String, u64>,
    /// What the run said of its health.
    pub(crate) health: Vec<String>,
    pub(crate) wrong: Vec<String>,
}

impl Disk {
    pub(crate) fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        Self(Arc::new(Mutex::new(State {
            log: MemoryLog::new().keep_for(Duration::MAX),
            #[cfg(feature = "object-store")]
            objects: (mistake.is_none() && seed % 2 == 1).then(Objects::new),
            #[cfg(feature = "object-store")]
            late_put: None,
            archive: Vec::new(),
            since: Tick::default(),
            mistake,
            random: Random::of(seed, 1),
            run: None,
            runs: 0,
            crash: Crash::Never,
            faults: 0,
            appends: 0,
            emitted: 0,
            commits: 0,
            late: None,
            fenced: false,
            bound_to: Tick::default(),
            errors: BTreeSet::new(),
            assigned: Default::default(),
            rows: Rows::new(),
            up_to: Vec::new(),
            fates: BTreeMap::new(),
            health: Vec::new(),
            wrong: Vec::new(),
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Begins a run of so many workers, whose store has everything up to a tick.
    pub(crate) fn begin(&self, workers: usize, up_to: Tick, crash: Crash, faults: u64) -> u64 {
        let mut state = self.lock();
        // What one that has ended left under way does not arrive after the next one has opened the log:
        // of a log that several may open, whoever opens it takes it over.
        state.crash();
        state.runs += 1;
        state.run = Some(state.runs);
        (state.crash, state.faults) = (crash, faults);
        (state.appends, state.emitted, state.commits) = (0, 0, 0);
        state.fenced = false;
        state.assigned.0 = state.assigned.1;
        state.health.clear();
        state.up_to = vec![up_to; workers];
        state.runs
    }

    pub(crate) fn log(&self, run: u64) -> Box<dyn BindingLog<Letter>> {
        let state = self.lock();
        #[cfg(feature = "object-store")]
        if let Some(objects) = &state.objects {
            return Box::new(objects.log(self, run));
        }
        let (disk, log) = (self.clone(), state.log.clone());
        Box::new(DiskLog { disk, run, log })
    }

    /// All that was ever written to the log.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.lock().archive.clone()
    }
}

impl State {
    pub(crate) fn lives(&self, run: u64) -> bool {
        self.run == Some(run)
    }

    /// The run is no more, be it that it has ended.
    pub(crate) fn crash(&mut self) {
        self.run = None;
        // What is under way may still arrive, or never will.
        if let Some(late) = self.late.take()
            && self.mistake != Some(Mistake::DurableBeforeItIs)
            && self.random.chance(50)
        {
            self.write(&late.2, late.0, late.1);
        }
        #[cfg(feature = "object-store")]
        if let Some(late) = self.late_put.take()
            && self.random.chance(50)
        {
            late.arrive();
            self.look();
        }
    }

    /// Takes note of what got into the store.
    #[cfg(feature = "object-store")]
    pub(crate) fn look(&mut self) {
        if let Some(objects) = &mut self.objects {
            let more = objects.more(self.archive.len() as u64);
            more.iter().for_each(|record| self.note(record));
            self.archive.extend(more);
        }
    }

    #[cfg(feature = "object-store")]
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.random.chance(percent)
    }

    pub(crate) fn count(&mut self, what: &str) {
        *self.fates.entry(what.to_owned()).or_default() += 1;
    }

    /// Rows were emitted.
    pub(crate) fn emitted(&mut self, run: u64, rows: u64) {
        self.emitted += rows;
        if let Crash::Emitted(count) = self.crash
            && self.lives(run)
            && self.emitted >= count
        {
            self.crash();
        }
    }

    /// A worker stores all rows of its ticks up to `passed`, which the frontier has passed.
    pub(crate) fn commit(
        &mut self,
        run: u64,
        worker: usize,
        passed: Tick,
        ticks: BTreeMap<Tick, Vec<Row>>,
    ) {
        if !self.lives(run) {
            return;
        }
        for (tick, rows) in ticks {
            if tick > self.bound_to {
                let wrong = format!("the frontier has passed {tick}, which is not in the log");
                self.wrong.push(wrong);
            }
            let mut last: BTreeMap<char, u64> = BTreeMap::new();
            for row in rows {
                let before = last.insert(row.0, row.1);
                if before.is_some_and(|before| before >= row.1) {
                    self.wrong.push(format!("{row:?} comes after {before:?}"));
                }
                if let Some(other) = self.rows.insert(row, tick) {
                    let wrong = format!("{row:?} is final at {tick}, and was at {other}");
                    self.wrong.push(wrong);
                }
            }
        }
        self.up_to[worker] = self.up_to[worker].max(passed);
        self.commits += 1;
        if self.crash == Crash::Committed(self.commits) {
            self.crash();
        }
    }

    /// Whether the log can be opened, or read, by a run.
    fn reads(&mut self, run: u64) -> Result<(), LogError> {
        if self.runs != run {
            return Err(LogError::definite("that fails", "the run is no more"));
        }
        if self.random.chance(self.faults / 2) {
            *self.fates.entry("CannotBeRead".to_owned()).or_default() += 1;
            return Err(error());
        }
        Ok(())
    }

    fn write(&mut self, records: &[Record], run: Incarnation, at: LogSequence) -> Appended {
        let appended = self.log.append(run, at, records);
        let appended = appended.expect("a log in memory takes everything");
        if appended == Appended::Durable {
            self.archive.extend_from_slice(records);
            records.iter().for_each(|record| self.note(record));
        }
        appended
    }

    fn note(&mut self, record: &Record) {
        let LogRecord::Binding(binding) = record else {
            return;
        };
        self.bound_to = self.bound_to.max(binding.tick);
        for error in &binding.errors {
            let row = (error.split.0, error.position);
            self.errors.insert((binding.tick, row));
            self.count("error bound");
        }
    }

    /// A split is assigned.
    pub(crate) fn assigned(&mut self, split: Letter, epoch: SplitEpoch) {
        if epoch <= self.assigned.0 {
            let (before, _) = self.assigned;
            let wrong =
                format!("{split} is assigned under #{epoch}, after #{before} in an earlier run");
            self.wrong.push(wrong);
        }
        self.assigned.1 = self.assigned.1.max(epoch);
    }

    /// The frontier has passed the ticks of errors.
    pub(crate) fn failed(&mut self, run: u64, errors: &BTreeSet<(Tick, Row)>) {
        if let Some(error) = errors.difference(&self.errors).next()
            && self.lives(run)
        {
            let wrong =
                format!("the frontier has passed the error {error:?}, which is not in the log");
            self.wrong.push(wrong);
        }
    }

    pub(crate) fn fate(&mut self) -> Fate {
        let fates = [
            Fate::Fails,
            Fate::Lost,
            Fate::AnswerLost,
            Fate::AnswerLost,
            Fate::Late,
            Fate::Slow,
            Fate::Slow,
            Fate::TakenOver,
        ];
        let fate = match self.mistake {
            _ if !self.random.chance(self.faults) => Fate::Well,
            // The only fate that shows it.
            Some(Mistake::FenceIgnored) => Fate::TakenOver,
            _ => self.random.pick(&fates),
        };
        // The first append says who writes: nobody could be told from it. And one that is to come to its
        // end has to.
        match fate {
            Fate::TakenOver if self.appends == 0 || self.crash == Crash::Never => Fate::Well,
            fate => fate,
        }
    }

    fn append(
        &mut self,
        fate: Fate,
        run: Incarnation,
        at: LogSequence,
        records: &[Record],
    ) -> Result<Appended, LogError> {
        if let Some((writer, place, late)) = self.late.take()
            && self.write(&late, writer, place) == Appended::Durable
            && self.mistake != Some(Mistake::DurableBeforeItIs)
        {
            // Somebody has the place: who, is to be read.
            return Ok(Appended::Unknown);
        }
        if self.mistake == Some(Mistake::DurableBeforeItIs) {
            self.late = Some((run, at, records.to_vec()));
            return Ok(Appended::Durable);
        }
        self.count(&format!("{fate:?}"));
        let unknown = match self.mistake {
            Some(Mistake::UnknownIgnored) => Appended::Durable,
            _ => Appended::Unknown,
        };
        match fate {
            Fate::Well | Fate::Slow => Ok(self.write(records, run, at)),
            Fate::Fails => Err(error()),
            Fate::Lost => Ok(unknown),
            Fate::AnswerLost => {
                self.write(records, run, at);
                Ok(unknown)
            }
            Fate::Late => {
                self.late = Some((run, at, records.to_vec()));
                Ok(unknown)
            }
            Fate::TakenOver => {
                let other = run.next();
                self.write(&[LogRecord::Incarnation(other)], other, at);
                self.fenced = true;
                Ok(Appended::Fenced)
            }
        }
    }
}

fn error() -> LogError {
    LogError::transient("that fails", "it does")
}

/// The log as one run has it.
pub(crate) struct DiskLog {
    disk: Disk,
    run: u64,
    log: MemoryLog<Letter>,
}

impl BindingLog<Letter> for DiskLog {
    fn open(&mut self) -> Result<LogExtent, LogError> {
        self.disk.lock().reads(self.run)?;
        self.log.open()
    }

    fn read(&mut self, from: LogSequence, records_max: usize) -> Result<Vec<Record>, LogError> {
        self.disk.lock().reads(self.run)?;
        // A few at a time, whatever is asked for.
        self.log.read(from, records_max.min(7))
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[Record],
    ) -> Result<Appended, LogError> {
        let fate = self.disk.lock().fate();
        if fate == Fate::Slow {
            // Nobody sends anything: this is how long it takes.
            let (_sender, nothing) = mpsc::channel::<()>();
            nothing.recv_timeout(Duration::from_millis(8)).ok();
        }
        let mut state = self.disk.lock();
        if state.fenced && state.mistake == Some(Mistake::FenceIgnored) {
            return Ok(Appended::Durable);
        }
        if !state.lives(self.run) {
            return Ok(Appended::Fenced);
        }
        state.appends += 1;
        let appends = state.appends;
        if state.crash == Crash::AppendBegun(appends) {
            state.crash();
            return Ok(Appended::Fenced);
        }
        let mut appended = state.append(fate, incarnation, expected, records);
        if !state.fenced && matches!(appended, Ok(Appended::Fenced)) {
            let wrong =
                format!("a run that nobody took over does not know that {expected} is next");
            state.wrong.push(wrong);
            state.crash();
        }
        if state.crash == Crash::AppendWritten(appends) {
            state.crash();
        }
        if state.mistake == Some(Mistake::FenceIgnored) && state.fenced {
            appended = Ok(Appended::Durable);
        }
        appended
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        let mut state = self.disk.lock();
        let faults = state.faults;
        if !state.lives(self.run) || state.random.chance(faults) {
            return Err(error());
        }
        state.count("compacted");
        self.log.compact(since)
    }
}
