//! What must be true, kept apart from the code that is to make it true.

use std::collections::{BTreeMap, BTreeSet};

use timely_splits::binding::{Binding, SplitError};
use timely_splits::coordinator::Snapshot;
use timely_splits::epoch::{Incarnation, ReaderId, SplitEpoch};
use timely_splits::fetcher::Piece;
use timely_splits::log::LogRecord;
use timely_splits::protocol::{Assignment, Directive};
use timely_splits::tick::Tick;

use crate::letters::{Letter, Letters};

/// A sentence that is false, in the words of the design.
pub(crate) type Violation = String;

/// What a watcher who sees everything knows.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Ledger {
    /// How far each split was emitted, in the history that counts.
    pub(crate) emitted: BTreeMap<Letter, u64>,
    /// What was emitted at each tick that is not bound, ticks that may be emitted at included.
    unbound: BTreeMap<Tick, BTreeMap<Letter, (u64, u64)>>,
    /// Errors emitted at ticks that are not bound.
    errors: BTreeMap<Tick, Vec<Letter>>,
    /// Splits that failed for good and were not readmitted.
    pub(crate) failed: BTreeMap<Letter, u64>,
    /// Those of them that the coordinator has heard of, so that they can be readmitted.
    pub(crate) quarantined: BTreeSet<Letter>,
    /// Splits that were readmitted, but not durably.
    readmitting: BTreeSet<Letter>,
    /// The last assignment of each split, and whether it is in force.
    assigned: BTreeMap<Letter, (ReaderId, SplitEpoch, bool)>,
    /// The tick at which each split was last emitted.
    ticks: BTreeMap<Letter, Tick>,
    /// After which tick splits may be emitted that waited for a drain.
    after: BTreeMap<Letter, Tick>,
    /// Whether the epoch that begins next is the one that was drained for.
    pub(crate) drained: bool,
    adopted: Option<Letters>,
    /// The last tick that was ever opened, by this run or one before it.
    opened: Tick,
    /// The last split epoch that a run before this one may have assigned.
    before: SplitEpoch,
    /// Whether the last tick was announced.
    last: bool,
    pub(crate) durable: Durable,
}

/// What the log says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Durable {
    incarnation: Incarnation,
    reserved: Tick,
    split_epochs: SplitEpoch,
    bound: Option<Tick>,
    metadata: Option<Letters>,
    pub(crate) positions: BTreeMap<Letter, u64>,
    stops: BTreeMap<Letter, u64>,
    /// Where splits end that are drained.
    ends: BTreeMap<Letter, u64>,
    /// Whether no split is read that has no start.
    pub(crate) all_found: bool,
    failed: BTreeMap<Letter, u64>,
}

fn ensure(holds: bool, violation: impl FnOnce() -> Violation) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(violation()) }
}

impl Ledger {
    /// Everything that was not written is gone.
    pub(crate) fn crash(&mut self) {
        *self = Self {
            emitted: self.durable.positions.clone(),
            failed: self.durable.failed.clone(),
            quarantined: self.durable.failed.keys().copied().collect(),
            opened: self.opened,
            before: self.durable.split_epochs,
            durable: self.durable.clone(),
            ..Self::default()
        };
    }

    /// The coordinator sends a directive.
    pub(crate) fn sent(
        &mut self,
        reader: ReaderId,
        directive: &Directive<Letter>,
    ) -> Result<(), Violation> {
        match directive {
            Directive::Assign(assignment) => self.assign(reader, assignment),
            Directive::Tick { open, last, .. } => {
                self.last |= *last;
                if !last && *open > self.opened {
                    ensure(*open <= self.durable.reserved, || {
                        format!("tick {open} is opened and not reserved")
                    })?;
                    self.opened = *open;
                    self.unbound.insert(*open, BTreeMap::new());
                }
                ensure(*last || self.unbound.contains_key(open), || {
                    format!("tick {open} is opened and may have been before")
                })
            }
            Directive::Durable(tick) => ensure(!self.unbound.contains_key(tick), || {
                format!("tick {tick} is said to be durable and is not bound")
            }),
            Directive::Metadata { .. }
            | Directive::Revoke { .. }
            | Directive::Prepare(_)
            | Directive::Emit(_)
            | Directive::BeginReplay(_)
            | Directive::Replay(_)
            | Directive::Explained(_)
            | Directive::Reject { .. } => Ok(()),
        }
    }

