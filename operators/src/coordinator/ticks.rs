//! When a tick is over.
//!
//! One tick is open at a time, and one is being closed at most. A tick that every reader has closed
//! waits for the log; a few may, so that the log's latency does not stop reading.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::binding::{Binding, SplitError, SplitRange};
use crate::defect::{self, Defect};
use crate::epoch::ReaderId;
use crate::loss::Aftermath;
use crate::protocol::Moved;
use crate::split::Split;
use crate::tick::Tick;

/// The ticks that are not durable, and those that may be opened.
///
/// # Invariants
///
/// `closing` and `waiting` together are at most as many as the coordinator's bound, and older than
/// `open`, which is at most `reserved`. Once `ending` is [`Ending::Told`] no tick is opened.
#[derive(Clone, Debug, Hash)]
pub(super) struct Ticks<S: Split> {
    pub(super) open: Option<Tick>,
    pub(super) opened_at: Duration,
    pub(super) due: Duration,
    pub(super) closing: Option<Closing<S>>,
    /// Closed, and handed to the log, oldest first.
    pub(super) waiting: VecDeque<Tick>,
    /// The last tick that is over. The log may lack it, if nothing was read in it.
    pub(super) last_closed: Option<Tick>,
    /// No tick up to this one is opened: a run before may have.
    pub(super) first: Tick,
    /// The last tick that this run may open, durably.
    pub(super) reserved: Tick,
    /// The last tick that the log was asked, or had, to reserve.
    pub(super) asked: Tick,
    /// Whether the next tick cannot be opened because it is not reserved.
    pub(super) unreserved: bool,
    /// How many times as far as was asked for ticks are reserved ahead.
    pub(super) reserve_times: u32,
    pub(super) ending: Ending,
}

/// How far the end of the source has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ending {
    /// Nobody asked for it.
    No,
    /// The next tick to be closed is the last.
    Asked,
    /// The readers were told the last tick.
    Told,
    /// The last tick is durable.
    Reached,
}

/// A tick that not all readers have closed.
#[derive(Clone, Debug, Hash)]
pub(super) struct Closing<S: Split> {
    pub(super) tick: Tick,
    pub(super) missing: BTreeSet<ReaderId>,
    pub(super) moved: Vec<Moved<S>>,
    pub(super) errors: Vec<SplitError<S>>,
}

impl<S: Split> Ticks<S> {
    pub(super) fn new() -> Self {
        Self {
            open: None,
            opened_at: Duration::ZERO,
            due: Duration::ZERO,
            closing: None,
            waiting: VecDeque::new(),
            last_closed: None,
            first: Tick::default(),
            reserved: Tick::default(),
            asked: Tick::default(),
            unreserved: false,
            reserve_times: 1,
            ending: Ending::No,
        }
    }

    /// Goes on after a run that may have opened every tick up to `reserved`.
    pub(super) fn restore(&mut self, reserved: Tick, bound: Option<Tick>) {
        self.first = reserved;
        self.asked = reserved;
        self.last_closed = bound;
    }

    /// How many closed or closing ticks are not durable.
    pub(super) fn undurable(&self) -> usize {
        self.waiting.len() + usize::from(self.closing.is_some())
    }

    /// The oldest tick that is not durable.
    pub(super) fn oldest(&self) -> Option<Tick> {
        let closing = self.closing.as_ref().map(|closing| closing.tick);
        self.waiting.front().copied().or(closing).or(self.open)
    }

    /// A reader cannot go on before `tick` is closed.
    pub(super) fn close_early(&mut self, tick: Tick, now: Duration) {
        if self.open == Some(tick) {
            self.due = self.due.min(now);
        }
    }

    /// The tick that is being closed, if it is `tick` and `reader` had not closed it until here.
    pub(super) fn closing_from(&mut self, reader: ReaderId, tick: Tick) -> Option<&mut Closing<S>> {
        let closing = self.closing.as_mut()?;
        (closing.tick == tick && closing.missing.remove(&reader)).then_some(closing)
    }

    /// Whether splits may be given to readers: not once the last tick is near, or a tail would be
    /// emitted that no binding covers.
    pub(super) fn assigning(&self) -> bool {
        (self.open.is_some() && self.ending == Ending::No)
            || (self.ending != Ending::No && defect::is(Defect::AssignedWhileEnding))
    }
}

impl<S: Split> Closing<S> {
    pub(super) fn new(tick: Tick, readers: BTreeSet<ReaderId>) -> Self {
        Self {
            tick,
            missing: readers,
            moved: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// The binding of this tick, and the positions after it put into `bound`.
    ///
    /// # Errors
    ///
    /// If a range does not go on where the split's last one ended: a reader broke the protocol, and
    /// the tick must not become durable.
    pub(super) fn bind(
        mut self,
        bound: &mut BTreeMap<S, S::Position>,
    ) -> Result<Binding<S>, String> {
        let order = |moved: &Moved<S>| (moved.range.split.clone(), moved.split_epoch);
        self.moved.sort_by_cached_key(order);
        let mut ranges: Vec<SplitRange<S>> = Vec::with_capacity(self.moved.len());
        for Moved {
            split_epoch, range, ..
        } in self.moved
        {
            let Some(position) = bound.get_mut(&range.split) else {
                return Err(format!("split {}: moved, but is not known", range.split));
            };
            if *position != range.from || range.to < range.from {
                return Err(format!(
                    "split {}: tick {} has {}..{} under split epoch {split_epoch}, but goes on at \
                     {position}",
                    range.split, self.tick, range.from, range.to
                ));
            }
            *position = range.to.clone();
            match ranges.last_mut() {
                Some(last) if last.split == range.split => last.to = range.to,
                Some(_) | None => ranges.push(range),
            }
        }
        self.errors.sort();
        for error in &self.errors {
            skip(error, &mut ranges, bound, self.tick)?;
        }
        ranges.sort_by(|one, other| one.split.cmp(&other.split));
        Ok(Binding {
            tick: self.tick,
            ranges,
            errors: self.errors,
        })
    }
}

/// Takes into account what comes after `error`, which comes after everything that was emitted of its
/// split at the tick.
fn skip<S: Split>(
    error: &SplitError<S>,
    ranges: &mut Vec<SplitRange<S>>,
    bound: &mut BTreeMap<S, S::Position>,
    tick: Tick,
) -> Result<(), String> {
    let split = &error.split;
    if error.then == Aftermath::Stays {
        return Ok(());
    }
    let Some(position) = bound.get_mut(split).filter(|at| **at == error.position) else {
        return Err(format!(
            "split {split}: tick {tick} has it go on after {}, where it is not",
            error.position
        ));
    };
    match &error.then {
        Aftermath::Stays => {}
        Aftermath::Skipped(to) => {
            *position = to.clone();
            match ranges.iter_mut().find(|range| range.split == *split) {
                Some(range) => range.to = to.clone(),
                None => ranges.push(SplitRange {
                    split: split.clone(),
                    from: error.position.clone(),
                    to: to.clone(),
                }),
            }
        }
        Aftermath::StartedOver {
            split: other,
            start,
            stop: _,
        } => {
            bound.remove(split);
            bound.insert(other.clone(), start.clone());
        }
    }
    Ok(())
}
