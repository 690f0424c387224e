//! What one answer of a metadata service would change of another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use super::rules::Rule;
use super::{ClientProperties, ClusterId, StreamId, StreamsMetadata, TopicName};

/// What is different in one metadata and another, for whoever wants to see it before it is in force.
///
/// Properties are told by their names: a value can be a secret. Its [`Display`] has a line for each
/// change, or one that says that there is none.
///
/// # Examples
///
/// ```
/// use timely_kafka::model::{ClientProperties, KafkaStream, MetadataChange, StreamsMetadata};
///
/// let here = |port: &str| ClientProperties::new().with("bootstrap.servers", port);
/// let stream = |cluster: &str| KafkaStream::new().with_topics(cluster, ["orders"]);
/// let before = StreamsMetadata::new()
///     .with_cluster("east", here("127.0.0.1:1"))?
///     .with_cluster("west", here("127.0.0.1:2"))?
///     .with_stream("orders", stream("east")?)?;
/// let after = StreamsMetadata::new()
///     .with_cluster("west", here("127.0.0.1:3"))?
///     .with_stream("orders", stream("west")?)?;
///
/// assert_eq!(
///     MetadataChange::between(&before, &after).to_string(),
///     "- cluster east\n\
///      - stream orders: topic east/orders\n\
///      + stream orders: topic west/orders\n\
///      ~ cluster west: property bootstrap.servers"
/// );
/// # Ok::<(), timely_kafka::model::NameError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetadataChange {
    /// Streams that come and go.
    pub streams: Changed<StreamId>,
    /// Clusters that come and go.
    pub clusters: Changed<ClusterId>,
    /// Topics that streams read from here on, or no longer, each with its stream and cluster.
    pub topics: Changed<(StreamId, ClusterId, TopicName)>,
    /// The names of the properties of clusters that are there before and after and that are set, not
    /// set any more, or have another value.
    pub properties: BTreeMap<ClusterId, BTreeSet<String>>,
    /// Rules of topics that are read before and after.
    pub rules: Vec<RuleChange>,
    /// Topics that are removed and read to their end first.
    pub drained: BTreeSet<(ClusterId, TopicName)>,
    /// Topics that are added and read after that.
    pub waiting: BTreeSet<(ClusterId, TopicName)>,
}

/// What comes and what goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<T> {
    /// What is there after and not before.
    pub added: BTreeSet<T>,
    /// What is there before and not after.
    pub removed: BTreeSet<T>,
}

/// A rule of a topic that is another one after than before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct RuleChange {
    /// The cluster.
    pub cluster: ClusterId,
    /// The topic.
    pub topic: TopicName,
    /// The rule, as a metadata file calls it.
    pub rule: &'static str,
    /// What it was, in words; `None` if nobody gave it.
    pub before: Option<String>,
    /// What it is, in words; `None` if nobody gives it.
    pub after: Option<String>,
}

impl<T> Default for Changed<T> {
    fn default() -> Self {
        Self {
            added: BTreeSet::new(),
            removed: BTreeSet::new(),
        }
    }
}

impl<T: Clone + Ord> Changed<T> {
    fn between(before: &BTreeSet<T>, after: &BTreeSet<T>) -> Self {
        Self {
            added: after.difference(before).cloned().collect(),
            removed: before.difference(after).cloned().collect(),
        }
    }

