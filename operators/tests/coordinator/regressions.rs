//! What the simulation has found, one case each.

use std::time::Duration;

use timely_splits::coordinator::Snapshot;
use timely_splits::fetcher::DownCause;
use timely_splits::health::FailureKind;
use timely_splits::protocol::Command;

use crate::forest::Leaf;
use crate::rig::{Rig, TICK, leaf, settings};

/// A split that was forgotten and found again was assigned under epoch 1 again, so that what had been
/// said about the first assignment passed for news of the second.
#[test]
fn a_split_that_was_forgotten_is_assigned_above_its_old_epochs() {
    let mut options = settings(1);
    options.coordinator.kept_for = Duration::from_secs(1);
    let mut rig = Rig::closed(options);
    rig.ends.insert(leaf('a', 0), 10);
    rig.open();
    rig.list("a");
    let late = rig.piece(0, leaf('a', 0), 4);
    rig.list("");
    rig.tick();
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.model.coordinator.tables().splits, 0);

    rig.list("a");

    let (split_epoch, _) = rig.model.readers[0].fetcher[&leaf('a', 0)];
    assert!(split_epoch > late.split_epoch);
    rig.assert_all_read();
}

/// A discovery that always took longer than the deadline was always asked again, and its answers were
/// always ignored.
#[test]
fn a_discovery_that_is_slower_than_the_deadline_is_waited_for_in_the_end() {
    let mut options = settings(1);
    options.coordinator.start_deadline = TICK;
    let mut rig = Rig::closed(options);
    rig.ends.insert(leaf('a', 0), 10);
    rig.starts_answered = false;
    rig.open();
    rig.list("a");

    for _ in 0..70 {
        rig.pass(TICK);
    }

    // At 0, 100, 300, 700, 1,500, 3,100 and 6,300 milliseconds.
    assert_eq!(rig.starts_asked, 7);
}

/// Nothing was emitted while too many ticks waited: a log that was slower than the ticks stopped reading, and
/// so did a cluster that hung, until what its splits are was not waited for any longer.
#[test]
fn reading_goes_on_in_the_open_tick_while_others_wait() {
    let mut options = settings(1);
    options.coordinator.ticks_waiting_max = 1;
    let mut rig = Rig::closed(options);
    rig.ends.insert(leaf('a', 0), 1_000);
    rig.open();
    rig.list("a");
    rig.log_answers = false;

    for read in 1..=10 {
        rig.pass(TICK);
        rig.read_some(leaf('a', 0), 1);
        assert_eq!(rig.model.history.next(&leaf('a', 0)), Some(read));
    }
    assert_eq!(rig.model.coordinator.tables().ticks_waiting, 1);

    rig.log_answers = true;
    rig.model.appended();
    rig.settle();
    rig.pass(TICK);

    rig.assert_all_read();
}

/// A log that took longer than ticks are reserved ahead was asked for the same again and again, and no
/// tick ever opened.
#[test]
fn a_log_that_takes_longer_than_ticks_are_reserved_ahead_is_asked_for_more() {
    let mut options = settings(1);
    options.coordinator.reserve_ahead = TICK;
    let mut rig = Rig::closed(options);
    rig.log_answers = false;
    rig.open();

    for _ in 0..10 {
        rig.pass(4 * TICK);
        rig.model.appended();
        rig.settle();
    }

    assert!(rig.model.history.bound().is_some());
}

/// A reader that had not heard of the epoch that removed a split, because the next one listed it again,
/// was believed to release it, and was not asked to.
#[test]
fn a_reader_that_did_not_hear_of_a_removal_is_asked_for_the_split() {
    let mut options = settings(1);
    options.metadata_apart = true;
    let mut rig = Rig::closed(options);
    rig.ends.insert(leaf('a', 0), 10);
    rig.open();
    rig.deaf.insert(0);
    rig.list("a");
    rig.list("");
    rig.list("a");
    rig.deaf.clear();
    rig.settle();

    rig.pass(Duration::from_secs(11));

    let (split_epoch, _) = rig.model.readers[0].fetcher[&leaf('a', 0)];
    assert_eq!(split_epoch.0, 2);
    rig.assert_all_read();
}

