//! Fetchers, clusters and workers that fail.

use std::time::Duration;

use timely_splits::fetcher::DownCause;
use timely_splits::health::FailureKind;
use timely_splits::protocol::Command;
use timely_splits::reader::Verdict;

use crate::rig::{Rig, TICK, leaf};

/// C5, where the policy is to fail.
#[test]
pub(crate) fn a_split_that_fails_for_good_is_quarantined_and_nothing_of_it_is_emitted() {
    let mut rig = Rig::reading(1, "ab");
    let a = leaf('a', 0);
    rig.read_some(a, 3);
    let late = rig.piece(0, a, 4);

    rig.break_down(a, DownCause::Failed(FailureKind::Definite));

    assert_eq!(rig.owner(a), None);
    assert_eq!(rig.bring(0, late), Verdict::Drop);
    rig.tick();
    rig.crash(2, "ab");
    assert_eq!(rig.owner(a), None, "a restart does not forget it");
    rig.ask(Command::Readmit(a));
    rig.assert_all_read();
}

/// C5, where what failed may pass: the same reader goes on under the same split epoch, from the record
/// that failed.
#[test]
pub(crate) fn a_split_that_fails_for_now_is_read_on_by_the_same_reader_where_it_failed() {
    let mut rig = Rig::reading(2, "ab");
    let a = leaf('a', 0);
    let reader = rig.owner(a).expect("it is read");
    rig.read_some(a, 3);
    let late = rig.piece(reader, a, 4);
    let told = rig.model.readers[reader].fetcher[&a];

    rig.break_down(a, DownCause::Failed(FailureKind::Transient));
    // What lies behind the hole is not emitted before it is.
    let mut behind = late.clone();
    (behind.start, behind.end) = (5, 7);
    assert_eq!(rig.bring(reader, behind), Verdict::Drop);
    rig.pass(Duration::from_secs(1));

    assert_eq!(rig.owner(a), Some(reader));
    assert_eq!(rig.model.readers[reader].fetcher[&a], told);
    assert_eq!(rig.model.history.next(&a), Some(3));
    rig.assert_all_read();
}

/// C6.
#[test]
pub(crate) fn a_fetcher_that_crashes_five_times_is_retried_later_and_later_and_then_quarantined() {
    let mut rig = Rig::reading(1, "ab");
    let (a, b) = (leaf('a', 0), leaf('b', 0));
    let mut waits = Vec::new();
    for _ in 0..4 {
        rig.break_down(a, DownCause::Crashed);
        assert_eq!(rig.owner(a), Some(0));
        let due = rig.model.readers[0].state.poll_timeout();
        let wait = due.expect("it is tried again") - rig.model.now;
        waits.push(wait.as_millis());
        rig.pass(wait);
        rig.read_some(b, 1);
    }
    assert_eq!(waits, [100, 200, 400, 800]);

    rig.break_down(a, DownCause::Crashed);

    assert_eq!(rig.owner(a), None);
    rig.read_some(b, 1);
    rig.tick();
    rig.ask(Command::Readmit(a));
    rig.assert_all_read();
}

/// C22.
#[test]
pub(crate) fn a_cluster_that_cannot_be_reached_for_long_costs_the_others_nothing() {
    let mut rig = Rig::reading(1, "ab");
    let (a, b) = (leaf('a', 0), leaf('b', 0));
    rig.read_some(a, 3);
    rig.ends.insert(b, 700);
    for _ in 0..600 {
        if rig.model.readers[0].fetcher.contains_key(&a) {
            rig.break_down(a, DownCause::Failed(FailureKind::Transient));
        }
        rig.read_some(b, 1);
        rig.pass(Duration::from_secs(1));
    }

    assert_eq!(rig.model.history.next(&a), Some(3));
    assert_eq!(rig.model.history.next(&b), Some(600));
    rig.pass(Duration::from_secs(5));
    rig.assert_all_read();
}

/// C25.
#[test]
pub(crate) fn a_process_that_stands_still_keeps_what_it_has_and_the_frontier_waits() {
    let mut rig = Rig::reading(2, "ab");
    rig.tick();
    let still = 1;
    rig.deaf.insert(still);
    rig.mute.insert(still);
    let owners = [rig.owner(leaf('a', 0)), rig.owner(leaf('b', 0))];
    let bound = rig.model.history.bound();

    let (stuck, other) = if rig.owner(leaf('a', 0)) == Some(still) {
        (leaf('a', 0), 1 - still)
    } else {
        (leaf('b', 0), 1 - still)
    };
    rig.move_to(stuck, other);
    for _ in 0..300 {
        rig.pass(TICK);
    }

    assert_eq!([rig.owner(leaf('a', 0)), rig.owner(leaf('b', 0))], owners);
    assert_eq!(rig.model.history.bound(), bound);
    rig.deaf.clear();
    rig.mute.clear();
    rig.settle();
    rig.assert_all_read();
}
