//! What the metadata service answers, until it is in force.
//!
//! An answer that is wrong does more harm than none: one that is empty, because whoever gives it has
//! lost its database, would stop all reading. So an answer that loses much of what is in force is held
//! back until the service says the same again, or a person confirms it. It is held back as a whole,
//! with what it adds: an answer is taken or it is not. What is taken is in force at once, or after what
//! it removes is [drained](super::draining).

use std::fmt::{self, Display};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::{Coordinator, Phase};
use crate::assignor::Assignor;
use crate::event::SourceEvent;
use crate::health::{FailureKind, Health, HealthStatus};
use crate::protocol::Directive;
use crate::split::{Metadata, Shrink, Split};

/// The subject of health about what is in force.
const SUBJECT: &str = "metadata";

/// How many times as late what is in force is told to be old again, each time.
const STALE_AGAIN: u32 = 2;

/// When an answer that loses much of what is in force is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShrinkGuard {
    /// How much of a kind an answer may lose, in percent of what is in force, and not all of it.
    pub loss_percent_max: u8,
    /// How long after it was given first it must be given again to be believed.
    pub confirmed_after: Duration,
}

impl Display for ShrinkGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "answers that lose all of a kind, or more than {} %, until they are given again after {:?}",
            self.loss_percent_max, self.confirmed_after
        )
    }
}

/// When a metadata service that does not answer ends the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureThreshold {
    /// How many failures in a row are borne.
    pub failures_max: u32,
    /// What one more does.
    pub then: GivingUp,
}

impl Display for FailureThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failures, then {:?}", self.failures_max, self.then)
    }
}

/// How a source ends whose metadata service does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GivingUp {
    /// In order: what was read is closed in a last tick, and the dataflow can end.
    Stop,
    /// It [goes no further](SourceEvent::Failed), with its frontier where it is: nobody takes what was read
    /// for all there is.
    Fail,
}

/// What the metadata service said before the log was open.
///
/// Nothing is done about it until then: splits that are in the log would be taken for new ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Early<M> {
    #[default]
    Nothing,
    Failed,
    /// Its last answer.
    Answered(M),
}

/// An answer that is held back.
#[derive(Clone, Debug, Hash)]
struct Held<M> {
    metadata: M,
    /// When it was first given.
    since: Duration,
}

/// What the metadata service said, as far as it is not in force.
#[derive(Clone, Debug)]
pub(super) struct Answers<M> {
    /// What was in force before the restart, until the service has answered or failed.
    pub(super) stored: Option<M>,
    early: Early<M>,
    held: Option<Held<M>>,
    /// Whether there is no answer to come that could confirm the last one.
    settled: bool,
    /// When it last answered, if it has in this run.
    answered: Option<Duration>,
    /// How often it failed since then.
    failures: u32,
    /// When it failed first since then.
    failing: Option<Duration>,
    /// When it is told that what is in force is old.
    stale_due: Option<Duration>,
    /// Whether that was told.
    stale: bool,
}

/// When the service answered and failed is left out: it decides about something only with a
/// [`FailureThreshold`], and otherwise only about what is told.
impl<M: Hash> Hash for Answers<M> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.stored, &self.early, &self.held, self.settled).hash(hasher);
    }
}

impl<M> Answers<M> {
    pub(super) fn new() -> Self {
        Self {
            stored: None,
            early: Early::Nothing,
            held: None,
            settled: false,
            answered: None,
            failures: 0,
            failing: None,
            stale_due: None,
            stale: false,
        }
    }
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// The service answered, maybe what it answered before.
    pub(super) fn metadata_answered(&mut self, metadata: S::Metadata, now: Duration) {
        self.heard_from_service(now);
        if self.is_too_early() {
            self.answers.early = Early::Answered(metadata);
        } else {
            self.consider(metadata, now);
        }
    }

    /// The service gave its last answer again.
    pub(super) fn metadata_repeated(&mut self, now: Duration) {
        self.heard_from_service(now);
        let after = self
            .options
            .shrink_guard
            .map(|guard| guard.confirmed_after)
            .unwrap_or_default();
        let held = self.answers.held.as_ref();
        if held.is_some_and(|held| now.saturating_sub(held.since) >= after) {
            self.release_held(now);
        }
    }

