//! When splits move for balance, and when not.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use timely_splits::assignor::LoadAware;
use timely_splits::epoch::ReaderId;
use timely_splits::event::SourceEvent;
use timely_splits::fetcher::Piece;
use timely_splits::protocol::Command;
use timely_splits::reader::Verdict;

use crate::forest::{Forest, Leaf};
use crate::rig::{Rig, leaf, settings};

const CALM: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);

/// Two readers that read a leaf of each of `a` to `d`, two each, and are calm after changes.
fn calm() -> Rig {
    let mut options = settings(2);
    options.coordinator.calm_for = CALM;
    let mut rig = Rig::closed(options);
    for tree in "abcd".chars() {
        rig.ends.insert(leaf(tree, 0), 10);
    }
    rig.open();
    rig.list("abcd");
    assert_eq!(rig.counts(), [2, 2]);
    rig
}

/// The trees that a reader has.
fn trees_of(rig: &Rig, reader: usize) -> String {
    let trees = "abcd".chars();
    trees
        .filter(|tree| rig.owner(leaf(*tree, 0)) == Some(reader))
        .collect()
}

/// What a person asked for within two seconds after a change of metadata moved nothing.
#[test]
fn a_person_is_obeyed_at_once_although_the_metadata_has_just_changed() {
    let mut rig = calm();

    rig.ask(Command::Drain(ReaderId(0)));
    assert_eq!(trees_of(&rig, 1), "abcd");
    rig.list("abc");
    rig.ask(Command::Refill(ReaderId(0)));
    assert_eq!(rig.counts(), [1, 2]);
    let both = trees_of(&rig, 1);
    rig.list(&both);
    assert_eq!(rig.counts(), [0, 2], "nothing moves by itself");
    rig.ask(Command::Rebalance);

    assert_eq!(rig.counts(), [1, 1]);
    rig.assert_all_read();
}

/// Metadata that changed more often than every two seconds put balance off for ever.
#[test]
fn metadata_that_changes_again_and_again_does_not_put_balance_off_for_ever() {
    let mut rig = calm();
    let both = trees_of(&rig, 1);
    let changed = both.chars().next().expect("it has two");
    rig.list(&both);
    let mut paths = 1..;

    let balanced = (1..=12).find(|_| {
        rig.pass(SECOND);
        let balanced = rig.counts() == [1, 1];
        let mut forest = Forest::of(&both);
        forest.0.insert(changed, paths.next().expect("more"));
        rig.model.metadata(forest);
        rig.settle();
        balanced
    });

    assert!(balanced > Some(2), "it was calm for {balanced:?} seconds");
    assert!(balanced <= Some(10), "{balanced:?} is five times as long");
}

/// C23: 95 % of the bytes on one split.
#[test]
pub(crate) fn a_split_with_nearly_all_bytes_is_isolated_and_told_and_then_all_is_at_rest() {
    let mut options = settings(4);
    options.coordinator.plan_interval = Some(SECOND);
    options.assignor = Rc::new(|| Box::new(LoadAware::default()));
    let mut rig = Rig::closed(options);
    let trees: String = ('a'..='h').collect();
    for tree in trees.chars() {
        rig.ends.insert(leaf(tree, 0), u64::MAX / 2);
    }
    rig.open();
    rig.list(&trees);
    let hot = leaf('a', 0);
    let bytes = |leaf: Leaf| if leaf == hot { 950_000 } else { 7_000 };

    let mut revokes = BTreeMap::new();
    for tick in 0..400 {
        for leaf in trees.chars().map(|tree| leaf(tree, 0)) {
            let reader = rig.owner(leaf).expect("somebody has it");
            let whole = rig.piece(reader, leaf, 1);
            let piece = Piece {
                bytes: bytes(leaf),
                ..whole
            };
            assert_eq!(rig.bring(reader, piece), Verdict::Emit);
        }
        rig.tick();
        revokes.insert(tick, rig.model.watch.revokes);
    }

    let alone = rig.owner(hot).expect("somebody has it");
    assert_eq!(rig.model.readers[alone].state.held(), 1);
    assert_eq!(revokes[&200], revokes[&399], "all is at rest");
    let told = |event: &&SourceEvent<Leaf>| matches!(event, SourceEvent::SplitHot { split, .. } if *split == hot);
    assert_eq!(rig.said.iter().filter(told).count(), 1);
}
