//! Positions of splits that are not listed, or do not exist for now.

use std::time::Duration;

use super::Coordinator;
use super::loss::Loss;
use super::ownership::Entry;
use crate::assignor::Assignor;
use crate::defect::{self, Defect};
use crate::discovery::Appeared;
use crate::event::SourceEvent;
use crate::log::LogRecord;
use crate::split::{Metadata, Split};

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Keeps the position of a split that nobody has and that is not present, or stops to.
    pub(super) fn keep(&mut self, split: &S) {
        let Some(entry) = self.splits.get(split) else {
            return;
        };
        if let Some((_, since)) = entry.ownership.kept() {
            let one = (since, split.clone());
            if entry.present() {
                self.kept.remove(&one);
            } else if !(entry.is_quarantined() && defect::is(Defect::FailedKeptForEver)) {
                self.kept.insert(one);
            }
        }
    }

    /// When the oldest position has been kept for long enough, if time is all that it waits for: it
    /// may wait for its tick to be closed, which is looked at when that is.
    pub(super) fn forget_due(&self) -> Option<Duration> {
        let (since, split) = self.kept.first()?;
        self.is_bound(split).then(|| *since + self.options.kept_for)
    }

    /// Whether the tick is closed that says where a split that is kept goes on, and that it failed.
    pub(super) fn is_bound(&self, split: &S) -> bool {
        let Some(entry) = self.splits.get(split) else {
            return true;
        };
        let Some((next, _)) = entry.ownership.kept() else {
            return true;
        };
        if matches!(entry.loss, Some(Loss::Telling(_))) {
            return false;
        }
        let failed = entry.is_quarantined() && entry.replaced_by.is_none() && entry.loss.is_none();
        self.bound.get(split) == Some(next) && (!failed || self.quarantined.contains(split))
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

    /// Reads splits from their start again that came back and are to be, once all that was read of them
    /// is bound.
    pub(super) fn read_again(&mut self, now: Duration) {
        for split in self.to_read_again.clone() {
            let known = self.splits.get(&split);
            let kept = known.filter(|known| known.ownership.kept().is_some());
            let Some(before) = kept.filter(|_| self.is_bound(&split)).cloned() else {
                continue;
            };
            let Some((next, _)) = before.ownership.kept() else {
                continue;
            };
            let position = next.clone();
            self.remove(&split);
            self.to_append.push(LogRecord::Forgotten(split.clone()));
            self.tell(SourceEvent::SplitForgotten {
                split: split.clone(),
                position,
            });
            let request = self.next_request();
            let group = S::Metadata::group_of(&split);
            let entry = Entry {
                identity: before.replaced_by.or(before.identity),
                racks: before.racks,
                verified: before.verified,
                gone: before.gone,
                paused: before.paused,
                appeared: self.appeared(&group, false),
                ..Entry::found(request, self.forgotten)
            };
            self.insert(split.clone(), entry, now);
            self.ask_start(split, request, self.options.start_deadline, now);
        }
    }

    /// Beside what a split of `group` appears, other splits of which may be `known`.
    pub(super) fn appeared(
        &self,
        group: &<S::Metadata as Metadata<S>>::Group,
        known: bool,
    ) -> Appeared {
        match &self.first {
            _ if known => Appeared::InGroup,
            Some(first) if first.lists_group(group) => Appeared::AtFirst,
            Some(first) if first.lists_place_of(group) => Appeared::WithGroup,
            Some(_) => Appeared::WithPlace,
            None => Appeared::AtFirst,
        }
    }

    /// Forgets a position; false if what was emitted up to it is not bound yet.
    fn forget(&mut self, since: Duration, split: &S) -> bool {
        let kept = (self.splits.get(split)).and_then(|entry| entry.ownership.kept());
        let Some((next, _)) = kept.filter(|(_, at)| *at == since) else {
            return true;
        };
        let position = next.clone();
        if !self.is_bound(split) {
            return false;
        }
        self.remove(split);
        self.to_append.push(LogRecord::Forgotten(split.clone()));
        self.tell(SourceEvent::SplitForgotten {
            split: split.clone(),
            position,
        });
        true
    }
}
