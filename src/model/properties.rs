//! Properties of a Kafka client.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// Properties of a Kafka client, by their librdkafka names.
///
/// A value can refer to a secret instead of holding it: `${NAME}` stands for an environment variable
/// and `${file:/path}` for the content of a file, without the line break at its end. References are
/// kept as they are, also when they are sent and stored, and resolved when a client is made.
///
/// # Invariants
///
/// `Debug` shows the values of no property that can hold a secret.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientProperties(BTreeMap<String, String>);

impl ClientProperties {
    /// No properties.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with `name` set to `value`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    /// Sets `name` to `value`.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// The value of `name`, with references unresolved.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All properties by name, with references unresolved.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These properties with those of `nearer` on top.
    #[must_use]
    pub fn overridden_by(&self, nearer: &Self) -> Self {
        let mut all = self.0.clone();
        all.extend(nearer.0.clone());
        Self(all)
    }
}

/// Whether the value of the property `name` can be shown and stored: it is none of a secret, or it is a
/// reference, which says where the secret is.
pub(crate) fn is_showable(name: &str, value: &str) -> bool {
    // A reference that is only a part of the value shows the rest of it.
    let reference = value.starts_with("${") && value.find('}') == Some(value.len() - 1);
    !is_secret(name) || reference
}

/// Whether the property `name` can hold a secret.
///
/// The list is of those that cannot: a property that is misspelt, or that a later librdkafka brings, is
/// not shown.
pub(crate) fn is_secret(name: &str) -> bool {
    static SHOWABLE: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
        let lines = include_str!("showable.txt").lines();
        lines.filter(|line| !line.starts_with('#')).collect()
    });
    !SHOWABLE.contains(name)
}

impl fmt::Debug for ClientProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |name: &str, value: &str| {
            if !is_showable(name, value) {
                "***".to_owned()
            } else {
                value.to_owned()
            }
        };
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name, shown(name, value))))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let properties = ClientProperties::new()
            .with("bootstrap.servers", "127.0.0.1:9092")
            .with("sasl.password", "hunter2")
            .with("sasl.oauthbearer.client.secret", "${PART}hunter2")
            .with("ssl.key.pem", "${KEY}");

        let shown = format!("{properties:?}");

        assert_eq!(
            shown,
            r#"{"bootstrap.servers": "127.0.0.1:9092", "sasl.oauthbearer.client.secret": "***", "sasl.password": "***", "ssl.key.pem": "${KEY}"}"#
        );
    }

    /// A list of what is secret had left these out.
    #[test]
    fn debug_shows_no_property_that_is_not_known_to_be_harmless() {
        for name in [
            "sasl.oauthbearer.extensions",
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.kerberos.kinit.cmd",
            "sasl.pasword",
        ] {
            let properties = ClientProperties::new().with(name, "hunter2");

            assert!(!format!("{properties:?}").contains("hunter2"), "{name}");
        }
    }
}
