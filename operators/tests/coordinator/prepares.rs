//! Readers that connect to a split before the one that has it lets go.

use std::time::Duration;

use timely_splits::fetcher::Fetched;
use timely_splits::protocol::Command;

use crate::forest::Leaf;
use crate::rig::{Rig, leaf, settings};

/// Readers of `a` and `b` that are to prepare for what they are given from another; only the one that
/// has `a` is prepared by itself.
fn preparing(readers: usize) -> (Rig, Leaf, usize) {
    let mut options = settings(readers);
    options.coordinator.prepare = true;
    let mut rig = Rig::closed(options);
    for tree in "ab".chars() {
        rig.ends.insert(leaf(tree, 0), 10);
    }
    rig.open();
    rig.list("ab");
    let a = leaf('a', 0);
    let old = rig.owner(a).expect("it is read");
    rig.unprepared = (0..readers).filter(|reader| *reader != old).collect();
    (rig, a, old)
}

/// The fetcher of a reader is prepared for a leaf.
fn prepared(rig: &mut Rig, reader: usize, leaf: Leaf) {
    rig.model.fetched(reader, Fetched::Prepared(leaf));
    rig.settle();
}

#[test]
fn a_reader_goes_on_until_the_other_is_prepared() {
    let (mut rig, a, old) = preparing(2);
    rig.read_some(a, 3);

    rig.move_to(a, 1 - old);
    rig.read_some(a, 2);
    rig.tick();
    assert_eq!(rig.owner(a), Some(old));
    prepared(&mut rig, 1 - old, a);

    assert_eq!(rig.owner(a), Some(1 - old));
    assert_eq!(rig.model.readers[1 - old].fetcher[&a].1, 5);
    rig.assert_all_read();
}

#[test]
fn a_reader_that_does_not_get_prepared_is_given_the_split_after_the_deadline() {
    let (mut rig, a, old) = preparing(2);
    rig.move_to(a, 1 - old);

    rig.pass(Duration::from_millis(999));
    assert_eq!(rig.owner(a), Some(old));
    rig.pass(Duration::from_millis(1));

    assert_eq!(rig.owner(a), Some(1 - old));
    let before = rig.model.coordinator.ignored();
    prepared(&mut rig, 1 - old, a);
    assert_eq!(rig.model.coordinator.ignored(), before + 1);
    rig.assert_all_read();
}

#[test]
fn an_answer_of_a_reader_that_is_not_meant_any_more_is_ignored_and_counted() {
    let (mut rig, a, old) = preparing(3);
    let (first, second) = ((old + 1) % 3, (old + 2) % 3);
    rig.move_to(a, first);
    rig.move_to(a, second);
    let before = rig.model.coordinator.ignored();

    prepared(&mut rig, first, a);

    assert_eq!(rig.model.coordinator.ignored(), before + 1);
    assert_eq!(rig.owner(a), Some(old));
    prepared(&mut rig, second, a);
    assert_eq!(rig.owner(a), Some(second));
    rig.assert_all_read();
}

#[test]
fn a_split_that_stays_after_all_is_not_asked_back() {
    let (mut rig, a, old) = preparing(2);
    let revokes = rig.model.watch.revokes;
    rig.move_to(a, 1 - old);

    rig.move_to(a, old);
    prepared(&mut rig, 1 - old, a);
    rig.pass(Duration::from_secs(2));

    assert_eq!(rig.owner(a), Some(old));
    assert_eq!(rig.model.watch.revokes, revokes);
    assert_eq!(rig.model.coordinator.tables().deadlines, 0);
    rig.assert_all_read();
}

#[test]
fn a_split_that_is_not_wanted_any_more_is_let_go_whoever_prepares_for_it() {
    let commands = |rig: &mut Rig, a| rig.ask(Command::Pause(a));
    let metadata = |rig: &mut Rig, _| rig.list("b");
    for unwant in [commands, metadata] {
        let (mut rig, a, old) = preparing(2);
        rig.move_to(a, 1 - old);

        unwant(&mut rig, a);

        assert_eq!(rig.owner(a), None);
        assert_eq!(rig.model.coordinator.tables().deadlines, 0);
        prepared(&mut rig, 1 - old, a);
        assert_eq!(rig.owner(a), None);
        rig.list("ab");
        rig.ask(Command::Resume(a));
        rig.assert_all_read();
    }
}
