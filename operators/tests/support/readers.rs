//! A coordinator among readers that do what they are told, at once.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use timely_splits::assignor::{Assignor, ReaderProfile};
use timely_splits::binding::SplitRange;
use timely_splits::coordinator::{Coordinator, CoordinatorOptions, Intention};
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit};
use timely_splits::epoch::{ReaderId, SplitEpoch};
use timely_splits::event::SourceEvent;
use timely_splits::protocol::{Configuration, Directive, Moved, ReleaseReason, Report};
use timely_splits::split::{Metadata, Split};

/// A split that counts its records, and of which nothing is known but its name.
pub(crate) trait Simple: Split<Position = u64, Identity = ()> {
    /// All splits that a metadata lists.
    fn all(metadata: &Self::Metadata) -> Vec<Self>;
}

/// A coordinator whose log and discovery answer at once, and its readers.
pub(crate) struct Readers<S: Simple, A> {
    pub(crate) coordinator: Coordinator<S, A>,
    pub(crate) now: Duration,
    pub(crate) options: CoordinatorOptions,
    /// Who reads what, under which assignment, and from where it goes on.
    pub(crate) held: BTreeMap<S, (ReaderId, SplitEpoch, u64)>,
    /// The bytes that each split brings in a tick.
    pub(crate) rates: BTreeMap<S, u64>,
    /// Whether a reader finds what the metadata lists in the opposite order.
    pub(crate) backwards: bool,
    /// The splits that were taken from a reader for another one.
    pub(crate) revoked: Vec<S>,
    pub(crate) told: Vec<SourceEvent<S>>,
    reports: VecDeque<Report<S>>,
}

impl<S: Simple, A: Assignor<S>> Readers<S, A> {
    /// Readers that have said hello, in this order.
    pub(crate) fn start(
        options: CoordinatorOptions,
        assignor: A,
        readers: impl IntoIterator<Item = ReaderProfile>,
    ) -> Self {
        let now = Duration::from_secs(1_000);
        let mut all = Self {
            coordinator: Coordinator::new(options, assignor),
            now,
            options,
            held: BTreeMap::new(),
            rates: BTreeMap::new(),
            backwards: false,
            revoked: Vec::new(),
            told: Vec::new(),
            reports: VecDeque::new(),
        };
        all.coordinator.handle_opened(&[], now);
        for reader in readers {
            let configuration = Configuration::new();
            all.report(Report::Hello {
                reader,
                configuration,
            });
        }
        all
    }

    /// The metadata service answers.
    pub(crate) fn metadata(&mut self, metadata: S::Metadata) {
        let event = DiscoveryEvent::Metadata(metadata);
        self.coordinator.handle_discovery(event, self.now);
        self.carry_out();
    }

    pub(crate) fn report(&mut self, report: Report<S>) {
        self.coordinator.handle_report(report, self.now);
        self.carry_out();
    }

    /// Lets time pass, and everything happen that is due by then.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.coordinator.handle_time(self.now);
        self.carry_out();
    }

    /// How many splits each reader has.
    pub(crate) fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.options.readers];
        for (reader, _, _) in self.held.values() {
            counts[reader.0] += 1;
        }
        counts
    }

    fn carry_out(&mut self) {
        loop {
            while let Some(intention) = self.coordinator.poll() {
                match intention {
                    Intention::Send(reader, directive) => self.obey(reader, directive),
                    Intention::Ask(request) => {
                        let answer = self.answer(request);
                        self.coordinator.handle_discovery(answer, self.now);
                    }
                    Intention::Append(..) => self.coordinator.handle_appended(self.now),
                    Intention::Tell(event) => self.told.push(event),
                    Intention::Compact(_)
                    | Intention::AskPast
                    | Intention::Know(..)
                    | Intention::Forget(_)
                    | Intention::Open(_)
                    | Intention::Publish { .. } => {}
                }
            }
            let Some(report) = self.reports.pop_front() else {
                return;
            };
            self.coordinator.handle_report(report, self.now);
        }
    }

    fn answer(&self, request: DiscoveryRequest<S>) -> DiscoveryEvent<S> {
        match request {
            DiscoveryRequest::Discover { epoch, metadata } => {
                let all = S::all(&metadata).into_iter();
                let mut splits: Vec<_> = all.map(|split| FoundSplit::new(split, ())).collect();
                if self.backwards {
                    splits.reverse();
                }
                DiscoveryEvent::Found { epoch, splits }
            }
            DiscoveryRequest::Identify { .. }
            | DiscoveryRequest::Judge { .. }
            | DiscoveryRequest::End { .. } => {
                unreachable!("no identity is asked for, and nothing is lost or drained")
            }
            DiscoveryRequest::Check { request, .. } => DiscoveryEvent::Checked {
                request,
                lost: Vec::new(),
            },
            DiscoveryRequest::Resolve { request, split, .. } => DiscoveryEvent::Resolved {
                request,
                split,
                start: 0,
                stop: None,
                rule: "earliest".to_owned(),
            },
        }
    }

    fn obey(&mut self, reader: ReaderId, directive: Directive<S>) {
        match directive {
            Directive::Metadata { metadata, .. } => {
                let with = |holder: &(ReaderId, SplitEpoch, u64)| holder.0 == reader;
                let over = self
                    .held
                    .iter()
                    .filter(|(split, holder)| with(holder) && !metadata.lists(split));
                let over: Vec<_> = over.map(|(split, _)| split.clone()).collect();
                for split in over {
                    self.release(reader, split, ReleaseReason::NotListed);
                }
            }
            Directive::Assign(assignment) => {
                let holder = (reader, assignment.split_epoch, assignment.start);
                let before = self.held.insert(assignment.split, holder);
                assert_eq!(before, None, "a split has one owner");
            }
            Directive::Revoke { split, .. } => {
                self.revoked.push(split.clone());
                self.release(reader, split, ReleaseReason::Revoked);
            }
            Directive::Tick {
                close: Some(tick), ..
            } => {
                let moved = self.read(reader);
                self.reports.push_back(Report::Closed {
                    reader,
                    tick,
                    moved,
                    errors: Vec::new(),
                });
            }
            Directive::Prepare(split) => {
                self.reports.push_back(Report::Prepared { reader, split });
            }
            Directive::Tick { close: None, .. }
            | Directive::Durable(_)
            | Directive::BeginReplay(_)
            | Directive::Replay(_)
            | Directive::Explained(_)
            | Directive::Emit(_)
            | Directive::Reject { .. } => {}
        }
    }

    fn release(&mut self, reader: ReaderId, split: S, why: ReleaseReason) {
        let (with, split_epoch, next) = self.held.remove(&split).expect("it was assigned");
        assert_eq!(with, reader, "who releases a split had it");
        self.reports.push_back(Report::Released {
            reader,
            split,
            split_epoch,
            next,
            why,
        });
    }

    /// One record of each split that brings something.
    fn read(&mut self, by: ReaderId) -> Vec<Moved<S>> {
        let rates = &self.rates;
        let held = self.held.iter_mut();
        held.filter(|(_, (reader, _, _))| *reader == by)
            .filter_map(|(split, (_, split_epoch, next))| {
                let bytes = rates.get(split).copied()?;
                let from = *next;
                *next += 1;
                Some(Moved {
                    split_epoch: *split_epoch,
                    range: SplitRange {
                        split: split.clone(),
                        from,
                        to: *next,
                    },
                    bytes,
                })
            })
            .collect()
    }
}
