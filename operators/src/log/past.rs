//! Bindings that are to be given again.

use super::{BindingLog, LogError, LogExtent, LogRecord, READ_RECORDS};
use crate::binding::Binding;
use crate::epoch::LogSequence;
use crate::split::Split;
use crate::tick::Tick;

/// How many bindings, and how many ranges in them, are read at once, about.
const BINDINGS_MAX: usize = 1_024;
const RANGES_MAX: usize = 64 * 1_024;

/// Reads the bindings from a tick on that are in force, a few at a time.
#[derive(Debug)]
pub(super) struct Past {
    next: LogSequence,
    end: LogSequence,
    from: Tick,
    /// For each snapshot, oldest first: where it is, and the greatest tick that is in force if it is
    /// bound before that. A run that went back wrote one that is older than bindings before it.
    in_force: Vec<(LogSequence, Tick)>,
}

impl Past {
    /// What `extent` holds of ticks at or after `from`, between two of its records.
    pub(super) fn new(
        extent: &LogExtent,
        begin: LogSequence,
        end: LogSequence,
        from: Tick,
    ) -> Self {
        let mut least = Tick(u64::MAX);
        let mut in_force = Vec::with_capacity(extent.snapshots.len());
        for snapshot in extent.snapshots.iter().rev() {
            least = least.min(snapshot.bound.unwrap_or_default());
            in_force.push((snapshot.at, least));
        }
        in_force.reverse();
        Self {
            next: begin,
            end,
            from,
            in_force,
        }
    }

    /// Whether the binding at a place of the log is one to give again.
    fn wants<S: Split>(&self, at: LogSequence, binding: &Binding<S>) -> bool {
        let after = self
            .in_force
            .partition_point(|(snapshot, _)| *snapshot < at);
        let in_force = self
            .in_force
            .get(after)
            .is_none_or(|(_, least)| binding.tick <= *least);
        binding.tick >= self.from && in_force
    }

    /// The next bindings; none at the end.
    pub(super) fn read<S: Split>(
        &mut self,
        log: &mut (impl BindingLog<S> + ?Sized),
    ) -> Result<Vec<Binding<S>>, LogError> {
        let (mut bindings, mut ranges) = (Vec::new(), 0);
        while self.next < self.end && bindings.len() < BINDINGS_MAX && ranges < RANGES_MAX {
            let records = match log.read(self.next, READ_RECORDS.min(BINDINGS_MAX)) {
                // What was read before is handed over first.
                Err(_) if !bindings.is_empty() => break,
                records => records?,
            };
            if records.is_empty() {
                break;
            }
            for record in records {
                let at = self.next;
                self.next.0 += 1;
                if let LogRecord::Binding(binding) = record
                    && at < self.end
                    && self.wants(at, &binding)
                {
                    ranges += binding.ranges.len();
                    bindings.push(binding);
                }
            }
        }
        Ok(bindings)
    }
}
