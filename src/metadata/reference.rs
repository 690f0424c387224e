//! References to secrets inside the value of a client property.

use std::path::PathBuf;

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The text itself.
    Text(String),
    /// The value of an environment variable.
    Env(String),
    /// The content of a file.
    File(PathBuf),
}

/// Why a reference cannot be read.
///
/// # Invariants
///
/// Holds nothing of the value but the place: what looks like a broken reference can be a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReferenceError {
    /// There is no `}`.
    #[error(
        "reference at character {character} has no closing '}}'; write '$${{' for the text '${{'"
    )]
    Open {
        /// Where the reference begins, in characters from one.
        character: usize,
    },
    /// What is inside the braces is neither a variable nor a file.
    #[error(
        "reference at character {character} is not one; expected '${{NAME}}' for an environment \
         variable, '${{file:/path}}' for a file, or '$${{' for the text '${{'"
    )]
    Unknown {
        /// Where the reference begins, in characters from one.
        character: usize,
    },
}

/// Splits `value` at its references.
pub(super) fn parts(value: &str) -> Result<Vec<Part>, ReferenceError> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            text.push_str(before);
            text.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        let character = value[..value.len() - rest.len() + at].chars().count() + 1;
        text.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let end = inside.find('}').ok_or(ReferenceError::Open { character })?;
        let part = reference(&inside[..end]).ok_or(ReferenceError::Unknown { character })?;
        if !text.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut text)));
        }
        parts.push(part);
        rest = &inside[end + 1..];
    }
    text.push_str(rest);
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

/// What the text between the braces refers to.
fn reference(inside: &str) -> Option<Part> {
    if let Some(path) = inside.strip_prefix("file:") {
        return path.starts_with('/').then(|| Part::File(path.into()));
    }
    let mut characters = inside.chars();
    let first = characters.next()?;
    let named = (first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    named.then(|| Part::Env(inside.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    #[test]
    fn references_are_told_from_text_and_escapes() {
        let env = Part::Env("B".to_owned());

        assert_eq!(parts("a${B}c"), Ok(vec![text("a"), env.clone(), text("c")]));
        assert_eq!(parts("${file:/x y}"), Ok(vec![Part::File("/x y".into())]));
        assert_eq!(parts("$${B}$ $$ }"), Ok(vec![text("${B}$ $$ }")]));
        assert_eq!(parts("${B}${B}"), Ok(vec![env.clone(), env]));
        assert_eq!(parts(""), Ok(vec![]));
    }

    #[test]
    fn a_malformed_reference_is_told_by_its_place_alone() {
        assert_eq!(parts("ä${B"), Err(ReferenceError::Open { character: 2 }));
        for value in ["${}", "${1}", "${a-b}", "${file:x}", "${vault:/x}"] {
            assert_eq!(parts(value), Err(ReferenceError::Unknown { character: 1 }));
        }
    }
}
