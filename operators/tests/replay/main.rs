//! Ticks that were bound in one run are given again by the next, under real workers.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

mod run;
#[expect(dead_code, reason = "the source and its conformance need more of it")]
#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use timely_splits::binding::Binding;
use timely_splits::epoch::ReaderId;
use timely_splits::health::FailureKind;
use timely_splits::log::MemoryLog;
use timely_splits::protocol::Command;
use timely_splits::resume::Resume;
use timely_splits::tick::Tick;

use run::{Run, Seen, copy_of, new_log};
use support::{Letter, Row, World};

/// The rows that the bindings of ticks say.
fn rows_of(bindings: &[Binding<Letter>]) -> BTreeMap<Tick, BTreeSet<Row>> {
    let mut rows = BTreeMap::new();
    for binding in bindings {
        let ranges = binding.ranges.iter();
        let all = ranges.flat_map(|range| (range.from..range.to).map(|at| (range.split.0, at)));
        let all: BTreeSet<_> = all.collect();
        if !all.is_empty() {
            rows.insert(binding.tick, all);
        }
    }
    rows
}

/// A world and the log of a run over it, in which each letter had 120 records.
fn first_run(letters: &'static str) -> (World, MemoryLog<Letter>, Seen) {
    let world = World::default();
    world.list(letters);
    let log = new_log();
    let outside = world.clone();
    let written = Mutex::new(0);
    let run = Run::new(&world, &log, Resume::Continue).until(move |seen, control| {
        let mut written = written.lock().unwrap();
        // A few records at a time, so that they come at many ticks; and splits that move.
        let bound: usize = rows_of(&seen.bindings).values().map(BTreeSet::len).sum();
        if bound == *written * letters.len() && *written < 120 {
            *written += 5;
            letters.chars().for_each(|letter| outside.write(letter, 5));
            let moved = letters.chars().nth(*written / 5 % letters.len());
            let to = ReaderId(*written % 2);
            control.move_split(Letter(moved.unwrap()), to);
        }
        seen.count >= 120 * letters.len()
    });
    let seen = run.run();
    assert_eq!(seen.rows, rows_of(&seen.bindings));
    (world, log, seen)
}

/// What was given at or after a tick.
fn since(seen: &Seen, from: Tick) -> Vec<Binding<Letter>> {
    let bindings = seen.bindings.iter();
    bindings
        .filter(|binding| binding.tick >= from)
        .cloned()
        .collect()
}

/// Asserts that the second run gave again what the first gave from a tick on, and then read on.
fn assert_replayed(first: &Seen, second: &Seen, from: Tick, fresh: &str) {
    // A tick in which nothing was read is in the log only by chance.
    let read = |binding: &Binding<Letter>| !binding.is_empty();
    let mut expected = since(first, from);
    expected.retain(read);
    let again = second.bindings.iter().filter(|binding| read(binding));
    let again: Vec<_> = again.take(expected.len()).cloned().collect();
    assert_eq!(again, expected, "bindings are given again as they were");
    let last = expected.last().map_or(from, |binding| binding.tick);
    let (old, new): (Vec<_>, Vec<_>) =
        (second.rows.clone().into_iter()).partition(|(tick, _)| *tick <= last);
    assert_eq!(BTreeMap::from_iter(old), rows_of(&expected));
    assert_eq!(second.rows, rows_of(&second.bindings));
    let new: BTreeSet<Row> = new.into_iter().flat_map(|(_, rows)| rows).collect();
    let wanted = fresh
        .chars()
        .flat_map(|letter| (120..150).map(move |at| (letter, at)));
    assert_eq!(new, wanted.collect());
}

#[test]
fn bound_ticks_are_given_again_on_any_number_of_workers_and_reading_goes_on() {
    let (world, log, first) = first_run("abcd");
    "abcd".chars().for_each(|letter| world.write(letter, 30));
    let ticks: Vec<_> = rows_of(&first.bindings).into_keys().collect();
    assert!(ticks.len() > 10, "{ticks:?}");
    for (workers, from) in [
        (1, ticks[0]),
        (2, ticks[ticks.len() / 2]),
        (4, Tick(ticks[3].0 + 1)),
    ] {
        for piece in [1, 7, 1_000] {
            let log = copy_of(&log);
            world.bring(piece);
            world.list("abcd");
            let expected = rows_of(&since(&first, from))
                .values()
                .map(BTreeSet::len)
                .sum::<usize>()
                + 4 * 30;
            let mut run = Run::new(&world, &log, Resume::Replay { from })
                .until(move |seen, _| seen.count >= expected);
            run.workers = workers;
            run.hesitant = piece == 7;

            let second = run.run();

            assert_replayed(&first, &second, from, "abcd");
        }
    }
}

