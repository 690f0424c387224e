//! What the frontier says, against what is in the log's files at that moment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use timely_kafka::timely::Config;
use timely_kafka::{Binding, BindingLog, KafkaSplit, LocalLog, LogRecord};

use crate::scenario::observed::Seen;
use crate::scenario::watched::{Gate, Sink};
use crate::scenario::worker::read_all;
use crate::scenario::{Backend, Described, Embedded, Output, Plan, World};
use crate::{each, world};

/// How many records are read.
const RECORDS: u64 = 900;

/// Guards against hangs only.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn trials() -> Vec<Trial> {
    each(
        "no_tick_passes_without_its_binding_in_the_log_and_none_comes_back",
        law,
    )
}

fn law(backend: Backend) {
    let world = world();
    for cluster in ["a", "b"] {
        let cluster = world.brokers.cluster(cluster);
        cluster.create_topic("orders", 3).unwrap();
    }
    world.publish(&Described::orders(&["a", "b"]));
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));

    // Twice, so that it holds for what comes after a restart as well.
    let looks = [0, 1].map(|round| {
        let numbers = round * RECORDS..(round + 1) * RECORDS;
        read_under_law(&world, &plan, backend, numbers)
    });

    assert!(looks.iter().all(|looks| *looks > 20), "{looks:?} looks");
}

/// Reads what is written meanwhile, and says how often the log was compared with a frontier.
fn read_under_law(
    world: &World<Embedded>,
    plan: &Plan,
    backend: Backend,
    numbers: std::ops::Range<u64>,
) -> usize {
    let law = Arc::new(Mutex::new(Law::new(plan.log.clone().unwrap())));
    let watched = Arc::clone(&law);
    let sink: Sink = Arc::new(move |seen| {
        watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .see(seen);
    });
    let source = plan.build(&sink, &Gate::default()).unwrap();
    let control = source.control();
    let reading = std::thread::spawn(move || {
        let guards = timely_kafka::execute(Config::process(backend.workers()), move |worker| {
            read_all(worker, &source, &sink);
        });
        guards
            .unwrap()
            .join()
            .into_iter()
            .collect::<Result<(), _>>()
    });
    let expected = usize::try_from(numbers.end - numbers.start).unwrap();
    let deadline = Instant::now() + DEADLINE;
    let mut next = numbers.start;
    // Writing takes its time, in which ticks pass.
    while law.lock().unwrap().passed < expected {
        assert!(Instant::now() < deadline, "{:?}", law.lock().unwrap());
        let upto = (next + 30).min(numbers.end);
        if next < upto {
            world.write("a", "orders", 3, next..next + (upto - next) / 2);
            world.write("b", "orders", 3, next + (upto - next) / 2..upto);
            next = upto;
        } else {
            world.brokers.cluster("a").end_offset("orders", 0).unwrap();
        }
    }
    control.stop();
    reading.join().unwrap().unwrap();
    let law = law.lock().unwrap();
    assert_eq!(law.broken, None);
    assert_eq!(law.seen, expected);
    law.looks
}

/// What was seen so far, and the first thing that was not lawful.
#[derive(Debug)]
struct Law {
    folder: PathBuf,
    /// The records of ticks that no frontier has passed.
    open: BTreeMap<u64, Vec<(KafkaSplit, u64)>>,
    /// The greatest frontier that any worker has seen.
    frontier: u64,
    seen: usize,
    passed: usize,
    looks: usize,
    broken: Option<String>,
}

impl Law {
    fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            open: BTreeMap::new(),
            frontier: 0,
            seen: 0,
            passed: 0,
            looks: 0,
            broken: None,
        }
    }

    /// Called on the thread of the worker that sees it, which does not go on before it returns.
    fn see(&mut self, seen: Seen) {
        match seen {
            Seen::Batch {
                tick,
                split,
                records,
                ..
            } => {
                if tick < self.frontier {
                    self.break_by(format!(
                        "split {split} came at {tick}, after a frontier at {}",
                        self.frontier
                    ));
                }
                self.seen += records.len();
                let records = records.into_iter().map(|(offset, _)| offset);
                let of_tick = self.open.entry(tick).or_default();
                of_tick.extend(records.map(|offset| (split.clone(), offset)));
            }
            Seen::Frontier {
                output: Output::Batches,
                at,
                ..
            } => self.moved(at.unwrap_or(u64::MAX)),
            _ => {}
        }
    }

    fn break_by(&mut self, words: String) {
        self.broken.get_or_insert(words);
    }

    fn moved(&mut self, frontier: u64) {
        if frontier <= self.frontier {
            return;
        }
        self.frontier = frontier;
        let later = self.open.split_off(&frontier);
        let over = std::mem::replace(&mut self.open, later);
        let (bindings, reserved) = in_files(&self.folder);
        self.looks += 1;
        if frontier != u64::MAX && frontier > reserved {
            self.break_by(format!(
                "the frontier is at {frontier}, and ticks up to {reserved} are reserved"
            ));
        }
        for (tick, records) in over {
            self.passed += records.len();
            let binding = bindings.get(&tick);
            for (split, offset) in records {
                let mut ranges = binding.iter().flat_map(|binding| &binding.ranges);
                let bound = ranges.any(|range| {
                    range.split == split
                        && (range.from.next.get()..range.to.next.get()).contains(&offset)
                });
                if !bound {
                    self.break_by(format!(
                        "the frontier is at {frontier}, and the log does not bind offset {offset} of \
                         split {split} at {tick}: {binding:?}"
                    ));
                }
            }
        }
    }
}

/// The bindings in the files of a log that is in use, and up to where ticks are reserved.
///
/// The log is locked by its run, so a copy of its files is read, as it would be found after a crash.
fn in_files(folder: &Path) -> (BTreeMap<u64, Binding<KafkaSplit>>, u64) {
    let copy = tempfile::tempdir().expect("the folder for temporary files is writable");
    for entry in fs::read_dir(folder).expect("the log has a folder") {
        let path = entry.expect("the folder is readable").path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let name = path.file_name().expect("it is a file");
            fs::copy(&path, copy.path().join(name)).expect("the file is readable");
        }
    }
    let records = LocalLog::at(copy.path()).read_all();
    let mut bindings = BTreeMap::new();
    let mut reserved = 0;
    for record in records.expect("the log is whole at any time") {
        match record {
            LogRecord::Binding(binding) => {
                bindings.insert(binding.tick.0, binding);
            }
            LogRecord::Reserved(tick) => reserved = reserved.max(tick.0),
            LogRecord::Snapshot(snapshot) => reserved = reserved.max(snapshot.reserved.0),
            _ => {}
        }
    }
    (bindings, reserved)
}
