//! What must be true of a source that has ended.

use std::collections::{BTreeMap, BTreeSet};

use timely_kafka::model::KafkaSplit;

use super::observed::{Output, Row, State};

/// Asserts that the records that came are `expected`, each once, and that times tell the truth.
///
/// * Each tick's records are the ranges of its binding, which came at its own time.
/// * The ranges of a split join over all bindings.
/// * A worker got the records of a split in the order of their offsets.
/// * No record came at a tick that had been passed, and all frontiers are empty.
pub(crate) fn assert_exact(state: &State, expected: impl IntoIterator<Item = u64>) {
    assert_exact_at(state, expected, Density::Dense);
}

/// The same of topics that have offsets without a record.
pub(crate) fn assert_exact_but_for_holes(state: &State, expected: impl IntoIterator<Item = u64>) {
    assert_exact_at(state, expected, Density::Holes);
}

/// Whether every offset has a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Density {
    Dense,
    Holes,
}

fn assert_exact_at(state: &State, expected: impl IntoIterator<Item = u64>, density: Density) {
    assert_each_once(state, expected);
    assert_bound(state, density);
    assert_in_order(state);
    assert_eq!(state.late, 0, "records at ticks that were over");
    assert!(state.errors.is_empty(), "{:?}", state.errors);
    for worker in 0..state.workers {
        for output in [Output::Batches, Output::Bindings] {
            let frontier = state.frontiers.get(&(worker, output));
            assert_eq!(frontier, Some(&None), "{output:?} of worker {worker}");
        }
    }
}

fn assert_each_once(state: &State, expected: impl IntoIterator<Item = u64>) {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for row in &state.rows {
        *counts.entry(row.number).or_default() += 1;
    }
    let expected: BTreeSet<u64> = expected.into_iter().collect();
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    let missing: Vec<_> = expected
        .iter()
        .filter(|number| !counts.contains_key(number))
        .collect();
    let strange: Vec<_> = counts
        .keys()
        .filter(|number| !expected.contains(number))
        .collect();
    assert!(
        twice.is_empty() && missing.is_empty() && strange.is_empty(),
        "twice: {twice:?}; missing: {missing:?}; not expected: {strange:?}"
    );
}

/// Asserts that bindings and records say the same.
fn assert_bound(state: &State, density: Density) {
    let mut rows: BTreeMap<(u64, &KafkaSplit), Vec<u64>> = BTreeMap::new();
    for Row {
        tick,
        split,
        offset,
        ..
    } in &state.rows
    {
        rows.entry((*tick, split)).or_default().push(*offset);
    }
    rows.values_mut()
        .for_each(|offsets| offsets.sort_unstable());
    let mut reached: BTreeMap<&KafkaSplit, u64> = BTreeMap::new();
    let mut before = None;
    for (time, binding) in &state.bindings {
        assert_eq!(binding.tick.0, *time, "a binding comes at its own time");
        assert!(
            before < Some(*time),
            "bindings come in the order of their ticks, once"
        );
        before = Some(*time);
        for range in &binding.ranges {
            let (from, to) = (range.from.next.get(), range.to.next.get());
            if let Some(reached) = reached.insert(&range.split, to) {
                assert_eq!(reached, from, "ranges of split {} join", range.split);
            }
            let read = rows.remove(&(*time, &range.split)).unwrap_or_default();
            let split = &range.split;
            match density {
                Density::Dense => {
                    let bound: Vec<u64> = (from..to).collect();
                    assert_eq!(read, bound, "records of split {split} at tick {time}");
                }
                Density::Holes => {
                    let is_bound = read.iter().all(|offset| (from..to).contains(offset));
                    assert!(
                        is_bound,
                        "{read:?} of split {split} at tick {time}: {range:?}"
                    );
                }
            }
        }
    }
    assert!(rows.is_empty(), "records without a binding: {rows:?}");
}

fn assert_in_order(state: &State) {
    let mut last: BTreeMap<(usize, &KafkaSplit), u64> = BTreeMap::new();
    for Row {
        worker,
        split,
        offset,
        ..
    } in &state.rows
    {
        let earlier = last.insert((*worker, split), *offset);
        assert!(
            earlier < Some(*offset),
            "worker {worker} got offset {offset} of split {split} after {earlier:?}"
        );
    }
}
