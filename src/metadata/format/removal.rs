//! Reads what becomes of what an answer removes.

use super::Entry;
use super::walk::{Walk, join};
use crate::model::OnRemoval;

/// The field of a stream that says it.
pub(super) const ON_REMOVAL: &str = "on_removal";

impl Walk<'_> {
    /// The rule among `fields`.
    pub(super) fn on_removal(&mut self, fields: &[&Entry], field: &str) -> Option<OnRemoval> {
        let entry = fields.iter().find(|entry| entry.key == ON_REMOVAL)?;
        let words = OnRemoval::ALL.map(|rule| (rule.name(), rule));
        self.choice(entry, &join(field, ON_REMOVAL), words, "")
    }
}
