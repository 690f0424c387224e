//! Splits that are leaves of trees, and metadata that says which trees there are.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use timely_splits::split::{Metadata, Shrink, Split};

/// One leaf of a tree. Trees grow and lose leaves, which only the discovery knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Leaf {
    pub(crate) tree: char,
    pub(crate) number: u16,
    /// How often it was started over.
    generation: u16,
}

impl Leaf {
    pub(crate) fn new(tree: char, number: u16) -> Self {
        Self {
            tree,
            number,
            generation: 0,
        }
    }
}

impl Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.tree, self.number)?;
        match self.generation {
            0 => Ok(()),
            generation => write!(f, "'{generation}"),
        }
    }
}

/// What a leaf is: how often its tree was replaced by another one of the same name.
pub(crate) type Bud = u32;

/// The trees to be read, each with the path to it. A tree that is reached otherwise has the same
/// leaves. Those on paths from 2 on are drained when they are removed, from 4 on before trees that are
/// added.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Forest(pub(crate) BTreeMap<char, u8>);

impl Forest {
    pub(crate) fn of(trees: &str) -> Self {
        Self(trees.chars().map(|tree| (tree, 0)).collect())
    }
}

impl Display for Forest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (tree, path) in &self.0 {
            write!(f, " {tree}/{path}")?;
        }
        f.write_str(" }")
    }
}

impl Split for Leaf {
    type Position = u64;
    type Identity = Bud;
    type Metadata = Forest;

    fn started_over(&self) -> Option<Self> {
        let generation = self.generation + 1;
        Some(Self {
            generation,
            ..*self
        })
    }

    fn origin(&self) -> Self {
        Self::new(self.tree, self.number)
    }
}

impl Metadata<Leaf> for Forest {
    type Group = char;

    fn group_of(split: &Leaf) -> char {
        split.tree
    }

    fn lists_group(&self, group: &char) -> bool {
        self.0.contains_key(group)
    }

    fn changed_groups(&self, next: &Self) -> Vec<char> {
        let went = self.0.keys().filter(|tree| !next.0.contains_key(tree));
        let came = next.0.keys().filter(|tree| !self.0.contains_key(tree));
        went.chain(came).copied().collect()
    }

    /// Trees that are written with a capital are read again when they come back.
    fn reads_again(&self, group: &char) -> bool {
        group.is_ascii_uppercase()
    }

    /// Trees up to `m` are in one place, the others in another.
    fn lists_place_of(&self, group: &char) -> bool {
        self.0.keys().any(|tree| (*tree > 'm') == (*group > 'm'))
    }

    fn interim(&self, next: &Self) -> Option<Self> {
        let left = self.0.iter().filter(|(tree, _)| !next.0.contains_key(tree));
        let leaving: BTreeMap<_, _> = left.filter(|(_, path)| **path >= 2).collect();
        let first = leaving.values().any(|path| **path >= 4);
        let listed = next.0.iter();
        let listed = listed.filter(|(tree, _)| !first || self.0.contains_key(tree));
        let all = listed.chain(leaving.iter().map(|(tree, path)| (*tree, *path)));
        let interim = all.map(|(tree, path)| (*tree, *path)).collect();
        (!leaving.is_empty()).then_some(Self(interim))
    }

    fn shrinks(&self, next: &Self) -> Vec<Shrink> {
        let trees = |forest: &Self| forest.0.keys().copied().collect();
        vec![Shrink::between("trees", &trees(self), &trees(next))]
    }
}
