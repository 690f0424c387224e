//! Ticks that were bound in one run are given again by another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use timely_kafka::model::KafkaSplit;
use timely_splits::binding::Binding;

use super::brokers::Brokers;
use super::exactly::assert_exact;
use super::observed::State;
use super::plan::{Backend, GoingOn, Plan};
use super::shared::PARTITIONS;
use super::world::{Described, World};

/// How often records are written, and how many each time to each cluster.
const WRITES: u64 = 8;
const RECORDS: u64 = 300;

/// Every record by its tick.
pub(crate) type Given = BTreeMap<u64, BTreeSet<(KafkaSplit, u64, u64)>>;

/// What came at each tick from `from` on.
fn given(state: &State, from: u64) -> Given {
    let mut given = Given::new();
    for row in state.rows.iter().filter(|row| row.tick >= from) {
        let record = (row.split.clone(), row.offset, row.number);
        let new = given.entry(row.tick).or_default().insert(record);
        assert!(new, "it came twice: {row:?}");
    }
    given
}

fn bindings(state: &State, from: u64) -> Vec<Binding<KafkaSplit>> {
    let since = state.bindings.iter().filter(|(tick, _)| *tick >= from);
    since.map(|(_, binding)| binding.clone()).collect()
}

/// A run over two clusters, as its log and what it gave.
pub(crate) struct Past {
    pub(crate) plan: Plan,
    pub(crate) given: Given,
    pub(crate) bindings: Vec<Binding<KafkaSplit>>,
    /// How many records there are, each with the next number.
    pub(crate) written: u64,
}

pub(crate) fn past<B: Brokers + 'static>(world: &World<B>, backend: Backend) -> Past {
    for cluster in ["a", "b"] {
        let partitions = i32::try_from(PARTITIONS).expect("there are few");
        world.brokers.create_topic(cluster, "orders", partitions);
    }
    world.publish(&Described::orders(&["a", "b"]));
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    let run = world.run(&plan, backend);
    let mut written = 0;
    for _ in 0..WRITES {
        for cluster in ["a", "b"] {
            let numbers = written..written + RECORDS;
            world.write(cluster, "orders", PARTITIONS, numbers);
            written += RECORDS;
        }
        run.settle(usize::try_from(written).expect("there are few"));
    }
    let (given, bindings) = run.end().with(|state| {
        assert_exact(state, 0..written);
        (given(state, 0), bindings(state, 0))
    });
    Past {
        plan,
        given,
        bindings,
        written,
    }
}

/// A copy of a log: whoever replays goes on after it.
pub(crate) fn copy_of(log: &Path, to: PathBuf) -> PathBuf {
    fs::create_dir(&to).expect("a folder can be made");
    for entry in fs::read_dir(log).expect("the log is there") {
        let path = entry.expect("its files can be listed").path();
        let name = path.file_name().expect("a file has a name");
        fs::copy(&path, to.join(name)).expect("it can be copied");
    }
    to
}

/// What came is given again on one worker, then on four, then as at first.
pub(crate) fn given_again<B: Brokers + 'static>(world: &World<B>, backend: Backend) {
    let past = past(world, backend);
    let mut written = past.written;
    for cluster in ["a", "b"] {
        world.write(cluster, "orders", PARTITIONS, written..written + RECORDS);
        written += RECORDS;
    }
    let ticks: Vec<u64> = past.given.keys().copied().collect();
    assert!(ticks.len() as u64 >= WRITES, "{ticks:?}");
    let runs = [
        (Backend::Threads(1), ticks[0]),
        (Backend::Threads(4), ticks[ticks.len() / 2] + 1),
        (backend, ticks[2]),
    ];
    for (index, (again, from)) in runs.into_iter().enumerate() {
        let log = past.plan.log.as_deref().expect("the log is in a folder");
        let mut plan = past.plan.clone();
        plan.log = Some(copy_of(log, world.folder().join(format!("log-{index}"))));
        plan.going_on = GoingOn::Replaying(from);
        let expected: Given = past.given.clone().split_off(&from);
        let old: usize = expected.values().map(BTreeSet::len).sum();

        let run = world.run(&plan, again);
        run.settle(old + usize::try_from(written - past.written).expect("there are few"));

        run.end().with(|state| {
            let mut came = given(state, 0);
            let last = past.bindings.last().map_or(0, |binding| binding.tick.0);
            let new = came.split_off(&(last + 1));
            assert_eq!(came, expected, "the same records at the same ticks");
            let numbers = new.into_values().flatten().map(|(_, _, number)| number);
            let numbers: BTreeSet<u64> = numbers.collect();
            assert_eq!(numbers, (past.written..written).collect());
            // A tick in which nothing was read is in the log only by chance.
            let read = |binding: &&Binding<KafkaSplit>| !binding.is_empty();
            let since = past.bindings.iter().filter(read);
            let since: Vec<_> = since.filter(|binding| binding.tick.0 >= from).collect();
            let given = bindings(state, 0);
            let gave = given.iter().filter(read).take(since.len());
            assert_eq!(gave.collect::<Vec<_>>(), since);
            assert_eq!(state.late, 0, "records at ticks that were over");
        });
    }
}
