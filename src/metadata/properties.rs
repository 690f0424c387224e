//! The names of the client properties that librdkafka has.
//!
//! librdkafka refuses an unknown property only when a client is made, one at a time and without a
//! hint, and accepts without a word those that would undo what the source relies on. So the names
//! are known here, in `properties.txt`, and a test compares them with the librdkafka that is linked.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::error::DidYouMean;
use super::nearest::nearest;
use crate::model::ClientProperties;

/// All properties, after librdkafka's documentation.
const LIST: &str = include_str!("properties.txt");

/// Properties that the source sets itself, and why another value would break it.
const REFUSED: [(&str, &str); 14] = [
    ("auto.commit.enable", COMMITS),
    (
        "auto.offset.reset",
        "positions come from the source's log and the starting rule of the stream",
    ),
    ("consume.callback.max.messages", LOOP),
    ("enable.auto.commit", COMMITS),
    ("enable.auto.offset.store", COMMITS),
    ("enable.partition.eof", LOOP),
    ("enabled_events", LOOP),
    ("log.queue", LOOP),
    (
        "metadata.broker.list",
        "it is another name of bootstrap.servers; write that one",
    ),
    ("offset.store.method", COMMITS),
    ("offset.store.path", COMMITS),
    ("offset.store.sync.interval.ms", COMMITS),
    ("opaque", LOOP),
    (
        "statistics.interval.ms",
        "the source asks for the statistics that it needs",
    ),
];

const COMMITS: &str =
    "positions are kept in the source's own log, and nothing is committed to Kafka";
const LOOP: &str = "it belongs to how the source drives its clients";

/// Why a client property cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("client property '{name}': {message}{}", DidYouMean(self.nearest.as_deref()))]
pub struct PropertyMistake {
    /// The property.
    pub name: String,
    /// What is wrong with it and what was expected.
    pub message: String,
    /// The most similar name that could have been meant.
    pub nearest: Option<String>,
}

impl PropertyMistake {
    /// The first property, by name, that cannot be set.
    pub(crate) fn first_of(properties: &ClientProperties) -> Option<Self> {
        properties.iter().find_map(|(name, _)| {
            let (message, nearest) = match check(name) {
                PropertyCheck::Settable => return None,
                PropertyCheck::Refused(why) => (format!("cannot be set: {why}"), None),
                PropertyCheck::Unknown(nearest) => (UNKNOWN.to_owned(), nearest),
            };
            Some(Self {
                name: name.to_owned(),
                message,
                nearest: nearest.map(str::to_owned),
            })
        })
    }
}

/// What is said of a property that no client has.
pub(super) const UNKNOWN: &str = "unknown client property; expected one of librdkafka's";

/// What is known of the name of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PropertyCheck {
    /// A client has it and it can be set.
    Settable,
    /// A client has it, but it must not be set, because of the text.
    Refused(&'static str),
    /// No client has it; the one with the most similar name.
    Unknown(Option<&'static str>),
}

/// Looks up `name`.
pub(super) fn check(name: &str) -> PropertyCheck {
    static KNOWN: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
        LIST.lines()
            .filter(|line| !line.starts_with(['#', '[']))
            .filter_map(|line| line.split_once(' '))
            .map(|(scope, name)| (name, scope))
            .collect()
    });

    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return PropertyCheck::Refused(why);
    }
    match KNOWN.get(name) {
        Some(&"-") => PropertyCheck::Refused("it takes a function or an object, not a text"),
        Some(_) => PropertyCheck::Settable,
        None => {
            let settable = KNOWN.iter().filter(|(_, scope)| **scope != "-");
            PropertyCheck::Unknown(nearest(name, settable.map(|(known, _)| *known)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_settable_refused_or_unknown() {
        assert_eq!(check("bootstrap.servers"), PropertyCheck::Settable);
        assert_eq!(check("enable.auto.commit"), PropertyCheck::Refused(COMMITS));
        assert!(matches!(check("rebalance_cb"), PropertyCheck::Refused(_)));
        assert_eq!(
            check("fetch.min.byte"),
            PropertyCheck::Unknown(Some("fetch.min.bytes"))
        );
        assert_eq!(check("x"), PropertyCheck::Unknown(None));
    }

    #[test]
    fn what_can_be_shown_are_properties_that_there_are() {
        let showable = include_str!("../model/showable.txt").lines();
        for name in showable.filter(|line| !line.starts_with('#')) {
            assert!(
                !matches!(check(name), PropertyCheck::Unknown(_)),
                "{name} is none"
            );
        }
    }
}
