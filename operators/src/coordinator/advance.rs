//! What becomes possible once something was learnt.

use std::time::Duration;

use super::ownership::{Entry, Ownership};
use super::ticks::{Closing, Ending};
use super::{Awaited, Coordinator, Intention, Phase};
use crate::assignor::Assignor;
use crate::binding::{Binding, SplitError};
use crate::defect::{self, Defect};
use crate::epoch::{ReaderId, RequestId};
use crate::event::SourceEvent;
use crate::health::{FailureKind, Health, HealthStatus};
use crate::log::LogRecord;
use crate::loss::Aftermath;
use crate::protocol::Directive;
use crate::split::Split;
use crate::tick::Tick;

/// How long the log may hold up a tick that is due before a person is told.
pub(super) const STALL_TOLD_AFTER: Duration = Duration::from_secs(1);

/// How many times the deadline for a start it may take to find one, at most, until it is asked again.
const START_WAIT_MAX: u32 = 64;

/// How many times as far as was asked for ticks are reserved ahead for a slow log, at most.
const RESERVE_TIMES_MAX: u32 = 16;

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Re-evaluates everything that can have become possible; called after every event.
    pub(super) fn advance(&mut self, now: Duration) {
        self.start(now);
        if self.phase == Phase::Replaying {
            self.expire(now);
            self.plan(now);
            self.reserve_epochs();
            self.replay(now);
            // Once all was given again, ticks are reserved and opened.
            self.start(now);
        }
        if self.phase == Phase::Running {
            self.expire(now);
            self.go_on_draining(now);
            self.plan(now);
            self.end_bounded(now);
            self.close(now);
            self.prove(now);
            self.reserve(now);
            self.reserve_epochs();
            self.tick(now);
        }
        // Nothing precedes the record of the incarnation.
        let writing = matches!(
            self.phase,
            Phase::Reserving | Phase::Replaying | Phase::Running
        );
        let may_append = writing && self.appending.is_empty();
        let proven = if may_append { self.proven_records() } else { 0 };
        if proven > 0 {
            // A snapshot is appended by itself: a log may begin another file with it.
            let snapshot = |record: &LogRecord<S>| matches!(record, LogRecord::Snapshot(_));
            let end = match self.to_append.iter().position(snapshot) {
                None => proven,
                Some(at) => at.max(1).min(proven),
            };
            let rest = self.to_append.split_off(end);
            self.appending = std::mem::replace(&mut self.to_append, rest);
            let records = self.appending.clone();
            self.intentions
                .push_back(Intention::Append(self.incarnation, records));
        }
        self.tell_failed(now);
    }

    /// Starts reading once the log is open, all readers are there, and ticks are reserved.
    fn start(&mut self, now: Duration) {
        self.tell_starting(now);
        if self.phase == (Phase::Gathering { log_open: true })
            && self.readers.len() == self.options.readers
        {
            self.phase = Phase::Reserving;
            let begin = LogRecord::Incarnation(self.incarnation);
            self.to_append.insert(0, begin);
            // Before the reservation: once a tick is open the frontier has passed those that are void, and
            // a sink may say so. If the log does not say it as well, they are taken for given.
            if std::mem::take(&mut self.rewound) {
                // And before what was learnt while readers were missing: a split that starts anew would
                // start twice if the log ended in between.
                let mut snapshot = self.snapshot();
                snapshot.rewound = true;
                (snapshot.splits).retain(|one| self.bound.contains_key(&one.split));
                snapshot.count = snapshot.splits.len() as u64;
                self.to_append.insert(1, LogRecord::Snapshot(snapshot));
            }
            self.reserve_epochs();
            self.ask_reservation(self.tick_after(self.ticks.asked, now));
        }
        let settled = self.ticks.reserved >= self.ticks.asked && self.epochs.settled();
        if self.phase != Phase::Reserving || !settled {
            return;
        }
        if self.replaying.is_some() {
            self.begin_replay(now);
            return;
        }
        let open = self.tick_after(self.ticks.first, now);
        if open > self.ticks.reserved {
            self.reserve_longer();
            self.ask_reservation(open);
            return;
        }
        if let Some(metadata) = self.after_replay.take() {
            self.adopt(metadata, now);
        }
        self.phase = Phase::Running;
        self.tell(SourceEvent::Started {
            readers: self.options.readers,
        });
        if self.metadata_told < self.metadata_epoch {
            self.broadcast_metadata();
        }
        self.ticks.open = Some(open);
        self.ticks.opened_at = now;
        self.ticks.due = now + self.options.tick_interval;
        self.intentions.push_back(Intention::Open(open));
        self.broadcast(&Directive::Tick {
            close: None,
            open,
            last: false,
        });
    }

    /// Tells once what is waited for, if starting takes long.
    fn tell_starting(&mut self, now: Duration) {
        let (subject, what) = match self.phase {
            Phase::Gathering { log_open: false } => ("binding log", "to be opened".to_owned()),
            Phase::Reserving => ("binding log", "to answer the first append".to_owned()),
            Phase::Gathering { log_open: true } => {
                let missing = (0..self.options.readers).map(ReaderId);
                let missing = missing.filter(|reader| !self.readers.contains_key(reader));
                let missing: Vec<_> = missing.map(|reader| reader.to_string()).collect();
                ("source", format!("for workers {}", missing.join(", ")))
            }
            Phase::Replaying | Phase::Running | Phase::Wedged | Phase::Ended => {
                self.starting_since = None;
                return;
            }
        };
        let since = *self.starting_since.get_or_insert(now);
        if now >= since + STALL_TOLD_AFTER && !self.stalled {
            // It is told once; that reading goes on is told when the first tick opens.
            self.stalled = true;
            self.starting_since = None;
            let message = format!("waits {what}; nothing is read until then");
            let status = HealthStatus::Waiting;
            self.tell(SourceEvent::Health(Health::new(subject, status, message)));
        } else if self.stalled {
            self.starting_since = None;
        }
    }

    /// How far ahead ticks are reserved, in milliseconds.
    fn reserve_ahead(&self) -> u64 {
        let ahead = self.options.reserve_ahead * self.ticks.reserve_times;
        u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX)
    }

    /// The log took longer than was reserved for: if more is not reserved the next time, it always
    /// will.
    fn reserve_longer(&mut self) {
        self.ticks.reserve_times = (self.ticks.reserve_times * 2).min(RESERVE_TIMES_MAX);
    }

    /// Asks the log to reserve ticks ahead of `tick`.
    fn ask_reservation(&mut self, tick: Tick) {
        let ahead = self.reserve_ahead();
        self.ticks.asked = Tick(tick.0.saturating_add(ahead));
        self.to_append.push(LogRecord::Reserved(self.ticks.asked));
    }

    /// Reserves more ticks before those that are reserved run out.
    fn reserve(&mut self, now: Duration) {
        let Some(open) = self.ticks.open else { return };
        let next = self.tick_after(open, now);
        let asked_before = self.ticks.asked > self.ticks.reserved;
        if next > self.ticks.reserved && !asked_before {
            self.reserve_longer();
        }
        let half = self.reserve_ahead() / 2;
        if next.0.saturating_add(half) > self.ticks.asked.0 && !asked_before {
            self.ask_reservation(next);
        }
        self.ticks.unreserved = next > self.ticks.reserved;
    }

    /// Acts on deadlines that have passed and on positions that were kept for long enough.
    fn expire(&mut self, now: Duration) {
        while let Some((due, split)) = self.deadlines.pop_first() {
            if due > now {
                self.deadlines.insert((due, split));
                break;
            }
            let entry = self.splits.get_mut(&split);
            let awaited = entry.and_then(|entry| entry.awaited.take());
            match awaited.map(|(_, awaited)| awaited) {
                Some(Awaited::Start(request, waited)) => {
                    self.ask_start_again(split, request, waited, now);
                }
                Some(Awaited::Prepared(reader)) => self.prepared(&split, reader),
                Some(Awaited::Release) => self.ask_release_again(split, now),
                Some(Awaited::Judgement(_, waited)) => {
                    let wait = (waited * 2).min(self.options.start_deadline * START_WAIT_MAX);
                    self.judge(&split, wait, now);
                }
                Some(Awaited::AnotherLook) => {
                    self.judge(&split, self.options.start_deadline, now);
                }
                None => {}
            }
        }
        self.forget_old(now);
        self.read_again(now);
        self.tell_stale(now);
    }

    /// Waits for something of a split, and no longer for what was awaited of it before.
    pub(super) fn wait_for(&mut self, split: &S, due: Duration, awaited: Awaited) {
        self.wait_no_more(split);
        if let Some(entry) = self.splits.get_mut(split) {
            entry.awaited = Some((due, awaited));
            self.deadlines.insert((due, split.clone()));
        }
    }

    /// What was awaited of a split has come, or is not wanted any more.
    pub(super) fn wait_no_more(&mut self, split: &S) {
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        entry.prepared = None;
        if let Some((due, _)) = entry.awaited.take() {
            self.deadlines.remove(&(due, split.clone()));
        }
    }

    /// A split was not released in time. Nobody else may have it until it is, however long that takes.
    fn ask_release_again(&mut self, split: S, now: Duration) {
        let Some(entry) = self.splits.get(&split) else {
            return;
        };
        let Ownership::Releasing(reader) = entry.ownership else {
            return;
        };
        let split_epoch = entry.split_epoch;
        self.tell_late(&split, reader.0);
        self.revoke(reader, split.clone(), split_epoch, now);
        if defect::is(Defect::TakeoverOnSuspicion) {
            let bound = self.bound[&split].clone();
            self.settle_at(&split, bound, now);
        }
    }

    /// The answer to a request did not come in time: another one supersedes it.
    ///
    /// It may take longer each time, or a discovery that is slow would always be too late.
    fn ask_start_again(&mut self, split: S, request: RequestId, waited: Duration, now: Duration) {
        let asked = self.splits.get(&split);
        if asked.is_none_or(|entry| entry.ownership != Ownership::Resolving(request)) {
            return;
        }
        let wait = (waited * 2).min(self.options.start_deadline * START_WAIT_MAX);
        self.ask_start_anew(&split, wait, now);
    }

    fn tell_late(&mut self, split: &S, reader: usize) {
        self.tell(SourceEvent::Health(Health::new(
            format!("split {split}"),
            HealthStatus::Failing(FailureKind::Transient),
            format!(
                "reader {reader} has not released it within {:?}; its worker is busy or stuck",
                self.options.release_deadline
            ),
        )));
    }

    /// Binds the tick that is being closed once every reader has closed it.
    fn close(&mut self, now: Duration) {
        let complete = |closing: &mut Closing<S>| closing.missing.is_empty();
        let Some(closing) = self.ticks.closing.take_if(complete) else {
            return;
        };
        let tick = closing.tick;
        match closing.bind(&mut self.bound) {
            Ok(binding) => {
                let ranges = binding.ranges.len();
                self.ticks.waiting.push_back(tick);
                self.ticks.last_closed = Some(tick);
                if binding.is_empty() && !self.waits_for_log() {
                    return self.pass_empty(binding, now);
                }
                if defect::is(Defect::FrontierBeforeDurable) {
                    let durable = Directive::Durable(tick);
                    self.intentions
                        .push_back(Intention::Send(ReaderId::KEEPER, durable));
                }
                // Who was readmitted before the tick in which it failed was closed stays readmitted.
                let stays = |error: &&SplitError<S>| error.then == Aftermath::Stays;
                let failed = binding.errors.iter().filter(stays);
                let failed = failed.map(|error| error.split.clone());
                let (failed, readmitted): (Vec<_>, Vec<_>) = failed
                    .partition(|split| (self.splits.get(split)).is_some_and(Entry::has_failed));
                self.quarantined.extend(failed);
                let errors = binding.errors.clone();
                self.note_read(&binding);
                self.to_append.push(LogRecord::Binding(binding));
                // What is started over is not known any more afterwards.
                if self.has_read_another() {
                    return;
                }
                self.start_over(&errors, now);
                let readmitted = readmitted.into_iter().map(LogRecord::Readmitted);
                self.to_append.extend(readmitted);
                self.note_tick(ranges);
            }
            Err(broken) => self.wedge("source", format!("{broken}; this is a bug of the source")),
        }
    }

    /// Whether anything was learnt, asked for or bound that the log does not have.
    fn waits_for_log(&self) -> bool {
        let mut records = self.appending.iter().chain(&self.to_append);
        records.any(|record| !matches!(record, LogRecord::Reserved(_)))
    }

    /// Nothing was read in a tick, and the log has all that came before: it is reserved, so no run opens it again, and
    /// a log without it says the same.
    fn pass_empty(&mut self, binding: Binding<S>, now: Duration) {
        self.proofs.prove(binding.tick);
        self.durable(binding, now);
        // A log whose old records are dropped by the snapshots has to have some of a source that reads nothing.
        if self.ticks.ending != Ending::Reached {
            self.note_tick(0);
        }
    }

    /// A tick of so many ranges is over. Now and then the log gets all that a restart needs.
    fn note_tick(&mut self, ranges: usize) {
        self.since_snapshot.note(ranges);
        let splits = self.splits.len();
        if self.since_snapshot.is_much(&self.options, splits) {
            self.push_snapshot();
        }
    }

    /// Closes the open tick when it is due, and opens the next.
    fn tick(&mut self, now: Duration) {
        let Some(open) = self.ticks.open else { return };
        if self.phase != Phase::Running || self.ticks.closing.is_some() {
            return;
        }
        let last = match self.ticks.ending {
            Ending::No => false,
            Ending::Asked => true,
            Ending::Told | Ending::Reached => return,
        };
        let held = self.tick_is_held();
        self.tell_stall(held && now >= self.ticks.due + STALL_TOLD_AFTER, held);
        if held || now < self.ticks.due {
            return;
        }
        let next = self.tick_after(open, now);
        let readers = self.readers.keys().copied().collect();
        self.ticks.closing = Some(Closing::new(open, readers));
        let elapsed = now.saturating_sub(self.ticks.opened_at);
        self.ticks.opened_at = now;
        self.ticks.due = now + self.options.tick_interval;
        if defect::is(Defect::TimerNotRearmed) {
            self.ticks.due = Duration::MAX / 2;
        }
        self.take_loads(elapsed);
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

    /// Tells once that ticks wait for long, and once that it is over.
    fn tell_stall(&mut self, long: bool, held: bool) {
        if long && !self.stalled {
            self.stalled = true;
            self.tell(SourceEvent::Health(Health::new(
                "binding log",
                HealthStatus::Waiting,
                match self.ticks.undurable() {
                    0 => "it is awaited to reserve further ticks; until then none ends, and reading stops when \
                          the open one is full"
                        .to_owned(),
                    count => format!(
                        "{count} ticks wait to become durable; until then no other ends, and reading stops \
                         when it is full"
                    ),
                },
            )));
        } else if self.stalled && !held {
            self.stalled = false;
            self.tell(SourceEvent::Health(Health::new(
                "binding log",
                HealthStatus::Well,
                "answers again; ticks become durable",
            )));
        }
    }
}
