//! Makes metadata of the tree, and reports every mistake in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use super::starts::{RULES, TopicRules, is_rule};
use super::{At, Entry, Mistake, Node, Value, mistake};
use crate::metadata::nearest::nearest;
use crate::metadata::properties::{PropertyCheck, UNKNOWN, check};
use crate::metadata::reference::{Part, parts};
use crate::model::rules::STOP;
use crate::model::words::some_of;
use crate::model::{
    ClusterId, ClusterMetadata, KafkaStream, NameError, StreamId, StreamTopics, StreamsMetadata,
    TopicName,
};

/// The property without which no cluster can be reached.
const SERVERS: &str = "bootstrap.servers";

/// The metadata that `root` describes. It is good only if no mistake was added.
pub(super) fn metadata(root: &Node, mistakes: &mut Vec<Mistake>) -> StreamsMetadata {
    let mut walk = Walk { mistakes };
    let mut metadata = StreamsMetadata::default();
    let known = ["clusters", "streams"];
    let Some(fields) = walk.fields(root, root.at, "", known) else {
        return metadata;
    };
    let [clusters, streams] = walk.required(root, &fields, root.at, "", known);
    let clusters =
        clusters.and_then(|clusters| walk.named(clusters, "clusters", "a map of clusters"));
    // Without a map of clusters, streams that name them are not what is wrong.
    let mut described = clusters.is_some().then(BTreeSet::new);
    if let Some(clusters) = clusters {
        for entry in clusters {
            let field = join("clusters", &entry.key);
            described.get_or_insert_default().insert(entry.key.as_str());
            let cluster = walk.cluster(entry, &field);
            if let Some(id) = walk.name(entry.at, &field, ClusterId::new(&entry.key)) {
                metadata.clusters.insert(id, cluster);
            }
        }
    }
    if let Some(streams) = streams {
        let streams = walk.named(streams, "streams", "a map of streams");
        for entry in streams.unwrap_or_default() {
            let field = join("streams", &entry.key);
            let stream = walk.stream(entry, &field, described.as_ref());
            if let Some(id) = walk.name(entry.at, &field, StreamId::new(&entry.key)) {
                metadata.streams.insert(id, stream);
            }
        }
    }
    metadata
}

pub(super) struct Walk<'a> {
    mistakes: &'a mut Vec<Mistake>,
}

