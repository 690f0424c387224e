//! What can happen next, and what has happened at the end.

use std::time::Duration;

use timely_splits::health::FailureKind;
use timely_splits::protocol::{Directive, Report};

use crate::choice::Choices;
use crate::ledger::Violation;
use crate::now;
use crate::part::Part;
use crate::reader::Reader;
use crate::step::{Budget, Step};
use crate::world::{Model, READERS, World};

/// A timer that goes off later than this might as well never.
const SOON: Duration = Duration::from_secs(60 * 60);

/// More steps than it takes to come to rest.
const STEPS_MAX: usize = 1_000;

impl World {
    /// The states in which everything is at rest, all splits are assigned and nothing was read.
    pub(crate) fn initial(model: &Model) -> Result<Vec<Self>, Violation> {
        // The readers are alike, so the first split is with the first of them.
        let mut given = vec![0];
        let mut all = Vec::new();
        loop {
            let mut world = Self::new(model)?;
            world.budget = Budget::NONE;
            Choices::begin(&given);
            world.rest(|step| !matches!(step, Step::Read(..)))?;
            world.budget = model.budget;
            all.push(world);
            match Choices::next() {
                Some(next) if next[0] == 0 => given = next,
                Some(_) | None => return Ok(all),
            }
        }
    }

    /// The steps that can be taken; of some nothing comes.
    pub(crate) fn possible(&self, model: &Model) -> Vec<Step> {
        let mut steps = Vec::new();
        for (index, reader) in self.readers.iter().enumerate() {
            reading(index, reader, model, &mut steps);
        }
        steps.extend((0..self.asked.len()).map(Step::Resolve));
        if self.appending.is_some() {
            steps.push(Step::Log);
        }
        if !self.informed {
            steps.extend([Step::Inform, Step::Fail]);
        }
        steps.extend(self.ledger.quarantined.iter().copied().map(Step::Readmit));
        for split in model.letters() {
            if self.metadata.0.contains(&split) {
                steps.push(Step::Remove(split));
            } else {
                steps.push(Step::Add(split));
            }
            if self.informed {
                steps.extend((0..READERS).map(|reader| Step::Move(split, reader)));
            }
        }
        if self.tick_comes() {
            steps.push(Step::Tick);
        }
        if self.readers.iter().any(|reader| releasing(reader)) {
            steps.push(Step::Wait);
        }
        if !self.stopped {
            steps.push(Step::Stop);
        }
        if !self.coordinator.ended() {
            steps.push(Step::Crash { written: false });
            if self.appending.is_some() {
                steps.push(Step::Crash { written: true });
            }
        }
        steps.retain(|step| self.budget.allows(*step));
        steps
    }

    /// Whether the coordinator waits for a time that comes.
    fn tick_comes(&self) -> bool {
        let due = self.coordinator.poll_timeout();
        due.is_some_and(|due| due < now() + SOON)
    }

    /// Takes steps that cost nothing until nothing comes of any.
    fn rest(&mut self, wanted: impl Fn(Step) -> bool) -> Result<(), Violation> {
        let everything = Model {
            name: "",
            splits: 0,
            records: u64::MAX,
            stop: None,
            drains: None,
            budget: Budget::NONE,
        };
        self.rest_in(&everything, wanted)
    }

    /// The same, with as many records as there are in `model`.
    fn rest_in(&mut self, model: &Model, wanted: impl Fn(Step) -> bool) -> Result<(), Violation> {
        for _ in 0..STEPS_MAX {
            let mut steps = self.possible(model).into_iter();
            let free = |step: &Step| Budget::is_free(*step) && wanted(*step);
            let Some(step) = steps.find(free) else {
                return Ok(());
            };
            self.step(step)?;
        }
        Err("it never comes to rest".to_owned())
    }

