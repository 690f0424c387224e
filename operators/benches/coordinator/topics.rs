//! Splits that are numbered parts of numbered topics, and a coordinator of them.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timely_splits::assignor::{Assignor, ReaderProfile};
use timely_splits::coordinator::{Coordinator, CoordinatorOptions, Intention};
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit};
use timely_splits::epoch::{ReaderId, SplitEpoch};
use timely_splits::protocol::{Configuration, Directive, ReleaseReason, Report};
use timely_splits::split::{Metadata, Split};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) topic: u32,
    pub(crate) part: u32,
}

impl Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic-{}/{}", self.topic, self.part)
    }
}

/// How many parts each topic has.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Topics(pub(crate) Arc<BTreeMap<u32, u32>>);

impl Topics {
    pub(crate) fn of(topics: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self(Arc::new(topics.into_iter().collect()))
    }

    pub(crate) fn with(&self, topic: u32, parts: u32) -> Self {
        let mut topics = BTreeMap::clone(&self.0);
        topics.insert(topic, parts);
        Self(Arc::new(topics))
    }

    pub(crate) fn without(&self, topic: u32) -> Self {
        let mut topics = BTreeMap::clone(&self.0);
        topics.remove(&topic);
        Self(Arc::new(topics))
    }

    pub(crate) fn parts(&self) -> Vec<Part> {
        let parts = |(topic, parts): (&u32, &u32)| {
            let topic = *topic;
            (0..*parts).map(move |part| Part { topic, part })
        };
        self.0.iter().flat_map(parts).collect()
    }
}

impl Split for Part {
    type Position = u64;
    type Identity = ();
    type Metadata = Topics;
}

impl Metadata<Part> for Topics {
    type Group = u32;

    fn group_of(split: &Part) -> u32 {
        split.topic
    }

    fn lists_group(&self, group: &u32) -> bool {
        self.0.contains_key(group)
    }

    fn changed_groups(&self, next: &Self) -> Vec<u32> {
        let gone = self.0.keys().filter(|topic| !next.0.contains_key(topic));
        let come = next.0.keys().filter(|topic| !self.0.contains_key(topic));
        gone.chain(come).copied().collect()
    }
}

/// A coordinator whose log and discovery answer at once; its readers answer when they are told to.
pub(crate) struct Driven<A> {
    pub(crate) coordinator: Coordinator<Part, A>,
    pub(crate) now: Duration,
    /// What the discovery says to the next question.
    pub(crate) finds: Vec<Part>,
    pub(crate) assigned: Vec<(Part, ReaderId, SplitEpoch)>,
    pub(crate) revoked: Vec<(Part, ReaderId, SplitEpoch)>,
}

impl<A: Assignor<Part>> Driven<A> {
    /// Readers with nothing to read.
    pub(crate) fn start(mut options: CoordinatorOptions, assignor: A) -> Self {
        // So that the table is as large as what is listed, after any number of rounds.
        options.kept_for = Duration::ZERO;
        let mut driven = Self {
            coordinator: Coordinator::new(options, assignor),
            now: Duration::from_secs(1_000),
            finds: Vec::new(),
            assigned: Vec::new(),
            revoked: Vec::new(),
        };
        driven.coordinator.handle_opened(&[], driven.now);
        for id in 0..options.readers {
            driven.report(Report::Hello {
                reader: ReaderProfile::new(ReaderId(id)),
                configuration: Configuration::new(),
            });
        }
        driven
    }

    pub(crate) fn report(&mut self, report: Report<Part>) {
        self.coordinator.handle_report(report, self.now);
        self.carry_out();
    }

    /// The metadata service answers, and the discovery finds these parts.
    pub(crate) fn metadata(&mut self, topics: Topics, finds: Vec<Part>) {
        self.finds = finds;
        let event = DiscoveryEvent::Metadata(topics);
        self.coordinator.handle_discovery(event, self.now);
        self.carry_out();
    }

    pub(crate) fn release(&mut self, held: Vec<(Part, ReaderId, SplitEpoch)>, why: ReleaseReason) {
        for (split, reader, split_epoch) in held {
            self.report(Report::Released {
                reader,
                split,
                split_epoch,
                next: 0,
                why,
            });
        }
    }

    pub(crate) fn carry_out(&mut self) {
        while let Some(intention) = self.coordinator.poll() {
            match intention {
                Intention::Send(reader, Directive::Assign(assignment)) => {
                    let held = (assignment.split, reader, assignment.split_epoch);
                    self.assigned.push(held);
                }
                Intention::Send(reader, Directive::Revoke { split, split_epoch }) => {
                    self.revoked.push((split, reader, split_epoch));
                }
                Intention::Ask(DiscoveryRequest::Discover { epoch, .. }) => {
                    let finds = std::mem::take(&mut self.finds).into_iter();
                    let splits = finds.map(|split| FoundSplit::new(split, ())).collect();
                    let found = DiscoveryEvent::Found { epoch, splits };
                    self.coordinator.handle_discovery(found, self.now);
                }
                Intention::AskPast
                | Intention::Ask(
                    DiscoveryRequest::Check { .. }
                    | DiscoveryRequest::Identify { .. }
                    | DiscoveryRequest::Judge { .. }
                    | DiscoveryRequest::End { .. },
                ) => {
                    unreachable!("nothing is replayed, lost or drained")
                }
                Intention::Ask(DiscoveryRequest::Resolve { request, split, .. }) => {
                    let start = 0;
                    let resolved = DiscoveryEvent::Resolved {
                        request,
                        split,
                        start,
                        stop: None,
                        rule: "earliest".to_owned(),
                    };
                    self.coordinator.handle_discovery(resolved, self.now);
                }
                Intention::Append(..) => self.coordinator.handle_appended(self.now),
                Intention::Send(..)
                | Intention::Compact(_)
                | Intention::Open(_)
                | Intention::Know(..)
                | Intention::Forget(_)
                | Intention::Publish { .. }
                | Intention::Tell(_) => {}
            }
        }
    }
}
