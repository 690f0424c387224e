//! Histories like those that the simulation makes, made by real operators on threads and processes.
//!
//! A fetcher reads by chance: pieces of any size, late ones of splits that were taken from it,
//! failures and crashes. Meanwhile splits come, go and come back, and are moved. What was emitted is
//! judged by the checker that judges the simulation.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

#[expect(dead_code, reason = "the simulation needs more of it")]
#[path = "support/history.rs"]
mod history;
#[path = "support/letters.rs"]
mod letters;
#[path = "support/random.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely::Config;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Exchange, Inspect, Probe};
use timely::worker::Worker;
use timely_splits::assignor::StickyBalanced;
use timely_splits::control::SourceControl;
use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit, SplitDiscovery};
use timely_splits::enumerator::Enumeration;
use timely_splits::epoch::{MetadataEpoch, ReaderId, SplitEpoch};
use timely_splits::fetcher::{
    DownCause, Fetched, FetcherDown, Piece, Polled, SplitFetcher, cut_rows,
};
use timely_splits::health::FailureKind;
use timely_splits::log::{LogRecord, MemoryLog};
use timely_splits::source::{Reading, SourceOptions, read_splits};
use timely_splits::tick::{Tick, TimeMap};
use timely_splits::wake::Waker;

use history::{Emission, History};
use letters::{Letter, Letters};
use random::Random;

/// How many times a worker steps, at most, before a test is called hung.
const STEPS_MAX: usize = 200_000;

/// How many records every split has, in every process.
const RECORDS: u64 = 300;

/// What the metadata lists from how many bound records on: `a` goes and comes back.
const LISTED: [(u64, &str); 4] = [
    (0, "abcd"),
    (200, "abcdef"),
    (500, "bcdef"),
    (900, "abcdef"),
];

const SPLITS: u64 = 6;

/// A record: its split and offset, and the split epoch and reader that brought it.
type Row = (char, u64, u64, usize);

struct Fetcher {
    reader: usize,
    assigned: BTreeMap<Letter, (SplitEpoch, u64)>,
    late: VecDeque<Piece<Letter, Vec<Row>>>,
    random: Random,
    waker: Waker,
}

impl Fetcher {
    fn piece(
        &mut self,
        split: Letter,
        split_epoch: SplitEpoch,
        start: u64,
    ) -> Piece<Letter, Vec<Row>> {
        let end = RECORDS.min(start + 1 + self.random.below(5));
        let rows = (start..end).map(|offset| (split.0, offset, split_epoch.0, self.reader));
        let rows: Vec<_> = rows.collect();
        Piece {
            split,
            split_epoch,
            start,
            end,
            bytes: rows.len(),
            batch: Some(rows),
        }
    }

    /// What comes of an assigned split at one poll, if anything.
    fn turn(
        &mut self,
        split: Letter,
        split_epoch: SplitEpoch,
        next: u64,
    ) -> Option<Fetched<Letter, Vec<Row>>> {
        let cause = match self.random.below(200) {
            0 => DownCause::Failed(FailureKind::Transient),
            1 => DownCause::Crashed,
            2..120 => return None,
            _ => {
                let piece = self.piece(split, split_epoch, next);
                self.assigned.insert(split, (split_epoch, piece.end));
                return Some(Fetched::Piece(piece));
            }
        };
        self.assigned.remove(&split);
        Some(Fetched::Down(FetcherDown {
            split,
            split_epoch,
            cause,
            message: "by chance".to_owned(),
        }))
    }
}

impl SplitFetcher<Letter> for Fetcher {
    type Batch = Vec<Row>;

    fn adopt(&mut self, _epoch: MetadataEpoch, _metadata: &Letters) {}

    fn assign(&mut self, split: &Letter, split_epoch: SplitEpoch, start: &u64) {
        self.assigned.insert(*split, (split_epoch, *start));
        self.waker.wake();
    }

