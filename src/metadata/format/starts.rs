//! Reads where reading starts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::removal::ON_REMOVAL;
use super::walk::{Walk, join, listed};
use super::{Entry, Node, Value};
use crate::model::loss::LOSSES;
use crate::model::rules::{ON_RETURN, STOP};
use crate::model::{GroupId, Offset, OnReturn, Partition, StartAt, StartRules, StopAt, TopicName};

/// The fields of a place that say where reading starts there.
pub(super) const RULES: [&str; 4] = ["start", "new_partitions", "new_topics", "new_clusters"];

/// The fields of which a rule that is a map has one.
const KINDS: [&str; 5] = ["time_ms", "before_now", "before_end", "group", "positions"];

/// All fields of a rule that is a map.
const FIELDS: [&str; 6] = [
    KINDS[0],
    KINDS[1],
    KINDS[2],
    KINDS[3],
    KINDS[4],
    "otherwise",
];

/// How a time before the present is written.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// What a topic says about its reading.
#[derive(Default)]
pub(super) struct TopicRules {
    pub(super) starts: StartRules,
    pub(super) stop: Option<StopAt>,
}

/// A rule that is a map.
pub(super) struct RuleMap<'n> {
    /// The field that says which rule it is.
    pub(super) kind: &'n Entry,
    /// The rule that takes over from it.
    pub(super) otherwise: Option<&'n Entry>,
}

/// Whether `entry` of a stream is a rule, and not a cluster of that name: a cluster has topics.
pub(super) fn is_rule(entry: &Entry) -> bool {
    let has_topics = match &entry.node.value {
        Value::Map { entries, .. } => entries.iter().any(|field| field.key == "topics"),
        _ => false,
    };
    let names = RULES
        .iter()
        .chain(&LOSSES)
        .chain([&STOP, &ON_RETURN, &ON_REMOVAL]);
    names.into_iter().any(|name| *name == entry.key) && !has_topics
}