impl Walk<'_> {
    pub(super) fn report(&mut self, at: At, field: &str, message: impl Into<String>) {
        self.mistakes.push(mistake(at, field, message.into()));
    }

    fn report_nearest(&mut self, at: At, field: &str, message: String, nearest: Option<&str>) {
        self.mistakes.push(Mistake {
            nearest: nearest.map(str::to_owned),
            ..mistake(at, field, message)
        });
    }

    /// A value, or a report of why it is none.
    pub(super) fn name<T>(&mut self, at: At, field: &str, name: Result<T, NameError>) -> Option<T> {
        name.map_err(|error| self.report(at, field, error.to_string()))
            .ok()
    }

    /// The entries of the map at `entry`, each key once.
    pub(super) fn named<'n>(
        &mut self,
        entry: &'n Entry,
        field: &str,
        expected: &str,
    ) -> Option<Vec<&'n Entry>> {
        self.entries(&entry.node, entry.at, field, expected)
    }

    /// The entries of the map `node`, each key once. What is missing is reported at `at`.
    fn entries<'n>(
        &mut self,
        node: &'n Node,
        at: At,
        field: &str,
        expected: &str,
    ) -> Option<Vec<&'n Entry>> {
        let Value::Map { entries, .. } = &node.value else {
            let at = match node.value {
                Value::Broken => return None,
                Value::Nothing => at,
                _ => node.at,
            };
            let found = node.value.kind();
            self.report(at, field, format!("found {found}; expected {expected}"));
            return None;
        };
        let mut first: BTreeMap<&str, At> = BTreeMap::new();
        let mut once = Vec::new();
        for entry in entries {
            if let Some(before) = first.get(entry.key.as_str()) {
                let message = format!(
                    "named twice, first in line {}; expected each name once",
                    before.line
                );
                self.report(entry.at, &join(field, &entry.key), message);
            } else {
                first.insert(&entry.key, entry.at);
                once.push(entry);
            }
        }
        Some(once)
    }

    /// The entries of the map `node`, of which all keys are `known`.
    pub(super) fn fields<'n, const N: usize>(
        &mut self,
        node: &'n Node,
        at: At,
        field: &str,
        known: [&str; N],
    ) -> Option<Vec<&'n Entry>> {
        let expected = format!("a map with {}", listed(known, "and"));
        let mut entries = self.entries(node, at, field, &expected)?;
        entries.retain(|entry| {
            let name = entry.key.as_str();
            let ok = known.contains(&name);
            if !ok {
                let message = format!("unknown field; expected {}", listed(known, "or"));
                let path = join(field, name);
                self.report_nearest(entry.at, &path, message, slip(name, known));
            }
            ok
        });
        Some(entries)
    }

    /// The entries of `node`, of which `fields` are known, for `names`, each of which must be there.
    pub(super) fn required<'n, const N: usize>(
        &mut self,
        node: &Node,
        fields: &[&'n Entry],
        at: At,
        field: &str,
        names: [&str; N],
    ) -> [Option<&'n Entry>; N] {
        names.map(|name| {
            let entry = fields.iter().find(|entry| entry.key == name).copied();
            // One slip is one mistake: the misspelled name was reported.
            let misspelled = match &node.value {
                Value::Map { entries, .. } => entries
                    .iter()
                    .any(|other| nearest(&other.key, names) == Some(name)),
                _ => false,
            };
            if entry.is_none() && !misspelled {
                self.report(at, field, format!("'{name}' is missing; expected it here"));
            }
            entry
        })
    }

    fn cluster(&mut self, entry: &Entry, field: &str) -> ClusterMetadata {
        let mut cluster = ClusterMetadata::default();
        let Some(fields) = self.fields(&entry.node, entry.at, field, ["properties"]) else {
            return cluster;
        };
        let [properties] = self.required(&entry.node, &fields, entry.at, field, ["properties"]);
        let Some(properties) = properties else {
            return cluster;
        };
        let field = join(field, "properties");
        let expected = "a map of client properties";
        let Some(entries) = self.named(properties, &field, expected) else {
            return cluster;
        };
        let mut spelled = Vec::new();
        for property in entries {
            spell(property, "", &mut spelled);
        }
        let mut seen = BTreeSet::new();
        for (name, property) in &spelled {
            if !seen.insert(name) {
                let message = "named twice; expected each name once";
                self.report(property.at, &join(&field, name), message);
            }
            if let Some(value) = self.property(name, property, &join(&field, name)) {
                cluster.properties.set(name, value);
            }
        }
        if !spelled.iter().any(|(name, _)| name == SERVERS) {
            let message = format!("'{SERVERS}' is missing; expected the addresses of brokers");
            self.report(properties.at, &field, message);
        }
        cluster
    }

    /// The value of the client property `name`. No message holds the value: it can be a secret.
    fn property<'n>(&mut self, name: &str, entry: &'n Entry, field: &str) -> Option<&'n str> {
        match check(name) {
            PropertyCheck::Settable => {}
            PropertyCheck::Refused(why) => {
                self.report(entry.at, field, format!("cannot be set: {why}"));
                return None;
            }
            PropertyCheck::Unknown(nearest) => {
                self.report_nearest(entry.at, field, UNKNOWN.to_owned(), nearest);
                return None;
            }
        }
        let value = self.scalar(entry, field, "a text, number or boolean")?;
        let at = entry.node.at;
        if value.contains('\0') {
            self.report(at, field, "has a NUL character; expected text without it");
        }
        match parts(value) {
            Err(error) => self.report(at, field, error.to_string()),
            Ok(parts) if name == SERVERS && !parts.iter().any(|p| !matches!(p, Part::Text(_))) => {
                for message in servers(value) {
                    self.report(at, field, message);
                }
            }
            Ok(_) => {}
        }
        Some(value)
    }

    pub(super) fn scalar<'n>(
        &mut self,
        entry: &'n Entry,
        field: &str,
        expected: &str,
    ) -> Option<&'n str> {
        match &entry.node.value {
            Value::Scalar(text) => Some(text),
            Value::Broken => None,
            other => {
                let found = other.kind();
                let message = format!("found {found}; expected {expected}");
                self.report(entry.at, field, message);
                None
            }
        }
    }

    fn stream(
        &mut self,
        entry: &Entry,
        field: &str,
        described: Option<&BTreeSet<&str>>,
    ) -> KafkaStream {
        let mut stream = KafkaStream::default();
        let expected = "a map of clusters, each with its topics";
        let entries = self.named(entry, field, expected).unwrap_or_default();
        let (rules, clusters): (Vec<_>, Vec<_>) = entries.into_iter().partition(|one| is_rule(one));
        stream.on_return = self.on_return(&rules, field);
        stream.on_removal = self.on_removal(&rules, field);
        stream.starts = self.starts(&rules, field);
        stream.stop = self.stop(&rules, field);
        stream.losses = self.losses(&rules, field);
        for read in clusters {
            let field = join(field, &read.key);
            let topics = self.topics(read, &field);
            if let Some(described) = described.filter(|all| !all.contains(read.key.as_str())) {
                self.undescribed(read, &field, described);
            } else if let Ok(id) = ClusterId::new(&read.key) {
                // A name that cannot be one was reported where the cluster is described.
                stream.clusters.insert(id, topics);
            }
        }
        stream
    }

    fn undescribed(&mut self, read: &Entry, field: &str, described: &BTreeSet<&str>) {
        let expected = match described.len() {
            0 => "'clusters' describes none".to_owned(),
            1 => format!("expected {}", some_of(described)),
            _ => format!("expected one of {}", some_of(described)),
        };
        let message = format!("cluster '{}' is not described; {expected}", read.key);
        let nearest = slip(&read.key, described.iter().copied());
        self.report_nearest(read.at, field, message, nearest);
    }

    fn topics(&mut self, entry: &Entry, field: &str) -> StreamTopics {
        let mut read = StreamTopics::default();
        let known = ["topics", RULES[0], RULES[1], RULES[2], RULES[3], STOP];
        let Some(fields) = self.fields(&entry.node, entry.at, field, known) else {
            return read;
        };
        let [topics] = self.required(&entry.node, &fields, entry.at, field, ["topics"]);
        if let Some(topics) = topics {
            let named = self.topic_names(topics, &join(field, "topics"));
            for (topic, TopicRules { starts, stop }) in named {
                if !starts.is_silent() {
                    read.topic_starts.insert(topic.clone(), starts);
                }
                if let Some(stop) = stop {
                    read.topic_stops.insert(topic.clone(), stop);
                }
                read.topics.insert(topic);
            }
        }
        read.starts = self.starts(&fields, field);
        read.stop = self.stop(&fields, field);
        read
    }

    fn topic_names(&mut self, topics: &Entry, field: &str) -> BTreeMap<TopicName, TopicRules> {
        let mut names = BTreeMap::new();
        let nodes = match &topics.node.value {
            Value::List(nodes) => nodes.as_slice(),
            Value::Broken => return names,
            other => {
                let message = format!("found {}; expected a list of topics", other.kind());
                self.report(topics.at, field, message);
                return names;
            }
        };
        if nodes.is_empty() {
            self.report(topics.at, field, "empty; expected at least one topic");
        }
        for (index, node) in nodes.iter().enumerate() {
            let field = format!("{field}[{index}]");
            let topic = match &node.value {
                Value::Broken => continue,
                Value::Scalar(text) => {
                    let name = self.name(node.at, &field, TopicName::new(text));
                    name.map(|name| (name, TopicRules::default()))
                }
                Value::Map { .. } => self.topic(node, &field),
                other => {
                    let found = other.kind();
                    let message = format!("found {found}; expected the name of a topic");
                    self.report(node.at, &field, message);
                    continue;
                }
            };
            let Some((name, rules)) = topic else {
                continue;
            };
            let words = format!("topic '{name}' is named twice; expected each topic once");
            if names.insert(name, rules).is_some() {
                self.report(node.at, &field, words);
            }
        }
        names
    }

    /// The one of `words` that is written at `entry`.
    pub(super) fn choice<T, const N: usize>(
        &mut self,
        entry: &Entry,
        field: &str,
        words: [(&str, T); N],
        remark: &str,
    ) -> Option<T> {
        let names = words.each_ref().map(|(name, _)| *name);
        let expected = format!("{}{remark}", listed(names, "or"));
        let text = self.scalar(entry, field, &expected)?;
        let choice = words.into_iter().find(|(name, _)| *name == text);
        if choice.is_none() {
            let message = format!("unknown value '{text}'; expected {expected}");
            self.report_nearest(entry.node.at, field, message, slip(text, names));
        }
        choice.map(|(_, choice)| choice)
    }
}

