//! When a tick is over.
//!
//! One tick is open at a time, and one is being closed at most. A tick that every reader has closed
//! waits for the log; a few may, so that the log's latency does not stop reading.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::binding::{Binding, SplitError, SplitRange};
use crate::epoch::{ReaderId, SplitEpoch};
use crate::split::Split;
use crate::tick::Tick;

/// The ticks that are not durable.
///
/// # Invariants
///
/// `closing` and `waiting` together are at most as many as the coordinator's bound, and older than
/// `open`. Once `ending` is [`Ending::Told`] no tick is opened.
#[derive(Debug)]
pub(super) struct Ticks<S: Split> {
    pub(super) open: Option<Tick>,
    pub(super) due: Duration,
    pub(super) closing: Option<Closing<S>>,
    /// Closed, and handed to the log, oldest first.
    pub(super) waiting: VecDeque<Tick>,
    pub(super) ending: Ending,
}

/// How far the end of the source has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Debug)]
pub(super) struct Closing<S: Split> {
    pub(super) tick: Tick,
    pub(super) missing: BTreeSet<ReaderId>,
    pub(super) ranges: Vec<(SplitEpoch, SplitRange<S>)>,
    pub(super) errors: Vec<SplitError<S>>,
}

impl<S: Split> Ticks<S> {
    pub(super) fn new() -> Self {
        Self {
            open: None,
            due: Duration::ZERO,
            closing: None,
            waiting: VecDeque::new(),
            ending: Ending::No,
        }
    }

    /// How many closed or closing ticks are not durable.
    pub(super) fn undurable(&self) -> usize {
        self.waiting.len() + usize::from(self.closing.is_some())
    }

    /// The tick that is being closed, if it is `tick` and `reader` had not closed it until here.
    pub(super) fn closing_from(&mut self, reader: ReaderId, tick: Tick) -> Option<&mut Closing<S>> {
        let closing = self.closing.as_mut()?;
        (closing.tick == tick && closing.missing.remove(&reader)).then_some(closing)
    }

    /// Whether splits may be given to readers: not once the last tick is near, or a tail would be
    /// emitted that no binding covers.
    pub(super) fn assigning(&self) -> bool {
        self.open.is_some() && self.ending == Ending::No
    }
}

impl<S: Split> Closing<S> {
    pub(super) fn new(tick: Tick, readers: &BTreeSet<ReaderId>) -> Self {
        Self {
            tick,
            missing: readers.clone(),
            ranges: Vec::new(),
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
        self.ranges
            .sort_by(|a, b| (&a.1.split, a.0).cmp(&(&b.1.split, b.0)));
        let mut ranges: Vec<SplitRange<S>> = Vec::with_capacity(self.ranges.len());
        for (split_epoch, range) in self.ranges {
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
        Ok(Binding {
            tick: self.tick,
            ranges,
            errors: self.errors,
        })
    }
}
