//! Which of the streams that the metadata describes a source reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use regex::Regex;

use super::error::DidYouMean;
use super::nearest::nearest_key;
use crate::model::{NameError, StreamId, StreamsMetadata};

/// Which streams a source reads: some by name, or all whose name matches a pattern.
///
/// # Examples
///
/// ```
/// use timely_kafka::metadata::Subscription;
///
/// let two = Subscription::streams(["orders", "payments"]);
/// let many = Subscription::pattern("orders-.+");
/// assert!(two.validate().is_ok() && many.validate().is_ok());
///
/// assert!(Subscription::streams::<&str>([]).validate().is_err());
/// assert!(Subscription::pattern("orders-(").validate().is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Subscription(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Streams(BTreeSet<String>),
    Pattern(Result<Regex, SubscriptionError>),
}

/// Why a subscription can select nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// It names no stream.
    #[error("subscription is empty; expected at least one stream, or a pattern")]
    Empty,
    /// It names what no stream can be called.
    #[error("subscription: {source}")]
    Name {
        /// Why not.
        source: NameError,
    },
    /// The pattern is not a regular expression.
    #[error("subscription pattern '{pattern}' is no regular expression: {words}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong and where, in the words of the `regex` crate.
        words: String,
    },
}

impl Subscription {
    /// The streams of these names.
    ///
    /// A stream that is not described yet is waited for, and reported.
    #[must_use]
    pub fn streams<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self(Kind::Streams(names.into_iter().map(Into::into).collect()))
    }

    /// All streams whose whole name matches `pattern`, also those that are described later.
    ///
    /// `orders-.+` matches `orders-eu`, and neither `reorders-1` nor `orders-`. The syntax is that
    /// of the [`regex`](https://docs.rs/regex) crate.
    #[must_use]
    pub fn pattern(pattern: &str) -> Self {
        Self(Kind::Pattern(whole(pattern)))
    }

    /// All streams, also those that are described later.
    #[must_use]
    pub fn all() -> Self {
        Self::pattern(".*")
    }

    /// Whether it can select anything.
    ///
    /// # Errors
    ///
    /// If it names no stream, or what no stream can be called, or the pattern is no regular
    /// expression.
    pub fn validate(&self) -> Result<(), SubscriptionError> {
        match &self.0 {
            Kind::Streams(names) if names.is_empty() => Err(SubscriptionError::Empty),
            Kind::Streams(names) => names.iter().try_for_each(|name| {
                let id = StreamId::new(name);
                id.map(drop)
                    .map_err(|source| SubscriptionError::Name { source })
            }),
            Kind::Pattern(pattern) => pattern.as_ref().map(drop).map_err(Clone::clone),
        }
    }

    /// Whether all streams that it names are in `metadata`. A pattern names none.
    pub(crate) fn is_described_by(&self, metadata: &StreamsMetadata) -> bool {
        match &self.0 {
            Kind::Streams(names) => names
                .iter()
                .all(|name| metadata.streams.contains_key(name.as_str())),
            Kind::Pattern(_) => true,
        }
    }

    /// The part of `metadata` that is subscribed.
    pub(crate) fn select(&self, metadata: &StreamsMetadata) -> Selected {
        let mut unknown = Vec::new();
        let mut streams = BTreeMap::new();
        match &self.0 {
            Kind::Streams(names) => {
                for name in names {
                    if let Some((id, stream)) = metadata.streams.get_key_value(name.as_str()) {
                        streams.insert(id.clone(), stream.clone());
                    } else if let Ok(stream) = StreamId::new(name) {
                        let nearest = nearest_key(name, &metadata.streams).cloned();
                        unknown.push(UnknownStream { stream, nearest });
                    }
                }
            }
            Kind::Pattern(pattern) => {
                let matches = |id: &StreamId| {
                    let pattern = pattern.as_ref();
                    pattern.is_ok_and(|pattern| pattern.is_match(id.as_str()))
                };
                let matching = metadata.streams.iter().filter(|(id, _)| matches(id));
                streams.extend(matching.map(|(id, stream)| (id.clone(), stream.clone())));
            }
        }
        let named: BTreeSet<_> = streams
            .values()
            .flat_map(|stream| stream.clusters.keys())
            .collect();
        let clusters = metadata.clusters.iter();
        let clusters = clusters
            .filter(|(id, _)| named.contains(id))
            .map(|(id, cluster)| (id.clone(), cluster.clone()))
            .collect();
        Selected {
            metadata: StreamsMetadata { clusters, streams },
            unknown,
            known: metadata.streams.keys().cloned().collect(),
        }
    }
}