/// Collects the properties below `entry`: TOML makes nested maps of names with dots.
fn spell<'n>(entry: &'n Entry, prefix: &str, spelled: &mut Vec<(String, &'n Entry)>) {
    let name = format!("{prefix}{}", entry.key);
    match &entry.node.value {
        Value::Map {
            entries,
            dotted: true,
        } if !entries.is_empty() => {
            let longer = format!("{name}.");
            for below in entries {
                spell(below, &longer, spelled);
            }
        }
        _ => spelled.push((name, entry)),
    }
}

/// What is wrong with a list of brokers.
fn servers(value: &str) -> Vec<String> {
    let expected = "expected 'host:port' with a port from 1 to 65535";
    value
        .split(',')
        .map(str::trim)
        .filter_map(|address| {
            if address.is_empty() {
                return Some(format!("address is empty; {expected}"));
            }
            let address = address.split_once("://").map_or(address, |(_, rest)| rest);
            let port = match address.strip_prefix('[') {
                Some(rest) => match rest.split_once(']') {
                    Some((_, port)) => port.strip_prefix(':').unwrap_or(port),
                    None => return Some(format!("address '{address}' has no ']'; {expected}")),
                },
                None => match address.split_once(':') {
                    // An IPv6 address without brackets has no port.
                    Some((_, rest)) if rest.contains(':') => "",
                    Some((_, "")) => {
                        return Some(format!("address '{address}' has no port; {expected}"));
                    }
                    Some((_, port)) => port,
                    None => "",
                },
            };
            let has_port = !port.is_empty();
            let good = port.parse::<u16>().is_ok_and(|port| port > 0);
            (has_port && !good)
                .then(|| format!("address '{address}' has the port '{port}'; {expected}"))
        })
        .collect()
}