    fn assign(
        &mut self,
        reader: ReaderId,
        assignment: &Assignment<Letter>,
    ) -> Result<(), Violation> {
        let (split, epoch) = (assignment.split, assignment.split_epoch);
        ensure(!self.last, || {
            format!("split {split} is assigned after the last tick")
        })?;
        if let Some((with, before, in_force)) = self.assigned.get(&split) {
            ensure(!in_force, || {
                format!("I1: split {split} is given to reader {reader} while {with} has it")
            })?;
            ensure(epoch > *before, || {
                format!("I3: split {split} is assigned under {epoch} after {before}")
            })?;
        }
        let emitted = self.emitted.get(&split).copied().unwrap_or(0);
        ensure(assignment.start == emitted, || {
            format!(
                "I7: split {split} is assigned from {}, but was emitted up to {emitted}",
                assignment.start
            )
        })?;
        let stop = self.durable.stops.get(&split).copied();
        // That a split is not drained any more may not be written yet.
        let end = self.durable.ends.get(&split).copied();
        let drained = end.is_some() && assignment.stop == end;
        ensure(assignment.stop == stop || drained, || {
            format!(
                "split {split} is to stop at {stop:?}, but is assigned up to {:?}",
                assignment.stop
            )
        })?;
        ensure(stop.is_none_or(|stop| emitted < stop), || {
            format!("split {split} is assigned at {emitted}, and stops at {stop:?}")
        })?;
        // What was assigned before was durably allowed then, so that this is above all of it.
        let (before, allowed) = (self.before, self.durable.split_epochs);
        ensure(before < epoch && epoch <= allowed, || {
            format!(
                "I3: split {split} is assigned under {epoch}, expected above {before} and up to {allowed}"
            )
        })?;
        // Nothing asks for a split to be assigned for ever.
        ensure(epoch.0 <= before.0 + 16, || {
            format!("split {split} is assigned again and again")
        })?;
        self.assigned.insert(split, (reader, epoch, true));
        Ok(())
    }

    /// A reader has given a split up.
    pub(crate) fn released(&mut self, reader: ReaderId, split: Letter, epoch: SplitEpoch) {
        if let Some((with, last, in_force)) = self.assigned.get_mut(&split)
            && (*with, *last) == (reader, epoch)
        {
            *in_force = false;
        }
    }

    /// A reader emits a piece.
    pub(crate) fn emit(
        &mut self,
        reader: ReaderId,
        tick: Tick,
        piece: &Piece<Letter, ()>,
    ) -> Result<(), Violation> {
        let (split, start, end) = (piece.split, piece.start, piece.end);
        let what = || format!("reader {reader} emits {split} {start}..{end} at {tick}");
        ensure(!self.failed.contains_key(&split), || {
            format!("{} after it failed for good", what())
        })?;
        let current = (reader, piece.split_epoch, true);
        ensure(self.assigned.get(&split) == Some(&current), || {
            format!(
                "I6: {} under split epoch {}, but the last assignment is {:?}",
                what(),
                piece.split_epoch,
                self.assigned.get(&split)
            )
        })?;
        let emitted = self.emitted.entry(split).or_default();
        ensure(*emitted == start, || {
            format!("I2: {}, but the split was emitted up to {emitted}", what())
        })?;
        *emitted = end;
        let stop = self.durable.stops.get(&split).copied();
        ensure(stop.is_none_or(|stop| end <= stop), || {
            format!("{}, which stops at {stop:?}", what())
        })?;
        let after = self.after.get(&split);
        ensure(after.is_none_or(|after| *after < tick), || {
            format!("S30: {}, as what left before it was at {after:?}", what())
        })?;
        self.ticks.insert(split, tick);
        let ranges = self
            .unbound
            .get_mut(&tick)
            .ok_or_else(|| format!("{}, which is bound", what()))?;
        ranges
            .entry(split)
            .and_modify(|range| range.1 = end)
            .or_insert((start, end));
        Ok(())
    }

