//! What a person can ask for.

use std::time::Duration;

use super::loss::Loss;
use super::ownership::Ownership;
use super::ticks::Ending;
use super::{Coordinator, Intention, Phase};
use crate::assignor::Assignor;
use crate::epoch::ReaderId;
use crate::event::SourceEvent;
use crate::health::{FailureKind, Health, HealthStatus};
use crate::log::LogRecord;
use crate::protocol::{Command, Directive};
use crate::split::Split;
use crate::tick::Tick;

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    pub(super) fn obey(&mut self, command: Command<S>, now: Duration) {
        let refused = match command {
            Command::Stop => {
                self.end(now);
                Ok(())
            }
            Command::Move { .. }
            | Command::Drain(_)
            | Command::Refill(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Rebalance
                if self.phase == Phase::Replaying =>
            {
                let why = "replays what was bound before, and moves no split until that is over; ask \
                           again then";
                Err(("source".to_owned(), why.to_owned()))
            }
            Command::Move { split, to } => self.move_to(&split, to),
            Command::Drain(reader) => self.drain(reader, true, now),
            Command::Refill(reader) => self.drain(reader, false, now),
            Command::Pause(split) => self.pause(&split, true, now),
            Command::Resume(split) => self.pause(&split, false, now),
            Command::Readmit(split) => self.readmit(split, now),
            Command::Explain { answer_to } => {
                self.explain_to(answer_to, now);
                Ok(())
            }
            Command::ConfirmMetadata => self.confirm_metadata(now),
            Command::Rebalance => {
                self.planning.obey(now);
                Ok(())
            }
            Command::ShowPlan => {
                self.show_plan(now);
                Ok(())
            }
            Command::Snapshot if self.phase == Phase::Running => {
                self.push_snapshot();
                Ok(())
            }
            Command::Snapshot => {
                let why = "can be written to the log as a whole only while it reads";
                Err(("source".to_owned(), why.to_owned()))
            }
            Command::Compact(since) => {
                self.intentions.push_back(Intention::Compact(since));
                Ok(())
            }
        };
        if let Err((subject, why)) = refused {
            let status = HealthStatus::Failing(FailureKind::Definite);
            self.tell(SourceEvent::Health(Health::new(subject, status, why)));
        }
    }

    pub(super) fn end(&mut self, now: Duration) {
        match self.phase {
            // What was bound before is given again in whole: the end comes right after it.
            Phase::Running | Phase::Replaying if self.ticks.ending == Ending::No => {
                self.ticks.ending = Ending::Asked;
                self.ticks.due = now;
            }
            Phase::Gathering { .. } | Phase::Reserving => self.end_unstarted(),
            Phase::Wedged => self.tell(SourceEvent::Health(Health::new(
                "source",
                HealthStatus::Failing(FailureKind::Definite),
                "it cannot end in order, since not all that was emitted can become durable; end its \
                 processes",
            ))),
            Phase::Running | Phase::Replaying | Phase::Ended => {}
        }
    }

    /// Ends before the first tick: nothing was read, so there is nothing to bind.
    ///
    /// What waits for the log is not recorded: a run that has not begun is not in it, and whoever paused
    /// or readmitted something and then ended the source before it started can do so again.
    fn end_unstarted(&mut self) {
        self.phase = Phase::Ended;
        self.ticks.ending = Ending::Reached;
        for index in 0..self.options.readers {
            let last = Directive::Tick {
                close: None,
                open: Tick::default(),
                last: true,
            };
            self.intentions
                .push_back(Intention::Send(ReaderId(index), last));
        }
        self.tell(SourceEvent::Ended);
    }

    fn move_to(&mut self, split: &S, to: ReaderId) -> Result<(), Refusal> {
        self.known(to)?;
        let subject = format!("split {split}");
        let Some(entry) = self.splits.get(split) else {
            return Err((subject, "cannot be moved: it is not known".to_owned()));
        };
        if !entry.assignable(self.draining.cut) {
            let why = "cannot be moved: it is not being read for now";
            return Err((subject, why.to_owned()));
        }
        self.planning.set_target(split, to);
        Ok(())
    }

    fn drain(&mut self, reader: ReaderId, drained: bool, now: Duration) -> Result<(), Refusal> {
        self.known(reader)?;
        if drained {
            self.planning.drained.insert(reader);
        } else {
            self.planning.drained.remove(&reader);
        }
        self.planning.obey(now);
        Ok(())
    }

    fn pause(&mut self, split: &S, paused: bool, now: Duration) -> Result<(), Refusal> {
        let Some(entry) = self.splits.get_mut(split) else {
            let why = "cannot be paused or resumed: it is not known";
            return Err((format!("split {split}"), why.to_owned()));
        };
        let changed = std::mem::replace(&mut entry.paused, paused) != paused;
        // What starts nowhere yet is recorded with its start.
        if changed && !matches!(entry.ownership, Ownership::Resolving(_)) {
            self.record_pause(split, paused);
        }
        self.reconsider(split, now);
        Ok(())
    }

    /// Has it recorded that a split is paused, or is no longer. Of what waits for the log the last counts.
    fn record_pause(&mut self, split: &S, paused: bool) {
        self.take_back(|record| {
            matches!(record, LogRecord::Paused(one) | LogRecord::Resumed(one) if one == split)
        });
        let split = split.clone();
        self.to_append.push(if paused {
            LogRecord::Paused(split)
        } else {
            LogRecord::Resumed(split)
        });
    }

    /// Takes back what waits for the log and is not so any more, so that who changes his mind while it does
    /// not answer fills no memory; false if there is nothing. What is before a snapshot is also in that.
    pub(super) fn take_back(&mut self, is_meant: impl Fn(&LogRecord<S>) -> bool) -> bool {
        let snapshot = |record: &LogRecord<S>| matches!(record, LogRecord::Snapshot(_));
        let since = self
            .to_append
            .iter()
            .rposition(snapshot)
            .map_or(0, |at| at + 1);
        let before = self.to_append.len();
        let mut at = 0;
        self.to_append.retain(|record| {
            at += 1;
            at <= since || !is_meant(record)
        });
        self.to_append.len() < before
    }

    fn readmit(&mut self, split: S, now: Duration) -> Result<(), Refusal> {
        if self.waits_for_what_it_was(&split) {
            let why = "cannot be readmitted: it was replaced while it was read, so this run goes no \
                       further; ask the next one";
            return Err((format!("split {split}"), why.to_owned()));
        }
        let entry = self.splits.get_mut(&split);
        let Some(entry) = entry.filter(|entry| entry.is_quarantined()) else {
            let why = "cannot be readmitted: it is not quarantined";
            return Err((format!("split {split}"), why.to_owned()));
        };
        if matches!(entry.loss, Some(Loss::Telling(_))) {
            let why = "cannot be readmitted: it goes on by its policy, as soon as that is durable";
            return Err((format!("split {split}"), why.to_owned()));
        }
        entry.loss = None;
        if let Ownership::Quarantined { next, since } = &entry.ownership {
            let (next, since) = (next.clone(), *since);
            entry.ownership = Ownership::Idle { next, since };
        }
        entry.failing = None;
        if let Some(identity) = entry.replaced_by.take() {
            entry.identity = Some(identity.clone());
            let split = split.clone();
            self.to_append
                .push(LogRecord::Identified { split, identity });
        }
        self.wait_no_more(&split);
        self.reconsider(&split, now);
        self.quarantined.remove(&split);
        self.to_append.push(LogRecord::Readmitted(split));
        Ok(())
    }

    fn known(&self, reader: ReaderId) -> Result<(), Refusal> {
        if self.readers.contains_key(&reader) {
            return Ok(());
        }
        let why = format!("is not known; there are {}", self.readers.len());
        Err((format!("reader {reader}"), why))
    }
}

/// The subject of a command that cannot be obeyed, and why.
type Refusal = (String, String);
