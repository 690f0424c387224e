//! Splits whose next records are no longer there.
//!
//! Such a split is nobody's, at its position. The discovery is asked what there is of it, and by that and
//! its policy one of three things happens: it is read on, it is looked at again later, or an error is
//! bound that says what is lost and what comes after. What comes after comes when the error is durable,
//! so that a restart goes on in the same way, and a replay says the same at the same tick.

use std::time::Duration;

use super::ownership::{Entry, Ownership};
use super::{Awaited, Coordinator, Intention, Phase};
use crate::assignor::Assignor;
use crate::binding::SplitError;
use crate::discovery::DiscoveryRequest;
use crate::epoch::RequestId;
use crate::event::SourceEvent;
use crate::health::{FailureKind, Health, HealthStatus};
use crate::log::LogRecord;
use crate::loss::{Aftermath, LossCause, LossKind, LossPolicy, Remains};
use crate::protocol::{Directive, Report};
use crate::split::{Metadata, Split};

/// How long after a split was looked at it is looked at again, if its policy is to wait, or if it was
/// there and could not be read all the same.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What is known of a split whose next records are no longer there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Loss<S: Split> {
    /// It has to be found out what there is: by whom it was noticed, and in which words.
    Open(Noticed<S::Position>),
    /// An error about it is to be bound, with this identity of what takes its place.
    Telling(Option<S::Identity>),
}

impl<S: Split> Entry<S> {
    /// Whether it is quarantined by an error that was told. One that was read again after such an error
    /// was readmitted, also if it is not known yet what it has lost since.
    pub(super) fn has_failed(&self) -> bool {
        let is_judged = matches!(&self.loss, Some(Loss::Open(Noticed::Reading(..))));
        self.is_quarantined() && !is_judged
    }
}

/// By whom a loss was noticed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Noticed<P> {
    /// By who reads the split.
    Reading(LossCause<P>, String),
    /// By the discovery, which found another split of the same name.
    Found,
}

/// What is found to be lost of a split.
struct Found<S: Split> {
    kind: LossKind,
    /// What happened, in words.
    message: String,
    /// What comes after by each policy that goes on; `None` if it cannot go on.
    skip: Option<Aftermath<S>>,
    restart: Option<Aftermath<S>>,
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// A reader cannot read a split on, and has released it.
    pub(super) fn lost(&mut self, lost: Report<S>, now: Duration) {
        let Report::Lost {
            reader,
            split,
            split_epoch,
            cause,
            next,
            message,
        } = lost
        else {
            return;
        };
        if !self.is_current(reader, &split, split_epoch) {
            return;
        }
        if self.phase == Phase::Replaying {
            let why = format!("split {split}: it cannot be replayed from {next} on: {message}");
            self.wedge("source", why);
            return;
        }
        self.wait_no_more(&split);
        let Some(entry) = self.splits.get_mut(&split) else {
            return;
        };
        let again = entry.lost_at.replace((next.clone(), now));
        let at_once = again.is_none_or(|(at, when)| at != next || when + LOOK_AGAIN <= now);
        entry.barred = false;
        entry.ownership = Ownership::Quarantined { next, since: now };
        entry.loss = Some(Loss::Open(Noticed::Reading(cause, message)));
        self.reconsider(&split, now);
        if at_once {
            self.judge(&split, self.options.start_deadline, now);
        } else {
            self.wait_for(&split, now + LOOK_AGAIN, Awaited::AnotherLook);
        }
    }

    /// Another split of the same name was found, and the one that was known is nobody's.
    pub(super) fn judge_replaced(&mut self, split: &S, now: Duration) {
        let judged = self.splits.get_mut(split).filter(|entry| {
            entry.replaced_by.is_some() && entry.is_quarantined() && entry.loss.is_none()
        });
        if let Some(entry) = judged {
            entry.loss = Some(Loss::Open(Noticed::Found));
            self.judge(split, self.options.start_deadline, now);
        }
    }