/// Compiles `pattern` so that it matches whole names alone.
fn whole(pattern: &str) -> Result<Regex, SubscriptionError> {
    let refused = |error: regex::Error| SubscriptionError::Pattern {
        pattern: pattern.to_owned(),
        words: error.to_string(),
    };
    // Alone first: an error then shows what was written, and `a)|(b` is not made good by brackets.
    Regex::new(pattern).map_err(refused)?;
    // In verbose mode a comment at the end would swallow the bracket, and a line break means nothing.
    Regex::new(&format!(r"\A(?:{pattern})\z"))
        .or_else(|_| Regex::new(&format!("\\A(?:{pattern}\n)\\z")))
        .map_err(refused)
}

/// What a subscription selects of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    /// The subscribed streams, and the clusters that they name.
    pub(crate) metadata: StreamsMetadata,
    /// Streams that are subscribed by name and not described.
    pub(crate) unknown: Vec<UnknownStream>,
    /// All streams that are described.
    pub(crate) known: Vec<StreamId>,
}

/// A stream that is subscribed by name and not described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownStream {
    /// The stream.
    pub(crate) stream: StreamId,
    /// The described stream with the most similar name.
    pub(crate) nearest: Option<StreamId>,
}

impl Display for UnknownStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = self.nearest.as_ref().map(StreamId::as_str);
        write!(
            f,
            "stream '{}' is not described by the metadata; expected one of its streams{}",
            self.stream,
            DidYouMean(nearest)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClientProperties, KafkaStream};

    fn metadata(streams: &[(&str, &str)]) -> StreamsMetadata {
        let mut metadata = StreamsMetadata::new();
        for (stream, cluster) in streams {
            let read = KafkaStream::new().with_topics(cluster, ["t"]).unwrap();
            metadata = metadata
                .with_cluster(cluster, ClientProperties::new())
                .and_then(|metadata| metadata.with_stream(stream, read))
                .unwrap();
        }
        metadata
    }

    fn selected(subscription: &Subscription, metadata: &StreamsMetadata) -> Vec<String> {
        let streams = subscription.select(metadata).metadata.streams;
        streams.keys().map(ToString::to_string).collect()
    }

    /// S8.
    #[test]
    fn a_pattern_matches_whole_names() {
        let all = metadata(&[("orders-1", "a"), ("orders-2", "a"), ("reorders-1", "a")]);

        let orders = Subscription::pattern("orders-.+");
        let either = Subscription::pattern("orders-1|reorders");
        let verbose = Subscription::pattern("(?x) orders-2 # the second");

        assert_eq!(selected(&orders, &all), ["orders-1", "orders-2"]);
        assert_eq!(selected(&either, &all), ["orders-1"]);
        assert_eq!(selected(&verbose, &all), ["orders-2"]);
        assert_eq!(selected(&Subscription::all(), &all).len(), 3);
    }

    #[test]
    fn only_the_clusters_of_the_subscribed_streams_are_selected() {
        let all = metadata(&[("orders", "a"), ("payments", "b")]);

        let selected = Subscription::streams(["payments"]).select(&all);

        assert_eq!(selected.metadata, metadata(&[("payments", "b")]));
        assert_eq!(selected.unknown, []);
        assert_eq!(selected.known.len(), 2);
    }

    #[test]
    fn an_unknown_stream_is_reported_with_the_nearest_name() {
        let all = metadata(&[("orders", "a"), ("payments", "b")]);

        let selected = Subscription::streams(["ordres", "orders", "x"]).select(&all);

        assert_eq!(selected.metadata, metadata(&[("orders", "a")]));
        let words: Vec<_> = selected.unknown.iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            [
                "stream 'ordres' is not described by the metadata; expected one of its streams; \
                 did you mean 'orders'?",
                "stream 'x' is not described by the metadata; expected one of its streams",
            ]
        );
    }

    #[test]
    fn what_can_select_nothing_is_refused_with_words() {
        let refused = |subscription: Subscription| subscription.validate().unwrap_err().to_string();

        assert_eq!(
            refused(Subscription::streams::<String>([])),
            "subscription is empty; expected at least one stream, or a pattern"
        );
        assert_eq!(
            refused(Subscription::streams(["a/b"])),
            "subscription: stream 'a/b' has the character '/'; expected letters, digits, '.', '_' or '-'"
        );
        assert_eq!(
            refused(Subscription::pattern("orders-(eu")),
            "subscription pattern 'orders-(eu' is no regular expression: regex parse error:\n    \
             orders-(eu\n           ^\nerror: unclosed group"
        );
        assert!(refused(Subscription::pattern("a)|(b")).contains("unopened group"));
    }
}
