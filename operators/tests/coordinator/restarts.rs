//! Processes that end, and what goes on from the log.

use timely_splits::binding::{Binding, SplitRange};
use timely_splits::coordinator::{Coordinator, Intention, Snapshot};
use timely_splits::discovery::DiscoveryEvent;
use timely_splits::epoch::Incarnation;
use timely_splits::event::SourceEvent;
use timely_splits::log::LogRecord;
use timely_splits::protocol::Command;
use timely_splits::tick::Tick;

use crate::forest::{Forest, Leaf};
use crate::rig::{Rig, leaf, settings};

/// C1.
#[test]
pub(crate) fn what_was_assigned_right_before_a_crash_is_read_from_the_durable_binding() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    rig.read_some(a, 4);
    rig.tick();
    rig.read_some(a, 3);
    rig.deaf.insert(1 - old);
    rig.move_to(a, 1 - old);

    rig.crash(2, "ab");

    let owner = rig.owner(a).expect("it is read again");
    assert_eq!(rig.model.readers[owner].fetcher[&a].1, 4);
    rig.assert_all_read();
}

/// C14.
#[test]
pub(crate) fn a_start_that_is_in_the_log_is_not_asked_for_again() {
    let mut rig = Rig::reading(1, "");
    rig.ends.insert(leaf('a', 0), 10);
    rig.log_answers = false;
    rig.list("a");
    assert_eq!((rig.starts_asked, rig.owner(leaf('a', 0))), (1, None));
    // The metadata is under way, and the start follows it.
    rig.model.appended();
    rig.model.crash(true, 1);
    rig.log_answers = true;

    rig.open();
    rig.list("a");

    assert_eq!(rig.starts_asked, 1);
    rig.assert_all_read();
    rig.tick();
}

/// C15.
#[test]
pub(crate) fn a_split_between_owners_is_neither_missing_nor_twice_after_two_crashes() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    rig.read_some(a, 4);
    rig.deaf.insert(1 - old);
    rig.move_to(a, 1 - old);
    // Whoever is to have it does not know yet, and closes the tick nevertheless.
    let tick = rig.model.coordinator.open_tick();
    rig.pass(crate::rig::TICK);
    rig.deaf.clear();
    rig.settle();
    assert_eq!(rig.model.history.bound(), tick);

    rig.end(2);
    rig.open();
    rig.pass(crate::rig::TICK);
    rig.crash(3, "ab");

    let owner = rig.owner(a).expect("it is read again");
    assert_eq!(rig.model.readers[owner].fetcher[&a].1, 4);
    rig.assert_all_read();
}

/// C16, on a log in memory: credentials are part of the metadata.
#[test]
pub(crate) fn a_restart_reads_nothing_before_it_knows_the_metadata_in_force() {
    let mut rig = Rig::reading(1, "a");
    rig.tick();
    rig.end(1);
    rig.open();
    assert_eq!(rig.owner(leaf('a', 0)), None);
    let mut rotated = Forest::of("a");
    rotated.0.insert('a', 1);

    rig.model.metadata(rotated.clone());
    rig.settle();

    let heard = rig.model.watch.heard(0).map(|(_, forest)| forest.clone());
    assert_eq!(heard, Some(rotated));
    rig.assert_all_read();
}

/// C17.
#[test]
pub(crate) fn a_restart_with_another_count_of_workers_balances_over_them() {
    for (before, after) in [(2, 5), (5, 2)] {
        let mut rig = Rig::reading(before, "abcdefghij");
        assert_eq!(rig.counts(), vec![10 / before; before]);
        rig.read();
        rig.tick();

        rig.crash(after, "abcdefghij");

        assert_eq!(rig.counts(), vec![10 / after; after]);
        rig.assert_all_read();
    }
}

/// C18.
#[test]
pub(crate) fn what_went_while_it_was_down_is_kept_in_silence_and_what_came_starts_by_its_rule() {
    let mut rig = Rig::reading(1, "a");
    let (a, b) = (leaf('a', 0), leaf('b', 0));
    rig.read_some(a, 4);
    rig.tick();
    rig.ends.insert(b, 10);

    rig.crash(2, "b");
    rig.assert_all_read();

    assert_eq!((rig.owner(a), rig.model.history.next(&a)), (None, Some(4)));
    rig.list("ab");
    rig.assert_all_read();
}

