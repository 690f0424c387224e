//! Which cluster name has which Kafka cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::inbox::Inbox;
use crate::model::{ClusterId, KafkaClusterId};

/// Which Kafka cluster each listed name reaches, so that none is read under two names.
///
/// The name that reaches it first has it. Names could be told to give way in their order instead,
/// but then one that hangs would hold up another, or be read for a while and given up.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<BTreeMap<ClusterId, Claim>>);

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
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let other = claims
            .iter()
            .find(|(other, claim)| *other != name && claim.id == *id)
            .map(|(other, _)| other.clone());
        // Closing comes before releasing, so a claim made after this look is released after it.
        if !owner.is_closed() {
            if other.is_some() {
                claims.remove(name);
            } else {
                let (id, owner) = (id.clone(), Arc::clone(owner));
                claims.insert(name.clone(), Claim { id, owner });
            }
        }
        other
    }

    /// Gives up what `owner`, which is closed, claimed for `name`.
    pub(super) fn release(&self, name: &ClusterId, owner: &Arc<Inbox>) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if claims
            .get(name)
            .is_some_and(|claim| Arc::ptr_eq(&claim.owner, owner))
        {
            claims.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
