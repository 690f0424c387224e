//! What the discovery is told of what is bound, so that it can tell others: what is durable by then, all
//! of it and nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, SplitDiscovery};
use timely_splits::log::{LogRecord, MemoryLog};
use timely_splits::resume::Resume;
use timely_splits::tick::Tick;

use crate::run::{Run, Watch};
use crate::support::{Letter, Row, World};

/// How many records a run reads.
const RECORDS: u64 = 200;

type Positions = BTreeMap<Letter, u64>;

/// A discovery that writes down what it is told.
struct Listening {
    inner: Box<dyn SplitDiscovery<Letter>>,
    log: MemoryLog<Letter>,
    told: Arc<Mutex<Told>>,
}

/// What a discovery was told, and the first thing that was more than is durable.
#[derive(Debug, Default)]
struct Told {
    positions: BTreeMap<Letter, Vec<u64>>,
    wrong: Option<String>,
}

impl SplitDiscovery<Letter> for Listening {
    fn request(&mut self, request: DiscoveryRequest<Letter>) {
        self.inner.request(request);
    }

    fn poll(&mut self) -> Option<DiscoveryEvent<Letter>> {
        self.inner.poll()
    }

    fn bound(&mut self, split: &Letter, position: &u64) {
        let durable = in_force(&self.log.records());
        let mut told = self.told.lock().unwrap();
        if durable.get(split).is_none_or(|durable| durable < position) {
            told.wrong.get_or_insert_with(|| {
                format!(
                    "split {split} is told to be bound up to {position}, and is up to {:?}",
                    durable.get(split)
                )
            });
        }
        told.positions.entry(*split).or_default().push(*position);
    }
}

/// Where each split is bound by what is in force of `records`.
fn in_force(records: &[LogRecord<Letter>]) -> Positions {
    let mut positions = Positions::new();
    for record in records {
        note(record, |split, position| {
            positions.insert(split, position);
        });
        if let LogRecord::Snapshot(snapshot) = record {
            let splits = snapshot.splits.iter();
            positions = splits.map(|one| (one.split, one.position)).collect();
        }
    }
    positions
}

fn note(record: &LogRecord<Letter>, mut bound: impl FnMut(Letter, u64)) {
    match record {
        LogRecord::Start { split, start, .. } => bound(*split, *start),
        LogRecord::Binding(binding) => {
            for range in &binding.ranges {
                bound(range.split, range.to);
            }
        }
        _ => {}
    }
}

/// What the last run of a log should have told: where it began, and whatever became durable.
fn expected(records: &[LogRecord<Letter>]) -> BTreeMap<Letter, Vec<u64>> {
    let is_begin = |record: &LogRecord<Letter>| matches!(record, LogRecord::Incarnation(_));
    // A log that begins with the snapshot of a run that went back to the beginning needs no more.
    let begin = records.iter().rposition(is_begin).unwrap_or(0);
    let went_back = records[begin..].iter().find_map(|record| match record {
        LogRecord::Snapshot(snapshot) if snapshot.rewound => Some(snapshot),
        _ => None,
    });
    let first: Positions = match went_back {
        Some(snapshot) => (snapshot.splits.iter())
            .map(|one| (one.split, one.position))
            .collect(),
        None => in_force(&records[..begin]),
    };
    let mut all: BTreeMap<Letter, Vec<u64>> = (first.into_iter())
        .map(|(split, position)| (split, vec![position]))
        .collect();
    for record in &records[begin..] {
        note(record, |split, position| {
            all.entry(split).or_default().push(position);
        });
    }
    all
}

/// Counts what comes at ticks that the frontier passes.
struct Counting {
    rows: u64,
    wanted: u64,
}

impl Watch for Counting {
    fn rows(&mut self, _tick: u64, rows: &[Row]) {
        self.rows += rows.len() as u64;
    }

    fn frontier(&mut self, _frontier: Option<u64>) {}

    fn is_done(&self) -> bool {
        self.rows >= self.wanted
    }
}

