//! What the source was seen to do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use timely_kafka::SourceEvent;
use timely_kafka::model::KafkaSplit;
use timely_kafka::records::RecordBatch;

use crate::cpu::Cpu;
use crate::{Change, Measurement, Outcome, Read, UNNAMED, partitions};

/// Every which partition is moved.
const MOVED: usize = 10;

/// What came of one split.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    worker: usize,
    last: Instant,
    longest: Duration,
}

impl Stretch {
    fn goes_on(&mut self, worker: usize, now: Instant) {
        self.worker = worker;
        self.longest = self.longest.max(now - self.last);
        self.last = now;
    }
}

/// When the measurement began, and what there was then.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    at: Instant,
    cpu: Cpu,
    records: u64,
}

/// What was seen, and since the measurement began what is measured.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    asked: bool,
    began: Option<Beginning>,
    answered: Option<Instant>,
    splits: BTreeMap<KafkaSplit, Stretch>,
    moving: BTreeSet<KafkaSplit>,
    /// What came of each cluster that no change names on each worker.
    flows: BTreeMap<(&'static str, usize), Stretch>,
    /// Records of the clusters that no change names, since the first.
    records: u64,
    /// When each split of a new cluster brought its first record.
    came: BTreeMap<KafkaSplit, Instant>,
    frontiers: BTreeMap<usize, (Option<u64>, Stretch)>,
    again: usize,
}

impl Seen {
    /// Whether the metadata service is asked for the first time.
    pub(crate) fn asked(&mut self) -> bool {
        !std::mem::replace(&mut self.asked, true)
    }

    pub(crate) fn answered(&mut self, now: Instant) {
        self.answered = Some(now);
    }

    /// Of how many splits something came.
    pub(crate) fn splits(&self) -> usize {
        self.splits.len()
    }

    pub(crate) fn batch(&mut self, batch: &RecordBatch, worker: usize, now: Instant) {
        let Some(split) = batch.split() else {
            return;
        };
        let new = Stretch {
            worker,
            last: now,
            longest: Duration::ZERO,
        };
        if let Some(name) = UNNAMED.iter().find(|name| split.cluster.as_str() == **name) {
            self.records += batch.len() as u64;
            let flow = self.flows.entry((name, worker)).or_insert(new);
            flow.goes_on(worker, now);
        }
        if let Some(stretch) = self.splits.get_mut(split) {
            stretch.goes_on(worker, now);
            return;
        }
        if self.began.is_some() {
            self.came.insert(split.clone(), now);
        }
        self.splits.insert(split.clone(), new);
    }

    pub(crate) fn frontier(&mut self, worker: usize, at: Option<u64>, now: Instant) {
        let new = Stretch {
            worker,
            last: now,
            longest: Duration::ZERO,
        };
        let (before, stretch) = self.frontiers.entry(worker).or_insert((at, new));
        if *before != at {
            *before = at;
            stretch.goes_on(worker, now);
        }
    }

    pub(crate) fn event(&mut self, event: &SourceEvent<KafkaSplit>) {
        let (SourceEvent::Assigned { split, .. } | SourceEvent::FetcherDown { split, .. }) = event
        else {
            return;
        };
        if self.began.is_some() && unnamed(split) && !self.moving.contains(split) {
            self.again += 1;
        }
    }

    /// The splits that are moved, half of them from each worker, and where they are.
    pub(crate) fn moves(&mut self) -> Vec<(KafkaSplit, usize)> {
        let unnamed = self.splits.iter().filter(|(split, _)| unnamed(split));
        let mut by_worker: BTreeMap<usize, Vec<&KafkaSplit>> = BTreeMap::new();
        for (split, stretch) in unnamed {
            by_worker.entry(stretch.worker).or_default().push(split);
        }
        let tenth = by_worker.into_iter().flat_map(|(worker, splits)| {
            let splits = splits.into_iter().step_by(MOVED);
            splits.map(move |split| (split.clone(), worker))
        });
        let tenth: Vec<_> = tenth.collect();
        self.moving
            .extend(tenth.iter().map(|(split, _)| split.clone()));
        tenth
    }

    fn stretches(&mut self) -> impl Iterator<Item = &mut Stretch> {
        let frontiers = self.frontiers.values_mut().map(|(_, stretch)| stretch);
        let flows = self.flows.values_mut();
        self.splits.values_mut().chain(frontiers).chain(flows)
    }

    /// Measures from here on.
    pub(crate) fn begin(&mut self, now: Instant) -> Outcome<()> {
        self.began = Some(Beginning {
            at: now,
            cpu: Cpu::now()?,
            records: self.records,
        });
        for stretch in self.stretches() {
            stretch.last = now;
            stretch.longest = Duration::ZERO;
        }
        Ok(())
    }

    /// What it came to.
    pub(crate) fn end(&mut self, change: Change, now: Instant) -> Outcome<Read> {
        let began = self.began.ok_or("nothing was measured")?;
        let cpu = Cpu::now()?;
        for stretch in self.stretches() {
            stretch.goes_on(stretch.worker, now);
        }
        let longest = |of: &dyn Fn(&KafkaSplit) -> bool| {
            let of = self.splits.iter().filter(|(split, _)| of(split));
            of.map(|(_, stretch)| millis(stretch.longest))
                .reduce(f64::max)
        };
        let affected = match change {
            Change::Move => longest(&|split| self.moving.contains(split)),
            Change::Properties => longest(&|split| split.cluster.as_str() == "c"),
            _ => None,
        };
        let silence = longest(&|split| unnamed(split) && !self.moving.contains(split));
        let since_answer = |came: Instant| Some(millis(came - self.answered?));
        let all_came = self.came.len() == usize::try_from(partitions("e"))?;
        let last_came = self.came.values().max().filter(|_| all_came);
        let pause = (self.flows.values()).map(|stretch| millis(stretch.longest));
        let frontier = (self.frontiers.values()).map(|(_, stretch)| millis(stretch.longest));
        let seconds = (now - began.at).as_secs_f64();
        let measurement = Measurement {
            change: change.name().to_owned(),
            records_per_second: (self.records - began.records) as f64 / seconds,
            pause_ms: pause.fold(0.0, f64::max),
            silence_ms: silence.unwrap_or(f64::NAN),
            affected_ms: affected,
            first_ms: self.came.values().min().copied().and_then(since_answer),
            all_ms: last_came.copied().and_then(since_answer),
            frontier_ms: frontier.fold(0.0, f64::max),
            again: self.again,
            reader_cores: (cpu.process - began.cpu.process) / seconds,
            machine_cores: (cpu.machine - began.cpu.machine) / seconds,
            ..Measurement::default()
        };
        let moved = self.moving.iter();
        let moved = moved.map(|split| (split.cluster.as_str().to_owned(), split.partition.0));
        Ok(Read {
            measurement,
            records: self.records,
            moved: moved.collect(),
        })
    }
}

fn unnamed(split: &KafkaSplit) -> bool {
    UNNAMED.contains(&split.cluster.as_str())
}

/// Milliseconds, to a tenth.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}
