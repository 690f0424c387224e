//! Reads where reading stops.

use super::Entry;
use super::walk::{Walk, join, listed};
use crate::model::rules::STOP;
use crate::model::{GroupId, StopAt};

/// The fields of which a rule that is a map has one.
const KINDS: [&str; 3] = ["time_ms", "group", "positions"];

/// All fields of a rule that is a map.
const FIELDS: [&str; 4] = [KINDS[0], KINDS[1], KINDS[2], "otherwise"];

impl Walk<'_> {
    /// The rule among `fields`.
    pub(super) fn stop(&mut self, fields: &[&Entry], field: &str) -> Option<StopAt> {
        let entry = fields.iter().find(|entry| entry.key == STOP)?;
        self.stop_rule(entry, &join(field, STOP))
    }

    /// A rule.
    fn stop_rule(&mut self, entry: &Entry, field: &str) -> Option<StopAt> {
        if !entry.node.value.is_map() {
            let words = [("never", StopAt::Never), ("end", StopAt::End)];
            let remark = format!(", or a map with one of {}", listed(KINDS, "and"));
            return self.choice(entry, field, words, &remark);
        }
        let rule = self.rule_map(entry, field, KINDS, FIELDS)?;
        let otherwise = rule.otherwise.and_then(|otherwise| {
            let otherwise = self.stop_rule(otherwise, &join(field, "otherwise"));
            otherwise.map(Box::new)
        });
        let (kind, field) = (rule.kind, &join(field, &rule.kind.key));
        match kind.key.as_str() {
            "time_ms" => {
                let record_time_ms = self.record_time(kind, field)?;
                Some(StopAt::Time { record_time_ms })
            }
            "group" => {
                let text = self.scalar(kind, field, "the name of a consumer group")?;
                let group = self.name(kind.node.at, field, GroupId::new(text))?;
                let otherwise = otherwise?;
                Some(StopAt::Committed { group, otherwise })
            }
            _ => {
                let offsets = self.offsets(kind, field)?;
                let otherwise = otherwise?;
                Some(StopAt::Positions { offsets, otherwise })
            }
        }
    }
}
