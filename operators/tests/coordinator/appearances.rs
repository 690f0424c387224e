//! What appears later than the first metadata.

use timely_splits::discovery::Appeared;
use timely_splits::event::SourceEvent;

use crate::forest::Leaf;
use crate::rig::{Rig, leaf};

/// S24.
#[test]
fn what_appears_later_is_asked_for_by_its_kind() {
    let mut rig = Rig::reading(2, "ab");
    assert_eq!(rig.appeared[&leaf('a', 0)], Appeared::AtFirst);
    for new in [leaf('a', 1), leaf('c', 0), leaf('n', 0)] {
        rig.ends.insert(new, 10);
    }

    rig.find();
    rig.list("abcn");

    assert_eq!(rig.appeared[&leaf('a', 1)], Appeared::InGroup);
    assert_eq!(rig.appeared[&leaf('c', 0)], Appeared::WithGroup);
    assert_eq!(rig.appeared[&leaf('n', 0)], Appeared::WithPlace);
    rig.assert_all_read();
}

/// S24. A tree that was listed before a restart and found after it was taken for one of the first.
#[test]
fn what_appeared_before_a_restart_is_still_new_after_it() {
    for compacted in [false, true] {
        let mut rig = Rig::reading(1, "a");
        rig.ends.insert(leaf('c', 0), 10);
        rig.starts_answered = false;
        rig.list("ac");
        rig.tick();
        if compacted {
            rig.model.compact();
        }
        rig.appeared.clear();

        rig.starts_answered = true;
        rig.crash(1, "ac");

        assert_eq!(rig.appeared[&leaf('c', 0)], Appeared::WithGroup);
        rig.assert_all_read();
    }
}

/// S24.
#[test]
fn what_is_resolved_once_is_not_asked_again_after_a_restart() {
    let mut rig = Rig::reading(1, "a");
    rig.ends.insert(leaf('c', 0), 10);
    rig.ends.insert(leaf('n', 0), 10);
    rig.list("acn");
    rig.tick();
    assert_eq!(rig.starts_asked, 3);

    rig.crash(2, "acn");

    assert_eq!(rig.starts_asked, 3);
    rig.assert_all_read();
}

/// What was forgotten, with its position.
fn forgotten(rig: &Rig) -> Vec<(Leaf, u64)> {
    let said = rig.said.iter().chain(&rig.model.told);
    let forgotten = said.filter_map(|event| match event {
        SourceEvent::SplitForgotten { split, position } => Some((*split, *position)),
        _ => None,
    });
    forgotten.collect()
}

/// S7.
#[test]
fn what_comes_back_goes_on_or_is_read_again_as_its_rule_says() {
    let mut rig = Rig::reading(2, "aB");
    rig.assert_all_read();
    rig.list("");
    rig.tick();
    assert_eq!(forgotten(&rig), [], "the position is kept");

    rig.list("aB");

    assert_eq!(forgotten(&rig), [(leaf('B', 0), 10)]);
    assert_eq!(rig.appeared[&leaf('B', 0)], Appeared::AtFirst);
    assert_eq!(rig.starts_asked, 3);
    let next = ['a', 'B'].map(|tree| rig.model.history.next(&leaf(tree, 0)));
    assert_eq!(next, [Some(10), Some(0)]);
    rig.assert_all_read();
}

/// S7. What was read of it last is not bound yet when it comes back.
#[test]
fn what_is_read_again_is_first_bound_up_to_where_it_was_read() {
    let mut rig = Rig::reading(1, "B");
    rig.read_some(leaf('B', 0), 4);
    rig.deaf.insert(0);
    rig.list("");
    rig.list("B");
    rig.deaf.clear();
    rig.settle();
    assert_eq!(forgotten(&rig), []);

    rig.tick();

    assert_eq!(forgotten(&rig), [(leaf('B', 0), 4)]);
    rig.assert_all_read();
}

/// S7, across a restart.
#[test]
fn what_comes_back_in_another_run_is_read_again() {
    let mut rig = Rig::reading(1, "aB");
    rig.assert_all_read();
    rig.list("a");
    rig.tick();

    rig.crash(2, "aB");

    assert_eq!(forgotten(&rig), [(leaf('B', 0), 10)]);
    rig.assert_all_read();
    rig.crash(1, "aB");
    assert_eq!(forgotten(&rig), [], "it was there all the time");
    rig.assert_all_read();
}
