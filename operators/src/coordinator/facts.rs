//! What the coordinator learns from the log and from the discovery.

use std::collections::BTreeSet;
use std::time::Duration;

use super::bounded::Bounded;
use super::draining::Leaving;
use super::ownership::{Entry, Ownership};
use super::replay::Replaying;
use super::restore::Restored;
use super::ticks::Ending;
use super::{Awaited, Coordinator, Intention};
use crate::assignor::Assignor;
use crate::binding::Binding;
use crate::defect::{self, Defect};
use crate::discovery::{Appeared, DiscoveryRequest, FoundSplit};
use crate::epoch::{MetadataEpoch, ReaderId, RequestId};
use crate::event::SourceEvent;
use crate::explain::OriginKind;
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
        self.draining.target = restored.target;
        self.first = restored.first;
        self.rewound = restored.rewound;
        self.restore_bounded(restored.all_found, &restored.splits);
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
            let listed = match &self.metadata {
                Some(metadata) => metadata.lists(&split),
                None => defect::is(Defect::RestoredBeforeMetadata),
            };
            let stop = one.stop.filter(|_| !defect::is(Defect::StopForgotten));
            let mut entry = Entry::restored(stop, listed, self.epochs.first);
            let end = one.end.filter(|_| !defect::is(Defect::EndForgotten));
            entry.leaving = end.map(Leaving::Recorded);
            entry.ownership = if one.quarantined && !again {
                Ownership::Quarantined { next, since }
            } else {
                entry.at_rest(next, since)
            };
            self.bound.insert(split.clone(), position);
            entry.paused = one.paused && !defect::is(Defect::PauseForgotten);
            if let Some(replaying) = self.replaying.as_mut().filter(|_| entry.paused && again) {
                entry.paused = false;
                replaying.pause_after(split.clone());
            }
            let (why, at) = (OriginKind::Log, bound);
            (entry.story).goes_on(self.bound[&split].clone(), why, at);
            entry.identity = one.identity;
            entry.verified = defect::is(Defect::RestoredBeforeMetadata);
            entry.unlisted_since = one.unlisted_since;
            self.insert(split, entry, now);
        }
    }

    /// Adds a split to the table.
    pub(super) fn insert(&mut self, split: S, mut entry: Entry<S>, now: Duration) {
        self.note_generation(&split);
        if self.leaves(&split) {
            entry.leaving.get_or_insert(Leaving::Asking(None));
        }
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
            if let Some((_, since)) = entry.ownership.kept() {
                self.kept.remove(&(since, split.clone()));
            }
            self.forgotten = self.forgotten.max(entry.split_epoch);
        }
        self.bound.remove(split);
        self.quarantined.remove(split);
        self.to_read_again.remove(split);
        self.planning.forget(split);
        self.look_for_end(split);
        self.draining.forget(split);
        let origin = split.origin();
        if self.generations.get(&origin) == Some(split) {
            self.generations.remove(&origin);
        }
    }

    /// Notes as which split one is read that was started over.
    fn note_generation(&mut self, split: &S) {
        let origin = split.origin();
        if origin != *split {
            let newest = self
                .generations
                .entry(origin)
                .or_insert_with(|| split.clone());
            if *newest < *split {
                newest.clone_from(split);
            }
        }
    }

    /// As which split the one is read that was found as `origin`.
    fn read_as(&self, origin: S) -> S {
        self.generations.get(&origin).cloned().unwrap_or(origin)
    }

    pub(super) fn found(
        &mut self,
        epoch: MetadataEpoch,
        splits: Vec<FoundSplit<S>>,
        now: Duration,
    ) {
        let at = self.name_of(now);
        let (holding, old): (Vec<_>, Vec<_>) = splits
            .into_iter()
            .partition(|found| self.holds(&found.split, epoch));
        self.ignored += u64::from(!old.is_empty());
        // What belongs to a group that has members came later than they did.
        let known: BTreeSet<_> = holding
            .iter()
            .map(|found| S::Metadata::group_of(&found.split))
            .filter(|group| self.groups.contains_key(group))
            .collect();
        for group in &known {
            self.heard_of(group);
        }
        let closed = self.bounded.as_ref().is_some_and(Bounded::is_complete);
        for mut found in holding {
            found.split = self.read_as(found.split);
            if !self.splits.contains_key(&found.split) {
                // What a bounded source reads was settled when all was found for the first time.
                if closed {
                    continue;
                }
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
            let gone = std::mem::take(&mut entry.gone);
            if gone {
                entry.is_back(at);
            }
            let back = gone | !std::mem::replace(&mut entry.verified, true);
            if self.is_replaced(&found.split, found.identity, now) {
                self.replaced(&found.split, now);
            } else if back {
                self.reconsider(&found.split, now);
                // If it is not known yet what there is of it, whoever was asked may not have been listed.
                self.judge(&found.split, self.options.start_deadline, now);
            }
        }
    }

    pub(super) fn gone(&mut self, epoch: MetadataEpoch, splits: Vec<S>, now: Duration) {
        let (holding, old): (Vec<_>, Vec<_>) = splits
            .into_iter()
            .partition(|split| self.holds(split, epoch));
        self.ignored += u64::from(!old.is_empty());
        for split in holding {
            let split = self.read_as(split);
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

    /// Asks where reading a split starts, by a question that supersedes the one before.
    pub(super) fn ask_start_anew(&mut self, split: &S, wait: Duration, now: Duration) {
        let request = self.next_request();
        if let Some(entry) = self.splits.get_mut(split) {
            entry.ownership = Ownership::Resolving(request);
        }
        self.ask_start(split.clone(), request, wait, now);
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
        (start, stop): (S::Position, Option<S::Position>),
        rule: String,
    ) {
        if !self.stops(split, stop.as_ref()) {
            return;
        }
        match self.splits.get_mut(split) {
            Some(entry) if entry.ownership == Ownership::Resolving(request) => {
                entry.ownership = Ownership::Recording(start.clone());
                entry.stop.clone_from(&stop);
                entry.rule = rule;
                let (identity, paused) = (entry.identity.clone(), entry.paused);
                self.to_append.push(LogRecord::Start {
                    split: split.clone(),
                    start,
                    stop,
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
        let rule = std::mem::take(&mut entry.rule);
        let stop = entry.stop.clone();
        (entry.story).goes_on(start.clone(), OriginKind::Rule(rule.clone()), at);
        self.bound.insert(split.clone(), start.clone());
        self.tell(SourceEvent::SplitResolved {
            split: split.clone(),
            start: start.clone(),
            stop,
            rule,
        });
        self.rest(&split, start, now, now);
    }

    /// The binding of a tick is durable.
    pub(super) fn durable(&mut self, binding: Binding<S>, now: Duration) {
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
        let errors = binding.errors.clone();
        self.intentions
            .push_back(Intention::Publish { binding, next });
        let durable = Directive::Durable(tick);
        if self.ended() {
            self.broadcast(&durable);
        } else {
            self.intentions
                .push_back(Intention::Send(ReaderId::KEEPER, durable));
        }
        self.go_on_after(&errors, now);
        if self.ended() {
            self.tell(SourceEvent::Ended);
        }
    }
}
