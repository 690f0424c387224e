//! Reads what is done about records that are no longer there.

use super::Entry;
use super::walk::{Walk, join};
use crate::model::LossRules;
use crate::model::loss::LOSSES;
use timely_splits::loss::LossPolicy;

impl Walk<'_> {
    /// The policies among `fields`.
    pub(super) fn losses(&mut self, fields: &[&Entry], field: &str) -> LossRules {
        let [lost_records, recreated_topic] = LOSSES.map(|name| {
            let entry = fields.iter().find(|entry| entry.key == name)?;
            self.choice(entry, &join(field, name), LossPolicy::NAMED, "")
        });
        LossRules {
            lost_records,
            recreated_topic,
        }
    }
}
