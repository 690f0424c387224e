//! Reads YAML into the tree: one document, aliases and merge keys resolved, spelling kept.

use std::collections::BTreeMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};

use super::{At, Entry, Mistake, Node, Value, mistake};

/// How many nodes aliases may copy in one file, so that a few lines cannot fill the memory.
const COPIES_MAX: usize = 100_000;

/// The tree of `text`, or none if it is not YAML of one document.
pub(super) fn tree(text: &str, mistakes: &mut Vec<Mistake>) -> Option<Node> {
    let mut reader = Reader {
        parser: Parser::new_from_str_with_options(text, options()),
        anchors: BTreeMap::new(),
        copies: 0,
        mistakes: Vec::new(),
    };
    let root = reader.document();
    let found = reader.mistakes;
    match root {
        Ok(root) => {
            mistakes.extend(found);
            Some(root)
        }
        Err(Stopped(at, message)) => {
            mistakes.extend(found);
            mistakes.push(mistake(at, "", message));
            None
        }
    }
}

fn options() -> granit_parser::Options {
    granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
    }
}

/// Why the rest of a file cannot be read.
struct Stopped(At, String);

struct Reader<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    /// What an anchor names; none while the node is being read.
    anchors: BTreeMap<usize, Option<Node>>,
    copies: usize,
    mistakes: Vec<Mistake>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Stopped> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let marker = error.marker();
                let at = place(marker);
                let words = error.kind().to_string();
                Err(Stopped(at, format!("not YAML: {words}")))
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The only document of the file.
    fn document(&mut self) -> Result<Node, Stopped> {
        loop {
            match self.next()? {
                (Event::DocumentStart(..), _) => break,
                (Event::StreamEnd, _) => {
                    let message = "empty; expected a map of clusters and streams";
                    let at = At { line: 1, column: 1 };
                    return Err(Stopped(at, message.to_owned()));
                }
                _ => {}
            }
        }
        let (event, span) = self.next()?;
        let root = self.node(event, span)?;
        loop {
            match self.next()? {
                (Event::DocumentStart(..), second) => {
                    let message = "second document; expected one document in a file";
                    return Err(Stopped(start(second), message.to_owned()));
                }
                (Event::StreamEnd, _) => return Ok(root),
                _ => {}
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Stopped> {
        let at = start(span);
        if let Some(tag) = event.tag() {
            self.check_tag(tag, span);
        }
        let anchor = event.anchor_id();
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, None);
        }
        let value = match event {
            Event::Scalar(text, style, _, tag) => scalar(&text, style, tag.as_deref(), span),
            Event::SequenceStart(..) => self.list()?,
            Event::MappingStart(..) => self.map()?,
            Event::Alias(named) => self.copy(named, at),
            Event::UnresolvedAlias(_) => {
                // Not the name: an unquoted password can begin with an asterisk.
                let message =
                    "alias of an anchor that is not before it; expected quotes if it is a text";
                self.mistakes.push(mistake(at, "", message.to_owned()));
                Value::Broken
            }
            // The parser gives a node wherever one is due.
            _ => return Err(Stopped(at, "not YAML: expected a value".to_owned())),
        };
        let node = Node { at, value };
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, Some(node.clone()));
        }
        Ok(node)
    }

    fn list(&mut self) -> Result<Value, Stopped> {
        let mut nodes = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(nodes)),
                (event, span) => nodes.push(self.node(event, span)?),
            }
        }
    }

    fn map(&mut self) -> Result<Value, Stopped> {
        let mut entries = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let merge = matches!(&event, Event::Scalar(key, ScalarStyle::Plain, ..) if key == "<<");
            let key = self.node(event, span)?;
            let (value, value_span) = self.next()?;
            let node = self.node(value, value_span)?;
            match key.value {
                _ if merge => merged.push(node),
                Value::Broken => {}
                Value::Scalar(text) => entries.push(Entry {
                    at: key.at,
                    key: text,
                    node,
                }),
                other => {
                    let message = format!("key is {}; expected a name", other.kind());
                    self.mistakes.push(mistake(key.at, "", message));
                }
            }
        }
        for node in merged {
            self.merge(&mut entries, node);
        }
        Ok(Value::map(entries))
    }

    /// Adds the entries of the map, or list of maps, under a merge key; what stands earlier wins.
    fn merge(&mut self, entries: &mut Vec<Entry>, node: Node) {
        let maps = match node.value {
            Value::List(nodes) => nodes,
            _ => vec![node],
        };
        for Node { at, value } in maps {
            let Value::Map { entries: added, .. } = value else {
                if matches!(value, Value::Broken) {
                    continue;
                }
                let kind = value.kind();
                let message = format!("merge key has {kind}; expected a map or a list of maps");
                self.mistakes.push(mistake(at, "<<", message));
                continue;
            };
            for entry in added {
                if entries.iter().all(|present| present.key != entry.key) {
                    entries.push(entry);
                }
            }
        }
    }

    fn copy(&mut self, anchor: usize, at: At) -> Value {
        let message = match self.anchors.get(&anchor) {
            Some(Some(node)) => {
                self.copies = self.copies.saturating_add(size(node));
                if self.copies <= COPIES_MAX {
                    return node.value.clone();
                }
                format!("alias makes the file too large; expected at most {COPIES_MAX} copies")
            }
            _ => {
                "alias stands inside what it names; expected it after the anchored value".to_owned()
            }
        };
        self.mistakes.push(mistake(at, "", message));
        Value::Broken
    }

    fn check_tag(&mut self, tag: &Tag, span: Span) {
        if tag.is_custom() {
            let at = place(&span.tag_start().unwrap_or(span.start));
            // Not the tag: an unquoted password can begin with an exclamation mark.
            let message = "unknown tag; expected none, or quotes if it is a text";
            self.mistakes.push(mistake(at, "", message.to_owned()));
        }
    }
}

/// A plain scalar is nothing where YAML's core schema says `null`; all others keep their text.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Value {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
    let absent = span.start == span.end;
    let null = absent || matches!(text, "" | "~" | "null" | "Null" | "NULL");
    if style == ScalarStyle::Plain && null && !is_text {
        Value::Nothing
    } else if absent && style == ScalarStyle::Plain {
        Value::Scalar(String::new())
    } else {
        Value::Scalar(text.to_owned())
    }
}

fn start(span: Span) -> At {
    place(&span.start)
}

fn place(marker: &Marker) -> At {
    At {
        line: marker.line(),
        column: marker.col() + 1,
    }
}

/// How many nodes hang together below `node`.
fn size(node: &Node) -> usize {
    1 + match &node.value {
        Value::Broken | Value::Nothing | Value::Scalar(_) => 0,
        Value::List(nodes) => nodes.iter().map(size).sum(),
        Value::Map { entries, .. } => entries.iter().map(|entry| size(&entry.node)).sum(),
    }
}
