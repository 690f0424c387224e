//! Splits that are read to their stop, and a source that ends when all of them are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Coordinator;
use super::ownership::{Entry, Ownership};
use super::restore::RestoredSplit;
use super::ticks::Ending;
use crate::assignor::Assignor;
use crate::epoch::MetadataEpoch;
use crate::event::SourceEvent;
use crate::health::{Health, HealthStatus};
use crate::log::LogRecord;
use crate::split::Split;

/// How many splits a person is told that keep a source from ending.
const NAMED_MAX: usize = 5;

/// How far a source is from its end that ends by itself.
///
/// # Invariants
///
/// `unfinished` has every known split that has something to be read yet, as far as that is known,
/// and `held` those of them that nobody reads before a person does something about it.
#[derive(Clone, Debug, Hash)]
pub(super) struct Bounded<S: Split> {
    search: Search,
    unfinished: BTreeSet<S>,
    held: BTreeSet<S>,
    /// Whether it was told that only held splits are left.
    told: bool,
}

/// What is known of which splits there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Search {
    /// Not all that the metadata in force lists was looked for.
    Open,
    /// All was found; where some of it starts may not be known.
    Over,
    /// Every split that is read has a start, and the log says so: none is added.
    Complete,
}

/// What is left to be read of a bounded source.
enum Left {
    Nothing,
    /// Only these, named for a person for the first time, which nobody reads for now.
    Held(String),
    /// Something, or what there is is not known, or a person was told.
    More,
}

impl<S: Split> Bounded<S> {
    pub(super) fn new() -> Self {
        Self {
            search: Search::Open,
            unfinished: BTreeSet::new(),
            held: BTreeSet::new(),
            told: false,
        }
    }

    /// Whether no split is added any more.
    pub(super) fn is_complete(&self) -> bool {
        self.search == Search::Complete
    }

    /// What is left to be read.
    fn left(&mut self) -> Left {
        if self.search != Search::Complete || self.unfinished.len() != self.held.len() {
            self.told = false;
            return Left::More;
        }
        if self.held.is_empty() {
            return Left::Nothing;
        }
        if std::mem::replace(&mut self.told, true) {
            return Left::More;
        }
        let named = self.held.iter().take(NAMED_MAX);
        let named: Vec<_> = named.map(ToString::to_string).collect();
        let more = match self.held.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Left::Held(format!("{}{more}", named.join(", ")))
    }

    /// Notes what there is to do about a split, if it is known.
    fn note(&mut self, split: &S, entry: Option<&Entry<S>>) {
        let unfinished = entry.filter(|entry| !is_over(entry));
        note(&mut self.unfinished, split, unfinished.is_some());
        // What is lost for now may go on by its policy.
        let fails = |one: &Entry<S>| one.is_quarantined() && one.loss.is_none();
        let held = unfinished.is_some_and(|one| fails(one) || one.paused);
        note(&mut self.held, split, held);
    }
}

fn note<S: Split>(noted: &mut BTreeSet<S>, split: &S, is: bool) {
    if !is {
        noted.remove(split);
    } else if !noted.contains(split) {
        noted.insert(split.clone());
    }
}

