//! Whether splits still are what they were, before what was read of them becomes durable.
//!
//! A split that was replaced by another one of the same name is read on without an error, and what is
//! read is of the other one. What splits are only ever changes forward, so an answer that is asked for
//! after the records of a tick were read, and is as before, shows that they are of the old one. It is
//! asked before the binding of the tick goes to the log, for all ticks that wait at once. If the answer
//! differs, the tick never becomes durable: what was emitted at it can be taken back only by another run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ownership::Ownership;
use super::{Coordinator, Intention, Phase};
use crate::assignor::Assignor;
use crate::binding::Binding;
use crate::discovery::DiscoveryRequest;
use crate::epoch::RequestId;
use crate::event::SourceEvent;
use crate::health::{FailureKind, Health, HealthStatus};
use crate::log::LogRecord;
use crate::split::{Metadata, Split};
use crate::tick::Tick;

/// Which bindings may go to the log.
#[derive(Clone, Debug, Hash)]
pub(super) struct Proofs<S: Split> {
    /// Bindings up to this tick may.
    proven: Option<Tick>,
    /// What the splits were that moved in the ticks that wait, when each was closed. By now they may be
    /// forgotten, or started over.
    read: BTreeMap<Tick, BTreeMap<S, S::Identity>>,
    /// What is asked for the bindings that wait.
    question: Option<Question<S>>,
    /// Splits that stand for others and for which no answer came in time.
    silent: BTreeSet<S>,
    /// When all that was asked was last answered.
    answered: Option<Duration>,
}

#[derive(Clone, Debug, Hash)]
struct Question<S: Split> {
    request: RequestId,
    /// Those of the splits that stand for others that were not answered.
    missing: BTreeSet<S>,
    /// The last tick that it is for.
    up_to: Tick,
    /// When what is missing is not waited for any longer.
    due: Duration,
}

impl<S: Split> Default for Proofs<S> {
    fn default() -> Self {
        Self {
            proven: None,
            read: BTreeMap::new(),
            question: None,
            silent: BTreeSet::new(),
            answered: None,
        }
    }
}

impl<S: Split> Proofs<S> {
    /// When an answer is not waited for any longer.
    pub(super) fn due(&self) -> Option<Duration> {
        self.question.as_ref().map(|question| question.due)
    }

    /// Bindings up to a tick may go to the log.
    pub(super) fn prove(&mut self, up_to: Tick) {
        self.read = self.read.split_off(&up_to);
        self.read.remove(&up_to);
        self.proven = Some(up_to);
    }

    /// What a split was when the ticks that wait were closed.
    fn read_as(&self, split: &S) -> impl Iterator<Item = &S::Identity> {
        self.read.values().filter_map(|tick| tick.get(split))
    }

    /// How many splits are asked about.
    pub(super) fn len(&self) -> usize {
        let question = self.question.as_ref();
        question.map_or(0, |question| question.missing.len()) + self.silent.len()
    }
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// How many of the records that wait may go to the log: those before the first binding that is not
    /// proven.
    pub(super) fn proven_records(&self) -> usize {
        let all = self.to_append.len();
        if self.options.identify_every.is_none() || self.all_closed_proven() {
            return all;
        }
        let unproven = |record: &LogRecord<S>| {
            let binding = binding_of(record);
            binding.is_some_and(|binding| Some(binding.tick) > self.proofs.proven)
        };
        self.to_append.iter().position(unproven).unwrap_or(all)
    }

    /// Goes on with proving what waits to become durable.
    pub(super) fn prove(&mut self, now: Duration) {
        let Some(every) = self.options.identify_every else {
            return;
        };
        self.end_question(now);
        if self.proofs.question.is_some() || self.phase != Phase::Running {
            return;
        }
        let Some(up_to) = self.last_unproven() else {
            return;
        };
        let asked = match self.stand_ins() {
            Ok(asked) => asked,
            Err(why) => return self.wedge("source", why),
        };
        let lately = (self.proofs.answered).is_some_and(|answered| now < answered + every);
        if asked.is_empty() || lately {
            self.proofs.prove(up_to);
            return;
        }
        let request = self.next_request();
        self.proofs.question = Some(Question {
            request,
            missing: asked.clone(),
            up_to,
            due: now + self.options.identify_within,
        });
        let splits = asked.into_iter().collect();
        let identify = DiscoveryRequest::Identify { request, splits };
        self.intentions.push_back(Intention::Ask(identify));
    }

