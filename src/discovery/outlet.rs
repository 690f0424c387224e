//! Where events go, and how health is said once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crossbeam_channel::Sender;
use timely_splits::discovery::DiscoveryEvent;
use timely_splits::health::{FailureKind, Health, HealthStatus};

use crate::model::KafkaSplit;
use crate::model::words::without_numbers;

/// Nobody takes events any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unheard;

/// Where a thread puts what the timely thread is to poll.
#[derive(Clone)]
pub(super) struct Outlet {
    events: Sender<DiscoveryEvent<KafkaSplit>>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Outlet {
    pub(super) fn new(
        events: Sender<DiscoveryEvent<KafkaSplit>>,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            events,
            wake: Arc::from(wake),
        }
    }

    /// Hands over an event. Waits for room, so the caller holds nothing that others need.
    ///
    /// # Errors
    ///
    /// If nobody takes events any more.
    pub(super) fn send(&self, event: DiscoveryEvent<KafkaSplit>) -> Result<(), Unheard> {
        self.events.send(event).map_err(|_| Unheard)?;
        (self.wake)();
        Ok(())
    }

    /// Has whoever polls come, for something that is not in the queue.
    pub(super) fn wake(&self) {
        (self.wake)();
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

/// Says how subjects fare, each thing once.
///
/// A message that differs from the last one about its subject in numbers only is the same: waiting
/// times and ports of clients change at each attempt.
#[derive(Debug)]
pub(super) struct Voice {
    outlet: Outlet,
    /// What was last said of the subjects that are not well.
    said: BTreeMap<String, (HealthStatus, String)>,
}

impl Voice {
    pub(super) fn new(outlet: Outlet) -> Self {
        Self {
            outlet,
            said: BTreeMap::new(),
        }
    }

    /// Says that `subject` is not well, unless that was the last thing said about it.
    pub(super) fn say(
        &mut self,
        subject: &str,
        status: HealthStatus,
        message: &str,
    ) -> Result<(), Unheard> {
        // What may pass has ports and times in its words, which mean nothing; in a definite failure
        // another number is another mistake.
        let words = match status {
            HealthStatus::Failing(FailureKind::Definite) => message.to_owned(),
            HealthStatus::Failing(FailureKind::Transient)
            | HealthStatus::Waiting
            | HealthStatus::Well => without_numbers(message),
        };
        let said = (status, words);
        if self.said.get(subject) == Some(&said) {
            return Ok(());
        }
        self.said.insert(subject.to_owned(), said);
        self.send(subject, status, message)
    }

    /// Says that `subject` is well again, if it was not.
    pub(super) fn well(&mut self, subject: &str, message: &str) -> Result<(), Unheard> {
        if self.said.remove(subject).is_none() {
            return Ok(());
        }
        self.send(subject, HealthStatus::Well, message)
    }

    /// Forgets the subjects that nobody asks about any more.
    pub(super) fn retain(&mut self, mut kept: impl FnMut(&str) -> bool) {
        self.said.retain(|subject, _| kept(subject));
    }

    fn send(&self, subject: &str, status: HealthStatus, message: &str) -> Result<(), Unheard> {
        tracing::debug!(subject, ?status, "{message}");
        let health = Health::new(subject, status, message);
        self.outlet.send(DiscoveryEvent::Health(health))
    }
}
