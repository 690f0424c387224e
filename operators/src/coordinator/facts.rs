//! What the coordinator learns from the log and from the discovery.

use std::collections::BTreeSet;
use std::time::Duration;

use super::ownership::{Entry, Ownership};
use super::replay::Replaying;
use super::restore::Restored;
use super::ticks::Ending;
use super::{Awaited, Coordinator, Intention, Phase};
use crate::assignor::Assignor;
use crate::binding::Binding;
use crate::defect::{self, Defect};
use crate::discovery::{Appeared, DiscoveryRequest, FoundSplit};
use crate::epoch::{MetadataEpoch, RequestId};
use crate::event::SourceEvent;
use crate::explain::OriginKind;
use crate::health::{FailureKind, Health, HealthStatus};
use crate::log::LogRecord;
use crate::protocol::Directive;
use crate::split::{Metadata, Split};

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Goes on where the log ends. Nothing is read before the metadata lists it.
    pub(super) fn restore(&mut self, restored: Restored<S>, now: Duration) {
        self.incarnation = restored.incarnation.next();
        self.ticks.restore(restored.reserved, restored.bound);
        self.epochs.restore(restored.split_epochs);
        self.forgotten = self.epochs.first;
        if let Some((epoch, metadata)) = restored.metadata {
            self.metadata_epoch = self.metadata_epoch.max(epoch);
            self.answers.stored = Some(metadata);
        }
        self.first = restored.first;
        self.rewound = restored.rewound;
        self.replaying = restored.replay.map(Replaying::new);
        let bound = restored.bound.unwrap_or_else(|| self.name_of(now));
        for (split, one) in restored.splits {
            let position = one.position;
            let again = (self.replaying.as_ref())
                .is_some_and(|replaying| replaying.moves(&split, &position));
            let next = position.clone();
            let since = one.unlisted_since.map(|tick| self.when_named(tick));
            let since = since.map_or(now, |since| since.min(now));
            if one.quarantined {
                self.quarantined.insert(split.clone());
            }
            let ownership = if one.quarantined && !again {
                Ownership::Quarantined { next, since }
            } else {
                Ownership::Idle { next, since }
            };
            let listed = match &self.metadata {
                Some(metadata) => metadata.lists(&split),
                None => defect::is(Defect::RestoredBeforeMetadata),
            };
            self.bound.insert(split.clone(), position);
            let mut entry = Entry::restored(ownership, listed, self.epochs.first);
            entry.paused = one.paused && !defect::is(Defect::PauseForgotten);
            if let Some(replaying) = self.replaying.as_mut().filter(|_| entry.paused && again) {
                entry.paused = false;
                replaying.pause_after(split.clone());
            }
            let (why, at) = (OriginKind::Log, bound);
            (entry.story).goes_on(self.bound[&split].clone(), why, at);
            entry.identity = one.identity;
            entry.unlisted_since = one.unlisted_since;
            self.insert(split, entry, now);
        }
    }

    /// Adds a split to the table.
    pub(super) fn insert(&mut self, split: S, entry: Entry<S>, now: Duration) {
        let group = S::Metadata::group_of(&split);
        self.groups.entry(group).or_default().insert(split.clone());
        self.splits.insert(split.clone(), entry);
        self.reconsider(&split, now);
    }

    /// Takes a split out of the table, as if it had never been found.
    pub(super) fn remove(&mut self, split: &S) {
        self.wait_no_more(split);
        let group = S::Metadata::group_of(split);
        if let Some(members) = self.groups.get_mut(&group) {
            members.remove(split);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
        if let Some(entry) = self.splits.remove(split) {
            self.forgotten = self.forgotten.max(entry.split_epoch);
        }
        self.bound.remove(split);
        self.quarantined.remove(split);
        self.starting_over.remove(split);
        self.planning.forget(split);
    }

    pub(super) fn adopt(&mut self, metadata: S::Metadata, now: Duration) {
        if self.hold_metadata(&metadata) {
            return;
        }
        (self.answers.stored, self.after_replay) = (None, None);
        if self.metadata.as_ref() == Some(&metadata) {
            return;
        }
        self.metadata_epoch = self.metadata_epoch.next();
        let epoch = self.metadata_epoch;
        self.tell(SourceEvent::MetadataAdopted {
            epoch,
            metadata: metadata.clone(),
        });
        // An epoch that waits for the log is over. Metadata that changes while the log does not answer
        // would otherwise fill the memory.
        let is_metadata = |record: &LogRecord<S>| matches!(record, LogRecord::Metadata { .. });
        self.to_append.retain(|record| !is_metadata(record));
        self.to_append.push(LogRecord::Metadata {
            epoch,
            metadata: metadata.clone(),
            at: self.name_of(now),
        });
        let changed = match &self.metadata {
            Some(before) => before.changed_groups(&metadata),
            None => self.groups.keys().cloned().collect(),
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
        }
        let discover = DiscoveryRequest::Discover { epoch, metadata };
        self.intentions.push_back(Intention::Ask(discover));
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
        entry.starts_over = is_back
            && self.metadata.as_ref().is_some_and(|metadata| {
                let group = S::Metadata::group_of(split);
                metadata.starts_over(&group)
            });
        if entry.starts_over {
            self.starting_over.insert(split.clone());
        } else {
            self.starting_over.remove(split);
        }
        entry.listed = listed;
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
            | Ownership::Quarantined { .. } => {}
        }
        self.reconsider(split, now);
    }

    pub(super) fn broadcast_metadata(&mut self) {
        if let Some(metadata) = self.metadata.clone() {
            self.metadata_told = self.metadata_epoch;
            self.broadcast(&Directive::Metadata {
                incarnation: self.incarnation,
                epoch: self.metadata_epoch,
                metadata,
            });
        }
    }

    pub(super) fn found(
        &mut self,
        epoch: MetadataEpoch,
        splits: Vec<FoundSplit<S>>,
        now: Duration,
    ) {
        let at = self.name_of(now);
        let Some(metadata) = self
            .metadata
            .as_ref()
            .filter(|_| epoch == self.metadata_epoch)
        else {
            self.ignored += 1;
            return;
        };
        let listed: Vec<_> = splits
            .into_iter()
            .filter(|found| metadata.lists(&found.split))
            .collect();
        // What belongs to a group that has members came later than they did.
        let known: BTreeSet<_> = listed
            .iter()
            .map(|found| S::Metadata::group_of(&found.split))
            .filter(|group| self.groups.contains_key(group))
            .collect();
        for found in listed {
            if !self.splits.contains_key(&found.split) {
                let group = S::Metadata::group_of(&found.split);
                let appeared = self.appeared(&group, known.contains(&group));
                let request = self.next_request();
                let mut entry = Entry::found(request, self.forgotten);
                entry.appeared = appeared;
                self.insert(found.split.clone(), entry, now);
                self.tell(SourceEvent::SplitFound {
                    split: found.split.clone(),
                });
                let wait = self.options.start_deadline;
                self.ask_start(found.split.clone(), request, wait, now);
            }
            let entry = self
                .splits
                .get_mut(&found.split)
                .expect("it is there by now");
            entry.racks = found.racks;
            let back = std::mem::take(&mut entry.gone);
            if back {
                entry.is_back(at);
            }
            if self.is_replaced(&found.split, found.identity) {
                self.replaced(&found.split, now);
            } else if back {
                self.reconsider(&found.split, now);
            }
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

    /// Learns what a split was found to be; true if that is another one than it was.
    fn is_replaced(&mut self, split: &S, found: S::Identity) -> bool {
        let Some(entry) = self.splits.get_mut(split) else {
            return false;
        };
        let learnt = match &entry.identity {
            Some(known) if S::contradicts(known, &found) => {
                // It is told once for each that takes the place.
                return entry.replaced_by.replace(found.clone()) != Some(found);
            }
            Some(known) => S::learnt(known, &found),
            None => found,
        };
        if entry.identity.as_ref() != Some(&learnt) {
            entry.identity = Some(learnt.clone());
            // What is not recorded yet is recorded with its start.
            if !matches!(entry.ownership, Ownership::Resolving(_)) {
                self.to_append.push(LogRecord::Identified {
                    split: split.clone(),
                    identity: learnt,
                });
            }
        }
        false
    }

    /// A split is another one of the same name: it is not read on, at a position that means nothing
    /// in it.
    fn replaced(&mut self, split: &S, now: Duration) {
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        if let Ownership::Idle { next, since } = &entry.ownership {
            let (next, since) = (next.clone(), *since);
            entry.ownership = Ownership::Quarantined { next, since };
        }
        if self.phase == Phase::Replaying && entry.ownership.reader().is_some() {
            let why = format!(
                "split {split} was replaced by another one of the same name: ticks in which it has \
                 records cannot be given again"
            );
            self.wedge("source", why);
            return;
        }
        self.reconsider(split, now);
        self.tell(SourceEvent::Health(Health::new(
            format!("split {split}"),
            HealthStatus::Failing(FailureKind::Definite),
            "it was replaced by another one of the same name; it stays at its position until it is \
             readmitted, and what was read since it was replaced is of the other one",
        )));
    }

    pub(super) fn gone(&mut self, epoch: MetadataEpoch, splits: Vec<S>, now: Duration) {
        if epoch != self.metadata_epoch {
            self.ignored += 1;
            return;
        }
        for split in splits {
            let Some(entry) = self.splits.get_mut(&split).filter(|entry| !entry.gone) else {
                continue;
            };
            let was_present = entry.present();
            entry.gone = true;
            if was_present && let Some(since) = entry.ownership.keep_from(now) {
                self.kept.remove(&(since, split.clone()));
            }
            if matches!(entry.ownership, Ownership::Resolving(_)) {
                self.remove(&split);
            }
            self.tell(SourceEvent::SplitGone {
                split: split.clone(),
            });
            self.reconsider(&split, now);
        }
    }

    pub(super) fn next_request(&mut self) -> RequestId {
        self.last_request = self.last_request.next();
        self.last_request
    }

    /// Asks where reading a split starts, and asks again if there is no answer after `wait`.
    pub(super) fn ask_start(
        &mut self,
        split: S,
        request: RequestId,
        wait: Duration,
        now: Duration,
    ) {
        self.wait_for(&split, now + wait, Awaited::Start(request, wait));
        let entry = self.splits.get(&split);
        let appeared = entry.map_or_else(Appeared::default, |entry| entry.appeared);
        let ask = DiscoveryRequest::Resolve {
            request,
            split,
            appeared,
        };
        self.intentions.push_back(Intention::Ask(ask));
    }

    pub(super) fn resolved(
        &mut self,
        request: RequestId,
        split: &S,
        start: S::Position,
        rule: String,
    ) {
        match self.splits.get_mut(split) {
            Some(entry) if entry.ownership == Ownership::Resolving(request) => {
                entry.ownership = Ownership::Recording(start.clone());
                entry.rule = rule;
                let (identity, paused) = (entry.identity.clone(), entry.paused);
                self.to_append.push(LogRecord::Start {
                    split: split.clone(),
                    start,
                });
                if let Some(identity) = identity {
                    let split = split.clone();
                    self.to_append
                        .push(LogRecord::Identified { split, identity });
                }
                if paused {
                    self.to_append.push(LogRecord::Paused(split.clone()));
                }
            }
            Some(_) | None => {
                self.ignored += 1;
                return;
            }
        }
        self.wait_no_more(split);
    }

    /// The start of a split is durable.
    pub(super) fn recorded(&mut self, split: S, start: S::Position, now: Duration) {
        let at = self.name_of(now);
        let entry = self
            .splits
            .get_mut(&split)
            .expect("a recorded split is kept");
        entry.ownership = Ownership::Idle {
            next: start.clone(),
            since: now,
        };
        let rule = std::mem::take(&mut entry.rule);
        (entry.story).goes_on(start.clone(), OriginKind::Rule(rule.clone()), at);
        self.bound.insert(split.clone(), start.clone());
        self.reconsider(&split, now);
        self.tell(SourceEvent::SplitResolved { split, start, rule });
    }

    /// The binding of a tick is durable.
    pub(super) fn durable(&mut self, binding: Binding<S>) {
        let oldest = self.ticks.waiting.pop_front();
        debug_assert_eq!(oldest, Some(binding.tick), "bindings are appended in order");
        let tick = binding.tick;
        if self.ticks.ending == Ending::Told && self.ticks.undurable() == 0 {
            self.ticks.ending = Ending::Reached;
        }
        self.tell(SourceEvent::Bound {
            tick,
            splits: binding.ranges.len(),
        });
        let next = if self.ended() {
            None
        } else {
            self.ticks.oldest()
        };
        self.intentions
            .push_back(Intention::Publish { binding, next });
        self.broadcast(&Directive::Durable(tick));
        if self.ended() {
            self.tell(SourceEvent::Ended);
        }
    }
}