    /// A tick is closed: its splits are what they are known to be.
    pub(super) fn note_read(&mut self, binding: &Binding<S>) {
        if self.options.identify_every.is_none() {
            return;
        }
        let read = binding.ranges.iter().filter_map(|range| {
            // What is not known contradicts nothing.
            let identity = self.splits.get(&range.split)?.identity.clone()?;
            Some((range.split.clone(), identity))
        });
        let read = read.collect();
        self.proofs.read.insert(binding.tick, read);
    }

    /// Goes no further if something was read in ticks that are not proven of a split that is known to be
    /// another one by now.
    pub(super) fn has_read_another(&mut self) -> bool {
        if self.options.identify_every.is_none() {
            return false;
        }
        let read = self.stand_ins().err();
        read.map(|why| self.wedge("source", why)).is_some()
    }

    /// Whether something was read of a split in a tick that is not closed, and it is known to be another
    /// one by now: as soon as that tick is closed, the run goes no further.
    pub(super) fn waits_for_what_it_was(&self, split: &S) -> bool {
        let entry = self.splits.get(split);
        let replaced = entry.is_some_and(|entry| entry.replaced_by.is_some());
        replaced && self.options.identify_every.is_some() && !self.is_bound(split)
    }

    /// Ends the question under way if it is answered, or was waited for for long enough.
    fn end_question(&mut self, now: Duration) {
        let over = |question: &mut Question<S>| question.missing.is_empty() || question.due <= now;
        let Some(question) = self.proofs.question.take_if(over) else {
            return;
        };
        self.proofs.prove(question.up_to);
        if question.missing.is_empty() {
            self.proofs.answered = Some(now);
        }
        // A dead cluster must not hold the frontier for ever.
        for split in question.missing {
            let message = format!(
                "it is not known whether it still is what it was: no answer within {:?}; ticks become \
                 durable without one until it comes",
                self.options.identify_within
            );
            let subject = format!("split {split}");
            let health = Health::new(subject, HealthStatus::Waiting, message);
            self.tell(SourceEvent::Health(health));
            self.proofs.silent.insert(split);
        }
    }

    /// Whether no binding waits that is not proven, known without looking at what else waits: that can be a start
    /// of each of many splits.
    fn all_closed_proven(&self) -> bool {
        self.ticks.last_closed <= self.proofs.proven
    }

    /// The last tick whose binding waits and is not proven.
    fn last_unproven(&self) -> Option<Tick> {
        if self.all_closed_proven() {
            return None;
        }
        let last = self.to_append.iter().rev().find_map(binding_of)?.tick;
        (Some(last) > self.proofs.proven).then_some(last)
    }

    /// One split for each group and identity of those that moved in ticks that wait, unless an answer
    /// for it is late.
    ///
    /// # Errors
    ///
    /// If one of those that moved is known to be another one by now.
    fn stand_ins(&self) -> Result<BTreeSet<S>, String> {
        let silent: BTreeSet<_> = (self.proofs.silent.iter())
            .map(S::Metadata::group_of)
            .collect();
        let mut asked = BTreeMap::new();
        for (split, identity) in self.proofs.read.values().flatten() {
            let entry = self.splits.get(split);
            if let Some(other) = entry.and_then(|entry| entry.replaced_by.as_ref()) {
                return Err(self.replaced_words(split, identity, other));
            }
            let group = S::Metadata::group_of(split);
            if !silent.contains(&group) {
                asked.entry((group, identity)).or_insert(split);
            }
        }
        Ok(asked.into_values().cloned().collect())
    }

    fn replaced_words(&self, split: &S, known: &S::Identity, found: &S::Identity) -> String {
        let tick = self.last_unproven().or(self.ticks.last_closed);
        format!(
            "split {split} was replaced by another one of the same name while it was read: {}; tick {} and \
             what came after it never become durable, and this run goes no further; the next one finds the \
             split at its last bound position, and does what its policy says",
            S::difference(known, found),
            tick.unwrap_or_default()
        )
    }

