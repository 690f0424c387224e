//! The known name that a person may have meant.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// The one of `known` that is most similar to `name`, if any is similar enough to be a slip.
///
/// A slip is at most one edit for every three characters: more than that matches what nobody meant,
/// and a wrong hint is worse than none.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| {
            let edits = strsim::damerau_levenshtein(&written, &candidate.to_lowercase());
            (edits, candidate)
        })
        .filter(|(edits, candidate)| {
            let length = name.chars().count().max(candidate.chars().count());
            *edits <= length.div_ceil(3)
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// The key of `known` that is most similar to `name`, if any is similar enough to be a slip.
pub(crate) fn nearest_key<'a, K: Borrow<str> + Ord, V>(
    name: &str,
    known: &'a BTreeMap<K, V>,
) -> Option<&'a K> {
    let key = nearest(name, known.keys().map(Borrow::borrow))?;
    known.get_key_value(key).map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognized_and_another_word_is_not() {
        let known = ["topics", "start", "stop"];

        assert_eq!(nearest("topcis", known), Some("topics"));
        assert_eq!(nearest("Start", known), Some("start"));
        assert_eq!(nearest("partitions", known), None);
        assert_eq!(nearest("anything", []), None);
    }
}
