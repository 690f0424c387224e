//! What the coordinator learns from readers.

use std::time::Duration;

use super::ownership::Ownership;
use super::{Awaited, Coordinator, Intention, Phase};
use crate::assignor::{Assignor, ReaderProfile};
use crate::defect::{self, Defect};
use crate::epoch::{ReaderId, SplitEpoch};
use crate::event::SourceEvent;
use crate::explain::OriginKind;
use crate::health::{FailureKind, Health, HealthStatus};
use crate::protocol::{Configuration, Directive, Moved, Report, Setting};
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
            Report::Replayed { reader, before } => self.replayed(reader, before),
            down @ Report::FetcherDown { .. } => self.fetcher_down(down, now),
            lost @ Report::Lost { .. } => self.lost(lost, now),
            Report::Progress { reader, lags } => self.progress(reader, lags),
            Report::Prepared { reader, split } => {
                if self.is_preparing(reader, &split) {
                    self.prepared(&split, reader);
                } else {
                    self.ignored += 1;
                }
            }
            Report::Full { tick, .. } => self.ticks.close_early(tick, now),
            Report::Command(command) => self.obey(command, now),
        }
    }

    /// Reading a split stopped by itself, as the report says.
    fn fetcher_down(&mut self, down: Report<S>, now: Duration) {
        let Report::FetcherDown {
            reader,
            split,
            split_epoch,
            kind,
            next,
            message,
        } = down
        else {
            return;
        };
        if !self.is_current(reader, &split, split_epoch) {
            return;
        }
        if kind == FailureKind::Definite && self.phase == Phase::Replaying {
            let why = format!("split {split}: it cannot be replayed from {next} on: {message}");
            self.wedge("source", why);
            return;
        }
        if kind == FailureKind::Definite {
            self.quarantine(&split, next, now);
        }
        self.tell_failing(&split, kind, &message);
        self.tell(SourceEvent::FetcherDown {
            split,
            reader,
            kind,
            message,
        });
    }

    fn progress(&mut self, reader: ReaderId, lags: Vec<(S, SplitEpoch, u64)>) {
        for (split, split_epoch, lag) in lags {
            if self.is_current(reader, &split, split_epoch)
                && let Some(entry) = self.splits.get_mut(&split)
            {
                entry.load.lag = lag;
            }
        }
    }

    /// Whether it is awaited that a reader is prepared for a split.
    pub(super) fn is_preparing(&self, reader: ReaderId, split: &S) -> bool {
        let awaited = self.splits.get(split).and_then(|entry| entry.awaited);
        awaited.is_some_and(|(_, awaited)| awaited == Awaited::Prepared(reader))
    }

    fn hello(&mut self, reader: ReaderProfile, configuration: Configuration) {
        let id = reader.id;
        let mut others = self.readers.values();
        let odd =
            others.find_map(|(other, known)| Some((other.id, difference(known, &configuration)?)));
        self.readers.insert(id, (reader, configuration));
        let Some((other, difference)) = odd.filter(|_| self.phase != Phase::Wedged) else {
            return;
        };
        let reason = format!(
            "the processes of workers {other} and {id} are configured differently: {difference}; \
             expected the same in every process"
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

    /// Whether a report is about the assignment in force; if not, it is counted and ignored.
    pub(super) fn is_current(
        &mut self,
        reader: ReaderId,
        split: &S,
        split_epoch: SplitEpoch,
    ) -> bool {
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
        self.wait_no_more(split);
        let at = self.name_of(now);
        if let Some(entry) = self.splits.get_mut(split)
            && let Some(reader) = entry.ownership.reader()
        {
            let why = OriginKind::Released(reader);
            entry.story.goes_on(next.clone(), why, at);
        }
        self.rest(split, next, now, now);
    }

    /// Tells a person that a split is not read, once for what it says.
    fn tell_failing(&mut self, split: &S, kind: FailureKind, message: &str) {
        let Some(entry) = self.splits.get_mut(split) else {
            return;
        };
        let before = entry.failing.replace(message.to_owned());
        if kind == FailureKind::Transient && before.as_deref() == Some(message) {
            return;
        }
        let message = match kind {
            FailureKind::Transient => format!("{message}; trying again"),
            FailureKind::Definite => format!("{message}; it stays there until it is readmitted"),
        };
        self.tell(SourceEvent::Health(Health::new(
            format!("split {split}"),
            HealthStatus::Failing(kind),
            message,
        )));
    }

    fn quarantine(&mut self, split: &S, next: S::Position, now: Duration) {
        self.wait_no_more(split);
        let at = self.name_of(now);
        if let Some(entry) = self.splits.get_mut(split) {
            if let Some(reader) = entry.ownership.reader() {
                entry
                    .story
                    .goes_on(next.clone(), OriginKind::Failed(reader), at);
            }
            entry.ownership = Ownership::Quarantined { next, since: now };
        }
        self.reconsider(split, now);
    }

    /// Takes into account what was emitted.
    fn load(&mut self, all: &[Moved<S>]) {
        for moved in all {
            if let Some(entry) = self.splits.get_mut(&moved.range.split) {
                entry.emitted = entry.emitted.saturating_add(moved.bytes);
                entry.story.emitted |= entry.split_epoch == moved.split_epoch;
                if entry.failing.take().is_some() {
                    let subject = format!("split {}", moved.range.split);
                    let again = Health::new(subject, HealthStatus::Well, "it is read again");
                    self.tell(SourceEvent::Health(again));
                }
            }
        }
    }
}

/// The first setting that differs, with both values.
fn difference(one: &Configuration, other: &Configuration) -> Option<String> {
    let settings = one.keys().chain(other.keys());
    let said = |setting: Option<&Setting>| {
        setting.map_or_else(|| "not set".to_owned(), |setting| setting.value.clone())
    };
    let mut differing = settings.filter(|setting| one.get(*setting) != other.get(*setting));
    differing.next().map(|setting| {
        let (one, other) = (said(one.get(setting)), said(other.get(setting)));
        format!("{setting} is {one} in one and {other} in the other")
    })
}
