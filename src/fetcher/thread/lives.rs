//! The lives of a client: how each begins and ends, and what the workers are told of it.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use timely_splits::fetcher::DownCause;
use timely_splits::health::{FailureKind, HealthStatus};

use super::ClientThread;
use crate::fetcher::client::{Life, LifeEnd, Notice, WorkerLink};
use crate::fetcher::open::{Open, OpenError};
use crate::metadata::secret::resolve;

impl ClientThread {
    /// Makes the client, or another one in the place of one that `ended`.
    pub(super) fn begin_life(&mut self, ended: Option<LifeEnd>) {
        let now = Instant::now();
        self.life = Life(self.life.0 + 1);
        // Nobody waits for the old one: it is destroyed on a thread of its own.
        self.open = None;
        self.made_of = None;
        let opened = resolve(&self.properties)
            .map_err(OpenError::from)
            .and_then(|resolved| Open::new(self.made_of.insert(resolved)));
        match opened {
            Ok(open) => {
                self.open = Some(open);
                self.attempts.made(now);
                let was_unmade = !std::mem::take(&mut self.unmade).is_empty();
                if was_unmade || ended.is_some() {
                    self.complaints.start_over(now);
                }
            }
            Err(error) => {
                let may_pass = error.may_pass();
                self.attempts.failed(may_pass, now);
                let kind = if may_pass {
                    FailureKind::Transient
                } else {
                    FailureKind::Definite
                };
                let message = format!("no client can be made: {error}");
                if self.unmade != message {
                    self.say(HealthStatus::Failing(kind), message.clone());
                    self.unmade = message;
                }
            }
        }
        self.introduce_all(ended.as_ref());
        if let Some(LifeEnd { why, .. }) = ended {
            let status = HealthStatus::Failing(FailureKind::Transient);
            self.say(status, format!("the client is replaced: {why}"));
        }
    }

    /// Ends a life that no other one follows for the time being.
    fn end_life(&mut self, ended: &LifeEnd) {
        // Nobody waits for the client: it is destroyed on a thread of its own.
        self.open = None;
        self.life = Life(self.life.0 + 1);
        self.introduce_all(Some(ended));
    }

    /// Ends a life that panicked. Its splits are assigned again by their readers, to a client that is
    /// made after a while.
    pub(super) fn crashed(&mut self, panicked: &(dyn Any + Send)) {
        let now = Instant::now();
        let words = (panicked.downcast_ref::<String>().map(String::as_str))
            .or_else(|| panicked.downcast_ref::<&str>().copied())
            .unwrap_or("without words");
        let wait = self.attempts.crashed(now);
        let why = format!(
            "the thread of its client panicked: {words}; a client is made again in {wait:?}"
        );
        self.end_life(&LifeEnd {
            cause: DownCause::Crashed,
            why: why.clone(),
        });
        self.complaints.start_over(now);
        self.say(HealthStatus::Failing(FailureKind::Transient), why);
    }

    /// Begins another life if the client fails and what its properties refer to is not what it was:
    /// that may be why.
    pub(super) fn renew(&mut self) {
        let fails = self.fails() && !self.attempts.rests();
        if !self.attempts.looks(fails, Instant::now()) {
            return;
        }
        // While something is not there, the client is left with what was.
        let Ok(resolved) = resolve(&self.properties) else {
            return;
        };
        if self.made_of.as_ref() != Some(&resolved) {
            let why = "it fails, and what its properties refer to has changed";
            let replaced = self.open.is_some();
            self.begin_life(replaced.then(|| LifeEnd::failed(why)));
        }
    }

    /// Gives a client up that reads nothing and was never answered, until it is needed: as long as it cannot
    /// connect it asks for a coordinator as often as it may.
    pub(super) fn rest(&mut self) {
        let Some(open) = &self.open else { return };
        if !open.assigned.is_empty()
            || !self.commands.is_empty()
            || !self.complaints.said_down(Instant::now())
            || open.client.has_answered()
        {
            return;
        }
        tracing::debug!(cluster = %self.cluster, "no broker answers, and nothing is read: the client rests");
        let why = "no broker of the cluster answered";
        self.end_life(&LifeEnd::failed(why));
        self.attempts.rest();
    }

    /// Makes a client that rests.
    pub(super) fn wake(&mut self) {
        if self.attempts.needed() {
            self.complaints.start_over(Instant::now());
            self.begin_life(None);
        }
    }

    /// Makes a worker's queue, if there is a client, and tells the worker.
    pub(super) fn introduce(&mut self, link: &Arc<WorkerLink>, ended: Option<LifeEnd>) {
        let open = self.open.as_mut();
        let queue = open.map(|open| open.join(&self.cluster, link));
        link.tell(Notice::Opened {
            cluster: self.cluster.clone(),
            client: self.number,
            life: self.life,
            queue,
            ended,
        });
    }

    /// Tells every worker of the life that begins.
    fn introduce_all(&mut self, ended: Option<&LifeEnd>) {
        for link in self.links.values().cloned().collect::<Vec<_>>() {
            self.introduce(&link, ended.cloned());
        }
    }
}
