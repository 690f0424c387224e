//! Reads TOML into the tree.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Entry, Lines, Mistake, Node, Value, mistake};

/// What the parser says of a key that occurs twice, the one complaint after which the rest of the
/// tree means what it says.
const TWICE: &str = "duplicate key";

/// The tree of `text`, or none if it is not TOML.
pub(super) fn tree(text: &str, mistakes: &mut Vec<Mistake>) -> Option<Node> {
    let lines = Lines::of(text);
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut readable = true;
    for error in errors {
        let span = error.span().unwrap_or_default();
        let at = lines.at(span.start);
        if error.message() == TWICE {
            let message = "named twice; expected each name once";
            mistakes.push(mistake(at, path(text, span), message.to_owned()));
        } else {
            readable = false;
            let message = format!("not TOML: {}", error.message());
            mistakes.push(mistake(at, "", message));
        }
    }
    readable.then(|| Node {
        at: lines.at(0),
        value: table(root.into_inner(), text, &lines),
    })
}

/// The whole path of the key at `span`, as far as it is written in its line.
fn path(text: &str, span: Range<usize>) -> &str {
    let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let end = match line.trim_start().starts_with('[') {
        true => line.find(']'),
        false => line.find('='),
    };
    match end {
        Some(end) if span.end <= start + end => line[..end].trim_matches(['[', ' ', '\t']),
        _ => &text[span],
    }
}

fn table(table: DeTable<'_>, text: &str, lines: &Lines<'_>) -> Value {
    let mut entries: Vec<_> = table
        .into_iter()
        .map(|(key, value)| {
            let at = lines.at(key.span().start);
            let key = key.into_inner().into_owned();
            let node = node(value, text, lines);
            Entry { at, key, node }
        })
        .collect();
    entries.sort_by_key(|entry| (entry.at.line, entry.at.column));
    Value::Map {
        entries,
        dotted: true,
    }
}

fn node(value: Spanned<DeValue<'_>>, text: &str, lines: &Lines<'_>) -> Node {
    let span = value.span();
    let at = lines.at(span.start);
    let value = match value.into_inner() {
        DeValue::String(string) => Value::Scalar(string.into_owned()),
        DeValue::Table(entries) => table(entries, text, lines),
        DeValue::Array(list) => {
            let nodes = list.into_iter();
            Value::List(nodes.map(|element| node(element, text, lines)).collect())
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            Value::Scalar(text.get(span).unwrap_or_default().to_owned())
        }
    };
    Node { at, value }
}
