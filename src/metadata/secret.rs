//! Turns references to secrets into the secrets, at the time a client is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::mask::{Mask, words};
use super::reference::{Part, ReferenceError, parts};
use crate::model::{ClientProperties, is_secret};

/// The most that is read of a file with a secret: certificates are some kilobytes.
const BYTES_MAX: u64 = 1 << 20;

/// Why a reference could not be resolved.
///
/// # Invariants
///
/// Names the property and what is referred to, never a value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SecretError {
    /// The reference cannot be read.
    #[error("property {property}: value cannot be read")]
    Reference {
        /// The property.
        property: String,
        /// What is wrong.
        #[source]
        source: ReferenceError,
    },
    /// The environment variable is not set, or is no text.
    #[error("property {property}: environment variable {variable} {why}")]
    Variable {
        /// The property.
        property: String,
        /// The variable.
        variable: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The file cannot be read.
    #[error("property {property}: reading file {path} failed")]
    File {
        /// The property.
        property: String,
        /// The file.
        path: String,
        /// What the operating system says.
        #[source]
        source: io::Error,
    },
    /// The value has a NUL, which a client property cannot hold.
    #[error("property {property}: the value has a NUL character; expected text without it")]
    Nul {
        /// The property.
        property: String,
    },
}

/// Properties with their secrets, for making a client.
///
/// # Invariants
///
/// `Debug` shows names alone.
#[derive(Clone)]
pub(crate) struct ResolvedProperties {
    values: BTreeMap<String, String>,
    /// The properties that refer to something.
    referring: BTreeSet<String>,
    mask: Mask,
}

/// Whether a client made of one would be as one made of the other.
impl PartialEq for ResolvedProperties {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Eq for ResolvedProperties {}

impl ResolvedProperties {
    /// All properties by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether the value of the property `name` came by reference, in whole or in part, so that it
    /// can change while the metadata stays.
    pub(crate) fn refers(&self, name: &str) -> bool {
        self.referring.contains(name)
    }

