//! Whether all clusters have said what there is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use timely_splits::epoch::MetadataEpoch;

use crate::model::ClusterId;

/// Which clusters have not said yet what they have of what the metadata lists.
///
/// What a cluster has said stands in later epochs too, until one aims at it anew.
#[derive(Debug, Default)]
pub(super) struct AllFound(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    epoch: MetadataEpoch,
    /// Whether it is to be said under this epoch that nothing is missing.
    awaited: bool,
    /// The clusters that are listed, each with the epoch of its target.
    listed: BTreeMap<ClusterId, MetadataEpoch>,
    /// Those of them that have not said all.
    missing: BTreeSet<ClusterId>,
}

impl AllFound {
    /// An epoch begins, under which all that is read is `known`, or is not.
    pub(super) fn begin(&self, epoch: MetadataEpoch, known: bool) {
        let mut state = self.lock();
        (state.epoch, state.awaited) = (epoch, known);
    }

    /// What a cluster says is waited for from here on, about its target of `epoch`.
    pub(super) fn aim(&self, cluster: &ClusterId, epoch: MetadataEpoch) {
        let mut state = self.lock();
        state.listed.insert(cluster.clone(), epoch);
        state.missing.insert(cluster.clone());
    }

    /// A cluster is not listed any more.
    pub(super) fn remove(&self, cluster: &ClusterId) {
        let mut state = self.lock();
        state.listed.remove(cluster);
        state.missing.remove(cluster);
    }

    /// A cluster `has_said` all about its target of `epoch`, and what it found is where whoever polls takes
    /// it from; or that is in doubt again. Whether nothing is missing.
    pub(super) fn note(&self, cluster: &ClusterId, epoch: MetadataEpoch, has_said: bool) -> bool {
        let mut state = self.lock();
        if state.listed.get(cluster) != Some(&epoch) {
            return false;
        }
        if !has_said {
            state.missing.insert(cluster.clone());
        } else if state.missing.remove(cluster) {
            return state.over().is_some();
        }
        false
    }

    /// The epoch under which all was found, if that was not said.
    pub(super) fn over(&self) -> Option<MetadataEpoch> {
        self.lock().over()
    }

    /// It was said that all was found under this epoch.
    pub(super) fn said(&self) {
        self.lock().awaited = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What is behind the lock is whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn over(&self) -> Option<MetadataEpoch> {
        (self.awaited && self.missing.is_empty()).then_some(self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cluster_has_said_stands_until_it_is_aimed_at_anew_or_in_doubt() {
        let found = AllFound::default();
        let [a, b] = ["a", "b"].map(|name| ClusterId::new(name).unwrap());
        let [one, two, three, four] = [1, 2, 3, 4].map(MetadataEpoch);

        found.begin(one, true);
        found.aim(&a, one);
        found.aim(&b, one);
        assert!(!found.note(&a, one, true));
        found.begin(two, true);
        found.aim(&b, two);
        // What it says of a target that was replaced.
        assert!(!found.note(&b, one, true));
        assert_eq!(found.over(), None);
        assert!(found.note(&b, two, true));
        assert_eq!(found.over(), Some(two));
        found.said();
        assert_eq!(found.over(), None);

        found.begin(three, true);
        assert_eq!(found.over(), Some(three));
        assert!(!found.note(&a, one, false));
        assert_eq!(found.over(), None);
        found.remove(&a);
        assert_eq!(found.over(), Some(three));
        found.begin(four, false);
        assert_eq!(found.over(), None);
    }
}
