//! An assignor that may decide anything.

use std::cell::RefCell;

use timely_splits::assignor::{Assignor, Plan, ReaderProfile, Situation};
use timely_splits::split::Split;

thread_local! {
    static CHOICES: RefCell<Choices> = RefCell::default();
}

/// What was decided while a step was made, and out of how many possibilities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    /// Decisions to be made first; what comes after them decides for the first possibility.
    given: Vec<usize>,
    made: Vec<(usize, usize)>,
}

impl Choices {
    /// Has `given` be decided from here on.
    pub(crate) fn begin(given: &[usize]) {
        CHOICES.with_borrow_mut(|choices| {
            choices.given.clear();
            choices.given.extend_from_slice(given);
            choices.made.clear();
        });
    }

    /// The decisions that come after those that were made, if there are others.
    pub(crate) fn next() -> Option<Vec<usize>> {
        CHOICES.with_borrow(|choices| {
            let last = choices.made.iter().rposition(|(one, of)| one + 1 < *of)?;
            let mut next: Vec<_> = choices.made[..=last].iter().map(|(one, _)| *one).collect();
            next[last] += 1;
            Some(next)
        })
    }

    fn choose(of: usize) -> usize {
        CHOICES.with_borrow_mut(|choices| {
            let given = choices.given.get(choices.made.len()).copied();
            let one = given.unwrap_or(0);
            choices.made.push((one, of));
            one
        })
    }
}

/// Gives splits that have no reader to any reader: the explorer decides, and tries all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnyReader;

impl<S: Split> Assignor<S> for AnyReader {
    fn plan(&self, situation: &Situation<'_, S>) -> Plan {
        let any = || Choices::choose(situation.readers.len());
        let readers = situation
            .splits
            .iter()
            .map(|split| split.owner.unwrap_or_else(any));
        Plan {
            readers: readers.collect(),
            hot: Vec::new(),
        }
    }

    fn place(
        &self,
        readers: &[ReaderProfile],
        _held: &[usize],
        splits: usize,
    ) -> Option<Vec<usize>> {
        let any = |_| Choices::choose(readers.len());
        Some((0..splits).map(any).collect())
    }
}
