//! Runs the assignor, and brings splits nearer to their target.
//!
//! A plan over all splits takes time in proportion to them. Most changes do not need one: splits that
//! came are placed where there is room, and splits that went leave the rest within its bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::ownership::Ownership;
use super::{Awaited, Coordinator, Intention, Phase};
use crate::assignor::{Assignor, ReaderProfile, Situation, SplitProfile};
use crate::defect::{self, Defect};
use crate::epoch::{PlanEpoch, ReaderId, SplitEpoch};
use crate::event::SourceEvent;
use crate::protocol::{Assignment, Directive};
use crate::split::Split;

/// Seconds that count as "lately".
const LATELY: u64 = 60;

/// How many times as long as after one change counts are left unequal, at most, while changes go on.
const CALM_TIMES_MAX: u32 = 5;

/// What the assignor has decided.
#[derive(Clone)]
pub(super) struct Planning<S: Split, A> {
    assignor: A,
    epoch: PlanEpoch,
    /// When to run the assignor, because something changed or because it is time.
    due: Option<Duration>,
    periodic: Option<Duration>,
    /// Whether nothing less than a whole plan will do.
    whole: bool,
    /// The reader that each split should be with.
    target: BTreeMap<S, ReaderId>,
    counts: BTreeMap<ReaderId, usize>,
    /// Splits that can be assigned and have no target.
    homeless: BTreeSet<S>,
    /// Splits that may be neither with their target nor on their way there.
    restless: BTreeSet<S>,
    /// Until when no split is taken from its reader for balance.
    ///
    /// What a change of metadata removes is gone at once, and what it adds is found by and by. Splits
    /// that were moved in between, to fill gaps that the new ones are about to fill, would pause for
    /// nothing.
    calm_until: Option<Duration>,
    /// When the first change came that no plan for balance has followed.
    unbalanced_since: Option<Duration>,
    /// Whether a person asked for the next plan, which no calm holds up.
    asked: bool,
    /// Readers that are to have no splits.
    pub(super) drained: BTreeSet<ReaderId>,
    /// How many splits were taken from readers, by second.
    moved: BTreeMap<u64, usize>,
    hot: BTreeSet<S>,
}

impl<S: Split, A> Hash for Planning<S, A> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.due, self.periodic, self.whole, self.asked).hash(hasher);
        (self.calm_until, self.unbalanced_since).hash(hasher);
        self.target.hash(hasher);
        (&self.homeless, &self.restless, &self.drained, &self.moved).hash(hasher);
    }
}

impl<S: Split, A> Planning<S, A> {
    pub(super) fn new(assignor: A) -> Self {
        Self {
            assignor,
            epoch: PlanEpoch::default(),
            due: None,
            periodic: None,
            whole: false,
            calm_until: None,
            unbalanced_since: None,
            asked: false,
            target: BTreeMap::new(),
            counts: BTreeMap::new(),
            homeless: BTreeSet::new(),
            restless: BTreeSet::new(),
            drained: BTreeSet::new(),
            moved: BTreeMap::new(),
            hot: BTreeSet::new(),
        }
    }