/// A pause ended with the run.
#[test]
fn a_pause_outlives_restarts_and_so_does_its_end() {
    let mut rig = Rig::reading(1, "ab");
    let a = leaf('a', 0);
    rig.read_some(a, 4);
    rig.ask(Command::Pause(a));
    rig.tick();

    rig.crash(2, "ab");
    assert_eq!(rig.owner(a), None);
    rig.tick();
    rig.model.compact();
    rig.crash(1, "ab");
    assert_eq!(rig.owner(a), None, "a snapshot knows of it");
    rig.ask(Command::Resume(a));
    rig.crash(1, "ab");

    assert_eq!(rig.model.readers[0].fetcher[&a].1, 4);
    rig.assert_all_read();
}

/// A pause of a split whose start is asked for is recorded with the start.
#[test]
fn a_pause_of_a_split_that_has_no_start_yet_outlives_a_restart() {
    let mut rig = Rig::reading(1, "");
    let a = leaf('a', 0);
    rig.ends.insert(a, 10);
    rig.starts_answered = false;
    rig.list("a");
    rig.ask(Command::Pause(a));
    rig.starts_answered = true;
    rig.pass(settings(1).coordinator.start_deadline);
    assert_eq!(rig.model.coordinator.tables().splits, 1);

    rig.crash(1, "a");

    assert_eq!((rig.owner(a), rig.starts_asked), (None, 2));
    rig.ask(Command::Resume(a));
    rig.assert_all_read();
}

/// Commands that are recorded must not fill the memory of a source whose log does not answer.
#[test]
fn pauses_while_the_log_hangs_fill_no_memory() {
    let mut rig = Rig::reading(1, "a");
    rig.log_answers = false;
    rig.pass(TICK);
    for _ in 0..200 {
        rig.ask(Command::Pause(leaf('a', 0)));
        rig.ask(Command::Resume(leaf('a', 0)));
    }

    assert!(rig.model.coordinator.tables().to_append <= 8);
    rig.log_answers = true;
    rig.settle();
    rig.assert_all_read();
}

/// The deadline of a release that had come was kept until it was due.
#[test]
fn nothing_waits_for_a_release_that_has_come() {
    let mut rig = Rig::reading(2, "ab");
    let a = leaf('a', 0);
    let old = rig.owner(a).expect("it is read");

    for round in 0..10 {
        rig.move_to(a, (old + 1 + round) % 2);
    }
    rig.list("b");

    assert_eq!(rig.model.coordinator.tables().deadlines, 0);
}

/// A snapshot had a split quarantined whose failure was not bound: after a restart it was not read, and
/// nobody had been told why.
#[test]
fn a_snapshot_knows_nothing_of_a_failure_that_is_not_bound() {
    let mut rig = Rig::reading(1, "a");
    rig.break_down(leaf('a', 0), DownCause::Failed(FailureKind::Definite));
    let quarantined = |snapshot: Snapshot<Leaf>| snapshot.splits[0].quarantined;
    assert!(!quarantined(rig.model.coordinator.snapshot()));

    rig.tick();

    assert!(quarantined(rig.model.coordinator.snapshot()));
}

/// A position that was kept for long enough but whose tick was open woke the enumerator every
/// millisecond.
#[test]
fn a_position_that_cannot_be_forgotten_yet_wakes_nobody() {
    let mut options = settings(1);
    options.coordinator.kept_for = Duration::from_millis(1);
    options.coordinator.tick_interval = Duration::from_secs(60);
    let mut rig = Rig::closed(options);
    rig.ends.insert(leaf('a', 0), 10);
    rig.open();
    rig.list("a");
    rig.read();
    rig.list("");

    rig.pass(Duration::from_millis(10));

    let due = rig.model.coordinator.poll_timeout();
    assert!(due > Some(rig.model.now + Duration::from_secs(1)));
}

/// With ticks of a second a worker emitted what one tick may have, and then nothing until the second was
/// over.
#[test]
fn a_tick_that_is_full_is_closed_before_its_time_and_once() {
    let mut rig = Rig::reading(2, "ab");
    let open = rig.model.coordinator.open_tick();
    rig.read();

    rig.fill_up(1);
    rig.fill_up(0);
    rig.settle();

    let next = rig.model.coordinator.open_tick();
    assert_eq!(rig.model.history.bound(), open, "the frontier moves");
    assert!(next > open);
    rig.pass(TICK / 2);
    assert_eq!(rig.model.coordinator.open_tick(), next);
    rig.assert_all_read();
}