/// C20: without a threshold no number of failures ends a source. What was in force stays, and is read.
#[test]
pub(crate) fn a_metadata_service_that_fails_again_and_again_changes_nothing() {
    let mut rig = Rig::reading(2, "ab");
    let adopted = rig.model.watch.adopted().cloned();
    let owners = [rig.owner(leaf('a', 0)), rig.owner(leaf('b', 0))];
    rig.read_some(leaf('a', 0), 4);

    for _ in 0..1_000 {
        rig.model.discovered(DiscoveryEvent::MetadataFailed);
        rig.settle();
    }
    rig.tick();

    assert_eq!(rig.model.watch.adopted().cloned(), adopted);
    assert_eq!([rig.owner(leaf('a', 0)), rig.owner(leaf('b', 0))], owners);
    assert_eq!(rig.model.watch.revokes, 0);
    rig.assert_all_read();
}

/// C20: it fails from the first start on, before anything is known.
#[test]
pub(crate) fn a_metadata_service_that_has_never_answered_leaves_the_source_waiting() {
    let mut rig = Rig::closed(settings(1));
    rig.ends.insert(leaf('a', 0), 10);
    rig.open();
    for _ in 0..100 {
        rig.model.discovered(DiscoveryEvent::MetadataFailed);
        rig.tick();
    }
    assert_eq!(rig.model.coordinator.tables().splits, 0);

    rig.list("a");

    rig.assert_all_read();
}

/// C20: a restart while it fails goes on with what was in force.
#[test]
pub(crate) fn a_metadata_service_that_fails_after_a_restart_leaves_in_force_what_was() {
    let mut rig = Rig::reading(1, "a");
    rig.read_some(leaf('a', 0), 4);
    rig.tick();
    rig.end(1);
    // It may fail before the log is open.
    rig.model.discovered(DiscoveryEvent::MetadataFailed);

    rig.open();

    rig.assert_all_read();
    rig.list("a");
    rig.assert_all_read();
}

/// C26, on a log in memory.
#[test]
pub(crate) fn a_crash_in_the_middle_of_a_move_changes_nothing_that_is_emitted() {
    // The crash comes after so many of the messages of the move.
    for messages in 0..6 {
        let mut rig = Rig::reading(2, "ab");
        let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
        rig.read_some(a, 4);
        rig.tick();
        rig.model.command(
            old,
            Command::Move {
                split: a,
                to: timely_splits::epoch::ReaderId(1 - old),
            },
        );
        for _ in 0..messages {
            rig.model.report(old);
            rig.model.directive(old);
        }

        rig.crash(2, "ab");

        rig.assert_all_read();
        rig.tick();
    }
}

/// C27: wherever a log is cut off, it says where the source was then.
#[test]
pub(crate) fn a_log_that_is_cut_off_anywhere_is_read_to_its_last_record() {
    let mut rig = Rig::reading(2, "ab");
    rig.read_some(leaf('a', 0), 4);
    rig.tick();
    rig.ask(Command::Pause(leaf('b', 0)));
    rig.read_some(leaf('a', 0), 2);
    rig.tick();
    rig.model.compact();
    rig.ask(Command::Resume(leaf('b', 0)));
    rig.read();
    rig.tick();
    let whole = rig.model.log.clone();

    for end in 0..=whole.len() {
        let mut coordinator = of_one();
        coordinator.handle_opened(&whole[..end], rig.model.now);

        let told = coordinator.poll();
        assert!(told.is_none(), "{told:?} after {end} records");
    }
    rig.crash(1, "ab");
    rig.assert_all_read();
}

fn of_one() -> Coordinator<Leaf> {
    let assignor = Box::new(timely_splits::assignor::StickyBalanced);
    Coordinator::new(settings(1).coordinator, assignor)
}

/// C27, as far as records go; what is torn below them is for the tests of the log in a folder.
#[test]
pub(crate) fn a_log_that_does_not_hold_together_is_refused_with_words() {
    let mut rig = Rig::reading(1, "a");
    rig.read();
    rig.tick();
    rig.tick();
    let whole = rig.model.log.clone();
    let range = SplitRange {
        split: leaf('a', 0),
        from: 3,
        to: 4,
    };
    let foreign = LogRecord::Binding(Binding {
        tick: Tick(u64::MAX),
        ranges: vec![range],
        errors: Vec::new(),
    });
    let start = whole
        .iter()
        .find(|record| matches!(record, LogRecord::Start { .. }));
    let again = start.expect("it has a start").clone();
    let older = LogRecord::Incarnation(Incarnation(1));
    let unknown = LogRecord::Paused(leaf('z', 0));
    for bad in [foreign, again, older, unknown] {
        let mut records = whole.clone();
        records.push(bad);
        let mut coordinator = of_one();

        coordinator.handle_opened(&records, rig.model.now);

        let told = coordinator.poll();
        let Some(Intention::Tell(SourceEvent::Health(health))) = told else {
            panic!("{told:?}");
        };
        assert!(health.message.contains("cannot follow"), "{health}");
    }
}

