//! The format of metadata files: one tree in three notations.
//!
//! A reader driven by serde stops at the first mistake, loses where a value stood, and turns `0123`
//! or `no` into what nobody wrote. So each notation is first read into the same [tree](Node) with
//! positions and the spelling of scalars, and [one walk](walk::metadata) over it finds every mistake
//! and makes the metadata.

mod json;
mod losses;
mod removal;
mod starts;
mod stops;
mod toml;
mod walk;
mod yaml;

use std::path::Path;

use super::Mistake;
use crate::model::StreamsMetadata;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// YAML 1.2.
    Yaml,
    /// JSON, strictly.
    Json,
    /// TOML 1.1.
    Toml,
}

impl Notation {
    /// The notation that the name of the file at `path` says.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }
}

/// Reads metadata.
///
/// # Errors
///
/// All mistakes, in the order of the file. Text that does not follow its notation is reported alone:
/// what it would mean is unknown.
pub(super) fn read(notation: Notation, bytes: &[u8]) -> Result<StreamsMetadata, Vec<Mistake>> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let at = Lines::of(&valid).at(valid.len());
        vec![mistake(at, "", "not UTF-8; expected text".to_owned())]
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut mistakes = Vec::new();
    let root = match notation {
        Notation::Yaml => yaml::tree(text, &mut mistakes),
        Notation::Json => json::tree(text, &mut mistakes),
        Notation::Toml => toml::tree(text, &mut mistakes),
    };
    let metadata = root.map(|root| walk::metadata(&root, &mut mistakes));
    match metadata {
        Some(metadata) if mistakes.is_empty() => Ok(metadata),
        _ => {
            // Those of one place stay in the order in which they were found.
            mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
            mistakes.dedup();
            Err(mistakes)
        }
    }
}

/// A place in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct At {
    /// The line, from one.
    line: usize,
    /// The column in characters, from one.
    column: usize,
}

/// A value and where it begins.
#[derive(Clone, Debug)]
struct Node {
    at: At,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    /// What cannot be read, and was reported.
    Broken,
    /// Nothing: `null`, or no value after a key.
    Nothing,
    /// A text, number or boolean, spelled as in the file.
    Scalar(String),
    /// A list.
    List(Vec<Node>),
    /// A map, with the entries in the order of the file, also of keys that occur twice.
    Map {
        entries: Vec<Entry>,
        /// The notation splits keys at dots, so that nested maps spell a key with dots.
        dotted: bool,
    },
}

impl Value {
    fn map(entries: Vec<Entry>) -> Self {
        let dotted = false;
        Self::Map { entries, dotted }
    }

    fn is_map(&self) -> bool {
        matches!(self, Self::Map { .. })
    }

    /// What it is, in words for a message.
    fn kind(&self) -> &'static str {
        match self {
            Self::Broken => "what cannot be read",
            Self::Nothing => "nothing",
            Self::Scalar(_) => "a single value",
            Self::List(_) => "a list",
            Self::Map { .. } => "a map",
        }
    }
}

/// One key of a map.
#[derive(Clone, Debug)]
struct Entry {
    at: At,
    key: String,
    node: Node,
}

fn mistake(at: At, field: &str, message: String) -> Mistake {
    Mistake {
        line: at.line,
        column: at.column,
        field: field.to_owned(),
        message,
        nearest: None,
    }
}

/// Where the lines of a text begin, to tell a place from an offset in bytes.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(breaks).collect();
        Self { text, starts }
    }

    /// The place of the byte at `offset`, which begins a character or ends the text.
    fn at(&self, offset: usize) -> At {
        let line = self.starts.partition_point(|start| *start <= offset);
        let before = self.text.get(self.starts[line - 1]..offset);
        At {
            line,
            column: before.map_or(1, |before| before.chars().count() + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOTATIONS: [Notation; 3] = [Notation::Yaml, Notation::Json, Notation::Toml];

    const SAMPLES: [&str; 3] = [
        "clusters: &a {e: {properties: {bootstrap.servers: \"ä:1\"}}}\nstreams:\n  <<: *a\n",
        r#"{"clusters": {"e": {"properties": {"bootstrap.servers": "ä:1"}}}, // c
            "streams": {"s": {"e": {"topics": ["ö", 0.1, true,]}}}}"#,
        "[clusters.e]\nproperties.bootstrap.servers = 'ä:1'\n[[streams]]\n[clusters.e]\nä = 1",
    ];

    proptest! {
        /// Each sample, cut and with something put in its place, as each notation.
        #[test]
        fn nothing_that_is_written_ends_the_reader(
            sample in 0..SAMPLES.len(),
            from in 0_usize..150,
            length in 0_usize..20,
            inserted in "[-{}\\[\\]:,#'\"<*&!|>=.$ \n\tä0-9a-c\0]{0,6}",
        ) {
            let characters: Vec<char> = SAMPLES[sample].chars().collect();
            let from = from.min(characters.len());
            let to = (from + length).min(characters.len());
            let before = characters[..from].iter();
            let text: String = before.copied().chain(inserted.chars())
                .chain(characters[to..].iter().copied())
                .collect();
            for notation in NOTATIONS {
                let mistakes = read(notation, text.as_bytes()).err().unwrap_or_default();
                for mistake in mistakes {
                    prop_assert!(mistake.line > 0 && mistake.column > 0);
                }
            }
        }
    }

    #[test]
    fn deep_nesting_is_a_mistake_and_not_the_end_of_the_stack() {
        for notation in NOTATIONS {
            for opening in ["[", "{\"a\":", "{a=", "- "] {
                let text = format!("a = {}", opening.repeat(100_000));
                assert!(read(notation, text.as_bytes()).is_err());
                assert!(read(notation, &text.as_bytes()[4..]).is_err());
            }
        }
    }

    #[test]
    fn a_place_counts_characters_and_not_bytes() {
        let lines = Lines::of("a\näö\r\nb");

        assert_eq!(lines.at(0), At { line: 1, column: 1 });
        assert_eq!(lines.at(4), At { line: 2, column: 2 });
        assert_eq!(lines.at(9), At { line: 3, column: 2 });
    }

    #[test]
    fn the_end_of_the_name_is_the_notation() {
        assert_eq!(Notation::of(Path::new("a/b.yml")), Some(Notation::Yaml));
        assert_eq!(Notation::of(Path::new("b.json")), Some(Notation::Json));
        assert_eq!(Notation::of(Path::new("b.toml")), Some(Notation::Toml));
        assert_eq!(Notation::of(Path::new("yaml")), None);
    }
}
