//! What is drained, by an account of its own.

use std::collections::{BTreeMap, BTreeSet};

use timely_splits::split::Metadata;
use timely_splits::tick::Tick;

use crate::forest::{Forest, Leaf};
use crate::history::History;

/// What one run has drained.
///
/// # Invariants
///
/// What it panics about:
///
/// * **S29** When the metadata follows for which something was drained, all that leaves with it was
///   emitted to its end, unless it is gone, or a person had the rest cut.
/// * **S30** What that metadata adds is emitted at a later tick than the last of what left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drains {
    /// The tick at which each leaf was last emitted.
    emitted: BTreeMap<Leaf, Tick>,
    /// After which tick the leaves of a tree may be emitted that waited for a drain.
    after: BTreeMap<char, Tick>,
    /// Whether a person has had something cut.
    pub(crate) cut: bool,
    /// Whether the epoch that begins next is the one that was drained for.
    pub(crate) ended: bool,
}

impl Drains {
    pub(crate) fn emits(&mut self, leaf: Leaf, tick: Tick) {
        let after = self.after.get(&leaf.tree);
        assert!(
            after.is_none_or(|after| *after < tick),
            "S30: {leaf} is emitted at tick {tick}, and what left before it at {after:?}"
        );
        self.emitted.insert(leaf, tick);
    }

    /// `next` follows `interim`.
    pub(crate) fn adopts(
        &mut self,
        interim: &Forest,
        next: &Forest,
        history: &History<Leaf>,
        gone: &BTreeSet<Leaf>,
    ) {
        if !std::mem::take(&mut self.ended) {
            return;
        }
        let left = |leaf: &&Leaf| interim.lists(*leaf) && !next.lists(*leaf);
        let known: Vec<_> = history.known().filter(left).copied().collect();
        let cut = std::mem::take(&mut self.cut);
        for leaf in known.iter().filter(|leaf| !cut && !gone.contains(*leaf)) {
            assert!(
                history.is_at_end(leaf),
                "S29: {leaf} leaves at {:?} before its end",
                history.next(leaf)
            );
        }
        let last = known.iter().filter_map(|leaf| self.emitted.get(leaf)).max();
        let added = next.0.keys().filter(|tree| !interim.0.contains_key(tree));
        if let Some(last) = last.copied() {
            self.after.extend(added.map(|tree| (*tree, last)));
        }
    }
}
