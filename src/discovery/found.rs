//! Whether all clusters have said what there is.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use timely_splits::epoch::MetadataEpoch;

use crate::model::ClusterId;

/// Which clusters have not said yet what they have of what a metadata epoch lists.
#[derive(Debug, Default)]
pub(super) struct AllFound(Mutex<Missing>);

#[derive(Debug, Default)]
struct Missing {
    epoch: MetadataEpoch,
    /// `None` if not all that is read is known, or if it was said that nothing is missing.
    clusters: Option<BTreeSet<ClusterId>>,
}

impl AllFound {
    /// From here on these clusters are waited for, or, with `None`, more than is known. Whether
    /// nothing has to be waited for.
    pub(super) fn await_all(
        &self,
        epoch: MetadataEpoch,
        clusters: Option<impl Iterator<Item = ClusterId>>,
    ) -> bool {
        let mut missing = self.lock();
        missing.epoch = epoch;
        missing.clusters = clusters.map(Iterator::collect);
        missing.is_over()
    }

    /// A cluster has said all, and everybody who polls has heard of it or will before what is sent next.
    /// Whether it was the last of its epoch.
    pub(super) fn answered(&self, cluster: &ClusterId, epoch: MetadataEpoch) -> bool {
        let mut missing = self.lock();
        if missing.epoch != epoch {
            return false;
        }
        if let Some(clusters) = &mut missing.clusters {
            clusters.remove(cluster);
        }
        missing.is_over()
    }

    fn lock(&self) -> MutexGuard<'_, Missing> {
        // What is behind the lock is whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Missing {
    /// Whether nothing is missing, the first time that this is so.
    fn is_over(&mut self) -> bool {
        self.clusters
            .take_if(|clusters| clusters.is_empty())
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> ClusterId {
        ClusterId::new(name).unwrap()
    }

    #[test]
    fn the_last_cluster_of_the_latest_epoch_is_noticed_once() {
        let found = AllFound::default();
        let all = ["a", "b"].map(cluster);
        let [one, two] = [1, 2].map(MetadataEpoch);

        assert!(!found.await_all(one, Some(all.clone().into_iter())));
        assert!(!found.answered(&all[0], one));
        assert!(!found.await_all(two, Some(all.clone().into_iter())));
        assert!(!found.answered(&all[1], one));
        assert!(!found.answered(&all[1], two));
        assert!(!found.answered(&all[1], two));
        assert!(found.answered(&all[0], two));
        assert!(!found.answered(&all[0], two));
        assert!(found.await_all(one, Some(std::iter::empty())));
        assert!(!found.await_all(two, None::<std::iter::Empty<_>>));
    }
}