/// Runs until so many rows came, and says what was told.
fn told(mut run: Run, wanted: u64) -> Told {
    let told: Arc<Mutex<Told>> = Arc::default();
    let (listens, log) = (Arc::clone(&told), run.log.clone());
    run.wrap = Some(Arc::new(move |inner| {
        Box::new(Listening {
            inner,
            log: log.clone(),
            told: Arc::clone(&listens),
        })
    }));
    run.watched(Counting { rows: 0, wanted });
    let mut told = told.lock().unwrap();
    std::mem::take(&mut told)
}

fn ticks(log: &MemoryLog<Letter>) -> Vec<Tick> {
    let records = log.records().into_iter();
    let ticks = records.filter_map(|record| match record {
        LogRecord::Binding(binding) if !binding.ranges.is_empty() => Some(binding.tick),
        _ => None,
    });
    ticks.collect()
}

#[test]
fn the_discovery_is_told_exactly_what_is_durable_of_splits_that_move() {
    for workers in [1, 2, 4] {
        let (world, log) = (World::default(), MemoryLog::new().keep_for(Duration::MAX));
        for round in 0..2 {
            let mut run = Run::new(workers + round, &world, &log);
            run.writes = RECORDS;

            let told = told(run, RECORDS);

            assert_eq!(told.wrong, None);
            assert_eq!(told.positions, expected(&log.records()), "round {round}");
            let sorted = told.positions.values().all(|all| all.is_sorted());
            assert!(sorted, "nothing goes back: {told:?}");
        }
    }
}

#[test]
fn a_run_that_goes_back_tells_so_once_the_log_says_it() {
    for workers in [1, 2, 4] {
        let (world, log) = (World::default(), MemoryLog::new().keep_for(Duration::MAX));
        let mut run = Run::new(workers, &world, &log);
        run.writes = RECORDS;
        told(run, RECORDS);
        let ticks = ticks(&log);
        let middle = ticks[ticks.len() / 2];
        let void = rows_after(&log, middle);

        for resume in [Resume::At(middle), Resume::Fresh] {
            let mut again = Run::new(workers + 1, &world, &log);
            again.resume = resume;
            let wanted = if resume == Resume::Fresh {
                RECORDS
            } else {
                void
            };

            let told = told(again, wanted);

            assert_eq!(told.wrong, None, "{resume}");
            assert_eq!(told.positions, expected(&log.records()), "{resume}");
            let sorted = told.positions.values().all(|all| all.is_sorted());
            assert!(sorted, "it goes back once, before all else: {told:?}");
        }
    }
}

#[test]
fn what_is_given_again_takes_nothing_back() {
    for workers in [1, 2, 4] {
        let (world, log) = (World::default(), MemoryLog::new().keep_for(Duration::MAX));
        let mut run = Run::new(workers, &world, &log);
        run.writes = RECORDS;
        told(run, RECORDS);
        let ticks = ticks(&log);
        let from = ticks[ticks.len() / 2];
        let again = rows_after(&log, Tick(from.0 - 1));
        let before = in_force(&log.records());
        let mut replay = Run::new(workers + 1, &world, &log);
        replay.resume = Resume::Replay { from };
        replay.writes = RECORDS;

        let told = told(replay, again + RECORDS);

        assert_eq!(told.wrong, None);
        assert_eq!(told.positions, expected(&log.records()));
        for (split, all) in &told.positions {
            assert!(
                all.is_sorted() && all[0] == before[split],
                "{split}: {all:?}"
            );
        }
    }
}

/// How many records are bound after a tick.
fn rows_after(log: &MemoryLog<Letter>, tick: Tick) -> u64 {
    let records = log.records();
    let bindings = records.iter().filter_map(|record| match record {
        LogRecord::Binding(binding) if binding.tick > tick => Some(binding),
        _ => None,
    });
    let ranges = bindings.flat_map(|binding| &binding.ranges);
    ranges.map(|range| range.to - range.from).sum()
}