    /// A metadata epoch begins.
    pub(crate) fn adopts(&mut self, next: Letters) -> Result<(), Violation> {
        let before = self.adopted.replace(next.clone());
        let Some(interim) = before.filter(|_| std::mem::take(&mut self.drained)) else {
            return Ok(());
        };
        let left: Vec<_> = interim.0.difference(&next.0).copied().collect();
        for split in left
            .iter()
            .filter(|split| self.emitted.contains_key(*split))
        {
            let end = self.durable.ends.get(split);
            ensure(end.is_some() && self.emitted.get(split) >= end, || {
                let emitted = self.emitted.get(split);
                format!("S29: split {split} leaves at {emitted:?}, and ends at {end:?}")
            })?;
        }
        let last = left.iter().filter_map(|split| self.ticks.get(split)).max();
        if let Some(last) = last.copied() {
            let added = next.0.difference(&interim.0);
            self.after.extend(added.map(|split| (*split, last)));
        }
        Ok(())
    }

    /// A reader emits a definite error.
    pub(crate) fn fail(
        &mut self,
        tick: Option<Tick>,
        error: &SplitError<Letter>,
    ) -> Result<(), Violation> {
        let tick = tick.ok_or("an error is emitted while no tick is open")?;
        self.failed.insert(error.split, error.position);
        self.errors.entry(tick).or_default().push(error.split);
        let (_, _, in_force) = self
            .assigned
            .get_mut(&error.split)
            .ok_or("a split failed that nobody has")?;
        *in_force = false;
        Ok(())
    }

    /// A split that failed for good is read again, because somebody asked for it.
    pub(crate) fn readmit(&mut self, split: Letter) {
        self.failed.remove(&split);
        self.quarantined.remove(&split);
        self.readmitting.insert(split);
    }

    /// A reader, or the enumerator, gives up all times before `tick`.
    pub(crate) fn pass(&self, tick: Option<Tick>) -> Result<(), Violation> {
        let oldest = self.unbound.keys().next();
        let holds = oldest.is_none_or(|oldest| tick.is_some_and(|tick| tick <= *oldest));
        ensure(holds, || {
            format!("the frontier passes {oldest:?}, which is not bound, to {tick:?}")
        })
    }

    /// A tick is published, and the enumerator gives up all times before `next`. Unless the log has its
    /// binding, nothing was emitted at it.
    pub(crate) fn publish(
        &mut self,
        binding: &Binding<Letter>,
        next: Option<Tick>,
    ) -> Result<(), Violation> {
        let tick = binding.tick;
        if let Some(emitted) = self.unbound.remove(&tick) {
            let errors = self.errors.contains_key(&tick);
            ensure(emitted.is_empty() && !errors && binding.is_empty(), || {
                format!("tick {tick} is published and not bound, with {emitted:?}")
            })?;
        }
        self.pass(next)
    }

