//! Which of the splits that a reader holds the metadata lists.

use std::collections::{BTreeMap, BTreeSet};

use super::action::ReaderAction;
use super::state::ReaderState;
use crate::epoch::MetadataEpoch;
use crate::protocol::ReleaseReason;
use crate::split::{Metadata, Split};

/// The splits that are held, by what lists them.
#[derive(Clone, Debug)]
pub(super) struct Groups<S: Split>(BTreeMap<<S::Metadata as Metadata<S>>::Group, BTreeSet<S>>);

impl<S: Split> Groups<S> {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// A split is held from here on.
    pub(super) fn note(&mut self, split: &S) {
        let members = self.0.entry(S::Metadata::group_of(split)).or_default();
        members.insert(split.clone());
    }

    /// A split is held no more.
    pub(super) fn forget(&mut self, split: &S) {
        let group = S::Metadata::group_of(split);
        if let Some(members) = self.0.get_mut(&group) {
            members.remove(split);
            if members.is_empty() {
                self.0.remove(&group);
            }
        }
    }
}

impl<S: Split, B> ReaderState<S, B> {
    pub(super) fn adopt(&mut self, epoch: MetadataEpoch, metadata: S::Metadata) {
        for split in self.held_and_unlisted(&metadata) {
            self.release(&split, ReleaseReason::NotListed);
        }
        self.actions
            .push_back(ReaderAction::Adopt(epoch, metadata.clone()));
        self.metadata = Some((epoch, metadata));
    }

    /// The splits that are held and that `metadata`, which follows on what is in force, does not list.
    ///
    /// What is held is listed by what is in force, so that only groups of which the two differ matter: a
    /// cluster that comes or goes costs nothing for each split of the others.
    fn held_and_unlisted(&self, metadata: &S::Metadata) -> Vec<S> {
        let groups = &self.groups.0;
        let changed = match &self.metadata {
            Some((_, before)) => before.changed_groups(metadata),
            None => groups.keys().cloned().collect(),
        };
        let unlisted = changed.iter().filter(|group| !metadata.lists_group(group));
        // In the order of splits, whatever that of groups is.
        let splits: BTreeSet<&S> = unlisted
            .filter_map(|group| groups.get(group))
            .flatten()
            .collect();
        splits.into_iter().cloned().collect()
    }
}