    /// The service will not say anything else: there is no second answer to wait for.
    pub(super) fn metadata_settled(&mut self, now: Duration) {
        self.answers.settled = true;
        self.answers.failures = 0;
        self.release_held(now);
    }

    /// The service does not answer. What was in force before the restart is, until it does.
    pub(super) fn metadata_failed(&mut self, now: Duration) {
        self.answers.failures = self.answers.failures.saturating_add(1);
        let failing = *self.answers.failing.get_or_insert(now);
        if let (Some(after), None) = (self.options.stale_after, self.answers.stale_due) {
            let since = self.answers.answered.unwrap_or(failing);
            self.answers.stale_due = Some(since.max(failing) + after);
        }
        if !self.is_too_early() {
            self.fall_back(now);
        } else if self.answers.early == Early::Nothing {
            self.answers.early = Early::Failed;
        }
        let failures = self.answers.failures;
        let Some(threshold) = self.options.failure_threshold else {
            return;
        };
        if failures > threshold.failures_max && self.is_going() {
            self.give_up(threshold, failures, now);
        }
    }

    /// The log is open: what was said before is worked off.
    pub(super) fn hear_early(&mut self, now: Duration) {
        match std::mem::take(&mut self.answers.early) {
            Early::Nothing => {}
            Early::Failed => self.fall_back(now),
            Early::Answered(metadata) => self.consider(metadata, now),
        }
    }

    /// Takes an answer that is held back; without one, the answer is in force for which something is
    /// drained, and what is left of that is cut.
    pub(super) fn confirm_metadata(&mut self, now: Duration) -> Result<(), (String, String)> {
        if self.answers.held.is_none() {
            let why = match self.draining.target {
                None => "nothing is held back or drained that could be confirmed",
                // Ticks are given again by whoever has the splits.
                Some(_) if self.phase != Phase::Running => {
                    "what is drained can be cut only while the source reads; ask again then"
                }
                Some(_) => {
                    self.cut(now);
                    return Ok(());
                }
            };
            return Err((SUBJECT.to_owned(), why.to_owned()));
        }
        self.release_held(now);
        Ok(())
    }

    /// What an answer would lose that is held back.
    pub(super) fn held_back(&self) -> Vec<Shrink> {
        let held = self.answers.held.as_ref().zip(self.accepted());
        let losses = held.map(|(held, before)| before.shrinks(&held.metadata));
        let mut losses = losses.unwrap_or_default();
        losses.retain(|loss| !loss.lost.is_empty());
        losses
    }

    /// How long ago the service last answered, if it has in this run.
    pub(super) fn metadata_age(&self, now: Duration) -> Option<Duration> {
        let answered = self.answers.answered?;
        Some(now.saturating_sub(answered))
    }

    /// When it is to be told that what is in force is old.
    pub(super) fn stale_due(&self) -> Option<Duration> {
        self.answers.stale_due.filter(|_| self.metadata.is_some())
    }

    /// Tells that what is in force is old, each time it is twice as old.
    pub(super) fn tell_stale(&mut self, now: Duration) {
        let Some(due) = self.stale_due().filter(|due| *due <= now) else {
            return;
        };
        let since = self.answers.answered.or(self.answers.failing);
        let old = now.saturating_sub(since.unwrap_or(due));
        self.answers.stale_due = Some(now + old * (STALE_AGAIN - 1));
        self.answers.stale = true;
        let epoch = self.metadata_epoch;
        let said = match self.answers.answered {
            Some(_) => format!("its service confirmed it {} s ago", old.as_secs()),
            None => format!(
                "it is from before the restart, and its service has not answered for {} s",
                old.as_secs()
            ),
        };
        let message = format!("epoch {epoch} stays in force; {said}");
        self.tell_metadata(HealthStatus::Waiting, message);
    }

    /// Tells every reader what is in force.
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