    /// Records are in the log for good.
    pub(crate) fn write(&mut self, records: &[LogRecord<Letter>]) -> Result<(), Violation> {
        for record in records {
            match record {
                LogRecord::Incarnation(incarnation) => self.durable.incarnation = *incarnation,
                LogRecord::Reserved(tick) => self.durable.reserved = *tick,
                LogRecord::ReservedEpochs(epoch) => self.durable.split_epochs = *epoch,
                LogRecord::Metadata { metadata, .. } => {
                    self.durable.metadata = Some(metadata.clone());
                }
                LogRecord::Start { split, start, stop } => {
                    self.durable.positions.insert(*split, *start);
                    if let Some(stop) = stop {
                        self.durable.stops.insert(*split, *stop);
                    }
                }
                LogRecord::End { split, end } => {
                    match end {
                        Some(end) => self.durable.ends.insert(*split, *end),
                        None => self.durable.ends.remove(split),
                    };
                }
                LogRecord::AllFound => self.durable.all_found = true,
                LogRecord::Binding(binding) => self.bind(binding)?,
                LogRecord::Readmitted(split) => {
                    self.readmitting.remove(split);
                    self.durable.failed.remove(split);
                }
                LogRecord::Identified { .. } => {}
                LogRecord::Snapshot(snapshot) => self.restartable(snapshot)?,
                other => return Err(format!("nobody asked for {other:?}")),
            }
        }
        Ok(())
    }

    fn bind(&mut self, binding: &Binding<Letter>) -> Result<(), Violation> {
        let tick = binding.tick;
        let emitted = self
            .unbound
            .remove(&tick)
            .ok_or_else(|| format!("tick {tick} is bound, but is not open"))?;
        let ranges: BTreeMap<_, _> = (binding.ranges.iter())
            .map(|range| (range.split, (range.from, range.to)))
            .collect();
        ensure(ranges == emitted, || {
            format!("I8: tick {tick} is bound to {ranges:?}, but {emitted:?} was emitted at it")
        })?;
        let mut errors = self.errors.remove(&tick).unwrap_or_default();
        errors.sort();
        let bound: Vec<_> = binding.errors.iter().map(|error| error.split).collect();
        ensure(bound == errors, || {
            format!("tick {tick} is bound to errors of {bound:?}, but {errors:?} failed at it")
        })?;
        for (split, (from, to)) in emitted {
            let position = self.durable.positions.entry(split).or_default();
            ensure(*position == from, || {
                format!("split {split} is bound from {from}, but up to {position} before")
            })?;
            *position = to;
            let end = self.durable.ends.get(&split);
            ensure(end.is_none_or(|end| to <= *end), || {
                format!("S29: split {split} is bound up to {to}, and drained to {end:?}")
            })?;
        }
        for error in &binding.errors {
            // It may have been readmitted before the tick in which it failed was closed.
            let split = error.split;
            if self.failed.contains_key(&split) || self.readmitting.contains(&split) {
                self.durable.failed.insert(split, error.position);
            }
        }
        self.durable.bound = Some(tick);
        Ok(())
    }

    /// Whether all that was emitted is bound, as it must be when enough ticks were closed.
    pub(crate) fn settled(&self) -> Result<(), Violation> {
        let bound = |split: &Letter| self.durable.positions.get(split).copied().unwrap_or(0);
        for (split, emitted) in &self.emitted {
            ensure(bound(split) == *emitted, || {
                format!(
                    "split {split} was emitted up to {emitted}, but is bound up to {} for ever",
                    bound(split)
                )
            })?;
        }
        Ok(())
    }

    /// Whether a snapshot says what the records before it say.
    pub(crate) fn restartable(&self, snapshot: &Snapshot<Letter>) -> Result<(), Violation> {
        let said = |failed: bool| {
            let splits = snapshot.splits.iter();
            let wanted = splits.filter(move |one| one.quarantined || !failed);
            wanted.map(|one| (one.split, one.position))
        };
        let durable = &self.durable;
        ensure(snapshot.split_epochs >= durable.split_epochs, || {
            format!("I3: the snapshot says {snapshot:?}, but the log {durable:?}")
        })?;
        let agrees = said(false).eq(durable.positions.iter().map(|(one, at)| (*one, *at)))
            && said(true).eq(durable.failed.iter().map(|(one, at)| (*one, *at)));
        ensure(agrees, || {
            format!("the snapshot says {snapshot:?}, but the log {durable:?}")
        })
    }
}
