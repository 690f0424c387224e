//! What messages to a person have in common.

use std::fmt::Display;

/// The most names that a message lists.
const NAMES_MAX: usize = 10;

/// Names for a person, in quotes: all of them, or the first ones and how many more there are.
pub(crate) fn some_of<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter();
    let shown = names.by_ref().take(NAMES_MAX);
    let shown: Vec<_> = shown.map(|name| format!("'{name}'")).collect();
    let shown = shown.join(", ");
    match names.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `text` with every number as `#`: what repeats differs in ports and durations.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if !character.is_ascii_digit() {
            plain.push(character);
        } else if !plain.ends_with('#') {
            plain.push('#');
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_tenth_are_counted() {
        assert_eq!(some_of(["a", "b"]), "'a', 'b'");
        assert!(some_of(0..10).ends_with(", '9'"));
        assert!(some_of(0..12).ends_with(", '9' and 2 more"));
    }

    #[test]
    fn texts_that_differ_in_numbers_alone_are_the_same_without_them() {
        assert_eq!(
            without_numbers("127.0.0.1:9092: after 12 ms"),
            "#.#.#.#:#: after # ms"
        );
    }
}
