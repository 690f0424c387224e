//! What becomes possible once something was learnt.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ownership::Ownership;
use super::ticks::{Closing, Ending};
use super::{Coordinator, Intention, Phase, STALL_TOLD_AFTER};
use crate::event::SourceEvent;
use crate::health::{Health, HealthStatus};
use crate::log::LogRecord;
use crate::protocol::{Assignment, Directive};
use crate::split::{Metadata, Split};
use crate::tick::Tick;

/// What was done to bring a split nearer to its target.
enum Settled {
    Assigned,
    Revoked,
}

impl<S: Split> Coordinator<S> {
    /// Re-evaluates everything that can have become possible; called after every event.
    pub(super) fn advance(&mut self, now: Duration) {
        self.start(now);
        if self.phase == Phase::Running {
            self.plan(now);
            self.close();
            self.tick(now);
        }
        if self.appending.is_empty() && !self.to_append.is_empty() && self.phase != Phase::Wedged {
            self.appending = std::mem::take(&mut self.to_append);
            self.intentions
                .push_back(Intention::Append(self.incarnation, self.appending.clone()));
        }
    }

    /// Starts reading once the log is open and all readers are there.
    fn start(&mut self, now: Duration) {
        let gathered = self.phase == Phase::Gathering { log_open: true }
            && self.readers.len() == self.options.readers;
        if !gathered {
            return;
        }
        self.phase = Phase::Running;
        self.to_append
            .insert(0, LogRecord::Incarnation(self.incarnation));
        self.tell(SourceEvent::Started {
            readers: self.options.readers,
        });
        self.broadcast_metadata();
        let open = Tick::default().following(now);
        self.ticks.open = Some(open);
        self.ticks.due = now + self.options.tick_interval;
        self.intentions.push_back(Intention::Open(open));
        self.broadcast(&Directive::Tick {
            close: None,
            open,
            last: false,
        });
    }

    /// Runs the assignor if something changed, and brings splits nearer to their target.
    fn plan(&mut self, now: Duration) {
        let Some(metadata) = self.metadata.as_ref().filter(|_| self.ticks.assigning()) else {
            return;
        };
        let balance = self.balance_due.take_if(|due| now >= *due).is_some();
        if self.plan_due || balance {
            self.plan_due = false;
            self.plan_epoch = self.plan_epoch.next();
            let current: BTreeMap<_, _> = self
                .splits
                .iter()
                .filter(|(split, entry)| {
                    let readable = match entry.ownership {
                        Ownership::Idle(_) | Ownership::Assigned(_) | Ownership::Releasing(_) => {
                            true
                        }
                        Ownership::Resolving(_)
                        | Ownership::Recording(_)
                        | Ownership::Quarantined(_) => false,
                    };
                    readable && metadata.lists(split)
                })
                .map(|(split, entry)| (split.clone(), entry.ownership.reader()))
                .collect();
            let readers: Vec<_> = self.readers.keys().copied().collect();
            self.target = self.assignor.plan(&readers, &current);
            if self.balance_due.is_some() {
                let held = current.into_iter();
                let held = held.filter_map(|(split, reader)| Some((split, reader?)));
                self.target.extend(held);
            }
            self.restless = self.target.keys().cloned().collect();
        }
        let (mut assigned, mut revoked) = (0, 0);
        for split in std::mem::take(&mut self.restless) {
            match self.settle(split) {
                Some(Settled::Assigned) => assigned += 1,
                Some(Settled::Revoked) => revoked += 1,
                None => {}
            }
        }
        if assigned + revoked > 0 {
            self.tell(SourceEvent::Planned {
                epoch: self.plan_epoch,
                assigned,
                revoked,
            });
        }
    }