    fn unassign(&mut self, split: &Letter, split_epoch: SplitEpoch) {
        let current = self.assigned.get(split).copied();
        let Some((_, mut next)) = current.filter(|(epoch, _)| *epoch == split_epoch) else {
            return;
        };
        self.assigned.remove(split);
        // What was on its way comes all the same, and later.
        for _ in 0..self.random.below(3) {
            if next < RECORDS {
                let piece = self.piece(*split, split_epoch, next);
                next = piece.end;
                self.late.push_back(piece);
            }
        }
    }

    fn cut(&mut self, batch: Vec<Row>, at: &[u64]) -> Vec<Option<Vec<Row>>> {
        cut_rows(batch, at, |row| row.1)
    }

    fn poll(&mut self, bytes_max: usize, fetched: &mut Vec<Fetched<Letter, Vec<Row>>>) -> Polled {
        if bytes_max == 0 {
            return Polled::Drained;
        }
        let lates = self.random.index(2).min(self.late.len());
        fetched.extend(self.late.drain(..lates).map(Fetched::Piece));
        for (split, (split_epoch, next)) in self.assigned.clone() {
            if next < RECORDS {
                let one = self.turn(split, split_epoch, next);
                fetched.extend(one);
            }
        }
        let more = self.assigned.values().any(|(_, next)| *next < RECORDS);
        if (more || !self.late.is_empty()) && self.random.chance(50) {
            return Polled::More;
        }
        if more || !self.late.is_empty() {
            self.waker.wake();
        }
        Polled::Drained
    }
}

/// Answers at once, with what the script lists.
struct Discovery {
    said: VecDeque<DiscoveryEvent<Letter>>,
    listed: Arc<Mutex<Listed>>,
    waker: Waker,
}

#[derive(Default)]
struct Listed {
    answer: Option<Letters>,
    waker: Option<Waker>,
}

impl SplitDiscovery<Letter> for Discovery {
    fn request(&mut self, request: DiscoveryRequest<Letter>) {
        self.said.push_back(match request {
            DiscoveryRequest::Discover { epoch, metadata } => {
                let letters = metadata.0.into_iter();
                let splits = letters.map(|split| FoundSplit::new(split, ())).collect();
                DiscoveryEvent::Found { epoch, splits }
            }
            DiscoveryRequest::Identify { .. }
            | DiscoveryRequest::Judge { .. }
            | DiscoveryRequest::End { .. } => {
                unreachable!("no identity is asked for, and nothing is lost or drained")
            }
            DiscoveryRequest::Check { request, .. } => DiscoveryEvent::Checked {
                request,
                lost: Vec::new(),
            },
            DiscoveryRequest::Resolve { request, split, .. } => DiscoveryEvent::Resolved {
                request,
                split,
                start: 0,
                stop: None,
                rule: "earliest".to_owned(),
            },
        });
        self.waker.wake();
    }

    fn poll(&mut self) -> Option<DiscoveryEvent<Letter>> {
        let answer = || self.listed.lock().unwrap().answer.take();
        let own = self.said.pop_front();
        own.or_else(|| answer().map(DiscoveryEvent::Metadata))
    }
}