    /// Asks what there is of a split, again if there is no answer after `wait`.
    pub(super) fn judge(&mut self, split: &S, wait: Duration, now: Duration) {
        let open = |entry: &Entry<S>| matches!(entry.loss, Some(Loss::Open(_)));
        if !self.splits.get(split).is_some_and(open) {
            return;
        }
        let request = self.next_request();
        self.wait_for(split, now + wait, Awaited::Judgement(request, wait));
        let split = split.clone();
        let judge = DiscoveryRequest::Judge { request, split };
        self.intentions.push_back(Intention::Ask(judge));
    }

    /// The discovery says what there is of a split.
    pub(super) fn judged(
        &mut self,
        request: RequestId,
        split: &S,
        remains: Remains<S>,
        now: Duration,
    ) {
        let entry = self.splits.get_mut(split).filter(|entry| {
            let awaited = entry.awaited.map(|(_, awaited)| awaited);
            matches!(awaited, Some(Awaited::Judgement(asked, _)) if asked == request)
        });
        let Some(entry) = entry else {
            self.ignored += 1;
            return;
        };
        if let (Some(known), Some(found)) = (&entry.identity, &remains.identity) {
            let other = S::contradicts(known, found);
            entry.replaced_by = other.then(|| found.clone());
        }
        let bounded = self.bounded.is_some();
        let Some((found, identity)) = found(split, entry, remains, bounded) else {
            self.wait_no_more(split);
            self.is_there(split, now);
            return;
        };
        self.wait_no_more(split);
        self.decide(split, found, identity, now);
    }

    /// What there is of a split is what was expected: it is read on.
    fn is_there(&mut self, split: &S, now: Duration) {
        let durably = self.quarantined.contains(split);
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        entry.loss = None;
        if durably {
            // That it failed is bound, so a person has to say that it is read again.
            return;
        }
        if let Ownership::Quarantined { next, since } = &entry.ownership {
            let (next, since) = (next.clone(), *since);
            entry.ownership = Ownership::Idle { next, since };
        }
        self.reconsider(split, now);
    }

    /// Does what the policy for a split says.
    fn decide(&mut self, split: &S, found: Found<S>, identity: Option<S::Identity>, now: Duration) {
        if self.phase != Phase::Running {
            // No tick is open that an error could be of.
            self.wait_for(split, now + LOOK_AGAIN, Awaited::AnotherLook);
            return;
        }
        let said =
            (self.metadata.as_ref()).and_then(|metadata| metadata.loss_policy(split, found.kind));
        let policy = said.unwrap_or_else(|| self.options.losses.of(found.kind));
        let after = match policy {
            LossPolicy::Fail => None,
            LossPolicy::Skip => found.skip,
            LossPolicy::Restart => found.restart,
            LossPolicy::Wait => {
                let entry = self.splits.get_mut(split);
                if let Some(Loss::Open(Noticed::Reading(cause, _))) =
                    entry.and_then(|entry| entry.loss.as_mut())
                {
                    // Only who reads it can tell whether it still is cut off.
                    *cause = LossCause::OutOfRange;
                }
                self.wait_for(split, now + LOOK_AGAIN, Awaited::AnotherLook);
                let message = format!("{}; waiting until that is over", found.message);
                self.tell_loss(split, HealthStatus::Waiting, message);
                return;
            }
        };
        let message = found.message;
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        let Ownership::Quarantined { next, .. } = &entry.ownership else {
            return;
        };
        let position = next.clone();
        let (then, words) = then(after, policy, &position);
        entry.loss = (then != Aftermath::Stays).then_some(Loss::Telling(identity));
        let message = format!("{message}; {words}");
        let fails = HealthStatus::Failing(FailureKind::Definite);
        self.tell_loss(split, fails, message.clone());
        self.reconsider(split, now);
        if self.quarantined.contains(split) && then == Aftermath::Stays {
            // It is bound that it failed.
            return;
        }
        let split = split.clone();
        let error = SplitError {
            split,
            position,
            message,
            then,
        };
        self.emit(error);
    }