/// C27: a snapshot that lost a split, has one twice or elsewhere, or is of a version to come.
#[test]
pub(crate) fn a_snapshot_that_does_not_hold_together_is_refused_with_words() {
    let mut rig = Rig::reading(1, "ab");
    rig.read();
    rig.tick();
    let whole = rig.model.coordinator.snapshot();
    let change = |change: fn(&mut Snapshot<Leaf>)| {
        let mut changed = whole.clone();
        change(&mut changed);
        changed
    };
    let bad = [
        change(|of| of.splits.truncate(1)),
        change(|of| (of.count, of.splits) = (1, of.splits[..1].to_vec())),
        change(|of| of.splits[0].split = of.splits[1].split),
        change(|of| of.splits[0].position += 1),
        change(|of| of.splits[0].quarantined = true),
        change(|of| of.splits[0].paused = true),
        change(|of| of.version += 1),
    ];

    for snapshot in bad {
        let mut records = rig.model.log.clone();
        records.push(LogRecord::Snapshot(snapshot));
        let mut coordinator = of_one();
        coordinator.handle_opened(&records, rig.model.now);

        let told = coordinator.poll();
        let Some(Intention::Tell(SourceEvent::Health(health))) = told else {
            panic!("{told:?}");
        };
        assert!(health.message.starts_with("snapshot"), "{health}");
    }
}

/// C28, as far as a source is ended by a person: after so many messages of a move.
#[test]
pub(crate) fn a_source_that_is_ended_in_the_middle_of_a_move_tells_all_once() {
    for (messages, prepare) in (0..8).flat_map(|messages| [(messages, false), (messages, true)]) {
        let mut options = settings(2);
        options.coordinator.prepare = prepare;
        let mut rig = Rig::closed(options);
        rig.ends.extend([(leaf('a', 0), 10), (leaf('b', 0), 10)]);
        rig.open();
        rig.list("ab");
        let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
        rig.read_some(a, 4);
        let to = timely_splits::epoch::ReaderId(1 - old);
        rig.model.command(old, Command::Move { split: a, to });
        for _ in 0..messages {
            rig.step();
        }

        rig.model.command(0, Command::Stop);
        rig.model.command(1, Command::Stop);
        rig.settle();
        rig.pass(crate::rig::TICK);

        assert!(rig.model.readers.iter().all(|reader| reader.finished));
        assert!(rig.model.history.is_all_bound());
        let ended = rig
            .said
            .iter()
            .filter(|event| **event == SourceEvent::Ended);
        assert_eq!(ended.count(), 1, "after {messages} messages");
        // What is complete is complete after a restart too.
        rig.crash(2, "ab");
        rig.assert_all_read();
        rig.crash(1, "ab");
        assert_eq!(rig.model.readers[0].fetcher[&a].1, 10);
        rig.tick();
    }
}

/// C28, as far as a source is ended by a person: also one without splits.
#[test]
pub(crate) fn a_source_ends_while_a_split_moves_and_without_splits_and_goes_on_after_a_restart() {
    for trees in ["ab", ""] {
        let mut rig = Rig::reading(2, trees);
        if let Some(old) = rig.owner(leaf('a', 0)) {
            rig.read_some(leaf('a', 0), 4);
            rig.mute.insert(old);
            let to = timely_splits::epoch::ReaderId(1 - old);
            let split = leaf('a', 0);
            rig.model.command(1 - old, Command::Move { split, to });
            rig.settle();
            rig.mute.clear();
        }
        rig.ask(Command::Stop);
        rig.pass(crate::rig::TICK);

        assert!(rig.model.coordinator.ended());
        assert!(rig.model.readers.iter().all(|reader| reader.finished));
        assert!(rig.model.history.is_all_bound());
        rig.crash(1, trees);
        rig.assert_all_read();
    }
}