    /// Learns what a split was found to be; true if that is another one than it was.
    pub(super) fn is_replaced(&mut self, split: &S, found: S::Identity, now: Duration) -> bool {
        let Some(entry) = self.splits.get_mut(split) else {
            return false;
        };
        let learnt = match &entry.identity {
            // Nothing of the one before was read. Where it would have started is not where this one does.
            Some(known)
                if S::contradicts(known, &found)
                    && matches!(entry.ownership, Ownership::Resolving(_)) =>
            {
                entry.identity = Some(found);
                self.ask_start_anew(split, self.options.start_deadline, now);
                return false;
            }
            Some(known) if S::contradicts(known, &found) => {
                // It is told once for each that takes the place.
                return entry.replaced_by.replace(found.clone()) != Some(found);
            }
            Some(known) => S::learnt(known, &found),
            None => found,
        };
        // What is there is the known one again; a loss that is waited for is looked at by and by.
        entry.replaced_by = None;
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
    pub(super) fn replaced(&mut self, split: &S, now: Duration) {
        // By the time that it is asked about, it may be readmitted as what it is, or be forgotten.
        if self.phase == Phase::Running
            && let Some(why) = self.was_read_as_another(split)
        {
            return self.wedge("source", why);
        }
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        let held = entry.ownership.reader().is_some();
        if let Ownership::Idle { next, since } = &entry.ownership {
            let (next, since) = (next.clone(), *since);
            entry.ownership = Ownership::Quarantined { next, since };
        }
        let finished = entry.is_finished();
        let is_moving = || self.moving().any(|(moving, _, _)| moving == split);
        if self.phase == Phase::Replaying && (held || is_moving()) {
            let why = format!(
                "split {split} was replaced by another one of the same name: ticks in which it has \
                 records cannot be given again"
            );
            self.wedge("source", why);
            return;
        }
        self.reconsider(split, now);
        if finished {
            self.tell(SourceEvent::Health(Health::new(
                format!("split {split}"),
                HealthStatus::Failing(FailureKind::Definite),
                "it was replaced by another one of the same name, which is not read: it had come to its \
                 stop",
            )));
        }
        // Whoever has it releases it first.
        self.judge_replaced(split, now);
    }

    /// The discovery says what splits are.
    pub(super) fn identified(&mut self, request: RequestId, splits: Vec<(S, Option<S::Identity>)>) {
        for (split, found) in splits {
            let question = self.proofs.question.as_mut();
            if let Some(question) = question.filter(|question| question.request == request) {
                question.missing.remove(&split);
            }
            let late = self.proofs.silent.remove(&split);
            if let Some(found) = &found
                && let Some(why) = self.contradiction(&split, found)
            {
                return self.wedge("source", why);
            }
            if late {
                let message = match found {
                    Some(_) => "it still is what it was",
                    None => "nobody can tell any more what it is, and it is not asked again",
                };
                self.tell_identified(&split, message);
            }
        }
    }

    /// In words, that a split was read in ticks that wait, and is known to be another one by now.
    fn was_read_as_another(&self, split: &S) -> Option<String> {
        let known = self.proofs.read_as(split).next()?;
        let other = self.splits.get(split)?.replaced_by.as_ref()?;
        Some(self.replaced_words(split, known, other))
    }

    /// In words, that a split is not what it is known to be, or was read as.
    fn contradiction(&self, split: &S, found: &S::Identity) -> Option<String> {
        let known = self.splits.get(split);
        let known = known.and_then(|entry| entry.identity.as_ref());
        let mut known = self.proofs.read_as(split).chain(known);
        let known = known.find(|known| S::contradicts(known, found))?;
        Some(self.replaced_words(split, known, found))
    }

    fn tell_identified(&mut self, split: &S, message: &str) {
        let subject = format!("split {split}");
        let health = Health::new(subject, HealthStatus::Well, message);
        self.tell(SourceEvent::Health(health));
    }

    /// The discovery has found splits of a group, so it can say again what they are.
    pub(super) fn heard_of(&mut self, group: &<S::Metadata as Metadata<S>>::Group) {
        if self.proofs.silent.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.proofs.silent);
        let (heard, silent) = all
            .into_iter()
            .partition(|split| S::Metadata::group_of(split) == *group);
        self.proofs.silent = silent;
        let heard: BTreeSet<S> = heard;
        for split in heard {
            self.tell_identified(&split, "it is found again; ticks wait for what it is");
        }
    }
}

/// The binding that a record is, if it is one.
fn binding_of<S: Split>(record: &LogRecord<S>) -> Option<&Binding<S>> {
    if let LogRecord::Binding(binding) = record {
        Some(binding)
    } else {
        None
    }
}
