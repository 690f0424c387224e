//! Metadata and splits that come and go.

use std::time::Duration;

use timely_splits::event::SourceEvent;
use timely_splits::fetcher::DownCause;
use timely_splits::health::FailureKind;

use crate::forest::Forest;
use crate::rig::{Rig, TICK, leaf, settings};

/// C7.
#[test]
pub(crate) fn a_tree_that_grows_is_read_in_full_and_what_was_read_never_pauses() {
    let mut rig = Rig::reading(4, "");
    for number in 0..100 {
        rig.ends.insert(leaf('a', number), 10);
    }
    rig.list("a");
    let revokes = rig.model.watch.revokes;
    for number in 100..1_000 {
        rig.ends.insert(leaf('a', number), 10);
    }

    rig.find();

    assert_eq!(rig.starts_asked, 1_000);
    assert_eq!(rig.model.watch.revokes, revokes);
    assert_eq!(rig.counts(), [250; 4]);
    rig.tick();
    rig.assert_all_read();
}

/// C8.
#[test]
pub(crate) fn a_reader_whose_only_tree_is_removed_emits_nothing_and_does_not_hold_the_frontier() {
    let mut rig = Rig::reading(2, "ab");
    let a = leaf('a', 0);
    let reader = rig.owner(a).expect("it is read");
    rig.read_some(a, 3);
    let late = rig.piece(reader, a, 3);

    rig.list("b");
    rig.bring(reader, late);

    assert_eq!(rig.model.history.next(&a), Some(3));
    rig.tick();
    rig.tick();
    let open = rig.model.coordinator.open_tick();
    assert_eq!(rig.model.readers[reader].capability, open);
}

/// C10.
#[test]
pub(crate) fn a_split_that_comes_back_after_its_position_was_kept_starts_by_its_rule_and_says_so() {
    let mut options = settings(1);
    options.coordinator.kept_for = Duration::from_secs(60);
    options.coordinator.kept_max = 3;
    let mut rig = Rig::closed(options);
    for tree in "abcdef".chars() {
        rig.ends.insert(leaf(tree, 0), 10);
    }
    rig.open();
    rig.list("abcdef");
    rig.read();
    rig.tick();

    rig.list("a");
    rig.tick();
    assert_eq!(rig.model.coordinator.tables().kept, 3);
    rig.list("");
    rig.tick();
    rig.pass(Duration::from_secs(61));
    let forgotten = |event: &&SourceEvent<_>| matches!(event, SourceEvent::SplitForgotten { .. });
    assert_eq!(rig.said.iter().filter(forgotten).count(), 6);
    assert_eq!(rig.model.coordinator.tables().splits, 0);

    rig.list("a");

    assert_eq!(rig.model.readers[0].fetcher[&leaf('a', 0)].1, 0);
    rig.assert_all_read();
}

/// A split that had failed was never forgotten once nothing listed it, so that the table of splits grew
/// for as long as such splits came and went.
#[test]
fn a_split_that_failed_is_forgotten_like_any_other_that_nothing_lists() {
    let mut options = settings(1);
    options.coordinator.kept_for = Duration::from_secs(60);
    options.coordinator.kept_max = 3;
    let mut rig = Rig::closed(options);
    for tree in "abcdef".chars() {
        rig.ends.insert(leaf(tree, 0), 10);
    }
    rig.open();
    rig.list("abcdef");
    for tree in "abcdef".chars() {
        rig.read_some(leaf(tree, 0), 4);
        rig.break_down(leaf(tree, 0), DownCause::Failed(FailureKind::Definite));
    }
    rig.pass(Duration::from_secs(3_600));
    assert_eq!(rig.model.coordinator.tables().splits, 6, "they are listed");

    rig.list("");
    rig.tick();
    assert_eq!(rig.model.coordinator.tables().kept, 3);
    rig.pass(Duration::from_secs(61));

    let forgotten =
        |event: &&SourceEvent<_>| matches!(event, SourceEvent::SplitForgotten { position: 4, .. });
    assert_eq!(rig.said.iter().filter(forgotten).count(), 6);
    assert_eq!(rig.model.coordinator.tables().splits, 0);
    rig.list("a");
    assert_eq!(rig.model.readers[0].fetcher[&leaf('a', 0)].1, 0);
    rig.assert_all_read();
}

