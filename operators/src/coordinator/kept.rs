//! Positions of splits that are not listed, or do not exist for now.

use std::time::Duration;

use super::Coordinator;
use super::ownership::Ownership;
use crate::assignor::Assignor;
use crate::event::SourceEvent;
use crate::log::LogRecord;
use crate::split::Split;

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Keeps the position of a split that nobody has and that is not present, or stops to.
    pub(super) fn keep(&mut self, split: &S) {
        let Some(entry) = self.splits.get(split) else {
            return;
        };
        if let Ownership::Idle { since, .. } = entry.ownership {
            let one = (since, split.clone());
            if entry.listed && !entry.gone {
                self.kept.remove(&one);
            } else {
                self.kept.insert(one);
            }
        }
    }

    /// When the oldest position has been kept for long enough, if time is all that it waits for: it
    /// may wait for its tick to be closed, which is looked at when that is.
    pub(super) fn forget_due(&self) -> Option<Duration> {
        let (since, split) = self.kept.first()?;
        let waits = self.splits.get(split).is_some_and(|entry| {
            matches!(&entry.ownership, Ownership::Idle { next, .. } if self.bound.get(split) != Some(next))
        });
        (!waits).then(|| *since + self.options.kept_for)
    }

    /// Forgets positions that were kept for as long as was asked for, and the oldest of too many.
    pub(super) fn forget_old(&mut self, now: Duration) {
        let mut later = Vec::new();
        while let Some((since, split)) = self.kept.pop_first() {
            let many = self.kept.len() + later.len() >= self.options.kept_max;
            if since + self.options.kept_for > now && !many {
                later.push((since, split));
                break;
            }
            if !self.forget(since, &split) {
                later.push((since, split));
            }
        }
        self.kept.extend(later);
    }

    /// Forgets a position; false if what was emitted up to it is not bound yet.
    fn forget(&mut self, since: Duration, split: &S) -> bool {
        let Some(Ownership::Idle { next, since: at }) =
            self.splits.get(split).map(|entry| &entry.ownership)
        else {
            return true;
        };
        if *at != since {
            return true;
        }
        if self.bound.get(split) != Some(next) {
            return false;
        }
        let position = next.clone();
        self.remove(split);
        self.to_append.push(LogRecord::Forgotten(split.clone()));
        self.tell(SourceEvent::SplitForgotten {
            split: split.clone(),
            position,
        });
        true
    }
}