impl Walk<'_> {
    /// The rules among `fields`.
    pub(super) fn starts(&mut self, fields: &[&Entry], field: &str) -> StartRules {
        let [start, new_partitions, new_topics, new_clusters] = RULES.map(|name| {
            let entry = fields.iter().find(|entry| entry.key == name)?;
            self.start(entry, &join(field, name))
        });
        StartRules {
            start,
            new_partitions,
            new_topics,
            new_clusters,
        }
    }

    /// What becomes of topics that come back, if `fields` say it.
    pub(super) fn on_return(&mut self, fields: &[&Entry], field: &str) -> Option<OnReturn> {
        let entry = fields.iter().find(|entry| entry.key == ON_RETURN)?;
        let all = [OnReturn::Resume, OnReturn::ReadAgain];
        let names = all.map(|one| one.to_string());
        let words = [0, 1].map(|one: usize| (names[one].as_str(), all[one]));
        self.choice(entry, &join(field, ON_RETURN), words, "")
    }

    /// A topic that says where reading it starts or stops.
    pub(super) fn topic(&mut self, node: &Node, field: &str) -> Option<(TopicName, TopicRules)> {
        let known = ["name", RULES[0], RULES[1], RULES[2], RULES[3], STOP];
        let fields = self.fields(node, node.at, field, known)?;
        let [name] = self.required(node, &fields, node.at, field, ["name"]);
        let starts = self.starts(&fields, field);
        let stop = self.stop(&fields, field);
        let name = name?;
        let field = join(field, "name");
        let text = self.scalar(name, &field, "the name of a topic")?;
        let name = self.name(name.node.at, &field, TopicName::new(text))?;
        Some((name, TopicRules { starts, stop }))
    }

    /// A rule.
    fn start(&mut self, entry: &Entry, field: &str) -> Option<StartAt> {
        if !entry.node.value.is_map() {
            let words = [("earliest", StartAt::Earliest), ("latest", StartAt::Latest)];
            let remark = format!(", or a map with one of {}", listed(KINDS, "and"));
            return self.choice(entry, field, words, &remark);
        }
        let rule = self.rule_map(entry, field, KINDS, FIELDS)?;
        let otherwise = rule.otherwise.and_then(|otherwise| {
            let otherwise = self.start(otherwise, &join(field, "otherwise"));
            otherwise.map(Box::new)
        });
        self.rule(rule.kind, &join(field, &rule.kind.key), otherwise)
    }

    /// A rule that is a map, with one of `kinds` and no other field than `known`.
    ///
    /// What `otherwise` lacks or has too much is reported, and what it says is for the caller.
    pub(super) fn rule_map<'n, const K: usize, const F: usize>(
        &mut self,
        entry: &'n Entry,
        field: &str,
        kinds: [&str; K],
        known: [&str; F],
    ) -> Option<RuleMap<'n>> {
        let fields = self.fields(&entry.node, entry.at, field, known)?;
        let find = |name: &str| fields.iter().find(|found| found.key == name).copied();
        let named: Vec<_> = kinds.into_iter().filter_map(find).collect();
        let &[kind] = named.as_slice() else {
            // A field that was misspelled was reported, and is not missing too.
            if let Value::Map { entries, .. } = &entry.node.value
                && entries.len() == fields.len()
            {
                let found = match named.len() {
                    0 => "none",
                    _ => "several",
                };
                let message = format!("has {found} of {}; expected one", listed(kinds, "and"));
                self.report(entry.at, field, message);
            }
            return None;
        };
        let leaves = matches!(kind.key.as_str(), "group" | "positions");
        let mut otherwise = find("otherwise");
        match (otherwise, leaves) {
            (Some(superfluous), false) => {
                let message = format!(
                    "cannot be set: '{}' has an answer for each partition",
                    kind.key
                );
                self.report(superfluous.at, &join(field, "otherwise"), message);
                otherwise = None;
            }
            (None, true) => {
                let message = format!(
                    "'otherwise' is missing; expected the rule of partitions for which '{}' says \
                     nothing",
                    kind.key
                );
                self.report(entry.at, field, message);
            }
            (Some(_), true) | (None, false) => {}
        }
        Some(RuleMap { kind, otherwise })
    }

    /// The rule of which `kind` is the field that says which it is.
    fn rule(
        &mut self,
        kind: &Entry,
        field: &str,
        otherwise: Option<Box<StartAt>>,
    ) -> Option<StartAt> {
        match kind.key.as_str() {
            "time_ms" => {
                let record_time_ms = self.record_time(kind, field)?;
                Some(StartAt::Time { record_time_ms })
            }
            "before_now" => self.duration(kind, field).map(StartAt::BeforeNow),
            "before_end" => {
                let records = self.number(kind, field, "a number of records")?;
                Some(StartAt::BeforeEnd { records })
            }
            "group" => {
                let text = self.scalar(kind, field, "the name of a consumer group")?;
                let group = self.name(kind.node.at, field, GroupId::new(text))?;
                let otherwise = otherwise?;
                Some(StartAt::Committed { group, otherwise })
            }
            _ => {
                let offsets = self.offsets(kind, field)?;
                let otherwise = otherwise?;
                Some(StartAt::Positions { offsets, otherwise })
            }
        }
    }

    pub(super) fn record_time(&mut self, entry: &Entry, field: &str) -> Option<u64> {
        self.number(entry, field, "milliseconds since the epoch")
    }

    /// A map of partitions, each with an offset.
    pub(super) fn offsets(
        &mut self,
        entry: &Entry,
        field: &str,
    ) -> Option<BTreeMap<Partition, Offset>> {
        let expected = "a map of partitions, each with an offset";
        let entries = self.named(entry, field, expected)?;
        let mut offsets = BTreeMap::new();
        for given in entries {
            let field = join(field, &given.key);
            let partition = given.key.parse().ok().filter(|partition| *partition >= 0);
            let offset = self.number(given, &field, "an offset");
            let Some(partition) = partition else {
                let message = "no number of a partition; expected a whole number from 0";
                self.report(given.at, &field, message);
                continue;
            };
            if let Some(offset) = offset
                && offsets
                    .insert(Partition(partition), Offset::new(offset))
                    .is_some()
            {
                self.report(
                    given.at,
                    &field,
                    "partition is named twice; expected it once",
                );
            }
        }
        Some(offsets)
    }

    /// A whole number that Kafka has 63 bits for.
    fn number(&mut self, entry: &Entry, field: &str, expected: &str) -> Option<u64> {
        let expected = format!("{expected}, a whole number from 0 to {}", i64::MAX);
        let text = self.scalar(entry, field, &expected)?;
        let number = text.parse::<i64>().ok().and_then(|n| u64::try_from(n).ok());
        if number.is_none() {
            let message = format!("unknown value '{text}'; expected {expected}");
            self.report(entry.node.at, field, message);
        }
        number
    }

    /// A time like `15m`.
    fn duration(&mut self, entry: &Entry, field: &str) -> Option<Duration> {
        let units = listed(UNITS.map(|(unit, _)| unit), "or");
        let expected = format!("a whole number and one of {units}, like '15m'");
        let text = self.scalar(entry, field, &expected)?;
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = UNITS
            .iter()
            .find(|(unit, _)| *unit == &text[digits.len()..]);
        let millis = unit.and_then(|(_, millis)| digits.parse::<u64>().ok()?.checked_mul(*millis));
        if millis.is_none() {
            let message = format!("unknown value '{text}'; expected {expected}");
            self.report(entry.node.at, field, message);
        }
        millis.map(Duration::from_millis)
    }
}
