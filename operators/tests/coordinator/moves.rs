//! Splits that move while something else happens.

use std::time::Duration;

use timely_splits::discovery::DiscoveryEvent;
use timely_splits::epoch::SplitEpoch;
use timely_splits::fetcher::{DownCause, Fetched, FetcherDown};
use timely_splits::health::FailureKind;
use timely_splits::protocol::{Command, Report};
use timely_splits::reader::Verdict;

use crate::rig::{Rig, leaf, piece, settings};

/// C2.
#[test]
pub(crate) fn a_hanging_fetcher_does_not_delay_the_release_and_its_late_batch_is_dropped() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    rig.read_some(a, 3);
    let late = rig.piece(old, a, 4);
    rig.hung.insert(old);

    rig.move_to(a, 1 - old);

    assert_eq!(rig.owner(a), Some(1 - old));
    assert_eq!(rig.model.readers[1 - old].fetcher[&a].1, 3);
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.bring(old, late), Verdict::Drop);
    rig.hung.clear();
    rig.assert_all_read();
}

/// A move pauses its split for a message each way and the fetcher: neither the next tick nor a binding that
/// is under way is waited for, and what does not move hears nothing. Seen to fail with a coordinator that
/// assigns nothing while it appends.
#[test]
fn a_split_moves_while_no_tick_is_due_and_the_log_does_not_answer() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    let other = rig.owner(leaf('b', 0)).expect("it is read");
    let fetched = rig.model.readers[other].fetcher[&leaf('b', 0)];
    rig.read_some(a, 3);
    rig.log_answers = false;
    rig.pass(Duration::from_secs(1));
    assert!(!rig.model.history.is_all_bound());

    rig.move_to(a, 1 - old);

    assert_eq!(rig.owner(a), Some(1 - old));
    assert_eq!(rig.model.readers[1 - old].fetcher[&a].1, 3);
    assert_eq!(rig.model.readers[other].fetcher[&leaf('b', 0)], fetched);
    rig.log_answers = true;
    rig.settle();
    rig.assert_all_read();
}

/// C3.
#[test]
pub(crate) fn a_late_batch_is_dropped_when_its_split_has_come_back_to_the_same_reader() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    let late = rig.piece(old, a, 4);
    rig.move_to(a, 1 - old);
    rig.move_to(a, old);
    assert_eq!(rig.owner(a), Some(old));

    assert_eq!(rig.bring(old, late), Verdict::Drop);

    rig.assert_all_read();
}

/// C4, as far as splits end: one that fails for good while it is asked back.
#[test]
pub(crate) fn a_revocation_that_crosses_the_end_of_a_split_comes_to_one_end() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    rig.read_some(a, 3);
    rig.mute.insert(old);
    rig.break_down(a, DownCause::Failed(FailureKind::Definite));
    rig.move_to(a, 1 - old);

    rig.mute.clear();
    rig.settle();

    assert_eq!(rig.owner(a), None);
    assert!(!rig.model.watch.is_awaiting_release());
    rig.tick();
    rig.tick();
    assert_eq!(rig.owner(a), None);
    rig.ask(Command::Readmit(a));
    rig.assert_all_read();
}

/// C4: the failure is found after the split was given back, and by the time that it is known, another
/// reader has the split.
#[test]
pub(crate) fn a_failure_that_comes_after_the_release_ends_nothing() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    rig.read_some(a, 3);
    let (split_epoch, _) = rig.model.readers[old].fetcher[&a];
    rig.move_to(a, 1 - old);
    let before = rig.model.readers[old].state.ignored();

    let down = FetcherDown {
        split: a,
        split_epoch,
        cause: DownCause::Failed(FailureKind::Definite),
        message: "broken on purpose".to_owned(),
    };
    rig.model.fetched(old, Fetched::Down(down));
    rig.settle();

    assert_eq!(rig.model.readers[old].state.ignored(), before + 1);
    assert_eq!(rig.owner(a), Some(1 - old));
    rig.assert_all_read();
}

/// C4: the split ceases to exist while it is asked back, and exists again.
#[test]
pub(crate) fn a_revocation_that_crosses_the_disappearance_of_a_split_comes_to_one_end() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    rig.read_some(a, 3);
    rig.mute.insert(old);
    rig.move_to(a, 1 - old);
    let (epoch, _) = rig.model.watch.adopted().cloned().expect("some metadata");
    let splits = vec![a];
    rig.model.discovered(DiscoveryEvent::Gone { epoch, splits });
    rig.settle();

    rig.mute.clear();
    rig.settle();

    assert_eq!(rig.owner(a), None);
    assert!(!rig.model.watch.is_awaiting_release());
    rig.tick();
    rig.find();
    let owner = rig.owner(a).expect("it is read again");
    assert_eq!(rig.model.readers[owner].fetcher[&a].1, 3);
    rig.assert_all_read();
}