    /// Has a reader emit an error, which comes back with the tick that it is of.
    fn emit(&mut self, error: SplitError<S>) {
        if let Some(reader) = self.readers.keys().next() {
            let emit = Directive::Emit(error);
            self.intentions.push_back(Intention::Send(*reader, emit));
        }
    }

    /// Tells a person of a loss, once for what it says.
    fn tell_loss(&mut self, split: &S, status: HealthStatus, message: String) {
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        if entry.failing.replace(message.clone()).as_ref() != Some(&message) {
            let subject = format!("split {split}");
            self.tell(SourceEvent::Health(Health::new(subject, status, message)));
        }
    }

    /// A tick is closed with errors: what is started over is another split from here on.
    pub(super) fn start_over(&mut self, errors: &[SplitError<S>], now: Duration) {
        for error in errors {
            let Aftermath::StartedOver {
                split: other,
                start,
                stop,
            } = &error.then
            else {
                continue;
            };
            let Some(before) = self.splits.get(&error.split) else {
                continue;
            };
            let mut entry = Entry::found(RequestId::default(), before.split_epoch);
            entry.ownership = Ownership::Recording(start.clone());
            entry.racks.clone_from(&before.racks);
            entry.stop.clone_from(stop);
            entry.listed = before.listed;
            entry.unlisted_since = before.unlisted_since;
            entry.gone = before.gone;
            entry.paused = before.paused;
            entry.verified = before.verified;
            if let Some(Loss::Telling(identity)) = &before.loss {
                entry.identity.clone_from(identity);
            }
            let (identity, paused) = (entry.identity.clone(), entry.paused);
            self.remove(&error.split);
            // `remove` forgets where it is bound, and the binding says so of the other one.
            self.bound.insert(other.clone(), start.clone());
            self.insert(other.clone(), entry, now);
            if let Some(identity) = identity {
                let split = other.clone();
                self.to_append
                    .push(LogRecord::Identified { split, identity });
            }
            if paused {
                self.to_append.push(LogRecord::Paused(other.clone()));
            }
        }
    }

    /// Errors are durable: what comes after them comes.
    pub(super) fn go_on_after(&mut self, errors: &[SplitError<S>], now: Duration) {
        for error in errors {
            self.losses += 1;
            let (split, next) = match &error.then {
                Aftermath::Stays => (&error.split, None),
                Aftermath::Skipped(to) => (&error.split, Some(to)),
                Aftermath::StartedOver { split, start, .. } => (split, Some(start)),
            };
            let entry = self.splits.get_mut(split);
            if let (Some(entry), Some(next)) = (entry, next) {
                entry.loss = None;
                entry.lost_at = None;
                entry.failing = None;
                let next = next.clone();
                // If it is kept, it is for as long as before.
                let since = entry.ownership.kept().map_or(now, |(_, since)| since);
                let split = split.clone();
                self.rest(&split, next, since, now);
            }
            self.tell(SourceEvent::SplitLost {
                error: error.clone(),
                count: self.losses,
            });
        }
    }
}