/// What was read far ahead filled the memory, and the split that the frontier waited for was not read.
#[test]
fn a_replay_without_room_for_more_than_a_record_comes_to_its_end() {
    let (world, log, first) = first_run("abcdef");
    "abcdef".chars().for_each(|letter| world.write(letter, 30));
    for piece in [3, 1_000] {
        world.bring(piece);
        world.list("abcdef");
        let from = first.bindings[0].tick;
        let mut run = Run::new(&world, &copy_of(&log), Resume::Replay { from })
            .until(|seen, _| seen.count >= 6 * 150);
        run.in_flight_bytes_max = 1;

        let second = run.run();

        assert_replayed(&first, &second, from, "abcdef");
    }
}

/// The log has a snapshot every few ticks, and a run that went back in it.
#[test]
fn what_was_void_is_not_given_again() {
    let (world, log, first) = first_run("ab");
    let ticks: Vec<_> = rows_of(&first.bindings).into_keys().collect();
    let (back_to, from) = (ticks[ticks.len() / 2], ticks[2]);
    world.list("ab");
    let kept: usize = rows_of(&first.bindings)
        .range(..=back_to)
        .map(|(_, rows)| rows.len())
        .sum();
    let mut back = Run::new(&world, &log, Resume::At(back_to))
        .until(move |seen, _| seen.count >= 2 * 120 - kept);
    back.snapshot_every = 3;
    let back = back.run();
    "ab".chars().for_each(|letter| world.write(letter, 30));
    world.bring(1_000);
    world.list("ab");
    let mut in_force = first.clone();
    in_force.bindings.retain(|binding| binding.tick <= back_to);
    in_force.bindings.extend(back.bindings);
    let expected = rows_of(&since(&in_force, from))
        .values()
        .map(BTreeSet::len)
        .sum::<usize>()
        + 60;

    let second = Run::new(&world, &log, Resume::Replay { from })
        .until(move |seen, _| seen.count >= expected)
        .run();

    assert_replayed(&in_force, &second, from, "ab");
}

#[test]
fn definite_errors_are_given_again_at_their_tick_and_their_split_stays_quarantined() {
    let world = World::default();
    world.list("ab");
    "ab".chars().for_each(|letter| world.write(letter, 9));
    let log = new_log();
    let (outside, broken) = (world.clone(), Mutex::new(false));
    let first = Run::new(&world, &log, Resume::Continue)
        .until(move |seen, _| {
            let mut broken = broken.lock().unwrap();
            if seen.count == 18 && !*broken {
                *broken = true;
                outside.break_once('a', FailureKind::Definite);
            }
            if *broken && seen.errors.len() == 1 && seen.count == 18 {
                outside.write('b', 9);
            }
            !seen.errors.is_empty() && seen.count >= 27
        })
        .run();
    assert_eq!(first.errors.len(), 1);
    // Were it read again, these would come.
    "ab".chars().for_each(|letter| world.write(letter, 5));
    let ends = first
        .rows
        .values()
        .flatten()
        .filter(|row| row.0 == 'b')
        .count()
        + 5;
    world.list("ab");
    let from = first.bindings[0].tick;

    let second = Run::new(&world, &log, Resume::Replay { from })
        .until(move |seen, _| {
            seen.rows
                .values()
                .flatten()
                .filter(|row| row.0 == 'b')
                .count()
                >= ends
        })
        .run();

    assert_eq!(second.errors, first.errors);
    let of_a = second
        .rows
        .values()
        .flatten()
        .filter(|row| row.0 == 'a')
        .count();
    assert_eq!(of_a, 9);
}