/// C19.
#[test]
pub(crate) fn answers_that_come_late_and_in_disorder_leave_the_epochs_monotone() {
    let mut rig = Rig::reading(2, "ab");
    rig.found_answered = false;
    for trees in ["a", "b", "ab", "", "b"] {
        rig.list(trees);
        rig.tick();
    }
    rig.found_answered = true;

    rig.list("ab");

    // The watch asserts that the epochs grow.
    assert_eq!(rig.model.watch.adopted().map(|(epoch, _)| epoch.0), Some(7));
    rig.assert_all_read();
}

/// C21.
#[test]
pub(crate) fn metadata_that_flaps_a_thousand_times_costs_a_bounded_number_of_plans() {
    let mut rig = Rig::reading(2, "abcd");
    let plans = |of: &Rig| {
        let planned = |event: &&SourceEvent<_>| matches!(event, SourceEvent::Planned { .. });
        of.said.iter().filter(planned).count()
    };
    rig.said.clear();
    for _ in 0..1_000 {
        rig.list("abcd");
        rig.tick();
    }
    assert_eq!(plans(&rig), 0, "the same answer plans nothing");

    for _ in 0..500 {
        rig.list("abc");
        rig.list("abcd");
        rig.tick();
    }

    let count = plans(&rig);
    assert!(count <= 2 * 1_000, "{count} plans for 1,000 changes");
    rig.assert_all_read();
}

/// C24: what was there twice as often is moved, and no more.
#[test]
pub(crate) fn what_a_removed_tree_leaves_askew_is_balanced_by_the_least_number_of_moves() {
    let mut rig = Rig::reading(8, "");
    for tree in "abc".chars() {
        for number in 0..7 {
            rig.ends.insert(leaf(tree, number), 10);
        }
    }
    rig.list("abc");
    assert_eq!(rig.counts(), [2, 2, 2, 3, 3, 3, 3, 3]);
    let before = rig.model.watch.revokes;
    let kept = |of: &Rig| {
        let held = |reader: usize| {
            let numbers = (0..7).flat_map(|number| [leaf('a', number), leaf('b', number)]);
            numbers
                .filter(|leaf| of.owner(*leaf) == Some(reader))
                .count()
        };
        (0..8).map(held).collect::<Vec<_>>()
    };
    let left = kept(&rig);
    let missing: usize = left
        .iter()
        .map(|count| 1_usize.saturating_sub(*count))
        .sum();
    let above: usize = left.iter().map(|count| count.saturating_sub(2)).sum();

    rig.list("ab");
    rig.tick();

    assert_eq!(rig.counts(), [1, 1, 2, 2, 2, 2, 2, 2]);
    let moves = rig.model.watch.revokes - before;
    assert_eq!(moves, missing.max(above) as u64);
    rig.tick();
    rig.assert_all_read();
}

/// S2.
#[test]
pub(crate) fn six_splits_of_two_trees_are_spread_over_four_readers() {
    let mut rig = Rig::reading(4, "");
    for tree in "ab".chars() {
        for number in 0..3 {
            rig.ends.insert(leaf(tree, number), 10);
        }
    }

    rig.list("ab");

    assert_eq!(rig.counts(), [1, 1, 2, 2]);
    rig.assert_all_read();
    rig.tick();
}

/// S32.
#[test]
pub(crate) fn what_is_left_on_one_reader_is_spread_and_what_comes_back_moves_nothing() {
    let mut rig = Rig::reading(4, "");
    // Sixteen splits go round the readers; of each tree but one, its splits are with one reader.
    for number in 0..4 {
        for tree in "abcd".chars() {
            rig.ends.insert(leaf(tree, number), 10);
        }
    }
    rig.list("abcd");
    assert_eq!(rig.counts(), [4; 4]);
    rig.read();
    let before = rig.model.watch.revokes;

    rig.list("a");
    rig.tick();
    assert_eq!(rig.counts(), [1; 4]);
    let moves = rig.model.watch.revokes - before;
    assert!(moves <= 3, "{moves} moves, expected 3 at most");
    rig.list("abcd");
    rig.tick();

    assert_eq!(rig.counts(), [4; 4]);
    rig.assert_all_read();
}

/// Metadata that changes while the log does not answer waits in one record.
#[test]
pub(crate) fn metadata_that_changes_while_the_log_hangs_fills_no_memory() {
    let mut rig = Rig::reading(1, "a");
    rig.log_answers = false;
    rig.pass(TICK);
    for path in 0..200 {
        let mut forest = Forest::of("a");
        forest.0.insert('a', path);
        rig.model.metadata(forest);
        rig.settle();
    }

    assert!(rig.model.coordinator.tables().to_append <= 8);
    rig.log_answers = true;
    rig.settle();
    rig.assert_all_read();
}
