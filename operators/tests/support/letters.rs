//! Splits that are letters, and metadata that is a set of them.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use timely_splits::split::{Metadata, Split};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Letter(pub(crate) char);

impl Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Letters(pub(crate) BTreeSet<Letter>);

impl Letters {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.chars().map(Letter).collect())
    }
}

impl Split for Letter {
    type Position = u64;
    type Identity = ();
    type Metadata = Letters;
}

impl Metadata<Letter> for Letters {
    type Group = Letter;

    fn group_of(split: &Letter) -> Letter {
        *split
    }

    fn lists_group(&self, group: &Letter) -> bool {
        self.0.contains(group)
    }

    fn changed_groups(&self, next: &Self) -> Vec<Letter> {
        self.0.symmetric_difference(&next.0).copied().collect()
    }

    /// Letters that are written with a capital are drained, and from `N` on before what comes is read.
    fn interim(&self, next: &Self) -> Option<Self> {
        let left = self.0.difference(&next.0);
        let leaving: BTreeSet<_> = left.filter(|one| one.0.is_ascii_uppercase()).collect();
        let first = leaving.iter().any(|one| one.0 >= 'N');
        let listed = next.0.iter().filter(|one| !first || self.0.contains(*one));
        let interim = listed.chain(leaving.iter().copied()).copied().collect();
        (!leaving.is_empty()).then_some(Self(interim))
    }
}
