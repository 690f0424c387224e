//! Which cluster name has which Kafka cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::inbox::Inbox;
use crate::model::{ClusterId, KafkaClusterId, KafkaSplit};

/// Which Kafka cluster each listed name reaches, so that none is read under two names.
///
/// The name that reaches it first has it. Names could be told to give way in their order instead,
/// but then one that hangs would hold up another, or be read for a while and given up.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: Mutex<Claimed>,
    known: Mutex<BTreeMap<ClusterId, Known>>,
}

#[derive(Debug, Default)]
struct Claimed {
    by_name: BTreeMap<ClusterId, Claim>,
    /// The listed names whose Kafka cluster another one has.
    refused: BTreeSet<ClusterId>,
}

/// What the log knows of a cluster.
#[derive(Debug)]
struct Known {
    /// Which Kafka cluster it was when a split of it was last learnt or readmitted.
    id: KafkaClusterId,
    /// Its splits, in their first generation; bounded by those that the log knows.
    splits: BTreeSet<KafkaSplit>,
}

#[derive(Debug)]
struct Claim {
    id: KafkaClusterId,
    /// Who claims: a thread of a name that was removed and listed again is somebody else.
    owner: Arc<Inbox>,
}

impl Claims {
    /// Claims the Kafka cluster `id` for `name`; the name that has it, if another one has.
    ///
    /// A closed `owner` claims nothing.
    pub(super) fn claim(
        &self,
        name: &ClusterId,
        owner: &Arc<Inbox>,
        id: &KafkaClusterId,
    ) -> Option<ClusterId> {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let other = claims
            .by_name
            .iter()
            .find(|(other, claim)| *other != name && claim.id == *id)
            .map(|(other, _)| other.clone());
        // Closing comes before releasing, so a claim made after this look is released after it.
        if !owner.is_closed() {
            if other.is_some() {
                claims.by_name.remove(name);
                claims.refused.insert(name.clone());
            } else {
                let (id, owner) = (id.clone(), Arc::clone(owner));
                claims.by_name.insert(name.clone(), Claim { id, owner });
                claims.refused.remove(name);
            }
        }
        other
    }

    /// Gives up what `owner`, which is closed, claimed for `name`.
    pub(super) fn release(&self, name: &ClusterId, owner: &Arc<Inbox>) {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.refused.remove(name);
        if claims
            .by_name
            .get(name)
            .is_some_and(|claim| Arc::ptr_eq(&claim.owner, owner))
        {
            claims.by_name.remove(name);
        }
    }

    /// The listed names whose Kafka cluster another name has, or had.
    pub(super) fn refused(&self) -> BTreeSet<ClusterId> {
        let claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.refused.clone()
    }

