//! What was found holds under later epochs, as long as they list it.

use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::collection::vec;
use proptest::prelude::*;
use timely_splits::discovery::{DiscoveryEvent, FoundSplit};
use timely_splits::epoch::MetadataEpoch;
use timely_splits::event::SourceEvent;

use crate::forest::Leaf;
use crate::rig::{Rig, leaf, settings};

const TREES: [char; 4] = ['a', 'b', 'c', 'd'];

/// Readers whose discovery finds only what the test says.
fn silent() -> Rig {
    let mut rig = Rig::closed(settings(2));
    rig.found_answered = false;
    for tree in TREES {
        rig.ends.insert(leaf(tree, 0), 10);
    }
    rig.open();
    rig
}

impl Rig {
    /// The first leaves of some trees are found under an epoch.
    fn find_under(&mut self, epoch: u64, trees: &[char]) {
        let leaves = trees.iter().map(|tree| leaf(*tree, 0));
        self.model.discovered(DiscoveryEvent::Found {
            epoch: MetadataEpoch(epoch),
            splits: leaves.map(|leaf| FoundSplit::new(leaf, 0)).collect(),
        });
        self.settle();
    }
}

/// What a source did, and what its coordinator is like after each answer, each of which lists some trees.
///
/// Under each epoch all is found again, or only what the one before does not list.
fn run(answers: &[[bool; TREES.len()]], again: bool) -> (Vec<SourceEvent<Leaf>>, Vec<u64>) {
    let mut rig = silent();
    let (mut before, mut epoch) = (Vec::new(), 0);
    let mut states = Vec::new();
    for listed in answers {
        let listed = TREES.into_iter().zip(listed).filter(|(_, listed)| **listed);
        let listed: Vec<char> = listed.map(|(tree, _)| tree).collect();
        rig.list(&listed.iter().collect::<String>());
        if epoch == 0 || listed != before {
            epoch += 1;
            let mut found = listed.clone();
            found.retain(|tree| again || !before.contains(tree));
            rig.find_under(epoch, &found);
        }
        before = listed;
        rig.assert_all_read();
        let mut hasher = DefaultHasher::new();
        rig.model.coordinator.hash(&mut hasher);
        states.push(hasher.finish());
    }
    (rig.said, states)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn finding_all_again_changes_nothing(answers in vec(any::<[bool; TREES.len()]>(), 1..12)) {
        prop_assert_eq!(run(&answers, true), run(&answers, false));
    }
}

/// What was found under an epoch that was over was not read until it was found again.
#[test]
fn what_is_found_while_something_else_changes_is_read() {
    let mut rig = silent();
    rig.list("a");
    rig.list("ab");

    rig.find_under(1, &['a']);
    rig.find_under(2, &['b']);

    rig.assert_all_read();
    assert_eq!(rig.model.coordinator.ignored(), 0);
}

#[test]
fn what_was_found_before_it_was_not_listed_for_a_while_does_not_hold() {
    let mut rig = silent();
    rig.list("ab");
    rig.list("b");
    rig.list("ab");

    rig.find_under(1, &['a', 'b']);
    rig.find_under(2, &['a']);
    // That of an epoch that is to come.
    rig.find_under(4, &['a']);

    assert_eq!(rig.owner(leaf('a', 0)), None);
    assert!(rig.owner(leaf('b', 0)).is_some());
    assert_eq!(rig.model.coordinator.ignored(), 3);
    rig.tick();
    rig.find_under(3, &['a']);
    rig.assert_all_read();
}

#[test]
fn what_was_gone_before_it_was_not_listed_for_a_while_is_not() {
    let mut rig = silent();
    rig.list("ab");
    rig.find_under(1, &['a', 'b']);
    rig.list("b");
    rig.list("ab");
    rig.find_under(3, &['a']);

    for (epoch, tree) in [(1, 'a'), (2, 'b')] {
        rig.model.discovered(DiscoveryEvent::Gone {
            epoch: MetadataEpoch(epoch),
            splits: vec![leaf(tree, 0)],
        });
        rig.settle();
    }

    assert!(rig.owner(leaf('a', 0)).is_some());
    assert_eq!(rig.owner(leaf('b', 0)), None);
}
