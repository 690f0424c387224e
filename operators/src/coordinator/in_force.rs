//! Which metadata is in force, and which splits it lists.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ownership::Ownership;
use super::{Awaited, Coordinator, Intention, Phase};
use crate::assignor::Assignor;
use crate::defect::{self, Defect};
use crate::discovery::DiscoveryRequest;
use crate::epoch::MetadataEpoch;
use crate::event::SourceEvent;
use crate::log::LogRecord;
use crate::split::{Metadata, Split};

/// Since which epoch each group has been listed.
///
/// What was found of a group holds until an epoch changes whether the group is listed. An epoch that does
/// not changes nothing of it, so a finding that crosses that epoch might as well have come before.
///
/// # Invariants
///
/// `later` has groups that are listed, and all that came to be after `first`.
#[derive(Clone, Debug, Hash)]
pub(super) struct ListedSince<G> {
    /// The first epoch of this run, since which all others are.
    first: MetadataEpoch,
    later: BTreeMap<G, MetadataEpoch>,
}

impl<G: Ord> ListedSince<G> {
    pub(super) fn new() -> Self {
        Self {
            first: MetadataEpoch::default(),
            later: BTreeMap::new(),
        }
    }

    /// A group is listed from `epoch` on, or is not.
    fn note(&mut self, group: G, listed: bool, epoch: MetadataEpoch) {
        if listed {
            self.later.insert(group, epoch);
        } else {
            self.later.remove(&group);
        }
    }

    /// Since when a group has been listed that is.
    fn of(&self, group: &G) -> MetadataEpoch {
        self.later.get(group).copied().unwrap_or(self.first)
    }
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Whether what was found of a split under `epoch` holds: the split is listed, and has been since.
    pub(super) fn holds(&self, split: &S, epoch: MetadataEpoch) -> bool {
        let group = S::Metadata::group_of(split);
        let metadata = self.metadata.as_ref();
        metadata.is_some_and(|metadata| metadata.lists_group(&group))
            && (self.listed_since.of(&group)..=self.metadata_epoch).contains(&epoch)
    }

    /// Takes an answer: it is in force at once, or as soon as what it removes is drained.
    pub(super) fn adopt(&mut self, answer: S::Metadata, now: Duration) {
        if self.hold_metadata(&answer) {
            return;
        }
        let interim = self.interim(&answer);
        (self.answers.stored, self.after_replay) = (None, None);
        if self.metadata.is_some() && self.accepted() == Some(&answer) {
            return;
        }
        match interim {
            Some(interim) => self.put_in_force(interim, Some(answer), now),
            None => self.put_in_force(answer, None, now),
        }
    }

    /// Begins a metadata epoch. What it lists and `target` does not leaves; when all that is drained,
    /// `target` is in force.
    pub(super) fn put_in_force(
        &mut self,
        metadata: S::Metadata,
        target: Option<S::Metadata>,
        now: Duration,
    ) {
        self.metadata_epoch = self.metadata_epoch.next();
        let epoch = self.metadata_epoch;
        self.search_again();
        self.tell(SourceEvent::MetadataAdopted {
            epoch,
            metadata: metadata.clone(),
        });
        self.drop_waiting_metadata();
        self.to_append.push(LogRecord::Metadata {
            epoch,
            metadata: metadata.clone(),
            target: target.clone(),
            at: self.name_of(now),
        });
        let changed = match &self.metadata {
            Some(before) => before.changed_groups(&metadata),
            None => {
                self.listed_since.first = epoch;
                self.groups.keys().cloned().collect()
            }
        };
        self.planning.calm(now, self.options.calm_for);
        self.first.get_or_insert_with(|| metadata.clone());
        self.metadata = Some(metadata.clone());
        // The epoch reaches every reader before any assignment that is made under it.
        if matches!(self.phase, Phase::Running | Phase::Replaying) {
            self.broadcast_metadata();
        }
        for group in changed {
            let listed = metadata.lists_group(&group);
            let members = self.groups.get(&group).cloned().unwrap_or_default();
            for split in members {
                self.list(&split, listed, now);
            }
            self.listed_since.note(group, listed, epoch);
        }
        self.leave(target, now);
        let discover = DiscoveryRequest::Discover { epoch, metadata };
        self.intentions.push_back(Intention::Ask(discover));
    }

    /// Drops the record of an epoch that is over before it went to the log. Metadata that changes while the
    /// log does not answer would otherwise fill the memory.
    ///
    /// If ends are taken back after it, because it does not drain them any more, it stays. A log that has
    /// that and not the epoch would have splits drained to other ends. Each split that leaves has at most one
    /// such record wait, so at most as many epochs do.
    fn drop_waiting_metadata(&mut self) {
        let is_metadata = |record: &LogRecord<S>| matches!(record, LogRecord::Metadata { .. });
        let takes_back = |record: &LogRecord<S>| matches!(record, LogRecord::End { end: None, .. });
        if let Some(last) = self.to_append.iter().rposition(is_metadata)
            && !self.to_append[last..].iter().any(takes_back)
        {
            self.to_append.remove(last);
        }
    }

    /// The metadata lists a split from here on, or does not.
    fn list(&mut self, split: &S, listed: bool, now: Duration) {
        let at = self.name_of(now);
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        let was_present = entry.present();
        let is_back = listed && entry.unlisted_since.is_some();
        if is_back {
            entry.is_back(at);
        }
        entry.reads_again = is_back
            && self.metadata.as_ref().is_some_and(|metadata| {
                let group = S::Metadata::group_of(split);
                metadata.reads_again(&group)
            });
        if entry.reads_again {
            self.to_read_again.insert(split.clone());
        } else {
            self.to_read_again.remove(split);
        }
        entry.listed = listed;
        // What is there under its name when it comes back may be another one.
        entry.verified &= listed;
        entry.unlisted_since = match entry.unlisted_since {
            _ if listed => None,
            before => before.or(Some(at)),
        };
        if was_present
            && !listed
            && let Some(since) = entry.ownership.keep_from(now)
        {
            self.kept.remove(&(since, split.clone()));
        }
        match entry.ownership {
            Ownership::Resolving(_) if !listed => {
                self.remove(split);
                return;
            }
            Ownership::Idle { .. } if listed && defect::is(Defect::ReAddedAtStart) => {
                self.remove(split);
                return;
            }
            // Readers release what is not listed by themselves, when they hear of the epoch.
            Ownership::Assigned(reader) if !listed => {
                entry.ownership = Ownership::Releasing(reader);
                let due = now + self.options.release_deadline;
                self.wait_for(split, due, Awaited::Release);
            }
            Ownership::Resolving(_)
            | Ownership::Recording(_)
            | Ownership::Idle { .. }
            | Ownership::Assigned(_)
            | Ownership::Releasing(_)
            | Ownership::Quarantined { .. }
            | Ownership::Finished { .. } => {}
        }
        self.reconsider(split, now);
    }
}
