//! Runs that go no further.
//!
//! Not all that such a run has emitted can become durable, so it cannot end in order either: its
//! frontier stays where it is, and whoever runs it has to end it.

use std::time::Duration;

use super::{Coordinator, Phase};
use crate::assignor::Assignor;
use crate::event::SourceEvent;
use crate::health::{FailureKind, Health, HealthStatus};
use crate::split::Split;

/// How long the health stream has to say why, before whoever runs the source may end it.
pub(super) const FAILED_TOLD_AFTER: Duration = Duration::from_secs(1);

/// Why a run goes no further, until that was told.
#[derive(Clone, Debug, Hash)]
pub(super) struct Failure {
    why: String,
    /// When it is told; `None` until the time is known.
    due: Option<Duration>,
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Goes no further, and says why. One that has ended has nothing more to lose.
    pub(super) fn wedge(&mut self, subject: &str, why: String) {
        if self.phase != Phase::Wedged && !self.ended() {
            let why = format!("{subject}: {why}");
            self.failure = Some(Failure { why, due: None });
        }
        self.phase = Phase::Wedged;
        self.tell(SourceEvent::Health(Health::new(
            subject,
            HealthStatus::Failing(FailureKind::Definite),
            why,
        )));
    }

    /// When it is to be told that the run goes no further.
    pub(super) fn failed_due(&self) -> Option<Duration> {
        self.failure.as_ref()?.due
    }

    /// Tells once that the run goes no further.
    pub(super) fn tell_failed(&mut self, now: Duration) {
        let over = |failure: &mut Failure| {
            let due = *failure.due.get_or_insert(now + FAILED_TOLD_AFTER);
            due <= now
        };
        if let Some(Failure { why, .. }) = self.failure.take_if(over) {
            self.tell(SourceEvent::Failed { why });
        }
    }
}