    /// When the assignor runs next, if that is known.
    pub(super) fn due(&self) -> Option<Duration> {
        match (self.due, self.periodic) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Asks for the assignor; several triggers before `due` are one.
    pub(super) fn trigger(&mut self, due: Duration) {
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// Asks for a plan over everything.
    pub(super) fn trigger_whole(&mut self, due: Duration) {
        self.whole = true;
        self.trigger(due);
    }

    /// Looks at a split in the next step towards the targets.
    pub(super) fn reconsider_later(&mut self, split: &S) {
        self.restless.insert(split.clone());
        self.whole = true;
    }

    /// A person asks for a plan over everything.
    pub(super) fn obey(&mut self, now: Duration) {
        self.asked = true;
        self.trigger_whole(now);
    }

    /// Something changes at `now`: moves nothing for balance within `time`, or, if changes go on, a few
    /// times as long.
    pub(super) fn calm(&mut self, now: Duration, time: Duration) {
        if self.calm_until.is_none_or(|until| until <= now) && !self.whole {
            // The changes before left nothing to be balanced.
            self.unbalanced_since = None;
        }
        let since = *self.unbalanced_since.get_or_insert(now);
        self.calm_until = Some((now + time).min(since + CALM_TIMES_MAX * time));
    }

    /// Until when the plan at `now` moves nothing for balance, if it does not.
    fn calm_at(&mut self, now: Duration) -> Option<Duration> {
        self.calm_until.take_if(|until| *until <= now);
        let asked = std::mem::take(&mut self.asked);
        if asked || self.calm_until.is_none() {
            self.unbalanced_since = None;
            return None;
        }
        self.calm_until
    }

    pub(super) fn target(&self, split: &S) -> Option<ReaderId> {
        self.target.get(split).copied()
    }

    pub(super) fn set_target(&mut self, split: &S, reader: ReaderId) {
        self.unset_target(split);
        self.homeless.remove(split);
        self.target.insert(split.clone(), reader);
        *self.counts.entry(reader).or_default() += 1;
        self.restless.insert(split.clone());
    }

    fn unset_target(&mut self, split: &S) -> bool {
        let Some(reader) = self.target.remove(split) else {
            return false;
        };
        if let Some(count) = self.counts.get_mut(&reader) {
            *count -= 1;
        }
        true
    }

    /// How many splits are looked at before long.
    pub(super) fn unsettled(&self) -> usize {
        self.homeless.len() + self.restless.len()
    }

    /// In how many seconds splits moved that are remembered.
    pub(super) fn moves(&self) -> usize {
        self.moved.len()
    }

    /// A split is not known any more.
    pub(super) fn forget(&mut self, split: &S) {
        self.unset_target(split);
        self.homeless.remove(split);
        self.restless.remove(split);
    }

    fn moved_lately(&mut self, now: Duration) -> usize {
        self.moved = self
            .moved
            .split_off(&now.as_secs().saturating_sub(LATELY - 1));
        self.moved.values().sum()
    }
}

/// What the assignor says, as far as it is not so already.
struct Planned<S> {
    /// Each split that is to have another target, the one that it has, and the other.
    moves: Vec<(S, Option<ReaderId>, ReaderId)>,
    hot: BTreeSet<S>,
}

/// What was done to bring a split nearer to its target.
enum Settled {
    Assigned,
    Revoked,
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Something about a split changed: who has it, or whether it is wanted.
    pub(super) fn reconsider(&mut self, split: &S, now: Duration) {
        self.keep(split);
        self.look_for_end(split);
        self.look_at_leaving(split, now);
        let Some(entry) = self.splits.get(split) else {
            return;
        };
        let due = now + self.options.plan_debounce;
        if entry.assignable(self.draining.cut) {
            if self.planning.target(split).is_some() {
                self.planning.restless.insert(split.clone());
            } else {
                self.planning.homeless.insert(split.clone());
                self.planning.trigger(due);
            }
            return;
        }
        self.planning.homeless.remove(split);
        if self.planning.unset_target(split) {
            self.planning.trigger(due);
        }
        // Whoever has it and was not told by the metadata is asked to release it.
        self.planning.restless.insert(split.clone());
    }

    /// Whether the assignor runs when it is due.
    pub(super) fn planning_now(&self) -> bool {
        let informed = self.metadata.is_some() || defect::is(Defect::RestoredBeforeMetadata);
        informed && self.assigning()
    }

    /// Whether splits may be given to readers.
    fn assigning(&self) -> bool {
        self.phase == Phase::Replaying || self.ticks.assigning()
    }

    /// Runs the assignor if that is due, and brings splits nearer to their target.
    pub(super) fn plan(&mut self, now: Duration) {
        if !self.assigning() {
            return;
        }
        if let Some(interval) = self.options.plan_interval {
            let periodic = self.planning.periodic.get_or_insert(now + interval);
            if *periodic <= now {
                *periodic = now + interval;
                self.planning.trigger_whole(now);
            }
        }
        if self.planning.due.is_some_and(|due| due <= now) && self.planning_now() {
            self.planning.due = None;
            self.planning.epoch = self.planning.epoch.next();
            if self.planning.whole || !self.place() {
                self.plan_whole(now);
            }
        }
        let (mut assigned, mut revoked) = (0, 0);
        for split in std::mem::take(&mut self.planning.restless) {
            match self.settle(split, now) {
                Some(Settled::Assigned) => assigned += 1,
                Some(Settled::Revoked) => revoked += 1,
                None => {}
            }
        }
        if assigned + revoked > 0 {
            let epoch = self.planning.epoch;
            self.tell(SourceEvent::Planned {
                epoch,
                assigned,
                revoked,
            });
        }
    }

    /// The readers that may have splits; all of them if every one is drained.
    fn available(&self) -> Vec<ReaderProfile> {
        let profiles = || self.readers.values().map(|(profile, _)| profile);
        let undrained = profiles().filter(|profile| !self.planning.drained.contains(&profile.id));
        let available: Vec<_> = undrained.cloned().collect();
        if available.is_empty() {
            return profiles().cloned().collect();
        }
        available
    }

    /// Places what is homeless without looking at the rest; false if the assignor wants to see it.
    fn place(&mut self) -> bool {
        let readers = self.available();
        let held: Vec<_> = (readers.iter())
            .map(|reader| self.planning.counts.get(&reader.id).copied().unwrap_or(0))
            .collect();
        let homeless = self.planning.homeless.len();
        let Some(placed) = self.planning.assignor.place(&readers, &held, homeless) else {
            return false;
        };
        for (split, reader) in self.planning.homeless.clone().iter().zip(placed) {
            self.planning.set_target(split, readers[reader].id);
        }
        true
    }

    /// Plans over everything.
    fn plan_whole(&mut self, now: Duration) {
        self.planning.whole = false;
        let calm_until = self.planning.calm_at(now);
        if let Some(until) = calm_until {
            self.planning.trigger_whole(until);
        }
        let planned = self.planned(now);
        for (split, with, to) in planned.moves {
            let calm = calm_until.is_some() || self.phase == Phase::Replaying;
            if with.is_none() || !calm {
                self.planning.set_target(&split, to);
            }
        }
        let hot = planned.hot;
        let news: Vec<_> = hot.difference(&self.planning.hot).cloned().collect();
        for split in news {
            let load = self.splits.get(&split).map(|entry| entry.load);
            self.tell(SourceEvent::SplitHot {
                split,
                bytes_per_second: load.unwrap_or_default().bytes_per_second,
            });
        }
        self.planning.hot = hot;
    }

    /// What the assignor says of everything that can be assigned.
    fn planned(&mut self, now: Duration) -> Planned<S> {
        let readers = self.available();
        let moved_lately = self.planning.moved_lately(now);
        let indices: BTreeMap<ReaderId, usize> = (readers.iter().enumerate())
            .map(|(index, reader)| (reader.id, index))
            .collect();
        let mut profiles = Vec::with_capacity(self.splits.len());
        let mut targets = Vec::with_capacity(self.splits.len());
        // Both tables have the same order: one walk over each is cheaper than a look-up a split.
        let mut table = self.planning.target.iter().peekable();
        for (split, entry) in &self.splits {
            while table.next_if(|(other, _)| *other < split).is_some() {}
            let target = table.next_if(|(other, _)| *other == split);
            if !entry.assignable(self.draining.cut) {
                continue;
            }
            let target = target.map(|(_, reader)| *reader);
            let with = target.or_else(|| entry.ownership.reader());
            targets.push(target);
            profiles.push(SplitProfile {
                split,
                owner: with.and_then(|reader| indices.get(&reader).copied()),
                load: entry.load,
                racks: &entry.racks,
            });
        }
        let plan = self.planning.assignor.plan(&Situation {
            readers: &readers,
            splits: &profiles,
            moved_lately,
        });
        let all = profiles.iter().zip(targets).zip(plan.readers);
        let moves = all.filter_map(|((profile, target), reader)| {
            let to = readers[reader].id;
            (target != Some(to)).then(|| (profile.split.clone(), target, to))
        });
        let hot = plan.hot.iter().map(|index| profiles[*index].split.clone());
        Planned {
            moves: moves.collect(),
            hot: hot.collect(),
        }
    }

    /// Says what the assignor would do.
    pub(super) fn show_plan(&mut self, now: Duration) {
        let moves = self.planned(now).moves;
        self.tell(SourceEvent::PlanShown { moves });
    }

    /// Gives a split to its target if nobody has it, and takes it from its reader if that is another
    /// or if it is not wanted.
    fn settle(&mut self, split: S, now: Duration) -> Option<Settled> {
        let target = self.planning.target(&split);
        let entry = self.splits.get_mut(&split)?;
        match (&entry.ownership, target) {
            (Ownership::Idle { next, .. }, Some(reader)) => {
                let Some(split_epoch) = self.epochs.after(entry.split_epoch) else {
                    // It is looked at again when the log has answered.
                    self.planning.restless.insert(split);
                    return None;
                };
                let start = next.clone();
                entry.split_epoch = split_epoch;
                entry.ownership = Ownership::Assigned(reader);
                entry.story.emitted = false;
                let assignment = Assignment {
                    split: split.clone(),
                    split_epoch,
                    metadata_epoch: self.metadata_epoch,
                    start: start.clone(),
                    stop: entry.stops_at().cloned(),
                };
                let assign = Directive::Assign(assignment);
                self.intentions.push_back(Intention::Send(reader, assign));
                self.tell(SourceEvent::Assigned {
                    split,
                    reader,
                    split_epoch,
                    start,
                });
                Some(Settled::Assigned)
            }
            // What is to be given again is given by who has it.
            (Ownership::Assigned(reader), target)
                if Some(*reader) != target && self.phase != Phase::Replaying =>
            {
                let reader = *reader;
                let unprepared = target.filter(|to| entry.prepared != Some(*to));
                if let Some(to) = unprepared.filter(|_| self.options.prepare) {
                    self.prepare(&split, to, now);
                    if defect::is(Defect::NotPrepared) {
                        self.prepared(&split, to);
                    }
                    return None;
                }
                entry.ownership = Ownership::Releasing(reader);
                let split_epoch = entry.split_epoch;
                self.revoke(reader, split, split_epoch, now);
                *self.planning.moved.entry(now.as_secs()).or_default() += 1;
                Some(Settled::Revoked)
            }
            (Ownership::Assigned(_), _) => {
                // It stays where it is after all.
                self.wait_no_more(&split);
                None
            }
            _ => None,
        }
    }

    /// Has the reader that is to get a split connect to it, before the one that has it lets go.
    fn prepare(&mut self, split: &S, target: ReaderId, now: Duration) {
        if self.is_preparing(target, split) {
            return;
        }
        let due = now + self.options.prepare_deadline;
        self.wait_for(split, due, Awaited::Prepared(target));
        let prepare = Directive::Prepare(split.clone());
        self.intentions.push_back(Intention::Send(target, prepare));
    }

    /// A reader is prepared to take a split from the one that has it, or takes too long to be.
    pub(super) fn prepared(&mut self, split: &S, reader: ReaderId) {
        self.wait_no_more(split);
        if let Some(entry) = self.splits.get_mut(split) {
            entry.prepared = Some(reader);
            self.planning.restless.insert(split.clone());
        }
    }

    /// Asks a reader for a split, and again if it has not released it by the deadline. Whoever does not
    /// have it ignores that.
    pub(super) fn revoke(
        &mut self,
        reader: ReaderId,
        split: S,
        split_epoch: SplitEpoch,
        now: Duration,
    ) {
        let due = now + self.options.release_deadline;
        self.wait_for(&split, due, Awaited::Release);
        let revoke = Directive::Revoke { split, split_epoch };
        self.intentions.push_back(Intention::Send(reader, revoke));
    }

    /// Takes the loads of what was emitted within `elapsed`.
    ///
    /// Linear in the splits, so only where somebody looks at loads.
    pub(super) fn take_loads(&mut self, elapsed: Duration) {
        if self.options.plan_interval.is_none() {
            return;
        }
        for entry in self.splits.values_mut() {
            let emitted = std::mem::take(&mut entry.emitted);
            entry.load = entry.load.after(emitted, elapsed);
        }
    }
}
