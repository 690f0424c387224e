//! Reads JSON into the tree, strictly but for the purpose of saying so.
//!
//! Comments and commas before a closing bracket are what people add by habit: they are read over, so
//! that each of them is reported together with all other mistakes.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

use super::{At, Entry, Lines, Mistake, Node, Value, mistake};

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The tree of `text`, or none if it is not JSON.
pub(super) fn tree(text: &str, mistakes: &mut Vec<Mistake>) -> Option<Node> {
    let lines = Lines::of(text);
    let collect = CollectOptions {
        comments: CommentCollectionStrategy::AsTokens,
        tokens: true,
    };
    match parse_to_ast(text, &collect, &OPTIONS) {
        Ok(parsed) => {
            habits(&parsed.tokens.unwrap_or_default(), &lines, mistakes);
            let Some(root) = parsed.value else {
                let message = "empty; expected a map of clusters and streams";
                mistakes.push(mistake(lines.at(0), "", message.to_owned()));
                return None;
            };
            Some(node(root, &lines))
        }
        Err(error) => {
            let words = error.kind().to_string();
            let message = format!("not JSON: {}", lowercase(&words));
            mistakes.push(mistake(lines.at(error.range().start), "", message));
            None
        }
    }
}

/// Reports comments and commas before a closing bracket.
fn habits(tokens: &[TokenAndRange<'_>], lines: &Lines<'_>, mistakes: &mut Vec<Mistake>) {
    let mut comma: Option<At> = None;
    for token in tokens {
        let at = lines.at(token.range.start);
        match token.token {
            Token::CommentLine(_) | Token::CommentBlock(_) => {
                let message = "comment; expected none, since JSON has no comments";
                mistakes.push(mistake(at, "", message.to_owned()));
                continue;
            }
            Token::String(_) => {
                let written = &lines.text[token.range.start..token.range.end];
                if written.contains(|c: char| c < ' ') {
                    let message = "control character in a text; expected an escape as \\n or \\t";
                    mistakes.push(mistake(at, "", message.to_owned()));
                }
            }
            Token::CloseBrace | Token::CloseBracket => {
                if let Some(comma) = comma {
                    let message = "comma before a closing bracket; expected none";
                    mistakes.push(mistake(comma, "", message.to_owned()));
                }
            }
            _ => {}
        }
        comma = (token.token == Token::Comma).then_some(at);
    }
}

/// Words without the capital that begins a sentence.
fn lowercase(words: &str) -> String {
    let mut characters = words.chars();
    let first = characters.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

fn node(value: ast::Value<'_>, lines: &Lines<'_>) -> Node {
    let at = lines.at(value.range().start);
    let value = match value {
        ast::Value::NullKeyword(_) => Value::Nothing,
        ast::Value::StringLit(text) => Value::Scalar(text.value.into_owned()),
        ast::Value::NumberLit(number) => Value::Scalar(number.value.to_owned()),
        ast::Value::BooleanLit(boolean) => Value::Scalar(boolean.value.to_string()),
        ast::Value::Array(list) => {
            let nodes = list.elements.into_iter();
            Value::List(nodes.map(|element| node(element, lines)).collect())
        }
        ast::Value::Object(map) => Value::map(
            map.properties
                .into_iter()
                .map(|property| Entry {
                    at: lines.at(property.range.start),
                    key: property.name.into_string(),
                    node: node(property.value, lines),
                })
                .collect(),
        ),
    };
    Node { at, value }
}