/// One run of the source, as worker 0 sees it.
#[derive(Clone)]
struct Run {
    log: MemoryLog<Letter>,
    listed: Arc<Mutex<Listed>>,
    /// The records with their ticks, from all workers.
    rows: Arc<Mutex<Vec<(u64, Row)>>>,
    /// How many records are bound.
    bound: Arc<Mutex<u64>>,
    seed: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            log: MemoryLog::new(),
            listed: Arc::default(),
            rows: Arc::default(),
            bound: Arc::default(),
            seed,
        }
    }

    fn enumeration(&self) -> Enumeration<Letter> {
        let listed = Arc::clone(&self.listed);
        let mut coordination = CoordinatorOptions::new(0);
        coordination.calm_for = Duration::ZERO;
        Enumeration {
            discovery: Box::new(move |waker| {
                listed.lock().unwrap().waker = Some(waker.clone());
                Box::new(Discovery {
                    said: VecDeque::new(),
                    listed,
                    waker,
                })
            }),
            log: Box::new(self.log.clone()),
            assignor: Box::new(StickyBalanced),
            coordination,
        }
    }

    /// Runs one worker until all splits are read and bound.
    fn work(&self, worker: &mut Worker) {
        let (index, peers) = (worker.index(), worker.peers());
        let control = SourceControl::new();
        let probe = self.dataflow(worker, &control);
        let mut random = Random::of(self.seed, 1_000 + index as u64);
        let (mut steps, mut stage) = (0, 0);
        while !probe.done() {
            worker.step_or_park(Some(Duration::from_millis(1)));
            steps += 1;
            let bound = *self.bound.lock().unwrap();
            assert!(
                steps < STEPS_MAX,
                "the source does not end, at {bound} records"
            );
            if random.chance(20) {
                let split = Letter(random.pick(&['a', 'b', 'c', 'd', 'e', 'f']));
                control.move_split(split, ReaderId(random.index(peers)));
            }
            if index > 0 {
                continue;
            }
            if let Some((_, letters)) = LISTED.get(stage).filter(|(from, _)| bound >= *from) {
                stage += 1;
                let mut listed = self.listed.lock().unwrap();
                listed.answer = Some(Letters::of(letters));
                listed.waker.iter().for_each(Waker::wake);
            }
            if bound >= SPLITS * RECORDS {
                control.stop();
            }
        }
    }

    fn dataflow(&self, worker: &mut Worker, control: &SourceControl<Letter>) -> ProbeHandle<u64> {
        let index = worker.index();
        let random = Random::of(self.seed, index as u64);
        let reading = Reading {
            fetcher: Box::new(move |waker| Fetcher {
                reader: index,
                assigned: BTreeMap::new(),
                late: VecDeque::new(),
                random,
                waker,
            }),
            admission: None,
        };
        let (probe, rows) = (ProbeHandle::new(), Arc::clone(&self.rows));
        let (log, bound) = (self.log.clone(), Arc::clone(&self.bound));
        worker.dataflow::<u64, _, _>(|scope| {
            let mut options = SourceOptions::new("letters", TimeMap::identity());
            options.tick_interval = Duration::from_millis(2);
            options.control = control.clone();
            let enumeration = (index == 0).then(|| self.enumeration());
            let streams = read_splits(scope, &options, enumeration, reading);
            let mut waiting = BTreeSet::new();
            let all = streams
                .batches
                .exchange(|_| 0)
                .inspect_core(move |event| match event {
                    Ok((ticks, batch)) => {
                        let tick = *ticks.expect_singleton();
                        waiting.insert(tick);
                        let batch = batch.iter().map(|row| (tick, *row));
                        rows.lock().unwrap().extend(batch);
                    }
                    Err(frontier) => {
                        let is_over = |tick: &u64| frontier.iter().all(|time| time > tick);
                        let over: BTreeSet<u64> = waiting.iter().copied().filter(is_over).collect();
                        waiting.retain(|tick| !over.contains(tick));
                        assert!(
                            over.is_subset(&bound_ticks(&log)),
                            "the frontier passed {over:?}"
                        );
                    }
                });
            all.probe_with(&probe);
            streams.bindings.inspect(move |binding| {
                let ranges = binding.ranges.iter().map(|range| range.to - range.from);
                *bound.lock().unwrap() += ranges.sum::<u64>();
            });
        });
        probe
    }

    /// Judges what was emitted, in the order of the log, and says how often a split changed hands.
    fn judge(&self) -> usize {
        let mut ticks: BTreeMap<Tick, Vec<Row>> = BTreeMap::new();
        let mut readers: BTreeMap<(char, u64), usize> = BTreeMap::new();
        for (tick, row) in self.rows.lock().unwrap().iter() {
            ticks.entry(Tick(*tick)).or_default().push(*row);
            let reader = *readers.entry((row.0, row.2)).or_insert(row.3);
            assert_eq!(
                reader, row.3,
                "I1: two readers emit one assignment: {row:?}"
            );
        }
        let mut history = History::new();
        for record in self.log.records() {
            if let LogRecord::Binding(binding) = &record {
                history.opened(binding.tick);
                let mut rows = ticks.remove(&binding.tick).unwrap_or_default();
                rows.sort_unstable_by_key(|(split, offset, epoch, _)| (*split, *epoch, *offset));
                for (split, offset, split_epoch, reader) in rows {
                    history.emitted(Emission {
                        at: Duration::ZERO,
                        reader: ReaderId(reader),
                        split: Letter(split),
                        split_epoch: SplitEpoch(split_epoch),
                        from: offset,
                        to: offset + 1,
                        tick: binding.tick,
                    });
                }
            }
            history.logged(&record);
        }
        assert!(ticks.is_empty(), "I8: emitted and not bound: {ticks:?}");
        assert!(history.is_all_bound());
        for split in "abcdef".chars().map(Letter) {
            assert_eq!(history.next(&split), Some(RECORDS), "split {split}");
        }
        readers.len()
    }
}