/// Whether there is nothing to be read of a split: it is finished, gone or not listed, and nobody has
/// it.
fn is_over<S: Split>(entry: &Entry<S>) -> bool {
    match entry.ownership {
        Ownership::Finished { .. } => true,
        Ownership::Idle { .. } | Ownership::Quarantined { .. } => !entry.present(),
        Ownership::Resolving(_)
        | Ownership::Recording(_)
        | Ownership::Assigned(_)
        | Ownership::Releasing(_) => false,
    }
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Nobody has a split from here on, and it is at `next`, since `since`. Whether it is to be read on
    /// there is found out.
    pub(super) fn rest(&mut self, split: &S, next: S::Position, since: Duration, now: Duration) {
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        let barred = std::mem::take(&mut entry.barred);
        entry.ownership = entry.at_rest(next.clone(), since);
        if entry.is_finished() {
            entry.failing = None;
            self.tell(SourceEvent::SplitFinished {
                split: split.clone(),
                position: next,
            });
        } else if barred || entry.replaced_by.is_some() {
            entry.ownership = Ownership::Quarantined { next, since };
        }
        self.reconsider(split, now);
        self.judge_replaced(split, now);
    }

    /// What a log says about the splits of a bounded source.
    pub(super) fn restore_bounded(
        &mut self,
        all_found: bool,
        splits: &BTreeMap<S, RestoredSplit<S>>,
    ) {
        let Some(bounded) = &mut self.bounded else {
            return;
        };
        if all_found {
            bounded.search = Search::Complete;
        }
        let endless = splits.iter().find(|(_, one)| one.stop.is_none());
        if let Some((split, _)) = endless {
            let why = format!(
                "the log is of a source that was not bounded: split {split} has no stop in it; expected \
                 another log, or a start afresh"
            );
            self.wedge("source", why);
        }
    }

    /// Whether a split may be read to `stop`: in a bounded source each has one.
    pub(super) fn stops(&mut self, split: &S, stop: Option<&S::Position>) -> bool {
        let endless = self.bounded.is_some() && stop.is_none();
        if endless {
            let why =
                format!("split {split} has no stop; expected one of each in a bounded source");
            self.wedge("source", why);
        }
        !endless
    }

    /// The metadata is another one: it is not known what there is of it.
    pub(super) fn search_again(&mut self) {
        if let Some(bounded) = &mut self.bounded
            && bounded.search == Search::Over
        {
            bounded.search = Search::Open;
        }
    }

    /// All was found that the metadata of `epoch` lists.
    pub(super) fn all_found(&mut self, epoch: MetadataEpoch, now: Duration) {
        if epoch != self.metadata_epoch {
            self.ignored += 1;
            return;
        }
        if let Some(bounded) = &mut self.bounded
            && bounded.search == Search::Open
        {
            bounded.search = Search::Over;
        }
        // What an earlier run knew and this one did not find, it would wait for in vain.
        let bounded = self.bounded.is_some();
        if !bounded && self.draining.len() == 0 {
            return;
        }
        let missing = |entry: &Entry<S>| {
            let awaited = bounded || entry.leaving.is_some();
            awaited && entry.present() && !entry.verified
        };
        let missing = self.splits.iter().filter(|(_, entry)| missing(entry));
        let missing = missing.map(|(split, _)| split.clone()).collect();
        self.gone(epoch, missing, now);
    }

    /// Something about a split changed that can make it the last one to be waited for.
    pub(super) fn look_for_end(&mut self, split: &S) {
        if let Some(bounded) = &mut self.bounded {
            bounded.note(split, self.splits.get(split));
        }
    }

    /// Ends a bounded source once nothing is left to be read.
    pub(super) fn end_bounded(&mut self, now: Duration) {
        self.complete();
        // Without metadata nothing is listed, and all would seem to be over.
        if self.metadata.is_none() || self.ticks.ending != Ending::No {
            return;
        }
        match self.bounded.as_mut().map(Bounded::left) {
            Some(Left::Nothing) => self.end(now),
            Some(Left::Held(splits)) => self.tell(SourceEvent::Health(Health::new(
                "source",
                HealthStatus::Waiting,
                format!(
                    "all else was read to its stop; it does not end before somebody readmits or resumes \
                     {splits}, or the metadata does not list them"
                ),
            ))),
            Some(Left::More) | None => {}
        }
    }

    /// Has it recorded that all splits are known that there will be, once they are.
    fn complete(&mut self) {
        // Every split with a start has a position; what has none is still being asked about.
        let all_start = self.splits.len() == self.bound.len();
        // What comes may be about to, once something else is drained.
        let settled = all_start && self.draining.target.is_none();
        let Some(bounded) = self.bounded.as_mut().filter(|_| settled) else {
            return;
        };
        if bounded.search == Search::Over {
            bounded.search = Search::Complete;
            self.to_append.push(LogRecord::AllFound);
            let splits = self.splits.len();
            self.tell(SourceEvent::AllFound { splits });
        }
    }
}