/// C9.
#[test]
pub(crate) fn a_split_removed_and_added_again_while_its_release_is_in_flight_has_one_owner() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    rig.read_some(a, 3);
    rig.mute.insert(old);

    rig.list("b");
    rig.list("ab");
    assert_eq!(rig.owner(a), Some(old));
    rig.mute.clear();
    rig.settle();

    let owner = rig.owner(a).expect("it is read again");
    assert_eq!(rig.model.readers[owner].fetcher[&a].1, 3);
    rig.assert_all_read();
}

/// C11: where metadata does not wait for assignments that were sent before it.
#[test]
pub(crate) fn an_assignment_of_an_older_epoch_is_refused_with_its_position() {
    let mut apart = settings(1);
    apart.metadata_apart = true;
    let mut rig = Rig::closed(apart);
    rig.ends.insert(leaf('a', 0), 10);
    rig.open();
    rig.list("a");
    rig.read_some(leaf('a', 0), 4);
    rig.list("");
    rig.list("a");
    rig.model.metadata(crate::forest::Forest::of("b"));
    rig.model.metadata_apart(0);

    rig.settle();

    assert_eq!(rig.owner(leaf('a', 0)), None);
    rig.list("a");
    assert_eq!(rig.model.readers[0].fetcher[&leaf('a', 0)].1, 4);
    rig.assert_all_read();
}

/// C11: the assignment is under way while the metadata overtakes it.
#[test]
pub(crate) fn an_assignment_that_is_overtaken_by_a_removal_emits_nothing() {
    let mut apart = settings(2);
    apart.metadata_apart = true;
    let mut rig = Rig::closed(apart);
    rig.ends.insert(leaf('a', 0), 10);
    rig.open();
    rig.list("a");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    let new = 1 - old;
    rig.deaf.insert(new);
    rig.move_to(a, new);
    rig.model.metadata(crate::forest::Forest::of(""));
    rig.model.metadata_apart(new);

    rig.deaf.clear();
    rig.settle();

    assert_eq!(rig.model.readers[new].state.held(), 0);
    rig.list("a");
    rig.assert_all_read();
}

/// C12.
#[test]
pub(crate) fn a_pause_and_a_move_in_one_tick_end_in_a_pause_in_both_orders() {
    for pause_first in [true, false] {
        let mut rig = Rig::reading(2, "ab");
        let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
        rig.read_some(a, 2);
        rig.mute.insert(old);
        let other = 1 - old;
        let to = timely_splits::epoch::ReaderId(other);
        let mut commands = [Command::Pause(a), Command::Move { split: a, to }];
        if !pause_first {
            commands.reverse();
        }
        for command in commands {
            rig.model.command(other, command);
        }
        rig.settle();
        rig.mute.clear();
        rig.settle();

        assert_eq!(rig.owner(a), None, "pause first: {pause_first}");
        rig.tick();
        rig.ask(Command::Resume(a));
        assert!(rig.owner(a).is_some());
        rig.assert_all_read();
    }
}

/// C13.
#[test]
pub(crate) fn a_release_that_comes_twice_or_late_is_ignored_and_counted() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    rig.read_some(a, 3);
    rig.move_to(a, 1 - old);
    rig.read_some(a, 2);
    let before = rig.model.coordinator.ignored();

    for (split_epoch, next) in [(1, 3), (1, 0)] {
        rig.model.readers[old].reports.push_back(Report::Released {
            reader: timely_splits::epoch::ReaderId(old),
            split: a,
            split_epoch: SplitEpoch(split_epoch),
            next,
            why: timely_splits::protocol::ReleaseReason::Revoked,
        });
        rig.settle();
    }

    assert_eq!(rig.model.coordinator.ignored(), before + 2);
    assert_eq!(rig.owner(a), Some(1 - old));
    rig.assert_all_read();
}

/// What a reader holds back is not emitted, so another one starts before it.
#[test]
pub(crate) fn a_split_whose_batch_is_held_back_moves_with_what_was_emitted() {
    let mut rig = Rig::reading(2, "ab");
    let (a, old) = (leaf('a', 0), rig.owner(leaf('a', 0)).expect("it is read"));
    rig.read_some(a, 3);
    let held_back = piece(a, SplitEpoch(1), 3, 7);
    assert!(rig.model.hold(old, &held_back));

    rig.move_to(a, 1 - old);

    assert_eq!(rig.model.readers[1 - old].fetcher[&a].1, 3);
    rig.assert_all_read();
}
