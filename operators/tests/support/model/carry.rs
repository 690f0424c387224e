//! Does what the coordinator and the readers want done.

use timely_splits::coordinator::Intention;
use timely_splits::discovery::DiscoveryRequest;
use timely_splits::epoch::ReaderId;
use timely_splits::event::SourceEvent;
use timely_splits::health::{FailureKind, HealthStatus};
use timely_splits::loss::Aftermath;
use timely_splits::protocol::{Assignment, Directive};
use timely_splits::reader::ReaderAction;

use super::{Model, tell};
use crate::forest::Leaf;

impl Model {
    /// Does what the coordinator wants done, and looks at how much it holds.
    pub(super) fn carry_out(&mut self) {
        let mut intentions = 0;
        while let Some(intention) = self.coordinator.poll() {
            intentions += 1;
            self.intend(intention);
        }
        let tables = self.coordinator.tables();
        if !self.log_lost {
            self.watch.bounds(tables, intentions, &self.settings);
        }
    }

    fn intend(&mut self, intention: Intention<Leaf>) {
        match intention {
            Intention::Send(reader, directive) => {
                let history = &self.history;
                (self.watch).sends(reader, &directive, |leaf| history.next(leaf));
                match &directive {
                    Directive::Tick {
                        close, open, last, ..
                    } => {
                        if reader == ReaderId(0) && !last {
                            self.history.opened(*open);
                            let waiting_max = self.settings.coordinator.ticks_waiting_max;
                            self.watch.opened(*open, waiting_max);
                        }
                        tell!(
                            self,
                            "coordinator -> reader {reader}: {close:?} is over, {open}"
                        );
                    }
                    Directive::Prepare(leaf) => {
                        let due = self.now + self.settings.coordinator.prepare_deadline;
                        self.watch.prepares(reader, *leaf, due);
                    }
                    Directive::Revoke { split, .. } => self.watch.revokes(*split, self.now),
                    Directive::Assign(assignment) => {
                        let Assignment {
                            split, split_epoch, ..
                        } = assignment;
                        self.history.assigned(split, *split_epoch);
                    }
                    _ => {}
                }
                let apart =
                    self.settings.metadata_apart && matches!(directive, Directive::Metadata { .. });
                let reader = &mut self.readers[reader.0];
                if apart {
                    reader.metadata.push_back(directive);
                } else {
                    reader.directives.push_back(directive);
                }
            }
            Intention::Ask(request) => {
                if let DiscoveryRequest::End { split, .. } = &request {
                    self.watch.leaves(*split);
                }
                self.asked.push_back(request);
            }
            Intention::Append(incarnation, records) => {
                tell!(self, "coordinator -> log: {records:?}");
                assert_eq!(
                    incarnation, self.watch.incarnation,
                    "I3: the incarnation of an append"
                );
                let before = self.under_way.replace((incarnation, records));
                assert_eq!(before, None, "I11: two appends at once");
            }
            Intention::Open(tick) => self.watch.passes("the enumerator", Some(tick)),
            Intention::Compact(_) | Intention::Know(..) | Intention::Forget(_) => {}
            Intention::AskPast => unreachable!("nothing is replayed"),
            Intention::Publish { binding, next } => {
                self.history.published(&binding);
                self.watch.bound(binding.tick);
                self.watch.passes("the enumerator", next);
            }
            Intention::Tell(event) => self.hear(event),
        }
    }

    fn hear(&mut self, event: SourceEvent<Leaf>) {
        tell!(self, "told: {event:?}");
        match &event {
            SourceEvent::Health(health) => {
                let wedged = health.status == HealthStatus::Failing(FailureKind::Definite)
                    && ["source", "binding log"].contains(&health.subject.as_str());
                self.over |= wedged && health.message.contains("was replaced by another one");
                assert!(
                    !wedged || self.log_lost || self.over,
                    "I8: the source ends: {health}"
                );
                if health.message.starts_with("cannot be paused") {
                    self.watch.refuses_pause();
                }
            }
            SourceEvent::DrainBegun { .. } => self.drains.cut = false,
            SourceEvent::DrainEnded { .. } => self.drains.ended = true,
            SourceEvent::MetadataAdopted { epoch, metadata } => {
                if let Some((_, before)) = self.watch.adopted() {
                    let gone = self.watch.gone();
                    (self.drains).adopts(before, metadata, &self.history, gone);
                }
                self.watch.adopts(*epoch, metadata);
            }
            SourceEvent::Failed { .. } => self.failed = true,
            SourceEvent::SplitLost { error, .. } => {
                if let Aftermath::StartedOver { split, .. } = &error.then {
                    self.watch.starts_over(error.split, *split);
                }
            }
            SourceEvent::SplitGone { split } => self.watch.vanishes(*split),
            SourceEvent::SplitFound { split } => self.watch.finds(*split),
            SourceEvent::Planned { epoch, .. } => self.watch.planned(*epoch),
            SourceEvent::SplitForgotten { split, position } => {
                self.history.forgotten(split, *position);
            }
            _ => {}
        }
        self.told.push(event);
    }

    /// Does what a reader wants done.
    pub(super) fn act(&mut self, index: usize) {
        while let Some(action) = self.readers[index].state.poll() {
            let reader = &mut self.readers[index];
            match action {
                ReaderAction::Report(report) => reader.reports.push_back(report),
                ReaderAction::Fetch(leaf, split_epoch, start) => {
                    reader.fetcher.insert(leaf, (split_epoch, start));
                    self.fetching.push_back((index, leaf));
                }
                ReaderAction::Unfetch(leaf, split_epoch) => {
                    let current = reader.fetcher.get(&leaf);
                    if current.is_some_and(|(current, _)| *current == split_epoch) {
                        reader.fetcher.remove(&leaf);
                    }
                }
                ReaderAction::Downgrade(tick) => {
                    assert!(
                        reader.capability <= Some(tick),
                        "time: reader {index} goes back to {tick}"
                    );
                    reader.capability = Some(tick);
                    if index == ReaderId::KEEPER.0 {
                        self.watch.passes(&format!("reader {index}"), Some(tick));
                    }
                }
                ReaderAction::EmitAt(..) => unreachable!("nothing is replayed"),
                ReaderAction::Emit(error) => {
                    let open = reader
                        .state
                        .open()
                        .expect("errors come while a tick is open");
                    assert!(reader.capability <= Some(open), "time: it was given up");
                    tell!(self, "reader {index} emits at {open}: {error:?}");
                    self.history.failed(open, error);
                }
                ReaderAction::Finish => {
                    reader.finished = true;
                    self.watch.passes(&format!("reader {index}"), None);
                }
                ReaderAction::Reject(reason) => panic!("reader {index} is rejected: {reason}"),
                ReaderAction::Prepare(leaf) => self.preparing.push_back((index, leaf)),
                ReaderAction::Adopt(..) => {}
            }
        }
    }
}