/// A split that somebody had paused was given to no reader, and the replay waited for it without a word.
#[test]
fn what_is_paused_is_given_again_and_not_read_on() {
    let (world, log, mut first) = first_run("ab");
    world.list("ab");
    let pausing = Run::new(&world, &log, Resume::Continue).until(|seen, control| {
        // Before the first tick nobody knows the split.
        let runs = !seen.bindings.is_empty();
        if runs {
            control.pause(Letter('a'));
        }
        runs
    });
    first.bindings.extend(pausing.run().bindings);
    "ab".chars().for_each(|letter| world.write(letter, 30));
    world.bring(1_000);
    world.list("ab");
    let from = first.bindings[0].tick;

    let second = Run::new(&world, &log, Resume::Replay { from })
        .until(|seen, _| seen.count >= 2 * 120 + 30)
        .run();

    assert_replayed(&first, &second, from, "b");
}

#[test]
fn a_range_that_is_gone_is_told_before_anything_is_given() {
    let (world, log, first) = first_run("ab");
    world.delete_before('b', 50);
    world.list("ab");
    let from = first.bindings[0].tick;
    let told = "split b, 0..120: deleted";
    let mut run = Run::new(&world, &log, Resume::Replay { from })
        .until(move |seen, _| seen.health.iter().any(|line| line.contains(told)));
    run.leaves = true;

    let second = run.run();

    assert_eq!(second.count, 0);
    assert!(second.bindings.is_empty());
    let passed = |frontier: &Option<u64>| frontier.is_none_or(|frontier| frontier > from.0);
    assert!(
        !second.frontiers.values().any(passed),
        "{:?}",
        second.frontiers
    );
}

#[test]
fn what_vanishes_meanwhile_holds_the_frontier_at_its_tick() {
    let (world, log, first) = first_run("ab");
    let from = first.bindings[0].tick;
    world.list("ab");
    world.break_once('b', FailureKind::Definite);
    let told = "split b: it cannot be replayed from 0 on";
    let mut run = Run::new(&world, &log, Resume::Replay { from })
        .until(move |seen, _| seen.health.iter().any(|line| line.contains(told)));
    run.leaves = true;

    let second = run.run();

    let has_b = |binding: &&Binding<Letter>| {
        let mut ranges = binding.ranges.iter();
        ranges.any(|range| range.split == Letter('b'))
    };
    let tick = first.bindings.iter().find(has_b).unwrap().tick;
    let passed = |frontier: &Option<u64>| frontier.is_none_or(|frontier| frontier > tick.0);
    assert!(
        !second.frontiers.values().any(passed),
        "{:?}",
        second.frontiers
    );
    assert!(second.bindings.iter().all(|binding| binding.tick < tick));
    assert_eq!(second.errors, []);
}

#[test]
fn a_split_that_no_metadata_lists_is_told_before_anything_is_given() {
    let (world, log, first) = first_run("ab");
    world.list("a");
    let from = first.bindings[0].tick;
    let told = "split b, 0..120: the metadata does not list it";
    let mut run = Run::new(&world, &log, Resume::Replay { from })
        .until(move |seen, _| seen.health.iter().any(|line| line.contains(told)));
    run.leaves = true;

    let second = run.run();

    assert_eq!(second.count, 0);
}

/// What the metadata does not list any more is given again all the same, and is not read after that.
#[test]
fn metadata_that_changes_meanwhile_waits_for_the_end() {
    let (world, log, first) = first_run("ab");
    "ab".chars().for_each(|letter| world.write(letter, 30));
    world.bring(1);
    world.list("ab");
    let from = first.bindings[0].tick;
    let (outside, changed) = (world.clone(), Mutex::new(false));
    let refused = Arc::new(Mutex::new(false));
    let run = Run::new(&world, &log, Resume::Replay { from }).until(move |seen, control| {
        if seen.count > 0 && !std::mem::replace(&mut *changed.lock().unwrap(), true) {
            outside.list("b");
            control.ask(Command::Rebalance);
        }
        let mut refused = refused.lock().unwrap();
        *refused |= seen
            .health
            .iter()
            .any(|line| line.contains("moves no split"));
        *refused && seen.count >= 2 * 120 + 30
    });

    let second = run.run();

    assert_replayed(&first, &second, from, "b");
}
