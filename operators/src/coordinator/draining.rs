//! Splits that the last answer removes, and that are read to their end before it is in force.
//!
//! The metadata decides which: what is in force until then, the *interim*, is made of the metadata before
//! and of the answer, the *target*. A split that the interim lists and the target does not *leaves*. Its
//! end is asked for while it is read on. Then its reader hands it back, its end is recorded, and it is
//! read up to there as up to a stop. When all that leaves is there, and the ticks are closed in which its
//! last records were emitted, the target is in force: what that adds is emitted at later ticks.
//!
//! Owner: the coordinator; readers, fetchers and the discovery see an epoch like any other. Invariants:
//! nothing of a split is read from when its end is known until that is recorded, nothing is read past a
//! recorded end while it leaves, and an end that is recorded is not asked for again, but of a split that
//! starts over, which is another one. Bound: the splits that are known, with two records of each that wait
//! for the log. Failure: a split whose end cannot be asked for, or that nobody reads, holds the target back
//! and is told, until a person has what is left cut.

use std::collections::BTreeSet;
use std::time::Duration;

use super::loss::{Loss, Noticed};
use super::ownership::{Entry, Ownership};
use super::ticks::Ending;
use super::{Coordinator, Intention};
use crate::assignor::Assignor;
use crate::defect::{self, Defect};
use crate::discovery::DiscoveryRequest;
use crate::epoch::RequestId;
use crate::event::SourceEvent;
use crate::health::HealthStatus;
use crate::log::LogRecord;
use crate::loss::LossCause;
use crate::split::{Metadata, Split};

/// How long after a drain began it is told what it waits for, and ends are asked for again that are not
/// known. It is told again each time twice as much time has passed.
const TOLD_AFTER: Duration = Duration::from_secs(10);

/// How many splits a person is told that a drain waits for.
const NAMED_MAX: usize = 5;

/// What is drained, and for what.
///
/// # Invariants
///
/// `left` and `over` together have every split with a [`Leaving`]: it is over if nothing more is to be
/// read of it, and `unasked` has those of `left` of which it is to be asked where they end.
#[derive(Clone, Debug, Hash)]
pub(super) struct Draining<S: Split> {
    /// The answer that is in force once all is drained.
    pub(super) target: Option<S::Metadata>,
    left: BTreeSet<S>,
    over: BTreeSet<S>,
    unasked: BTreeSet<S>,
    /// Whether a person has had what is left cut, so that it is not read any more.
    pub(super) cut: bool,
    /// When it is told next what is waited for, and how long that was waited for then.
    due: Option<(Duration, Duration)>,
}

/// How far a split is drained.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Leaving<P> {
    /// It is read on, and asked where it ends.
    Asking(Option<RequestId>),
    /// It ends there, or where its reader hands it back if that is later.
    Known(P),
    /// It ends there; that is not durable.
    Recording(P),
    /// It ends there.
    Recorded(P),
}

impl<S: Split> Draining<S> {
    pub(super) fn new() -> Self {
        Self {
            target: None,
            left: BTreeSet::new(),
            over: BTreeSet::new(),
            unasked: BTreeSet::new(),
            cut: false,
            due: None,
        }
    }

    /// When [`Coordinator::go_on_draining`] has something to tell.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due.map(|(due, _)| due)
    }

    /// How many splits leave.
    pub(super) fn len(&self) -> usize {
        self.left.len() + self.over.len()
    }

    /// A split does not leave any more, or is not known.
    pub(super) fn forget(&mut self, split: &S) {
        self.left.remove(split);
        self.over.remove(split);
        self.unasked.remove(split);
    }
}

impl<P> Leaving<P> {
    /// Whether nobody may read it for now.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Known(_) | Self::Recording(_))
    }

    /// Where it ends, if that is durable.
    pub(super) fn end(&self) -> Option<&P> {
        match self {
            Self::Recorded(end) => Some(end),
            Self::Asking(_) | Self::Known(_) | Self::Recording(_) => None,
        }
    }

    /// Where it ends, as far as the log was told.
    pub(super) fn recorded(&self) -> Option<&P> {
        match self {
            Self::Recorded(end) | Self::Recording(end) => Some(end),
            Self::Asking(_) | Self::Known(_) => None,
        }
    }
}

