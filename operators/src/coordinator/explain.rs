//! Says what is done, and why.

use std::fmt::Display;
use std::time::Duration;

use super::draining::Leaving;
use super::ownership::{Entry, Ownership};
use super::{Coordinator, CoordinatorOptions, Intention};
use crate::assignor::Assignor;
use crate::epoch::ReaderId;
use crate::explain::{Explanation, SplitExplanation, SplitLife};
use crate::protocol::{Configuration, Directive, Setting};
use crate::split::Split;

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Sends a reader what is done and why.
    pub(super) fn explain_to(&mut self, reader: ReaderId, now: Duration) {
        let explanation = Directive::Explained(Box::new(self.explain(now)));
        self.intentions
            .push_back(Intention::Send(reader, explanation));
    }

    /// What is done at `now`, and why.
    pub fn explain(&self, now: Duration) -> Explanation<S> {
        let splits = self.splits.iter().map(|(split, entry)| SplitExplanation {
            split: split.clone(),
            life: entry.life(),
            reader: entry.ownership.reader(),
            position: self.bound.get(split).cloned(),
            stop: entry.stop.clone(),
            origin: entry.story.origin.clone(),
            lag: entry.load.lag,
            end: entry.leaving.as_ref().and_then(Leaving::end).cloned(),
        });
        // All readers have the same configuration, or nothing is read.
        let configured = self.readers.values().next();
        let mut options = configured.map_or_else(Configuration::new, |(_, all)| all.clone());
        // A source on top can have other defaults than the coordinator.
        let defaults = CoordinatorOptions::new(self.options.readers);
        for (name, setting) in Setting::of(self.options.in_words(), defaults.in_words()) {
            options.entry(name).or_insert(setting);
        }
        let held_back = self.held_back().iter().map(ToString::to_string).collect();
        Explanation {
            incarnation: self.incarnation,
            at: self.name_of(now),
            metadata_epoch: self.metadata_epoch,
            metadata_age: self.metadata_age(now),
            held_back,
            options,
            splits: splits.collect(),
        }
    }
}

impl<S: Split> Entry<S> {
    /// How far the split's life has come.
    pub(super) fn life(&self) -> SplitLife {
        match &self.ownership {
            Ownership::Resolving(_) => SplitLife::Known,
            Ownership::Quarantined { .. } => SplitLife::Quarantined,
            Ownership::Finished { .. } => SplitLife::Finished,
            Ownership::Releasing(_) if !self.present() => SplitLife::Removed,
            Ownership::Recording(_) | Ownership::Idle { .. } if !self.present() => SplitLife::Kept,
            _ if self.paused => SplitLife::Paused,
            _ if self.leaving.is_some() => SplitLife::Draining,
            Ownership::Recording(_) | Ownership::Idle { .. } => SplitLife::Resolved,
            Ownership::Releasing(_) => SplitLife::Moving,
            Ownership::Assigned(_) if self.story.emitted => SplitLife::Reading,
            Ownership::Assigned(_) => SplitLife::Assigned,
        }
    }
}

impl CoordinatorOptions {
    /// The options that a person may have to know, by their names.
    fn in_words(&self) -> [(&'static str, String); 6] {
        [
            ("resume", format!("{:?}", self.resume)),
            ("kept_for", format!("{:?}", self.kept_for)),
            ("kept_max", format!("{} positions", self.kept_max)),
            ("calm_for", format!("{:?}", self.calm_for)),
            ("shrink_guard", or_off(self.shrink_guard.as_ref())),
            ("failure_threshold", or_off(self.failure_threshold.as_ref())),
        ]
    }
}

fn or_off<T: Display>(option: Option<&T>) -> String {
    option.map_or_else(|| "off".to_owned(), T::to_string)
}
