//! What the workers of a source saw, in one place.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use timely_kafka::model::{KafkaPosition, KafkaSplit};
use timely_splits::binding::{Binding, SplitError};
use timely_splits::health::Health;

/// Guards against hangs only.
const DEADLINE: Duration = Duration::from_secs(60);

/// The outputs of a source whose frontiers are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Output {
    Batches,
    Bindings,
}

/// One thing that a worker, or something that works for it, saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Seen {
    /// A process runs.
    Process {
        pid: u32,
    },
    /// A batch arrived: offsets and the numbers written in the values.
    Batch {
        worker: usize,
        tick: u64,
        split: KafkaSplit,
        records: Vec<(u64, u64)>,
    },
    Binding {
        tick: u64,
        binding: Binding<KafkaSplit>,
    },
    Error {
        tick: u64,
        error: SplitError<KafkaSplit>,
    },
    Health(Health),
    /// A frontier moved; `None` is the empty one.
    Frontier {
        worker: usize,
        output: Output,
        at: Option<u64>,
    },
    /// The log was told where a split starts.
    Start {
        split: KafkaSplit,
        start: KafkaPosition,
    },
    /// The log holds an append back whose oldest binding is that of `tick`.
    Held {
        tick: u64,
    },
    /// The metadata service was asked so many times.
    Asked {
        times: usize,
    },
    /// The source told its story.
    Told {
        worker: usize,
        line: String,
    },
    /// Nothing more comes from one process, or from all threads.
    Ended {
        well: bool,
        words: String,
    },
}

/// One record as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) worker: usize,
    pub(crate) tick: u64,
    pub(crate) split: KafkaSplit,
    pub(crate) offset: u64,
    pub(crate) number: u64,
    /// When its batch arrived.
    pub(crate) at: Instant,
}

/// Everything that was seen so far.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) workers: usize,
    pub(crate) pids: Vec<u32>,
    pub(crate) rows: Vec<Row>,
    pub(crate) bindings: Vec<(u64, Binding<KafkaSplit>)>,
    pub(crate) errors: Vec<(u64, SplitError<KafkaSplit>)>,
    pub(crate) health: Vec<Health>,
    /// Those that moved from their minimum.
    pub(crate) frontiers: BTreeMap<(usize, Output), Option<u64>>,
    pub(crate) starts: BTreeMap<KafkaSplit, KafkaPosition>,
    pub(crate) held: Option<u64>,
    pub(crate) asked: usize,
    pub(crate) told: Vec<(usize, String)>,
    /// How many records came at a tick that their worker's frontier had passed.
    pub(crate) late: usize,
    /// How many processes, or all threads as one, have ended well.
    pub(crate) ended: usize,
    /// How one ended that did not end well.
    pub(crate) lost: Option<String>,
}

impl State {
    fn see(&mut self, seen: Seen) {
        match seen {
            Seen::Process { pid } => self.pids.push(pid),
            Seen::Batch {
                worker,
                tick,
                split,
                records,
            } => self.see_batch(worker, tick, &split, &records),
            Seen::Binding { tick, binding } => self.bindings.push((tick, binding)),
            Seen::Error { tick, error } => self.errors.push((tick, error)),
            Seen::Health(health) => self.health.push(health),
            Seen::Frontier { worker, output, at } => {
                self.frontiers.insert((worker, output), at);
            }
            Seen::Start { split, start } => {
                self.starts.insert(split, start);
            }
            Seen::Held { tick } => self.held = Some(tick),
            Seen::Asked { times } => self.asked = times,
            Seen::Told { worker, line } => self.told.push((worker, line)),
            Seen::Ended { well: true, .. } => self.ended += 1,
            Seen::Ended { well: false, words } => self.lost = Some(words),
        }
    }

    fn see_batch(&mut self, worker: usize, tick: u64, split: &KafkaSplit, records: &[(u64, u64)]) {
        let at = Instant::now();
        if self.passed(worker, Output::Batches, tick) {
            self.late += records.len();
        }
        self.rows.extend(records.iter().map(|(offset, number)| Row {
            worker,
            tick,
            split: split.clone(),
            offset: *offset,
            number: *number,
            at,
        }));
    }

    /// Whether the frontier of an output of `worker` has passed `tick`.
    pub(crate) fn passed(&self, worker: usize, output: Output, tick: u64) -> bool {
        match self.frontiers.get(&(worker, output)) {
            None => false,
            Some(None) => true,
            Some(Some(at)) => *at > tick,
        }
    }

    /// Whether both frontiers of all workers have passed `tick`.
    pub(crate) fn all_passed(&self, tick: u64) -> bool {
        (0..self.workers).all(|worker| {
            [Output::Batches, Output::Bindings]
                .iter()
                .all(|output| self.passed(worker, *output, tick))
        })
    }

