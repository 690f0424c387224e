//! At how many splits a reader looks when an epoch begins.

use std::cell::Cell;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use super::*;
use crate::split::{Metadata, Split};

thread_local! {
    /// How often it was asked of which group a split is.
    static LOOKED: Cell<usize> = const { Cell::new(0) };
}

/// How many leaves a tree has.
const LEAVES: u32 = 100;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Leaf {
    tree: u8,
    number: u32,
}

/// The trees that are listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Trees(BTreeSet<u8>);

impl Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.tree, self.number)
    }
}

impl Split for Leaf {
    type Position = u64;
    type Identity = ();
    type Metadata = Trees;
}

impl Metadata<Leaf> for Trees {
    type Group = u8;

    fn group_of(split: &Leaf) -> u8 {
        LOOKED.set(LOOKED.get() + 1);
        split.tree
    }

    fn lists_group(&self, group: &u8) -> bool {
        self.0.contains(group)
    }

    fn changed_groups(&self, next: &Self) -> Vec<u8> {
        self.0.symmetric_difference(&next.0).copied().collect()
    }
}

type State = ReaderState<Leaf, ()>;

/// At how many splits it looks when it hears of an epoch, and which it releases.
fn hears(state: &mut State, epoch: u64, trees: impl IntoIterator<Item = u8>) -> (usize, usize) {
    LOOKED.set(0);
    let directive = Directive::Metadata {
        incarnation: Incarnation(1),
        epoch: MetadataEpoch(epoch),
        metadata: Trees(trees.into_iter().collect()),
    };
    state.handle_directive(directive, NOW);
    let released = std::iter::from_fn(|| state.poll());
    let released = released.filter(|action| {
        let report = |report: &Report<Leaf>| matches!(report, Report::Released { .. });
        matches!(action, ReaderAction::Report(one) if report(one))
    });
    (LOOKED.get(), released.count())
}

/// Each epoch looked up every split that a reader holds, so that a cluster that comes or goes cost more with each
/// of the others.
#[test]
fn an_epoch_has_no_held_split_looked_at_that_stays() {
    let mut state = State::new(
        ReaderProfile::new(ReaderId(3)),
        ReaderOptions::default(),
        Configuration::new(),
    );
    hears(&mut state, 1, 0..10);
    for tree in 0..10 {
        for number in 0..LEAVES {
            let assignment = Assignment {
                split: Leaf { tree, number },
                split_epoch: SplitEpoch(1),
                metadata_epoch: MetadataEpoch(1),
                start: 0,
                stop: None,
            };
            state.handle_directive(Directive::Assign(assignment), NOW);
        }
    }
    let held = 10 * LEAVES as usize;
    assert_eq!(state.held(), held);

    assert_eq!(hears(&mut state, 2, 0..11), (0, 0), "one more");
    assert_eq!(hears(&mut state, 3, 0..10), (0, 0), "one less, not held");
    let leaves = LEAVES as usize;
    assert_eq!(hears(&mut state, 4, 1..10), (leaves, leaves), "one less");
    assert_eq!(hears(&mut state, 5, 1..10), (0, 0), "the same again");
}
