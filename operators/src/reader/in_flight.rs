//! How much was emitted that the user has not dealt with.

use std::collections::BTreeMap;
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
    emitted: BTreeMap<Tick, usize>,
    bytes: usize,
}

impl<T: SourceTime> InFlight<T> {
    pub(super) fn new(probe: ProbeHandle<T>, time: TimeMap<T>) -> Self {
        Self {
            probe,
            time,
            emitted: BTreeMap::new(),
            bytes: 0,
        }
    }

    pub(super) fn emitted(&mut self, tick: Tick, bytes: usize) {
        self.bytes += bytes;
        *self.emitted.entry(tick).or_default() += bytes;
    }

    /// The bytes of ticks that the probe has not passed.
    pub(super) fn bytes(&mut self) -> usize {
        while let Some(oldest) = self.emitted.first_entry() {
            if self.probe.less_equal(&(self.time.time_of)(*oldest.key())) {
                break;
            }
            self.bytes -= oldest.remove();
        }
        self.bytes
    }

    /// The oldest tick with bytes that the probe had not passed when it was last looked at.
    pub(super) fn oldest(&self) -> Option<Tick> {
        self.emitted.keys().next().copied()
    }
}

impl<T: SourceTime> fmt::Debug for InFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
