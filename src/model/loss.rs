//! What is done about records that are no longer there.

use serde::{Deserialize, Serialize};
use timely_splits::log::StoredError;
use timely_splits::loss::{LossKind, LossPolicies, LossPolicy};

/// The names of the rules that say what is done about records that are no longer there.
pub(crate) const LOSSES: [&str; 2] = ["lost_records", "recreated_topic"];

/// What a stream says about records that are no longer there; `None` leaves it to the source.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LossRules {
    /// For partitions of which records are gone: by retention, by somebody who deleted them, or because a
    /// leader was elected that lacked them.
    pub lost_records: Option<LossPolicy>,
    /// For partitions whose topic was deleted and created again.
    pub recreated_topic: Option<LossPolicy>,
}

impl LossRules {
    pub(crate) fn of(self, kind: LossKind) -> Option<LossPolicy> {
        match kind {
            LossKind::Records => self.lost_records,
            LossKind::Recreated => self.recreated_topic,
        }
    }

    /// Each rule by its name in a metadata file.
    pub(crate) fn by_name(self) -> [(&'static str, Option<LossPolicy>); 2] {
        let [records, recreated] = LOSSES;
        [
            (records, self.lost_records),
            (recreated, self.recreated_topic),
        ]
    }

    /// The policies, with the default where these rules say nothing.
    pub(crate) fn policies(self) -> LossPolicies {
        LossPolicies {
            records: self.lost_records.unwrap_or_default(),
            recreated: self.recreated_topic.unwrap_or_default(),
        }
    }
}

/// The number by which a log knows a policy.
pub(super) fn number_of(policy: LossPolicy) -> u32 {
    match policy {
        LossPolicy::Fail => 1,
        LossPolicy::Skip => 2,
        LossPolicy::Restart => 3,
        LossPolicy::Wait => 4,
    }
}

/// The policy that a log knows by `number`.
pub(super) fn policy_of(number: u32) -> Result<LossPolicy, StoredError> {
    let mut policies = LossPolicy::NAMED.into_iter().map(|(_, policy)| policy);
    let known = policies.find(|policy| number_of(*policy) == number);
    known.ok_or_else(|| {
        let words = format!("policy {number} is not known: use the version that wrote it");
        StoredError::new("metadata", words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_is_restored_and_no_other() {
        for (name, policy) in LossPolicy::NAMED {
            assert_eq!(policy_of(number_of(policy)), Ok(policy));
            assert_eq!(policy.to_string(), name);
        }
        assert!(policy_of(0).is_err() && policy_of(5).is_err());
    }
}
