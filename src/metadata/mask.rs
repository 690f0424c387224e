//! What must not be seen of secrets in texts that others write.
//!
//! librdkafka repeats what it does not understand: a value that it refuses, or the rest of one from
//! where it stopped reading, cut to the size of its buffers. So it is not enough to look for values
//! as a whole.

use std::collections::BTreeSet;

/// What stands in the place of a secret.
const HIDDEN: &str = "***";

/// The fewest characters of a value that is looked for: a shorter one is in every text.
const CHARACTERS_MIN: usize = 3;

/// The fewest bytes of a piece of a value that is hidden wherever it is.
const PIECE: usize = 8;

/// How much of a value is looked for in pieces: more than librdkafka's buffers hold.
const PIECES_OF: usize = 16 * 1024;

/// Hides secrets in texts.
///
/// # Invariants
///
/// Shows no value in any way: it has no `Debug`, and neither has what holds one by derivation.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    /// The properties whose values are not to be shown.
    names: BTreeSet<String>,
    values: BTreeSet<String>,
    /// Every piece of the values, in order.
    pieces: Vec<[u8; PIECE]>,
}

impl Mask {
    /// Hides the value of the property `name`: `secrets` are what it has of them.
    pub(super) fn add<'a>(&mut self, name: &str, secrets: impl IntoIterator<Item = &'a str>) {
        self.names.insert(name.to_owned());
        for secret in secrets {
            let bytes = &secret.as_bytes()[..secret.len().min(PIECES_OF)];
            // A space before it is not the secret's.
            let pieces = bytes.windows(PIECE);
            let pieces = pieces.filter(|piece| !piece[0].is_ascii_whitespace());
            self.pieces
                .extend(pieces.filter_map(|piece| <[u8; PIECE]>::try_from(piece).ok()));
            if secret.trim().chars().count() >= CHARACTERS_MIN {
                let values = [secret, secret.trim()];
                self.values.extend(values.map(str::to_owned));
            }
        }
        self.pieces.sort_unstable();
        self.pieces.dedup();
    }

    /// Whether the value of the property `name` is hidden, however short it is.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// `text` without secrets.
    pub(crate) fn hide(&self, text: &str) -> String {
        if self.values.is_empty() {
            return text.to_owned();
        }
        let mut hidden = vec![false; text.len()];
        for value in &self.values {
            // Not only those that do not overlap: "aaa" is in "aaaa" twice.
            for (at, _) in text.char_indices() {
                if text[at..].starts_with(value.as_str()) {
                    hidden[at..at + value.len()].fill(true);
                }
            }
        }
        for (at, piece) in text.as_bytes().windows(PIECE).enumerate() {
            if self
                .pieces
                .binary_search_by(|known| known.as_slice().cmp(piece))
                .is_ok()
            {
                hidden[at..at + PIECE].fill(true);
            }
        }
        let mut shown = String::with_capacity(text.len());
        let mut was_hidden = false;
        for (at, character) in text.char_indices() {
            let is_hidden = hidden[at..at + character.len_utf8()].contains(&true);
            if !is_hidden {
                shown.push(character);
            } else if !was_hidden {
                shown.push_str(HIDDEN);
            }
            was_hidden = is_hidden;
        }
        shown
    }
}

/// The words of a value that is a list, and what is set in each.
pub(super) fn words(value: &str) -> impl Iterator<Item = &str> {
    value
        .split(|character: char| character.is_whitespace() || character == ',')
        .flat_map(|word| [Some(word), word.split_once('=').map(|(_, set)| set)])
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(secret: &str) -> Mask {
        let mut mask = Mask::default();
        mask.add("sasl.password", [secret]);
        mask
    }

    #[test]
    fn a_value_is_hidden_wherever_it_is() {
        assert_eq!(
            mask("hunter2").hide("'hunter2' and hunter2hunter2"),
            "'***' and ***"
        );
        assert_eq!(mask("zß水").hide("a zß水 b"), "a *** b");
        assert_eq!(mask("aaa").hide("aaaa"), "***");
        assert_eq!(mask("of").hide("a word of two"), "a word of two");
    }

    /// A buffer of librdkafka's had no room for all of it.
    #[test]
    fn a_piece_of_a_value_is_hidden() {
        let mask = mask("correct-horse-battery-staple");

        assert_eq!(mask.hide("refused: correct-horse-bat"), "refused: ***");
        assert_eq!(
            mask.hide("from: battery-staple, in vain"),
            "from: ***, in vain"
        );
        assert_eq!(mask.hide("the horse is fine"), "the horse is fine");
    }

    #[test]
    fn a_list_has_words_and_what_is_set_in_them() {
        let found: Vec<_> = words("principal=admin all,some").collect();

        assert_eq!(found, ["principal=admin", "admin", "all", "some"]);
    }
}