/// Whether nothing more is to be read of a split that leaves.
fn is_over<S: Split>(entry: &Entry<S>, cut: bool) -> bool {
    match &entry.ownership {
        Ownership::Finished { .. } => true,
        Ownership::Resolving(_) => cut,
        Ownership::Idle { .. } => cut || !entry.present(),
        Ownership::Quarantined { next, .. } => cut || !entry.present() || entry.stops_by(next),
        Ownership::Recording(_) | Ownership::Assigned(_) | Ownership::Releasing(_) => false,
    }
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// What is in force before `answer` is, if anything that is known is to be drained for it.
    pub(super) fn interim(&self, answer: &S::Metadata) -> Option<S::Metadata> {
        let interim = self.in_force()?.interim(answer)?;
        let changed = answer.changed_groups(&interim);
        let mut leaving = changed.iter().filter(|group| interim.lists_group(group));
        let known = leaving.any(|group| self.groups.contains_key(group));
        known.then_some(interim)
    }

    /// Whether a split leaves.
    pub(super) fn leaves(&self, split: &S) -> bool {
        let metadata = self.metadata.as_ref().zip(self.draining.target.as_ref());
        metadata.is_some_and(|(interim, target)| interim.lists(split) && !target.lists(split))
    }

    /// An epoch begins, and when what leaves is drained, `target` is in force.
    pub(super) fn leave(&mut self, target: Option<S::Metadata>, now: Duration) {
        self.draining.target = target;
        self.draining.cut = false;
        self.draining.due = None;
        let before: Vec<_> = (self.draining.left.iter())
            .chain(&self.draining.over)
            .cloned()
            .collect();
        for split in before {
            if !self.leaves(&split) {
                self.stay(&split, now);
            }
        }
        let both = self.metadata.as_ref().zip(self.draining.target.as_ref());
        let Some((interim, next)) = both else {
            return;
        };
        let mut groups = next.changed_groups(interim);
        groups.retain(|group| interim.lists_group(group));
        let members = groups.iter().filter_map(|group| self.groups.get(group));
        let splits: Vec<_> = members.flatten().cloned().collect();
        for split in &splits {
            if let Some(entry) = self.splits.get_mut(split) {
                entry.leaving.get_or_insert(Leaving::Asking(None));
                self.reconsider(split, now);
            }
        }
        self.draining.due = Some((now + TOLD_AFTER, TOLD_AFTER));
        let (epoch, splits) = (self.metadata_epoch, splits.len());
        self.tell(SourceEvent::DrainBegun { epoch, splits });
    }

    /// A split does not leave any more: it goes on if it is listed, and where it was drained to it is kept
    /// if not.
    fn stay(&mut self, split: &S, now: Duration) {
        self.draining.forget(split);
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        let was = entry.leaving.take();
        // One that is with a reader is handed back at the end, and assigned again.
        let drained_to = match &entry.ownership {
            Ownership::Finished { next, since } if !entry.stops_by(next) => {
                Some((next.clone(), *since))
            }
            Ownership::Resolving(_)
            | Ownership::Recording(_)
            | Ownership::Idle { .. }
            | Ownership::Assigned(_)
            | Ownership::Releasing(_)
            | Ownership::Quarantined { .. }
            | Ownership::Finished { .. } => None,
        };
        // What is taken back before the log had it leaves the log as it was. Otherwise the log has to say
        // it before anything that is read from here on: what was recorded stays in its place.
        let is_end = |record: &LogRecord<S>| matches!(record, LogRecord::End { split: one, end: Some(_) } if one == split);
        if was.is_some_and(|was| was.recorded().is_some()) && !self.take_back(is_end) {
            let (split, end) = (split.clone(), None);
            self.to_append.push(LogRecord::End { split, end });
        }
        match drained_to {
            Some((next, since)) => self.rest(split, next, since, now),
            None => self.reconsider(split, now),
        }
    }

    /// Something about a split changed that can bring its drain further.
    pub(super) fn look_at_leaving(&mut self, split: &S, now: Duration) {
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        let over = is_over(entry, self.draining.cut);
        let Some(leaving) = &mut entry.leaving else {
            return;
        };
        let (to, from) = match over {
            true => (&mut self.draining.over, &mut self.draining.left),
            false => (&mut self.draining.left, &mut self.draining.over),
        };
        from.remove(split);
        to.insert(split.clone());
        if over {
            self.draining.unasked.remove(split);
            return;
        }
        if *leaving == Leaving::Asking(None) {
            self.draining.unasked.insert(split.clone());
        }
        // Of one that is another one by now, or may be, no end means anything.
        let is_meant = entry.loss.is_none() && entry.replaced_by.is_none();
        let kept = entry.ownership.kept().filter(|_| is_meant);
        let (Leaving::Known(end), Some((next, since))) = (&*leaving, kept) else {
            return;
        };
        let (is_short, next) = (S::precedes(end, next), next.clone());
        let end = if is_short { next.clone() } else { end.clone() };
        if is_short && matches!(entry.ownership, Ownership::Idle { .. }) {
            // It was read on meanwhile, or it is another one by now, and what was left of it is lost.
            let words = format!("its end was asked for, and is before {next}");
            *leaving = Leaving::Known(end);
            entry.ownership = Ownership::Quarantined { next, since };
            entry.loss = Some(Loss::Open(Noticed::Reading(LossCause::OutOfRange, words)));
            return self.judge(split, self.options.start_deadline, now);
        }
        *leaving = Leaving::Recording(end.clone());
        let (split, end) = (split.clone(), Some(end));
        self.to_append.push(LogRecord::End { split, end });
    }

    /// The discovery says where a split ends.
    pub(super) fn end_found(
        &mut self,
        request: RequestId,
        split: &S,
        end: S::Position,
        now: Duration,
    ) {
        let entry = self.splits.get_mut(split);
        let leaving = entry.and_then(|entry| entry.leaving.as_mut());
        let Some(leaving) = leaving.filter(|one| **one == Leaving::Asking(Some(request))) else {
            self.ignored += 1;
            return;
        };
        *leaving = Leaving::Known(end);
        self.reconsider(split, now);
    }

    /// It is durable where a split ends.
    pub(super) fn end_recorded(&mut self, split: &S, end: Option<S::Position>, now: Duration) {
        let Some((entry, end)) = self.splits.get_mut(split).zip(end) else {
            return;
        };
        let recorded = Leaving::Recording(end.clone());
        let leaving = entry.leaving.as_mut();
        let Some(leaving) = leaving.filter(|leaving| **leaving == recorded) else {
            return;
        };
        *leaving = Leaving::Recorded(end.clone());
        let at_rest = match &entry.ownership {
            // What is quarantined stays so.
            Ownership::Idle { next, since } => Some((next.clone(), *since)),
            Ownership::Resolving(_)
            | Ownership::Recording(_)
            | Ownership::Assigned(_)
            | Ownership::Releasing(_)
            | Ownership::Quarantined { .. }
            | Ownership::Finished { .. } => None,
        };
        self.tell(SourceEvent::SplitLeaves {
            split: split.clone(),
            end,
        });
        if let Some((next, since)) = at_rest {
            self.rest(split, next, since, now);
        }
        self.reconsider(split, now);
    }

    /// Asks where splits end, tells what is waited for, and ends the drain when all is over.
    pub(super) fn go_on_draining(&mut self, now: Duration) {
        if self.draining.target.is_none() || self.metadata.is_none() {
            return;
        }
        if let Some((_, waited)) = self.draining.due.take_if(|(due, _)| *due <= now) {
            let wait = waited * 2;
            self.draining.due = Some((now + wait, wait));
            self.draining.unasked.extend(self.draining.left.clone());
            self.tell_left();
        }
        for split in std::mem::take(&mut self.draining.unasked) {
            self.ask_end(split);
        }
        let all_over = self.draining.left.is_empty() && self.ticks.ending == Ending::No;
        if !all_over || !self.draining.over.iter().all(|split| self.is_let_go(split)) {
            return;
        }
        let cut = self.draining.over.iter().filter(|split| {
            let entry = self.splits.get(*split);
            entry.is_some_and(|entry| entry.present() && !entry.is_finished())
        });
        let (splits, cut) = (self.draining.over.len(), cut.count());
        self.tell(SourceEvent::DrainEnded { splits, cut });
        if let Some(target) = self.draining.target.take() {
            self.put_in_force(target, None, now);
        }
    }

    /// Whether the tick is closed in which the last record of a split was emitted that is over.
    fn is_let_go(&self, split: &S) -> bool {
        let entry = self.splits.get(split);
        let unread = entry.is_some_and(|one| matches!(one.ownership, Ownership::Resolving(_)));
        unread || self.is_bound(split) || defect::is(Defect::CutOverEarly)
    }

    fn ask_end(&mut self, split: S) {
        let request = self.last_request.next();
        // The discovery answers one question of a split, and where it starts comes first. It is asked for the
        // end when that is recorded.
        let starts = |entry: &Entry<S>| {
            matches!(
                entry.ownership,
                Ownership::Resolving(_) | Ownership::Recording(_)
            )
        };
        let entry = self.splits.get_mut(&split).filter(|entry| !starts(entry));
        let Some(Leaving::Asking(asked)) = entry.and_then(|entry| entry.leaving.as_mut()) else {
            return;
        };
        // An answer that takes long must not come too late for ever.
        let request = *asked.get_or_insert(request);
        self.last_request = self.last_request.max(request);
        let ask = DiscoveryRequest::End { request, split };
        self.intentions.push_back(Intention::Ask(ask));
    }

    /// Cuts what is left of the drain.
    pub(super) fn cut(&mut self, now: Duration) {
        self.draining.cut = true;
        let left = self.draining.left.clone();
        let message = format!(
            "what is left to be drained is cut, as was confirmed: {} splits",
            left.len()
        );
        self.tell_metadata(HealthStatus::Well, message);
        for split in left {
            self.reconsider(&split, now);
        }
    }

    /// Tells a person what a drain waits for.
    fn tell_left(&mut self) {
        let left = &self.draining.left;
        if left.is_empty() {
            return;
        }
        let named = left.iter().take(NAMED_MAX).filter_map(|split| {
            let why = waits(self.splits.get(split)?);
            Some(format!("split {split}, {why}"))
        });
        let mut named: Vec<_> = named.collect();
        if left.len() > NAMED_MAX {
            named.push(format!("{} more", left.len() - NAMED_MAX));
        }
        let message = format!(
            "the last answer is in force when what it removes is read to its end, or what is left of that \
             is cut by confirming it; left are {}",
            named.join("; ")
        );
        self.tell_metadata(HealthStatus::Waiting, message);
    }
}

/// What the drain of a split waits for, in words.
fn waits<S: Split>(entry: &Entry<S>) -> String {
    match (&entry.ownership, &entry.leaving) {
        (Ownership::Resolving(_) | Ownership::Recording(_), _) => {
            "of which it is not known where it starts".to_owned()
        }
        _ if entry.loss.is_some() => "of which it is asked what is left".to_owned(),
        (Ownership::Quarantined { .. }, _) => "which failed".to_owned(),
        _ if entry.paused => "which is paused".to_owned(),
        (_, Some(Leaving::Asking(_))) => "of which it is not known where it ends".to_owned(),
        _ if !entry.verified => "which was not found since the start".to_owned(),
        (_, Some(Leaving::Recorded(end))) => format!("which ends at {end}"),
        _ => "whose end is being recorded".to_owned(),
    }
}
