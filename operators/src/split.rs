//! The unit of reading: what a split is, where reading it goes on, and what lists it.

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Display};
use std::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::loss::{LossKind, LossPolicy};

/// A value that is sent between workers and stored in the binding log.
///
/// Implemented for every type that qualifies; there is nothing to implement by hand.
pub trait Portable:
    Clone + Debug + Eq + Ord + Hash + Send + Sync + Serialize + DeserializeOwned + 'static
{
}

impl<V> Portable for V where
    V: Clone + Debug + Eq + Ord + Hash + Send + Sync + Serialize + DeserializeOwned + 'static
{
}

/// What one reader reads from front to back, for example one partition of one topic.
///
/// The value itself is the identity of the split for its whole life, across moves and restarts. A
/// split that is started over, because what it reads was replaced, is another split: its value
/// carries a generation.
///
/// # Contract
///
/// Cloning is cheap: a split is the key of every table.
pub trait Split: Portable + Display {
    /// Where reading goes on. Greater means further on in the split.
    type Position: Portable + Display;

    /// Evidence that the split still reads what it did, opaque to this crate.
    type Identity: Portable;

    /// What one metadata epoch says: which splits belong to the source and how they are reached.
    type Metadata: Metadata<Self>;

    /// Whether a split of this name that is `found` is another one than the one that was `known`.
    ///
    /// What is not known contradicts nothing.
    fn contradicts(known: &Self::Identity, found: &Self::Identity) -> bool {
        known != found
    }

    /// What is known of a split that was `known`, and is `found`, which does not contradict.
    ///
    /// What was known once is not lost because it could not be found again.
    #[must_use]
    fn learnt(_known: &Self::Identity, found: &Self::Identity) -> Self::Identity {
        found.clone()
    }

    /// Whether `one` is nearer to the beginning of a split than `other`.
    ///
    /// Positions can differ in more than where they are.
    fn precedes(one: &Self::Position, other: &Self::Position) -> bool {
        one < other
    }

    /// How `found` differs from what was `known`, in words that name both.
    fn difference(known: &Self::Identity, found: &Self::Identity) -> String {
        format!("it was {known:?} and is {found:?}")
    }

    /// Whether a split that is `found` has taken the place of the one that was `known`, so that a policy
    /// may start it over. If not, it is not even where that one was, and only a person knows why.
    fn takes_place(_known: &Self::Identity, _found: &Self::Identity) -> bool {
        true
    }

    /// The split as which this one is read when it is started over; `None` if it cannot be.
    ///
    /// It is greater, in the same group, and has the same [origin](Self::origin).
    fn started_over(&self) -> Option<Self> {
        None
    }

    /// The split as which this one was found, before it was ever started over.
    #[must_use]
    fn origin(&self) -> Self {
        self.clone()
    }
}

/// The content of one metadata epoch.
///
/// Splits are listed by groups, for example all partitions of one topic: a change is worked off in
/// time that depends on the groups that changed, not on all splits there are.
///
/// # Contract
///
/// Two answers that mean the same are equal: equality decides whether anybody is told.
pub trait Metadata<S>: Portable {
    /// What lists splits together.
    type Group: Portable;

    /// The group of a split, the same for its whole life.
    fn group_of(split: &S) -> Self::Group;

    /// Whether this metadata lists the splits of `group`.
    ///
    /// A split that is not listed is not emitted from the epoch on that this metadata begins.
    fn lists_group(&self, group: &Self::Group) -> bool;

    /// The groups that either of the two lists and the other does not.
    fn changed_groups(&self, next: &Self) -> Vec<Self::Group>;

    /// Whether it lists any group of the place that `group` is in, for example any topic of a cluster.
    ///
    /// By default there is one place, which is always there.
    fn lists_place_of(&self, _group: &Self::Group) -> bool {
        true
    }

    /// Whether a split of `group` that comes back is read from its start again, and not from where its
    /// position was kept. By default none is.
    fn reads_again(&self, _group: &Self::Group) -> bool {
        false
    }

    /// What is done about losses of `split`; `None` leaves it to the options of the source.
    fn loss_policy(&self, _split: &S, _kind: LossKind) -> Option<LossPolicy> {
        None
    }

    /// What `next` does not list any more of what this one lists, a kind at a time: for example
    /// clusters, topics. A coordinator can hold back an answer that loses too much of a kind.
    ///
    /// By default nothing is ever lost, so nothing is held back.
    fn shrinks(&self, _next: &Self) -> Vec<Shrink> {
        Vec::new()
    }

    /// What is in force until the splits are read to their end that `next` does not list any more, if
    /// some are to be; `None`, the default, if `next` is in force at once.
    ///
    /// It lists what is to be read to its end, and of what `next` lists all that need not wait for that.
    /// It lists nothing else, and for it and `next` this gives the same again.
    fn interim(&self, _next: &Self) -> Option<Self> {
        None
    }

    /// Whether this metadata lists `split`.
    fn lists(&self, split: &S) -> bool {
        self.lists_group(&Self::group_of(split))
    }
}

/// What one metadata lists of a kind and another does not list any more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shrink {
    /// What the kind is called in the plural: `clusters`, `topics`.
    pub kind: &'static str,
    /// The names of what is lost.
    pub lost: Vec<String>,
    /// How many there were.
    pub of: usize,
}

impl Shrink {
    /// What of `before` is not in `after`.
    pub fn between<T: Display + Ord>(
        kind: &'static str,
        before: &BTreeSet<T>,
        after: &BTreeSet<T>,
    ) -> Self {
        Self {
            kind,
            lost: before.difference(after).map(T::to_string).collect(),
            of: before.len(),
        }
    }

    /// Whether it is all there was, or more than `percent` of it.
    pub(crate) fn exceeds(&self, percent: u8) -> bool {
        let lost = self.lost.len();
        lost > 0 && (lost == self.of || lost * 100 > self.of * usize::from(percent))
    }
}

/// The most names that a loss shows.
const NAMES_MAX: usize = 5;

impl Display for Shrink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lost, kind) = (self.lost.len(), self.kind);
        write!(f, "{lost} of {} {kind} (", self.of)?;
        let shown = &self.lost[..lost.min(NAMES_MAX)];
        f.write_str(&shown.join(", "))?;
        match lost - shown.len() {
            0 => f.write_str(")"),
            more => write!(f, " and {more} more)"),
        }
    }
}