    /// Claims for `name` the Kafka cluster that it was before this run, if no other name has it: of two
    /// names the one that has read it stays, whichever answers first.
    pub(super) fn claim_known(&self, name: &ClusterId, owner: &Arc<Inbox>) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(id) = known.get(name).map(|known| known.id.clone()) else {
            return;
        };
        drop(known);
        let claimed = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let is_claimed = claimed.by_name.contains_key(name);
        drop(claimed);
        if !is_claimed {
            self.claim(name, owner, &id);
        }
    }

    /// The log says which Kafka cluster `split` is of.
    pub(super) fn know(&self, split: KafkaSplit, id: &KafkaClusterId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry(split.cluster.clone()).or_insert_with(|| Known {
            id: id.clone(),
            splits: BTreeSet::new(),
        });
        if known.id != *id {
            known.id.clone_from(id);
        }
        known.splits.insert(split);
    }

    /// The log knows nothing of `split` any more. With the last split of a cluster goes which Kafka cluster
    /// it was, as it would in a restart.
    pub(super) fn forget(&self, split: &KafkaSplit) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_cluster) = known.get_mut(&split.cluster) {
            of_cluster.splits.remove(split);
            if of_cluster.splits.is_empty() {
                known.remove(&split.cluster);
            }
        }
    }

    /// How many names and splits it has something about.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let claims = self.claims.lock().unwrap();
        let claimed = claims.by_name.len() + claims.refused.len();
        let known = self.known.lock().unwrap();
        let splits: usize = known.values().map(|known| known.splits.len()).sum();
        claimed + known.len() + splits
    }

    /// The Kafka cluster that `name` was, if that is another one than `found`.
    pub(super) fn contradicted(
        &self,
        name: &ClusterId,
        found: &KafkaClusterId,
    ) -> Option<KafkaClusterId> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(name).map(|known| &known.id);
        known.filter(|known| *known != found).cloned()
    }

    /// Whether the log knows `split`.
    pub(super) fn knows(&self, split: &KafkaSplit) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&split.cluster);
        known.is_some_and(|known| known.splits.contains(split))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Partition, TopicName};

    fn cluster(name: &str) -> ClusterId {
        ClusterId::new(name).unwrap()
    }

    /// A thread that hangs may answer after its cluster was renamed.
    #[test]
    fn a_name_that_is_not_listed_any_more_claims_nothing() {
        let claims = Claims::default();
        let (old, renamed) = (Arc::new(Inbox::default()), Arc::new(Inbox::default()));
        let id = KafkaClusterId("x".to_owned());
        assert_eq!(claims.claim(&cluster("old"), &old, &id), None);

        old.end();
        claims.release(&cluster("old"), &old);
        assert_eq!(claims.claim(&cluster("old"), &old, &id), None);

        assert_eq!(claims.claim(&cluster("renamed"), &renamed, &id), None);
        assert_eq!(
            claims.claim(&cluster("old"), &old, &id),
            Some(cluster("renamed"))
        );
    }

    #[test]
    fn a_name_that_comes_to_reach_the_cluster_of_another_gives_its_own_up() {
        let claims = Claims::default();
        let inboxes = [(); 3].map(|()| Arc::new(Inbox::default()));
        let (x, y) = (
            KafkaClusterId("x".to_owned()),
            KafkaClusterId("y".to_owned()),
        );
        assert_eq!(claims.claim(&cluster("a"), &inboxes[0], &x), None);
        assert_eq!(claims.claim(&cluster("b"), &inboxes[1], &y), None);

        let taken = claims.claim(&cluster("b"), &inboxes[1], &x);

        assert_eq!(taken, Some(cluster("a")));
        assert_eq!(claims.claim(&cluster("c"), &inboxes[2], &y), None);
    }

    fn split(cluster_name: &str) -> KafkaSplit {
        let topic = TopicName::new("orders").unwrap();
        KafkaSplit::new(cluster(cluster_name), topic, Partition(0))
    }

    /// S27 across a restart.
    #[test]
    fn the_name_that_the_log_knows_has_the_cluster_whichever_answers_first() {
        let claims = Claims::default();
        let inboxes = [(); 2].map(|()| Arc::new(Inbox::default()));
        let id = KafkaClusterId("x".to_owned());
        claims.know(split("old"), &id);

        claims.claim_known(&cluster("new"), &inboxes[0]);
        claims.claim_known(&cluster("old"), &inboxes[1]);
        let taken = claims.claim(&cluster("new"), &inboxes[0], &id);

        assert_eq!(taken, Some(cluster("old")));
        assert_eq!(claims.claim(&cluster("old"), &inboxes[1], &id), None);
    }

    /// K8.
    #[test]
    fn another_id_than_the_known_one_contradicts_until_a_split_is_readmitted() {
        let claims = Claims::default();
        let [x, y] = ["x", "y"].map(|id| KafkaClusterId(id.to_owned()));
        let unknown = claims.contradicted(&cluster("east"), &x);
        claims.know(split("east"), &x);

        let same = claims.contradicted(&cluster("east"), &x);
        let other = claims.contradicted(&cluster("east"), &y);
        claims.know(split("east"), &y);
        let readmitted = claims.contradicted(&cluster("east"), &y);

        assert_eq!((unknown, same, readmitted), (None, None, None));
        assert_eq!(other, Some(x));
        assert!(claims.knows(&split("east")) && !claims.knows(&split("west")));
    }
}
