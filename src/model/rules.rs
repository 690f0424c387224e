//! The rules that streams give for topics.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use timely_splits::loss::LossPolicy;

use super::{ClusterId, KafkaStream, OnReturn, StartAt, StopAt, StreamsMetadata, TopicName};

/// The name of the rule that says where reading stops.
pub(crate) const STOP: &str = "stop";

/// The name of the rule that says what becomes of topics that come back.
pub(crate) const ON_RETURN: &str = "on_return";

/// Rules of one topic that somebody gives, by their names in a metadata file.
pub(crate) type NamedRules = BTreeMap<&'static str, Rule>;

/// A rule of a topic, of whatever kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Start(StartAt),
    Stop(StopAt),
    Return(OnReturn),
    Loss(LossPolicy),
}

impl Rule {
    /// This rule and another one, which differs, in words that do.
    pub(crate) fn told_apart(&self, other: &Self) -> (String, String) {
        let (one, mut another) = (self.to_string(), other.to_string());
        if one == another {
            // Offsets are too many to be named.
            another.push_str(" (another one)");
        }
        (one, another)
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(rule) => rule.fmt(f),
            Self::Stop(rule) => rule.fmt(f),
            Self::Return(rule) => rule.fmt(f),
            Self::Loss(rule) => rule.fmt(f),
        }
    }
}

impl KafkaStream {
    /// All rules that it gives for a topic; `None` if it does not read the topic.
    pub(crate) fn rules_of(&self, cluster: &ClusterId, topic: &TopicName) -> Option<NamedRules> {
        let starts = self.starts_of(cluster, topic)?;
        let starts = starts.by_name().map(|(name, rule)| {
            let rule = rule.cloned();
            (name, rule.map(Rule::Start))
        });
        let stop = self.stop_of(cluster, topic).cloned();
        let others = [
            (STOP, stop.map(Rule::Stop)),
            (ON_RETURN, self.on_return.map(Rule::Return)),
        ];
        let losses = self.losses.by_name();
        let losses = losses.map(|(name, policy)| (name, policy.map(Rule::Loss)));
        let all = starts.into_iter().chain(others).chain(losses);
        Some(all.filter_map(|(name, rule)| Some((name, rule?))).collect())
    }
}

impl StreamsMetadata {
    /// All rules that are given for a topic. If several streams read it, each is that of the streams which
    /// give it; streams that contradict each other are refused before anything is read.
    pub(crate) fn rules_of(&self, cluster: &ClusterId, topic: &TopicName) -> NamedRules {
        let mut rules = NamedRules::new();
        for stream in self.streams.values() {
            for (name, rule) in stream.rules_of(cluster, topic).unwrap_or_default() {
                rules.entry(name).or_insert(rule);
            }
        }
        rules
    }
}