/// The one of `known` that `name` is a slip of. One that is all there is was named as expected.
fn slip<'a, I>(name: &str, known: I) -> Option<&'a str>
where
    I: IntoIterator<Item = &'a str, IntoIter: ExactSizeIterator>,
{
    let known = known.into_iter();
    if known.len() > 1 {
        nearest(name, known)
    } else {
        None
    }
}

/// The path of the field `name` in the one at `path`.
pub(super) fn join(path: &str, name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let name = if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("{name:?}")
    };
    if path.is_empty() {
        name
    } else {
        format!("{path}.{name}")
    }
}

/// `'a', 'b' and 'c'`.
pub(super) fn listed<T: Display, const N: usize>(names: [T; N], last: &str) -> String {
    let mut words = String::new();
    for (index, name) in names.iter().enumerate() {
        match index {
            0 => {}
            _ if index + 1 == N => {
                words.push(' ');
                words.push_str(last);
                words.push(' ');
            }
            _ => words.push_str(", "),
        }
        words.push_str(&format!("'{name}'"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_librdkafka_reads_them_are_good() {
        for good in [
            "a",
            "a:1, b:65535",
            "SSL://a:1",
            "::1",
            "[::1]",
            "[::1]:9092",
        ] {
            assert_eq!(servers(good), Vec::<String>::new(), "{good}");
        }
        for bad in [
            "", "a:", "a:0", "a:65536", "a:-1", "a:1,,b:1", "[::1", "[::1]:x",
        ] {
            assert_eq!(servers(bad).len(), 1, "{bad}");
        }
    }
}