    /// Whether nothing is left to do but what need not happen.
    pub(crate) fn end(&self, model: &Model) -> Result<(), Violation> {
        let mut end = self.clone();
        if self.ends_by_itself() {
            end.close_ticks(3)?;
            if !end.coordinator.ended() {
                return Err("all is read to its stop, and it does not end".to_owned());
            }
            // What was not listed when nothing else was left is not waited for, though it come back.
            if self.budget.removals == model.budget.removals {
                end.all_read(model)?;
            }
        } else if !self.stopped {
            if model.drains.is_some() {
                // What leaves is drained, and then what waits for that is read.
                end.close_ticks(3)?;
                end.rest_in(model, |_| true)?;
            }
            end.all_read(model)?;
            end.close_ticks(3)?;
            end.ledger.settled()?;
            // What is asked for right before the end need not be written.
            end.ledger.restartable(&end.coordinator.snapshot())?;
            end.step(Step::Stop)?;
        }
        end.close_ticks(3)?;
        end.ledger.settled()?;
        if !end.coordinator.ended() {
            return Err("the end was asked for and never comes".to_owned());
        }
        match end.readers.iter().find(|reader| !reader.finished) {
            Some(reader) => Err(format!("reader {} never finishes", reader.id)),
            None => Ok(()),
        }
    }

    /// Whether nothing is left to be read of a source that is bounded.
    fn ends_by_itself(&self) -> bool {
        let failed = |split| self.ledger.failed.contains_key(split);
        let bounded = self.stop.is_some() && self.informed && !self.stopped;
        bounded && !self.metadata.0.iter().any(failed)
    }

    fn all_read(&self, model: &Model) -> Result<(), Violation> {
        let durable = &self.ledger.durable;
        let unknown = |split| durable.all_found && !durable.positions.contains_key(split);
        for split in self.metadata.0.iter().filter(|split| !unknown(*split)) {
            let emitted = self.ledger.emitted.get(split).copied().unwrap_or(0);
            let records = model.stop.unwrap_or(model.records);
            if emitted < records && !self.ledger.failed.contains_key(split) {
                return Err(format!(
                    "L1: split {split} is read up to {emitted} for ever"
                ));
            }
        }
        let behind = |reader: &&Part<Reader>| reader.metadata.as_ref() != Some(&self.metadata);
        match self.readers.iter().find(behind) {
            Some(reader) => Err(format!(
                "L2: reader {} never hears of {:?}",
                reader.id, self.metadata
            )),
            None => Ok(()),
        }
    }

    /// Lets time pass, with everybody doing what there is to do.
    fn close_ticks(&mut self, ticks: usize) -> Result<(), Violation> {
        let nothing_to_read = |step| !matches!(step, Step::Read(..));
        for _ in 0..ticks {
            self.rest(nothing_to_read)?;
            if !self.tick_comes() {
                break;
            }
            self.step(Step::Tick)?;
        }
        self.rest(nothing_to_read)
    }
}

/// What a reader and its fetcher can do.
fn reading(index: usize, reader: &Reader, model: &Model, steps: &mut Vec<Step>) {
    if !reader.directives.is_empty() {
        steps.push(Step::Direct(index));
    }
    if reader.can_overtake() {
        steps.push(Step::Overtake(index));
    }
    if !reader.reports.is_empty() {
        steps.push(Step::Report(index));
    }
    if reader.state.poll_timeout().is_some() {
        steps.push(Step::Retry(index));
    }
    // The operator polls only while something may be emitted.
    let emitting = reader.state.open().is_some();
    for (split, fetching) in &reader.fetching {
        let more = fetching.next < model.records;
        if more && emitting {
            steps.extend([Step::Read(index, *split), Step::Hold(index, *split)]);
        }
        if more && !fetching.fetched {
            steps.push(Step::Fetch(index, *split));
        }
        if emitting {
            steps.push(Step::Down(index, *split, FailureKind::Transient));
            steps.push(Step::Down(index, *split, FailureKind::Definite));
        }
    }
    if emitting {
        if !reader.late.is_empty() {
            steps.push(Step::Late(index));
        }
        let parked = reader.state.parked();
        steps.extend(parked.into_iter().map(|split| Step::Admit(index, split)));
    }
}

/// Whether a reader may be late with a release.
fn releasing(reader: &Reader) -> bool {
    let asked = |directive: &Directive<_>| {
        matches!(
            directive,
            Directive::Revoke { .. } | Directive::Metadata { .. }
        )
    };
    let released = |report: &Report<_>| matches!(report, Report::Released { .. });
    reader.directives.iter().any(asked) || reader.reports.iter().any(released)
}