    /// Hides what came by reference and what can be a secret.
    pub(crate) fn mask(&self) -> &Mask {
        &self.mask
    }
}

impl fmt::Debug for ResolvedProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// Resolves every reference of `properties`.
///
/// # Errors
///
/// At the first reference, by the name of the property, that cannot be resolved.
pub(crate) fn resolve(properties: &ClientProperties) -> Result<ResolvedProperties, SecretError> {
    resolve_with(properties, |name| std::env::var(name))
}

fn resolve_with(
    properties: &ClientProperties,
    variable: impl Fn(&str) -> Result<String, std::env::VarError>,
) -> Result<ResolvedProperties, SecretError> {
    let mut resolved = ResolvedProperties {
        values: BTreeMap::new(),
        referring: BTreeSet::new(),
        mask: Mask::default(),
    };
    for (name, value) in properties.iter() {
        let (text, referred) = resolve_value(name, value, &variable)?;
        let has_secret = is_secret(name);
        if has_secret || !referred.is_empty() {
            let whole = has_secret.then_some(text.as_str());
            let lines = whole.into_iter().flat_map(str::lines);
            // librdkafka reads these as lists, and repeats a part of one.
            let is_list = !has_secret || name.starts_with("sasl.oauthbearer.");
            let listed = referred.iter().map(String::as_str).chain(whole);
            let listed = listed.filter(|_| is_list).flat_map(words);
            let referred = referred.iter().map(String::as_str);
            let secrets = referred.chain(whole).chain(lines).chain(listed);
            resolved.mask.add(name, secrets);
        }
        if !referred.is_empty() {
            resolved.referring.insert(name.to_owned());
        }
        resolved.values.insert(name.to_owned(), text);
    }
    Ok(resolved)
}

/// What the value of one property stands for, and what of it came by reference.
fn resolve_value(
    name: &str,
    value: &str,
    variable: impl Fn(&str) -> Result<String, std::env::VarError>,
) -> Result<(String, Vec<String>), SecretError> {
    let property = || name.to_owned();
    let references = parts(value).map_err(|source| SecretError::Reference {
        property: property(),
        source,
    })?;
    let (mut text, mut referred) = (String::new(), Vec::new());
    for part in references {
        let found = match part {
            Part::Text(part) => {
                text.push_str(&part);
                continue;
            }
            Part::Env(key) => variable(&key).map_err(|error| {
                let why = match error {
                    std::env::VarError::NotPresent => "is not set",
                    std::env::VarError::NotUnicode(_) => "is not UTF-8",
                };
                SecretError::Variable {
                    property: property(),
                    variable: key,
                    why,
                }
            })?,
            Part::File(path) => content(&path).map_err(|source| SecretError::File {
                property: property(),
                path: path.display().to_string(),
                source,
            })?,
        };
        text.push_str(&found);
        referred.push(found);
    }
    if text.contains('\0') {
        return Err(SecretError::Nul {
            property: property(),
        });
    }
    Ok((text, referred))
}

/// The content of a file without the line break at its end, which editors put there.
fn content(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?
        .take(BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read > BYTES_MAX) {
        let words = format!("larger than {BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::env::VarError;

    use super::*;

    fn variable(name: &str) -> Result<String, VarError> {
        (name == "KEY")
            .then(|| "hunter2".to_owned())
            .ok_or(VarError::NotPresent)
    }

    #[test]
    fn a_variable_and_a_file_stand_for_their_content_without_the_last_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "top\nsecret\r\n").unwrap();
        let properties = ClientProperties::new()
            .with("client.id", "$${KEY}")
            .with("sasl.password", "<${KEY}>")
            .with("ssl.key.pem", &format!("${{file:{}}}", path.display()));

        let resolved = resolve_with(&properties, variable).unwrap();

        assert_eq!(
            resolved.iter().collect::<Vec<_>>(),
            [
                ("client.id", "${KEY}"),
                ("sasl.password", "<hunter2>"),
                ("ssl.key.pem", "top\nsecret"),
            ]
        );
        assert_eq!(
            format!("{resolved:?}"),
            r#"{"client.id", "sasl.password", "ssl.key.pem"}"#
        );
    }

    #[test]
    fn what_cannot_be_resolved_is_named_without_any_value() {
        let refused = |value: &str| {
            let properties = ClientProperties::new()
                .with("client.id", "${KEY}")
                .with("sasl.password", value);
            resolve_with(&properties, variable).unwrap_err().to_string()
        };

        assert_eq!(
            refused("a${LOCK}"),
            "property sasl.password: environment variable LOCK is not set"
        );
        assert_eq!(
            refused("${file:/nowhere/at/all}"),
            "property sasl.password: reading file /nowhere/at/all failed"
        );
        assert_eq!(
            refused("a${"),
            "property sasl.password: value cannot be read"
        );
        assert_eq!(
            refused("a\0b"),
            "property sasl.password: the value has a NUL character; expected text without it"
        );
    }

    #[test]
    fn the_environment_of_the_process_is_asked() {
        let properties = ClientProperties::new().with("client.id", "${PATH}");

        let resolved = resolve(&properties).unwrap();

        let expected = std::env::var("PATH").unwrap();
        assert_eq!(
            resolved.iter().next(),
            Some(("client.id", expected.as_str()))
        );
    }

    #[test]
    fn what_came_by_reference_and_what_can_be_a_secret_is_hidden() {
        let properties = ClientProperties::new()
            .with("client.id", "<${KEY}>")
            .with("client.rack", "attic")
            .with("sasl.oauthbearer.config", "principal=admin swordfish")
            .with("sasl.password", "the cat sat");

        let resolved = resolve_with(&properties, variable).unwrap();

        let text = "<hunter2>, attic, beginning at: swordfish, admin, the cat sat on the cat";
        assert_eq!(
            resolved.mask().hide(text),
            "<***>, attic, beginning at: ***, ***, *** on the cat"
        );
        assert!(resolved.refers("client.id"));
        assert!(!resolved.refers("sasl.password"));
        assert!(resolved.mask().covers("sasl.password"));
        assert!(!resolved.mask().covers("client.rack"));
    }
}