    /// Whether nothing comes or goes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl MetadataChange {
    /// What changes when `after` takes the place of `before`.
    #[must_use]
    pub fn between(before: &StreamsMetadata, after: &StreamsMetadata) -> Self {
        let streams = |all: &StreamsMetadata| all.streams.keys().cloned().collect();
        let clusters = |all: &StreamsMetadata| all.clusters.keys().cloned().collect();
        let both = before.clusters.iter();
        let both = both.filter_map(|(id, here)| Some((id, here, after.clusters.get(id)?)));
        let properties = both.filter_map(|(id, here, there)| {
            let names = differing(&here.properties, &there.properties);
            (!names.is_empty()).then(|| (id.clone(), names))
        });
        let interim = before.with_leaving(after);
        let only = |one: &StreamsMetadata, other: &StreamsMetadata| {
            let (one, other) = (one.groups(), other.groups());
            one.difference(&other).cloned().collect()
        };
        let drained = interim.as_ref().map(|interim| only(interim, after));
        let waiting = interim.as_ref().map(|interim| only(after, interim));
        Self {
            drained: drained.unwrap_or_default(),
            waiting: waiting.unwrap_or_default(),
            streams: Changed::between(&streams(before), &streams(after)),
            clusters: Changed::between(&clusters(before), &clusters(after)),
            topics: Changed::between(&topics(before), &topics(after)),
            properties: properties.collect(),
            rules: rules(before, after),
        }
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn topics(all: &StreamsMetadata) -> BTreeSet<(StreamId, ClusterId, TopicName)> {
    let mut topics = BTreeSet::new();
    for (stream, described) in &all.streams {
        for (cluster, read) in &described.clusters {
            let read = read.topics.iter().cloned();
            topics.extend(read.map(|topic| (stream.clone(), cluster.clone(), topic)));
        }
    }
    topics
}

/// The names of properties that are not the same in both.
fn differing(before: &ClientProperties, after: &ClientProperties) -> BTreeSet<String> {
    let names = before.iter().chain(after.iter()).map(|(name, _)| name);
    names
        .filter(|name| before.value(name) != after.value(name))
        .map(str::to_owned)
        .collect()
}

fn rules(before: &StreamsMetadata, after: &StreamsMetadata) -> Vec<RuleChange> {
    let still = after.topics();
    let mut changes = Vec::new();
    for (cluster, topics) in before.topics() {
        let read = topics.into_iter();
        let kept = read.filter(|topic| still.get(cluster).is_some_and(|all| all.contains(topic)));
        for topic in kept {
            let was = before.rules_of(cluster, topic);
            let is = after.rules_of(cluster, topic);
            let names: BTreeSet<_> = was.keys().chain(is.keys()).copied().collect();
            for rule in names {
                let (there, here) = (was.get(rule), is.get(rule));
                if there == here {
                    continue;
                }
                let (there, here) = match (there, here) {
                    (Some(there), Some(here)) => {
                        let (there, here) = there.told_apart(here);
                        (Some(there), Some(here))
                    }
                    _ => (there.map(Rule::to_string), here.map(Rule::to_string)),
                };
                changes.push(RuleChange {
                    cluster: cluster.clone(),
                    topic: topic.clone(),
                    rule,
                    before: there,
                    after: here,
                });
            }
        }
    }
    changes
}

impl Display for RuleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |rule: &Option<String>| rule.clone().unwrap_or_else(|| "not given".to_owned());
        let (before, after) = (said(&self.before), said(&self.after));
        write!(f, "~ topic {}/{}: {} ", self.cluster, self.topic, self.rule)?;
        write!(f, "from {before} to {after}")
    }
}

