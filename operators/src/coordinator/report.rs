//! What the coordinator learns from readers.

use std::time::Duration;

use super::ownership::Ownership;
use super::{Coordinator, Intention};
use crate::assignor::{Assignor, ReaderProfile};
use crate::defect::{self, Defect};
use crate::epoch::{ReaderId, SplitEpoch};
use crate::event::SourceEvent;
use crate::health::FailureKind;
use crate::protocol::{Directive, Moved, Report};
use crate::split::Split;

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    pub(super) fn hear(&mut self, report: Report<S>, now: Duration) {
        match report {
            Report::Hello {
                reader,
                configuration,
            } => self.hello(reader, configuration),
            Report::Released {
                reader,
                split,
                split_epoch,
                next,
                why,
            } => {
                if self.is_current(reader, &split, split_epoch) || defect::is(Defect::ReleasedTwice)
                {
                    self.settle_at(&split, next.clone(), now);
                    self.tell(SourceEvent::Released {
                        split,
                        reader,
                        next,
                        why,
                    });
                }
            }
            Report::Closed {
                reader,
                tick,
                moved,
                errors,
            } => match self.ticks.closing_from(reader, tick) {
                Some(closing) => {
                    closing.errors.extend(errors);
                    closing.moved.extend(moved.iter().cloned());
                    self.load(&moved);
                }
                None => self.ignored += 1,
            },
            Report::FetcherDown {
                reader,
                split,
                split_epoch,
                kind,
                next,
                message,
            } => {
                if self.is_current(reader, &split, split_epoch) {
                    if kind == FailureKind::Definite {
                        self.quarantine(&split, next, now);
                    }
                    self.tell(SourceEvent::FetcherDown {
                        split,
                        reader,
                        kind,
                        message,
                    });
                }
            }
            Report::Progress { reader, lags } => {
                for (split, split_epoch, lag) in lags {
                    if self.is_current(reader, &split, split_epoch)
                        && let Some(entry) = self.splits.get_mut(&split)
                    {
                        entry.load.lag = lag;
                    }
                }
            }
            Report::Command(command) => self.obey(command, now),
        }
    }

    fn hello(&mut self, reader: ReaderProfile, configuration: u64) {
        let different = self
            .readers
            .values()
            .any(|(_, known)| *known != configuration);
        let id = reader.id;
        self.readers.insert(id, (reader, configuration));
        if different {
            let reason = format!(
                "reader {id} is configured otherwise than the others; expected the same \
                 configuration in every process"
            );
            for index in 0..self.options.readers {
                let reject = Directive::Reject {
                    reason: reason.clone(),
                };
                let send = Intention::Send(ReaderId(index), reject);
                self.intentions.push_back(send);
            }
            self.wedge("source", reason);
        }
    }

    /// Whether a report is about the assignment in force; if not, it is counted and ignored.
    fn is_current(&mut self, reader: ReaderId, split: &S, split_epoch: SplitEpoch) -> bool {
        let current = self.splits.get(split).is_some_and(|entry| {
            entry.split_epoch == split_epoch && entry.ownership.reader() == Some(reader)
        });
        if !current {
            self.ignored += 1;
        }
        current
    }

    /// A split is nobody's from here on, and goes on at `next`.
    pub(super) fn settle_at(&mut self, split: &S, next: S::Position, now: Duration) {
        if let Some(entry) = self.splits.get_mut(split) {
            entry.ownership = Ownership::Idle { next, since: now };
        }
        self.reconsider(split, now);
    }

    fn quarantine(&mut self, split: &S, next: S::Position, now: Duration) {
        if let Some(entry) = self.splits.get_mut(split) {
            entry.ownership = Ownership::Quarantined(next);
        }
        self.reconsider(split, now);
    }

    /// Takes into account what was emitted.
    fn load(&mut self, all: &[Moved<S>]) {
        for moved in all {
            if let Some(entry) = self.splits.get_mut(&moved.range.split) {
                entry.emitted = entry.emitted.saturating_add(moved.bytes);
            }
        }
    }
}
