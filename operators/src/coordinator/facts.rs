//! What the coordinator learns from each event.

use std::time::Duration;

use super::ownership::{Entry, Ownership};
use super::ticks::Ending;
use super::{BALANCED_AFTER, Coordinator, Intention, Phase};
use crate::binding::Binding;
use crate::discovery::DiscoveryRequest;
use crate::epoch::{MetadataEpoch, ReaderId, RequestId, SplitEpoch};
use crate::event::SourceEvent;
use crate::health::FailureKind;
use crate::log::LogRecord;
use crate::protocol::{Directive, ReleaseReason};
use crate::split::{Metadata, Split};

impl<S: Split> Coordinator<S> {
    pub(super) fn hello(&mut self, reader: ReaderId, configuration: u64) {
        let different = self.readers.values().any(|known| *known != configuration);
        self.readers.insert(reader, configuration);
        if different {
            let reason = format!(
                "reader {reader} is configured otherwise than the others; expected the same \
                 configuration in every process"
            );
            for index in 0..self.options.readers {
                self.intentions.push_back(Intention::Send(
                    ReaderId(index),
                    Directive::Reject {
                        reason: reason.clone(),
                    },
                ));
            }
            self.wedge("source", reason);
        }
    }

    pub(super) fn adopt(&mut self, metadata: S::Metadata, now: Duration) {
        if self.metadata.as_ref() == Some(&metadata) {
            return;
        }
        self.metadata_epoch = self.metadata_epoch.next();
        self.tell(SourceEvent::MetadataAdopted {
            epoch: self.metadata_epoch,
            metadata: metadata.clone(),
        });
        // Readers release what is not listed by themselves, when they hear of the epoch.
        let mut forgotten = Vec::new();
        for (split, entry) in &mut self.splits {
            if metadata.lists(split) {
                continue;
            }
            match entry.ownership {
                Ownership::Resolving(_) => forgotten.push(split.clone()),
                Ownership::Assigned(reader) => entry.ownership = Ownership::Releasing(reader),
                Ownership::Recording(_)
                | Ownership::Idle(_)
                | Ownership::Releasing(_)
                | Ownership::Quarantined(_) => {}
            }
        }
        for split in forgotten {
            self.splits.remove(&split);
        }
        self.metadata = Some(metadata.clone());
        if self.phase == Phase::Running {
            self.broadcast_metadata();
        }
        self.intentions
            .push_back(Intention::Ask(DiscoveryRequest::Discover {
                epoch: self.metadata_epoch,
                metadata,
            }));
        self.plan_due = true;
        self.balance_due = Some(now + BALANCED_AFTER);
    }

    pub(super) fn found(&mut self, epoch: MetadataEpoch, splits: Vec<(S, S::Identity)>) {
        let Some(metadata) = self
            .metadata
            .as_ref()
            .filter(|_| epoch == self.metadata_epoch)
        else {
            self.ignored += 1;
            return;
        };
        let listed: Vec<_> = splits
            .into_iter()
            .filter(|(split, _)| metadata.lists(split))
            .collect();
        for (split, identity) in listed {
            if let Some(entry) = self.splits.get_mut(&split) {
                entry.identity = identity;
                continue;
            }
            self.last_request = self.last_request.next();
            let entry = Entry {
                ownership: Ownership::Resolving(self.last_request),
                split_epoch: SplitEpoch::default(),
                identity,
            };
            self.splits.insert(split.clone(), entry);
            self.tell(SourceEvent::SplitFound {
                split: split.clone(),
            });
            self.intentions
                .push_back(Intention::Ask(DiscoveryRequest::Resolve {
                    request: self.last_request,
                    split,
                }));
        }
    }

    pub(super) fn resolved(&mut self, request: RequestId, split: &S, start: S::Position) {
        match self.splits.get_mut(split) {
            Some(entry) if matches!(entry.ownership, Ownership::Resolving(id) if id == request) => {
                entry.ownership = Ownership::Recording(start.clone());
                self.to_append.push(LogRecord::Start {
                    split: split.clone(),
                    start,
                });
            }
            Some(_) | None => self.ignored += 1,
        }
    }

    /// The start of a split is durable.
    pub(super) fn recorded(&mut self, split: S, start: S::Position) {
        let entry = self
            .splits
            .get_mut(&split)
            .expect("a recorded split is kept");
        entry.ownership = Ownership::Idle(start.clone());
        self.bound.insert(split.clone(), start.clone());
        self.plan_due = true;
        self.tell(SourceEvent::SplitResolved { split, start });
    }

    pub(super) fn released(
        &mut self,
        reader: ReaderId,
        split: S,
        split_epoch: SplitEpoch,
        next: S::Position,
        why: ReleaseReason,
    ) {
        match self.splits.get_mut(&split) {
            Some(entry)
                if entry.split_epoch == split_epoch && entry.ownership.reader() == Some(reader) =>
            {
                entry.ownership = Ownership::Idle(next.clone());
                self.restless.insert(split.clone());
                self.tell(SourceEvent::Released {
                    split,
                    reader,
                    next,
                    why,
                });
            }
            Some(_) | None => self.ignored += 1,
        }
    }

    pub(super) fn fetcher_down(
        &mut self,
        reader: ReaderId,
        (split, split_epoch): (S, SplitEpoch),
        kind: FailureKind,
        next: S::Position,
        message: String,
    ) {
        match self.splits.get_mut(&split) {
            Some(entry)
                if entry.split_epoch == split_epoch && entry.ownership.reader() == Some(reader) =>
            {
                if kind == FailureKind::Definite {
                    entry.ownership = Ownership::Quarantined(next);
                    self.plan_due = true;
                }
                self.tell(SourceEvent::FetcherDown {
                    split,
                    reader,
                    kind,
                    message,
                });
            }
            Some(_) | None => self.ignored += 1,
        }
    }

    /// The binding of a tick is durable.
    pub(super) fn durable(&mut self, binding: Binding<S>) {
        let oldest = self.ticks.waiting.pop_front();
        debug_assert_eq!(oldest, Some(binding.tick), "bindings are appended in order");
        let tick = binding.tick;
        if self.ticks.ending == Ending::Told
            && self.ticks.waiting.is_empty()
            && self.ticks.closing.is_none()
        {
            self.ticks.ending = Ending::Reached;
        }
        self.tell(SourceEvent::Bound {
            tick,
            splits: binding.ranges.len(),
        });
        let next = if self.ended() {
            None
        } else {
            let closing = self.ticks.closing.as_ref().map(|closing| closing.tick);
            let waiting = self.ticks.waiting.front().copied();
            waiting.or(closing).or(self.ticks.open)
        };
        self.intentions
            .push_back(Intention::Publish { binding, next });
        self.broadcast(&Directive::Durable(tick));
        if self.ended() {
            self.tell(SourceEvent::Ended);
        }
    }
}