impl Display for MetadataChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        for (sign, clusters, streams, topics) in [
            (
                '-',
                &self.clusters.removed,
                &self.streams.removed,
                &self.topics.removed,
            ),
            (
                '+',
                &self.clusters.added,
                &self.streams.added,
                &self.topics.added,
            ),
        ] {
            lines.extend(clusters.iter().map(|id| format!("{sign} cluster {id}")));
            lines.extend(streams.iter().map(|id| format!("{sign} stream {id}")));
            let topics = topics.iter();
            lines.extend(topics.map(|(stream, cluster, topic)| {
                let group = (cluster.clone(), topic.clone());
                let remark = match () {
                    () if self.drained.contains(&group) => ", which is read to its end first",
                    () if self.waiting.contains(&group) => ", after what is read to its end",
                    () => "",
                };
                format!("{sign} stream {stream}: topic {cluster}/{topic}{remark}")
            }));
        }
        for (cluster, names) in &self.properties {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            lines.push(format!(
                "~ cluster {cluster}: property {}",
                names.join(", ")
            ));
        }
        lines.extend(self.rules.iter().map(ToString::to_string));
        if lines.is_empty() {
            return f.write_str("nothing changes");
        }
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timely_splits::loss::LossPolicy;

    use crate::model::{KafkaStream, LossRules, OnRemoval, OnReturn, StartAt, StartRules, StopAt};

    fn metadata(password: &str, start: Option<StartAt>) -> StreamsMetadata {
        let east = ClientProperties::new()
            .with("bootstrap.servers", "127.0.0.1:1")
            .with("sasl.password", password);
        let mut stream = KafkaStream::new().with_topics("east", ["orders"]).unwrap();
        stream.starts.start = start;
        StreamsMetadata::new()
            .with_cluster("east", east)
            .and_then(|metadata| metadata.with_stream("orders", stream))
            .unwrap()
    }

    #[test]
    fn what_is_the_same_changes_nothing() {
        let change = MetadataChange::between(&metadata("a", None), &metadata("a", None));

        assert!(change.is_empty());
        assert_eq!(change.to_string(), "nothing changes");
    }

    #[test]
    fn what_is_drained_and_what_waits_for_that_are_told() {
        let of = |cluster: &str| {
            let stream = KafkaStream::new().with_topics(cluster, ["orders"]).unwrap();
            let stream = stream.with_removal(OnRemoval::DrainFirst);
            StreamsMetadata::new()
                .with_cluster(cluster, ClientProperties::new())
                .and_then(|metadata| metadata.with_stream("orders", stream))
                .unwrap()
        };

        let change = MetadataChange::between(&of("east"), &of("west"));

        assert_eq!(
            change.to_string(),
            "- cluster east\n\
             - stream orders: topic east/orders, which is read to its end first\n\
             + cluster west\n\
             + stream orders: topic west/orders, after what is read to its end"
        );
    }

    #[test]
    fn a_secret_that_changes_is_told_by_its_name() {
        let change = MetadataChange::between(&metadata("hunter2", None), &metadata("other3", None));

        assert_eq!(change.to_string(), "~ cluster east: property sasl.password");
        let whole = format!("{change:?}");
        assert!(
            !whole.contains("hunter2") && !whole.contains("other3"),
            "{whole}"
        );
    }

    #[test]
    fn a_rule_that_changes_is_told_for_each_topic_that_is_still_read() {
        let before = metadata("a", Some(StartAt::Latest));

        let change = MetadataChange::between(&before, &metadata("a", None));

        assert_eq!(
            change.to_string(),
            "~ topic east/orders: start from latest to not given"
        );
    }
    /// Only rules for starts were told: a topic that was to be read again, or whose losses were to be
    /// skipped, changed nothing.
    #[test]
    fn a_rule_of_every_kind_that_changes_is_told() {
        let read = || KafkaStream::new().with_topics("east", ["orders"]).unwrap();
        let all = read()
            .with_starts(StartRules {
                start: Some(StartAt::Latest),
                new_partitions: Some(StartAt::Latest),
                new_topics: Some(StartAt::Latest),
                new_clusters: Some(StartAt::Latest),
            })
            .with_stops(StopAt::End)
            .with_return(OnReturn::ReadAgain)
            .with_losses(LossRules {
                lost_records: Some(LossPolicy::Skip),
                recreated_topic: Some(LossPolicy::Wait),
            });
        let of = |stream| {
            StreamsMetadata::new()
                .with_stream("orders", stream)
                .unwrap()
        };

        let change = MetadataChange::between(&of(read()), &of(all));

        let told = change.rules.iter().map(|rule| {
            assert_eq!(rule.before, None);
            (rule.rule, rule.after.as_deref().unwrap())
        });
        let expected = [
            ("lost_records", "skip"),
            ("new_clusters", "latest"),
            ("new_partitions", "latest"),
            ("new_topics", "latest"),
            ("on_return", "read_again"),
            ("recreated_topic", "wait"),
            ("start", "latest"),
            ("stop", "the end"),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn rules_that_differ_in_their_offsets_alone_are_told_apart() {
        let given = |offset| {
            let start = StartAt::positions([(0, offset)], StartAt::Latest);
            metadata("a", Some(start))
        };

        assert_eq!(
            MetadataChange::between(&given(1), &given(2)).to_string(),
            "~ topic east/orders: start from the given offset, otherwise latest to the given offset, \
             otherwise latest (another one)"
        );
    }
}