    /// Gives a split to its target if nobody has it, and takes it from its reader if that is another.
    fn settle(&mut self, split: S) -> Option<Settled> {
        let target = *self.target.get(&split)?;
        let entry = self.splits.get_mut(&split)?;
        match &entry.ownership {
            Ownership::Idle(next) => {
                let start = next.clone();
                entry.split_epoch = entry.split_epoch.next();
                entry.ownership = Ownership::Assigned(target);
                let assignment = Assignment {
                    split: split.clone(),
                    split_epoch: entry.split_epoch,
                    metadata_epoch: self.metadata_epoch,
                    start: start.clone(),
                };
                let split_epoch = entry.split_epoch;
                self.intentions
                    .push_back(Intention::Send(target, Directive::Assign(assignment)));
                self.tell(SourceEvent::Assigned {
                    split,
                    reader: target,
                    split_epoch,
                    start,
                });
                Some(Settled::Assigned)
            }
            Ownership::Assigned(reader) if *reader != target => {
                let reader = *reader;
                entry.ownership = Ownership::Releasing(reader);
                let revoke = Directive::Revoke {
                    split,
                    split_epoch: entry.split_epoch,
                };
                self.intentions.push_back(Intention::Send(reader, revoke));
                Some(Settled::Revoked)
            }
            Ownership::Assigned(_)
            | Ownership::Releasing(_)
            | Ownership::Resolving(_)
            | Ownership::Recording(_)
            | Ownership::Quarantined(_) => None,
        }
    }

    /// Binds the tick that is being closed once every reader has closed it.
    fn close(&mut self) {
        let complete = |closing: &mut Closing<S>| closing.missing.is_empty();
        let Some(closing) = self.ticks.closing.take_if(complete) else {
            return;
        };
        let tick = closing.tick;
        match closing.bind(&mut self.bound) {
            Ok(binding) => {
                self.ticks.waiting.push_back(tick);
                self.to_append.push(LogRecord::Binding(binding));
            }
            Err(broken) => self.wedge("source", format!("{broken}; this is a bug of the source")),
        }
    }

    /// Closes the open tick when it is due, and opens the next.
    fn tick(&mut self, now: Duration) {
        let Some(open) = self.ticks.open else { return };
        if self.phase != Phase::Running || self.ticks.closing.is_some() {
            return;
        }
        let full = self.ticks_full();
        self.tell_stall(full && now >= self.ticks.due + STALL_TOLD_AFTER, full);
        let last = match self.ticks.ending {
            Ending::No => false,
            Ending::Asked => true,
            Ending::Told | Ending::Reached => return,
        };
        if full || now < self.ticks.due {
            return;
        }
        let next = open.following(now);
        let readers: BTreeSet<_> = self.readers.keys().copied().collect();
        self.ticks.closing = Some(Closing::new(open, &readers));
        self.ticks.due = now + self.options.tick_interval;
        if last {
            self.ticks.ending = Ending::Told;
            self.ticks.open = None;
        } else {
            self.ticks.open = Some(next);
        }
        self.broadcast(&Directive::Tick {
            close: Some(open),
            open: next,
            last,
        });
    }

    /// Tells once that reading waits for the log, and once that it goes on.
    fn tell_stall(&mut self, long: bool, full: bool) {
        if long && !self.stalled {
            self.stalled = true;
            self.tell(SourceEvent::Health(Health::new(
                "binding log",
                HealthStatus::Waiting,
                format!(
                    "{} ticks wait to become durable; nothing is read until the log answers",
                    self.ticks.undurable()
                ),
            )));
        } else if self.stalled && !full {
            self.stalled = false;
            self.tell(SourceEvent::Health(Health::new(
                "binding log",
                HealthStatus::Well,
                "answers again; reading goes on",
            )));
        }
    }

    pub(super) fn broadcast_metadata(&mut self) {
        if let Some(metadata) = self.metadata.clone() {
            self.broadcast(&Directive::Metadata {
                incarnation: self.incarnation,
                epoch: self.metadata_epoch,
                metadata,
            });
        }
    }

    pub(super) fn broadcast(&mut self, directive: &Directive<S>) {
        for reader in self.readers.keys() {
            self.intentions
                .push_back(Intention::Send(*reader, directive.clone()));
        }
    }
}