    /// Whether `count` records came, and both frontiers of all workers have passed their ticks.
    pub(crate) fn settled(&self, count: usize) -> bool {
        let last = self.rows.iter().map(|row| row.tick).max();
        self.rows.len() >= count && last.is_none_or(|tick| self.all_passed(tick))
    }

    /// The least of the frontiers of all workers; zero while one has not moved, the greatest number
    /// if all are empty.
    pub(crate) fn frontier(&self) -> u64 {
        let outputs = (0..self.workers)
            .flat_map(|worker| [(worker, Output::Batches), (worker, Output::Bindings)]);
        outputs
            .map(|output| match self.frontiers.get(&output) {
                None => 0,
                Some(at) => at.unwrap_or(u64::MAX),
            })
            .min()
            .unwrap_or_default()
    }

    /// How many records of one topic of one cluster came.
    pub(crate) fn rows_of(&self, cluster: &str, topic: &str) -> usize {
        let rows = self.rows.iter();
        rows.filter(|row| {
            row.split.cluster.as_str() == cluster && row.split.topic.as_str() == topic
        })
        .count()
    }

    /// Where the last binding of a split that has one ends.
    pub(crate) fn bound_to(&self, cluster: &str, topic: &str, partition: i32) -> Option<u64> {
        let ranges = self.bindings.iter().rev();
        let mut ranges = ranges.flat_map(|(_, binding)| &binding.ranges);
        let range = ranges.find(|range| {
            let split = &range.split;
            let name = (split.cluster.as_str(), split.topic.as_str());
            name == (cluster, topic) && split.partition.0 == partition
        })?;
        Some(range.to.next.get())
    }

    /// The worker to which each split was assigned last.
    pub(crate) fn owners(&self) -> BTreeMap<&str, &str> {
        let lines = self.told.iter().map(|(_, line)| line.as_str());
        let assigned = lines.filter_map(|line| {
            let (split, rest) = line.split_once(": assigned to worker ")?;
            let (worker, _) = rest.split_once(' ')?;
            Some((split, worker))
        });
        assigned.collect()
    }

    /// Whether so many splits are assigned, to each worker as many as to any other or one less.
    pub(crate) fn balanced(&self, splits: usize) -> bool {
        let owners = self.owners();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for worker in owners.values() {
            *counts.entry(worker).or_default() += 1;
        }
        owners.len() == splits
            && splits.div_ceil(self.workers) >= counts.values().copied().max().unwrap_or(0)
    }

    /// Whether somebody said, about a subject of this name, what has all of `words` in it.
    pub(crate) fn said(&self, subject: &str, words: &[&str]) -> bool {
        self.health.iter().any(|health| {
            health.subject == subject && words.iter().all(|word| health.message.contains(word))
        })
    }

    fn dump(&self) -> String {
        let mut text = format!(
            "{} workers, {} records, {} bindings, frontiers {:?}, {} ended",
            self.workers,
            self.rows.len(),
            self.bindings.len(),
            self.frontiers,
            self.ended,
        );
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for row in &self.rows {
            *counts.entry(row.split.to_string()).or_default() += 1;
        }
        write!(text, "\nrecords by split: {counts:?}").unwrap();
        for (tick, error) in &self.errors {
            write!(text, "\nerror at {tick}: {error:?}").unwrap();
        }
        for health in last(&self.health, 20) {
            write!(text, "\nhealth: {health} ({:?})", health.status).unwrap();
        }
        for (worker, line) in last(&self.told, 60) {
            write!(text, "\nworker {worker}: {line}").unwrap();
        }
        text
    }
}

fn last<T>(all: &[T], most: usize) -> &[T] {
    &all[all.len().saturating_sub(most)..]
}

/// What the workers see, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    state: Mutex<State>,
    changed: Condvar,
}

impl Observed {
    pub(crate) fn new(workers: usize) -> Self {
        let state = State {
            workers,
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn see(&self, seen: Seen) {
        self.lock().see(seen);
        self.changed.notify_all();
    }

    /// Looks at what was seen so far.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.lock())
    }

    /// Waits until `ready`; `what` is what it waits for.
    ///
    /// It panics when a process ends badly meanwhile.
    pub(crate) fn wait(&self, what: &str, mut ready: impl FnMut(&State) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        let mut state = self.lock();
        while !ready(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            let problem = match &state.lost {
                Some(words) => Some(format!("the source was lost: {words}")),
                None if left.is_zero() => Some("in vain".to_owned()),
                None => None,
            };
            if let Some(problem) = problem {
                let dump = state.dump();
                // Others can still look.
                drop(state);
                panic!("waited until {what}: {problem}\n{dump}");
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// An assertion that fails while it looks must not take the workers down with it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Panics with everything that was seen unless `holds`.
    pub(crate) fn expect(&self, what: &str, holds: impl FnOnce(&State) -> bool) {
        let unexpected = self.with(|state| (!holds(state)).then(|| state.dump()));
        if let Some(dump) = unexpected {
            panic!("expected that {what}\n{dump}");
        }
    }
}
