//! Assignors by the names that a configuration uses.

use super::{Assignor, LoadAware, RackAware, Static, StickyBalanced};
use crate::split::Split;

/// The names that [`by_name`] knows; the first is the default.
pub const NAMES: [&str; 4] = ["sticky-balanced", "load-aware", "rack-aware", "static"];

/// No assignor has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "assignor {name:?}: not known; expected one of {}, perhaps {nearest}",
    NAMES.join(", ")
)]
#[non_exhaustive]
pub struct UnknownAssignor {
    /// The name.
    pub name: String,
    /// The known name that is most like it.
    pub nearest: &'static str,
}

/// The assignor of this name, with its default options.
///
/// # Errors
///
/// If there is none.
///
/// # Examples
///
/// ```
/// # use timely_splits::assignor::{self, Assignor};
/// # fn of<S: timely_splits::split::Split>() -> Result<(), assignor::UnknownAssignor> {
/// let assignor: Box<dyn Assignor<S>> = assignor::by_name("load-aware")?;
/// # Ok(())
/// # }
/// ```
pub fn by_name<S: Split>(name: &str) -> Result<Box<dyn Assignor<S>>, UnknownAssignor> {
    Ok(match name {
        "sticky-balanced" => Box::new(StickyBalanced),
        "load-aware" => Box::new(LoadAware::default()),
        "rack-aware" => Box::new(RackAware::default()),
        "static" => Box::new(Static),
        _ => {
            let nearest = NAMES.into_iter().min_by_key(|known| edits(name, known));
            return Err(UnknownAssignor {
                name: name.to_owned(),
                nearest: nearest.unwrap_or(NAMES[0]),
            });
        }
    })
}

/// How many letters have to be put in, taken out or replaced to get from one text to the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (column, candidate) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *candidate);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::letters::Letter;

    #[test]
    fn every_name_has_an_assignor_and_another_one_names_them_all() {
        for name in NAMES {
            assert!(by_name::<Letter>(name).is_ok(), "{name}");
        }

        let unknown = by_name::<Letter>("Loadaware").err().unwrap();

        assert_eq!(unknown.nearest, "load-aware");
        assert_eq!(
            unknown.to_string(),
            "assignor \"Loadaware\": not known; expected one of sticky-balanced, load-aware, \
             rack-aware, static, perhaps load-aware"
        );
    }

    #[test]
    fn edits_are_counted_in_letters() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("größe", "grosse"), 3);
        assert_eq!(edits("same", "same"), 0);
    }
}