    fn is_too_early(&self) -> bool {
        self.phase == (Phase::Gathering { log_open: false })
    }

    /// Whether there is anything left to end.
    fn is_going(&self) -> bool {
        !matches!(self.phase, Phase::Wedged | Phase::Ended)
    }

    /// The metadata in force, be it from before the restart.
    pub(super) fn in_force(&self) -> Option<&S::Metadata> {
        self.metadata.as_ref().or(self.answers.stored.as_ref())
    }

    /// The last answer that was taken: it is in force, or what it removes is drained first.
    pub(super) fn accepted(&self) -> Option<&S::Metadata> {
        let target = self.draining.target.as_ref();
        target.or_else(|| self.in_force())
    }

    fn heard_from_service(&mut self, now: Duration) {
        self.answers.answered = Some(now);
        self.answers.failures = 0;
        (self.answers.failing, self.answers.stale_due) = (None, None);
        if std::mem::take(&mut self.answers.stale) {
            self.tell_metadata(HealthStatus::Well, "its service answers again".to_owned());
        }
    }

    /// Goes on with what was in force before the restart.
    fn fall_back(&mut self, now: Duration) {
        if let Some(stored) = (self.answers.stored).take_if(|_| self.metadata.is_none()) {
            let target = self.draining.target.take();
            self.put_in_force(stored, target, now);
        }
    }

    /// Puts an answer in force, or holds it back.
    fn consider(&mut self, metadata: S::Metadata, now: Duration) {
        let again = self
            .answers
            .held
            .as_ref()
            .is_some_and(|held| held.metadata == metadata);
        if again {
            self.metadata_repeated(now);
            return;
        }
        let guard = self.options.shrink_guard.filter(|_| !self.answers.settled);
        if let (Some(guard), Some(before)) = (guard, self.accepted()) {
            let mut losses = before.shrinks(&metadata);
            losses.retain(|loss| loss.exceeds(guard.loss_percent_max));
            if !losses.is_empty() {
                self.hold(metadata, &losses, guard, now);
                return;
            }
        }
        if self.answers.held.take().is_some() {
            let message = "the answer that was held back was taken back".to_owned();
            self.tell_metadata(HealthStatus::Well, message);
        }
        self.adopt(metadata, now);
    }

    fn hold(
        &mut self,
        metadata: S::Metadata,
        losses: &[Shrink],
        guard: ShrinkGuard,
        now: Duration,
    ) {
        // What was in force before a restart is read on meanwhile.
        self.fall_back(now);
        let since = now;
        self.answers.held = Some(Held { metadata, since });
        let losses: Vec<_> = losses.iter().map(Shrink::to_string).collect();
        let (losses, epoch) = (losses.join(" and "), self.metadata_epoch);
        let message = format!(
            "an answer that loses {losses} is held back; epoch {epoch} stays in force until the \
             service says the same again after {:?}, or it is confirmed",
            guard.confirmed_after
        );
        self.tell_metadata(HealthStatus::Waiting, message);
    }

    fn release_held(&mut self, now: Duration) {
        if let Some(held) = self.answers.held.take() {
            let message = "the answer that was held back is confirmed".to_owned();
            self.tell_metadata(HealthStatus::Well, message);
            self.adopt(held.metadata, now);
        }
    }

    fn give_up(&mut self, threshold: FailureThreshold, failures: u32, now: Duration) {
        let why = format!(
            "it failed {failures} times in a row; expected an answer after {} failures at most",
            threshold.failures_max
        );
        match threshold.then {
            GivingUp::Fail => self.wedge("metadata service", format!("{why}: the source fails")),
            GivingUp::Stop => {
                let status = HealthStatus::Failing(FailureKind::Definite);
                let health = Health::new(
                    "metadata service",
                    status,
                    format!("{why}: the source ends"),
                );
                self.tell(SourceEvent::Health(health));
                self.end(now);
            }
        }
    }

    pub(super) fn tell_metadata(&mut self, status: HealthStatus, message: String) {
        self.tell(SourceEvent::Health(Health::new(SUBJECT, status, message)));
    }
}
