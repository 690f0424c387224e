//! Names of streams, clusters and topics.

use std::borrow::Borrow;
use std::fmt::{self, Display};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a text cannot be a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text is empty.
    #[error("{kind} name is empty; expected at least one character")]
    Empty {
        /// What was to be named.
        kind: &'static str,
    },
    /// The text is longer than Kafka allows.
    #[error("{kind} '{name}' has {length} characters; expected at most {most}")]
    TooLong {
        /// What was to be named.
        kind: &'static str,
        /// The text.
        name: String,
        /// Its length in characters.
        length: usize,
        /// The greatest length allowed.
        most: usize,
    },
    /// The text has a character that is not allowed.
    #[error(
        "{kind} '{name}' has the character '{character}'; expected letters, digits, '.', '_' or '-'"
    )]
    Character {
        /// What was to be named.
        kind: &'static str,
        /// The text.
        name: String,
        /// The first character that is not allowed.
        character: char,
    },
    /// The text has a NUL character, which cannot be handed to librdkafka.
    #[error("{kind} name has a NUL character; expected text without it")]
    Nul {
        /// What was to be named.
        kind: &'static str,
    },
    /// The text is one of the two names that Kafka keeps for itself.
    #[error("{kind} '{name}' is not allowed by Kafka; expected a name other than '.' and '..'")]
    Dots {
        /// What was to be named.
        kind: &'static str,
        /// The text.
        name: String,
    },
}

/// The name of a consumer group.
///
/// Kafka takes any text but an empty one; librdkafka takes none with a NUL character.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupId(Arc<str>);

impl GroupId {
    /// A name, if `name` can be one.
    ///
    /// # Errors
    ///
    /// If `name` is empty or has a NUL character.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let kind = "group";
        if name.is_empty() {
            return Err(NameError::Empty { kind });
        }
        if name.contains('\0') {
            return Err(NameError::Nul { kind });
        }
        Ok(Self(Arc::from(name)))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for GroupId {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(&name)
    }
}

impl From<GroupId> for String {
    fn from(name: GroupId) -> Self {
        Self::from(&*name.0)
    }
}

impl Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The longest topic name, in characters: Kafka's own limit (`Topic.MAX_NAME_LENGTH`).
const LENGTH_MAX: usize = 249;

/// Kafka's rule for topic names (`org.apache.kafka.common.internals.Topic`), used for all names so
/// that a name can stand in a metric, a file name or a line of a log as it is.
fn check(kind: &'static str, name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { kind });
    }
    if name == "." || name == ".." {
        return Err(NameError::Dots {
            kind,
            name: name.to_owned(),
        });
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(character) = name.chars().find(|c| !allowed(*c)) {
        return Err(NameError::Character {
            kind,
            name: name.to_owned(),
            character,
        });
    }
    if name.len() > LENGTH_MAX {
        return Err(NameError::TooLong {
            kind,
            name: name.to_owned(),
            length: name.len(),
            most: LENGTH_MAX,
        });
    }
    Ok(())
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Letters, digits, `.`, `_` and `-`, at most 249 of them, and neither `.` nor `..`.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// A name, if `name` can be one.
            ///
            /// # Errors
            ///
            /// If `name` is empty, too long, or has a character that Kafka does not allow.
            pub fn new(name: &str) -> Result<Self, NameError> {
                check($kind, name)?;
                Ok(Self(Arc::from(name)))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                Self::new(&name)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = NameError;

            fn try_from(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                Self::from(&*name.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// The name of a Kafka stream: a named set of topics over one or more clusters.
    StreamId = "stream";
    /// The name of a cluster, given by the metadata. Kafka's own id of it is a
    /// [`KafkaClusterId`](super::KafkaClusterId).
    ClusterId = "cluster";
    /// The name of a topic.
    TopicName = "topic";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_name_that_kafka_does_not_allow_is_refused_with_the_reason() {
        let refused = |name: &str| TopicName::new(name).unwrap_err().to_string();

        assert_eq!(
            refused("orders/eu"),
            "topic 'orders/eu' has the character '/'; expected letters, digits, '.', '_' or '-'"
        );
        assert_eq!(
            refused(""),
            "topic name is empty; expected at least one character"
        );
        assert_eq!(
            refused(".."),
            "topic '..' is not allowed by Kafka; expected a name other than '.' and '..'"
        );
        assert!(refused(&"x".repeat(250)).contains("has 250 characters; expected at most 249"));
        assert!(TopicName::new(&"x".repeat(249)).is_ok());
    }
}