fn bound_ticks(log: &MemoryLog<Letter>) -> BTreeSet<u64> {
    let records = log.records().into_iter();
    let ticks = records.filter_map(|record| match record {
        LogRecord::Binding(binding) => Some(binding.tick.0),
        _ => None,
    });
    ticks.collect()
}

/// Runs the workers of this process.
fn run(config: Config, seed: u64) -> Run {
    let run = Run::new(seed);
    let of_workers = run.clone();
    let guards = timely::execute(config, move |worker| of_workers.work(worker));
    for guard in guards.expect("workers start").join() {
        guard.unwrap_or_else(|_| panic!("a worker failed, with seed {seed}"));
    }
    run
}

#[test]
fn threads_emit_what_the_script_holds_once_and_as_it_is_bound() {
    for workers in [1, 2, 4] {
        let seeds = 1..=5;
        let judged = seeds.map(|seed| run(Config::process(workers), seed).judge());
        let assignments: usize = judged.sum();
        assert!(
            workers == 1 || assignments > 60,
            "{assignments}: hardly one moved"
        );
    }
}

#[test]
#[should_panic(expected = "I8: tick")]
fn a_record_that_is_lost_is_noticed() {
    let run = run(Config::process(2), 1);
    let last = run.rows.lock().unwrap().pop();
    assert!(last.is_some());

    run.judge();
}

/// Both processes are this test program, with their part of it in the environment.
#[test]
fn two_processes_emit_what_the_script_holds_once_and_as_it_is_bound() {
    if let Ok(process) = std::env::var("HISTORIES_PROCESS") {
        run_one_of_two(&process);
        return;
    }
    for seed in 1..=3 {
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let hosts = ports.map(|port| port.local_addr().unwrap().to_string());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        std::fs::write(&file, hosts.join("\n")).unwrap();
        let this = "two_processes_emit_what_the_script_holds_once_and_as_it_is_bound";
        let start = |process: usize| -> Child {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", this, "--nocapture"])
                .env("HISTORIES_HOSTS", &file)
                .env("HISTORIES_PROCESS", process.to_string())
                .env("HISTORIES_SEED", seed.to_string())
                .spawn()
                .unwrap()
        };
        let mut processes = [0, 1].map(start);
        let ended: Vec<bool> = processes
            .iter_mut()
            .map(|process| process.wait().unwrap().success())
            .collect();

        assert_eq!(ended, [true, true], "see what they have said above");
    }
}

fn run_one_of_two(process: &str) {
    let told = |name: &str| std::env::var(name).unwrap();
    let hosts = told("HISTORIES_HOSTS");
    let args = ["-w", "2", "-n", "2", "-p", process, "-h", &hosts].map(str::to_owned);
    let config = Config::from_args(args.into_iter()).unwrap();

    let run = run(config, told("HISTORIES_SEED").parse().unwrap());

    // All records come to worker 0, and the log is there.
    if process == "0" {
        run.judge();
    }
}