/// What is lost of a split of which there is `remains`, with what takes its place; `None` if nothing is.
fn found<S: Split>(
    split: &S,
    entry: &Entry<S>,
    remains: Remains<S>,
    bounded: bool,
) -> Option<(Found<S>, Option<S::Identity>)> {
    let Some(Loss::Open(noticed)) = &entry.loss else {
        return None;
    };
    let Ownership::Quarantined { next, .. } = &entry.ownership else {
        return None;
    };
    let Remains {
        identity,
        first,
        end,
    } = remains;
    if let Some(other) = &entry.replaced_by {
        let found = replaced(split, entry, other, (first, end));
        return Some((found, Some(other.clone())));
    }
    let identity = identity.or_else(|| entry.identity.clone());
    // What is left has the offsets of before, so its stop means what it did. A bounded source does not wait
    // for what is not there by now.
    let stop = entry.stop.clone().map(|stop| {
        let is_missing = bounded && S::precedes(&end, &stop);
        if is_missing { end.clone() } else { stop }
    });
    let over = |start| over(split, start, stop.clone());
    let (cause, words) = match noticed {
        Noticed::Reading(cause, words) => (Some(cause), words.as_str()),
        Noticed::Found => (None, ""),
    };
    let found = match cause {
        _ if S::precedes(next, &first) => Found {
            kind: LossKind::Records,
            message: format!(
                "its records from {next} on are gone, the first that is left is at {first}"
            ),
            skip: Some(Aftermath::Skipped(first.clone())),
            restart: Some(Aftermath::Skipped(first)),
        },
        Some(LossCause::Truncated(cut)) => {
            let cut = cut.clone().filter(|cut| S::precedes(cut, next));
            let place = match &cut {
                Some(cut) => format!("at {cut}"),
                None => "nobody knows where".to_owned(),
            };
            Found {
                kind: LossKind::Records,
                message: format!(
                    "it was cut off {place}, below its position {next}, and ends at {end}: {words}"
                ),
                skip: cut.and_then(|cut| over(later::<S>(cut, &first))),
                restart: over(first),
            }
        }
        _ if S::precedes(&end, next) => Found {
            kind: LossKind::Records,
            message: format!(
                "its position {next} is behind its end {end}: it was cut off nobody knows where, or that \
                 much was never written"
            ),
            skip: None,
            restart: over(first),
        },
        _ => return None,
    };
    Some((found, identity))
}

/// What is lost of a split of which `other` has taken the name, and which goes from `first` to `end`.
fn replaced<S: Split>(
    split: &S,
    entry: &Entry<S>,
    other: &S::Identity,
    (first, end): (S::Position, S::Position),
) -> Found<S> {
    let known = entry.identity.as_ref();
    let difference = known.map_or_else(String::new, |known| {
        format!(": {}", S::difference(known, other))
    });
    let in_its_place = known.is_none_or(|known| S::takes_place(known, other));
    // A stop is of the records of the one before. Of this one all is read that there is.
    let stop = entry.stop.is_some().then_some(end);
    let after = in_its_place.then(|| over(split, first, stop)).flatten();
    Found {
        kind: LossKind::Recreated,
        message: format!("it was replaced by another one of the same name{difference}"),
        skip: after.clone(),
        restart: after,
    }
}

/// That a split starts over, if it can.
fn over<S: Split>(
    split: &S,
    start: S::Position,
    stop: Option<S::Position>,
) -> Option<Aftermath<S>> {
    let split = split.started_over()?;
    Some(Aftermath::StartedOver { split, start, stop })
}

/// What comes `after` a loss of a split at `position`, if its policy goes on, and in words.
fn then<S: Split>(
    after: Option<Aftermath<S>>,
    policy: LossPolicy,
    position: &S::Position,
) -> (Aftermath<S>, String) {
    let after = after.unwrap_or(Aftermath::Stays);
    let words = match &after {
        Aftermath::Stays if policy == LossPolicy::Fail => {
            "it stays there until it is readmitted".to_owned()
        }
        Aftermath::Stays => format!(
            "the policy '{policy}' cannot say where it goes on; it stays there until it is readmitted"
        ),
        Aftermath::Skipped(to) => format!("{position}..{to} is lost, and is skipped"),
        Aftermath::StartedOver { split, start, stop } => {
            let stop = stop.as_ref();
            let stop = stop.map_or_else(String::new, |stop| format!(" up to {stop}"));
            format!("it starts over from {start}{stop} as split {split}")
        }
    };
    (after, words)
}

/// The position that is further on.
fn later<S: Split>(one: S::Position, other: &S::Position) -> S::Position {
    if S::precedes(&one, other) {
        other.clone()
    } else {
        one
    }
}
