//! How much was emitted that the user has not dealt with.

use std::collections::VecDeque;
use std::fmt;

use timely::dataflow::ProbeHandle;

use crate::tick::{SourceTime, Tick, TimeMap};

/// The bytes that were emitted at ticks that the user's probe has not passed.
///
/// It bounds bytes, not ticks: a user whose window keeps an early capability would be starved by a
/// bound on ticks. It has one entry for a tick with bytes, and reading stops at the bound of bytes,
/// so it is bounded as well.
pub(super) struct InFlight<T: SourceTime> {
    probe: ProbeHandle<T>,
    time: TimeMap<T>,
    emitted: VecDeque<(Tick, usize)>,
    bytes: usize,
}

impl<T: SourceTime> InFlight<T> {
    pub(super) fn new(probe: ProbeHandle<T>, time: TimeMap<T>) -> Self {
        Self {
            probe,
            time,
            emitted: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) fn emitted(&mut self, tick: Tick, bytes: usize) {
        self.bytes += bytes;
        match self.emitted.back_mut() {
            Some((last, sum)) if *last == tick => *sum += bytes,
            Some(_) | None => self.emitted.push_back((tick, bytes)),
        }
    }

    /// The bytes of ticks that the probe has not passed.
    pub(super) fn bytes(&mut self) -> usize {
        while let Some((tick, bytes)) = self.emitted.front() {
            if self.probe.less_equal(&(self.time.time_of)(*tick)) {
                break;
            }
            self.bytes -= bytes;
            self.emitted.pop_front();
        }
        self.bytes
    }
}

impl<T: SourceTime> fmt::Debug for InFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
