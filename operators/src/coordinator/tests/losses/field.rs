//! Plots that can be planted again, a reader of them, and a log that answers at once.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use super::super::super::*;
use super::super::hello_of;
use crate::assignor::StickyBalanced;
use crate::binding::{SplitError, SplitRange};
use crate::discovery::FoundSplit;
use crate::epoch::SplitEpoch;
use crate::loss::{Aftermath, LossCause, LossPolicies, Remains};
use crate::protocol::{Command, Moved, ReleaseReason};

/// A split that can be started over, and that has the number of its planting as its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Plot {
    name: char,
    generation: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Plots(BTreeSet<char>);

impl Plots {
    pub(super) fn names(&self) -> impl Iterator<Item = char> {
        self.0.iter().copied()
    }
}

impl Display for Plot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.generation)
    }
}

impl Split for Plot {
    type Position = u64;
    type Identity = u32;
    type Metadata = Plots;

    /// What is planted a thousand later is planted elsewhere.
    fn takes_place(known: &u32, found: &u32) -> bool {
        found - known < 1_000
    }

    fn started_over(&self) -> Option<Self> {
        let generation = self.generation + 1;
        Some(Self {
            generation,
            ..*self
        })
    }

    fn origin(&self) -> Self {
        plot(self.name)
    }
}

impl Metadata<Plot> for Plots {
    type Group = char;

    fn group_of(split: &Plot) -> char {
        split.name
    }

    fn lists_group(&self, group: &char) -> bool {
        self.0.contains(group)
    }

    fn changed_groups(&self, next: &Self) -> Vec<char> {
        self.0.symmetric_difference(&next.0).copied().collect()
    }

    /// What has a name with a capital is drained.
    fn interim(&self, next: &Self) -> Option<Self> {
        let left = self.0.difference(&next.0);
        let leaving: BTreeSet<_> = left.filter(|name| name.is_ascii_uppercase()).collect();
        let all = next.0.iter().chain(leaving.iter().copied());
        (!leaving.is_empty()).then(|| Self(all.copied().collect()))
    }
}

pub(super) fn plot(name: char) -> Plot {
    Plot {
        name,
        generation: 0,
    }
}

/// One reader, a log that answers at once, and what is planted.
pub(super) struct Field {
    pub(super) coordinator: Coordinator<Plot, StickyBalanced>,
    pub(super) options: CoordinatorOptions,
    pub(super) now: Duration,
    pub(super) log: Vec<LogRecord<Plot>>,
    /// What is planted at each name.
    pub(super) planted: BTreeMap<char, u32>,
    /// What the reader has, with the split epoch and the next position.
    pub(super) held: BTreeMap<Plot, (SplitEpoch, u64)>,
    /// What is to be reported when the tick is closed.
    moved: Vec<Moved<Plot>>,
    errors: Vec<SplitError<Plot>>,
    /// Questions that were not answered.
    pub(super) identify: Vec<(RequestId, Vec<Plot>)>,
    judge: Vec<(RequestId, Plot)>,
    /// Where splits start that were asked about, and nobody was told.
    starts: Vec<(RequestId, Plot, u64)>,
    pub(super) told: Vec<SourceEvent<Plot>>,
    /// The ticks that the frontier was let pass.
    pub(super) published: Vec<Tick>,
    /// Whether questions about what splits are are answered at once.
    pub(super) identified_at_once: bool,
    pub(super) log_answers: bool,
    pub(super) found_answered: bool,
    pub(super) starts_answered: bool,
    /// Where splits stop that are found.
    stop: Option<u64>,
    /// Where what has a name ends; of the others it cannot be asked.
    pub(super) ends: BTreeMap<char, u64>,
}

/// Where a split starts that is the `planted` one.
pub(super) fn start_of(planted: u32) -> u64 {
    7 * u64::from(planted - 1)
}

impl Field {
    /// Reads `a` and `b` from 0 on.
    pub(super) fn reading(losses: LossPolicies) -> Self {
        Self::reading_to(losses, None, false)
    }

    /// Reads `a` and `b` from 0 on to `stop`, and ends by itself if it is bounded.
    pub(super) fn reading_to(losses: LossPolicies, stop: Option<u64>, bounded: bool) -> Self {
        let mut field = Self::finding_to(losses, stop, bounded);
        field.resolved();
        field.starts_answered = true;
        field
    }

    /// Has found `a` and `b`, and asks where they start.
    pub(super) fn finding(losses: LossPolicies) -> Self {
        Self::finding_to(losses, None, false)
    }

    fn finding_to(losses: LossPolicies, stop: Option<u64>, bounded: bool) -> Self {
        let mut options = CoordinatorOptions::new(1);
        options.calm_for = Duration::ZERO;
        options.identify_every = Some(Duration::ZERO);
        options.losses = losses;
        options.bounded = bounded;
        let mut field = Self {
            coordinator: Coordinator::new(options, StickyBalanced),
            options,
            now: Duration::from_secs(1_000),
            log: Vec::new(),
            planted: [('a', 1), ('b', 1)].into(),
            held: BTreeMap::new(),
            moved: Vec::new(),
            errors: Vec::new(),
            identify: Vec::new(),
            judge: Vec::new(),
            starts: Vec::new(),
            told: Vec::new(),
            published: Vec::new(),
            identified_at_once: true,
            log_answers: true,
            found_answered: true,
            starts_answered: false,
            stop,
            ends: BTreeMap::new(),
        };
        field.begin();
        field
    }

    fn begin(&mut self) {
        self.coordinator.handle_opened(&self.log, self.now);
        self.coordinator.handle_report(hello_of(0), self.now);
        self.list("ab");
    }

    /// The process ends without warning, and another one begins.
    pub(super) fn crash(&mut self) {
        self.coordinator = Coordinator::new(self.options, StickyBalanced);
        self.held.clear();
        self.moved.clear();
        self.errors.clear();
        self.identify.clear();
        self.judge.clear();
        self.starts.clear();
        self.told.clear();
        self.begin();
    }

    pub(super) fn list(&mut self, names: &str) {
        let event = DiscoveryEvent::Metadata(Plots(names.chars().collect()));
        self.discovered(event);
    }

    fn discovered(&mut self, event: DiscoveryEvent<Plot>) {
        self.coordinator.handle_discovery(event, self.now);
        self.carry_out();
    }

    /// The discovery finds what is planted.
    pub(super) fn find(&mut self) {
        self.find_under(self.coordinator.metadata_epoch);
    }

    /// What the discovery finds was asked for under `epoch`.
    pub(super) fn find_under(&mut self, epoch: MetadataEpoch) {
        let splits = self.planted.iter();
        let splits = splits.map(|(name, planted)| FoundSplit::new(plot(*name), *planted));
        let splits = splits.collect();
        self.discovered(DiscoveryEvent::Found { epoch, splits });
    }

    pub(super) fn carry_out(&mut self) {
        while let Some(intention) = self.coordinator.poll() {
            match intention {
                Intention::Send(_, directive) => self.direct(directive),
                Intention::Ask(request) => self.ask(request),
                Intention::Append(_, records) => {
                    self.log.extend(records);
                    if self.log_answers {
                        self.coordinator.handle_appended(self.now);
                    }
                }
                Intention::Tell(event) => self.told.push(event),
                Intention::Publish { binding, .. } => self.published.push(binding.tick),
                Intention::Compact(_)
                | Intention::AskPast
                | Intention::Know(..)
                | Intention::Forget(_)
                | Intention::Open(_) => {}
            }
        }
    }

    fn direct(&mut self, directive: Directive<Plot>) {
        match directive {
            Directive::Assign(assignment) => {
                let held = (assignment.split_epoch, assignment.start);
                let before = self.held.insert(assignment.split, held);
                assert_eq!(before, None, "a split has one owner");
            }
            Directive::Revoke { split, .. } => {
                let (split_epoch, next) = self.held.remove(&split).expect("it is held");
                self.coordinator.handle_report(
                    Report::Released {
                        reader: ReaderId(0),
                        split,
                        split_epoch,
                        next,
                        why: ReleaseReason::Revoked,
                    },
                    self.now,
                );
            }
            Directive::Emit(error) => self.errors.push(error),
            Directive::Tick {
                close: Some(tick), ..
            } => self.coordinator.handle_report(
                Report::Closed {
                    reader: ReaderId(0),
                    tick,
                    moved: std::mem::take(&mut self.moved),
                    errors: std::mem::take(&mut self.errors),
                },
                self.now,
            ),
            _ => {}
        }
    }

    fn ask(&mut self, request: DiscoveryRequest<Plot>) {
        match request {
            DiscoveryRequest::Discover { .. } if self.found_answered => self.find(),
            DiscoveryRequest::Discover { .. } => {}
            DiscoveryRequest::Resolve { request, split, .. } => {
                let start = start_of(self.planted[&split.name]);
                self.starts.push((request, split, start));
                if self.starts_answered {
                    self.resolved();
                }
            }
            DiscoveryRequest::Identify { request, splits } => {
                self.identify.push((request, splits));
                if self.identified_at_once {
                    self.identified();
                }
            }
            DiscoveryRequest::Judge { request, split } => self.judge.push((request, split)),
            DiscoveryRequest::Check { .. } => unreachable!("nothing is replayed"),
            DiscoveryRequest::End { request, split } => {
                if let Some(end) = self.ends.get(&split.name).copied() {
                    self.discovered(DiscoveryEvent::End {
                        request,
                        split,
                        end,
                    });
                }
            }
        }
    }

    /// All questions where splits start are answered, in their order.
    pub(super) fn resolved(&mut self) {
        for (request, split, start) in std::mem::take(&mut self.starts) {
            self.discovered(DiscoveryEvent::Resolved {
                request,
                split,
                start,
                stop: self.stop,
                rule: "earliest".to_owned(),
            });
        }
    }

    /// All questions what splits are are answered, by what is planted.
    pub(super) fn identified(&mut self) {
        for (request, splits) in std::mem::take(&mut self.identify) {
            let answer = |split: Plot| (split, self.planted.get(&split.name).copied());
            let splits = splits.into_iter().map(answer).collect();
            self.discovered(DiscoveryEvent::Identified { request, splits });
        }
    }

    /// The oldest question what there is of a split is answered.
    pub(super) fn judged(&mut self, first: u64, end: u64) {
        let (request, split) = self.judge.remove(0);
        let remains = Remains {
            identity: self.planted.get(&split.name).copied(),
            first,
            end,
        };
        self.discovered(DiscoveryEvent::Judged {
            request,
            split,
            remains,
        });
    }

    /// The reader emits so many records of a split.
    pub(super) fn read(&mut self, split: Plot, records: u64) {
        let (split_epoch, next) = self.held.get_mut(&split).expect("it is held");
        let from = *next;
        *next += records;
        self.moved.push(Moved {
            split_epoch: *split_epoch,
            range: SplitRange {
                split,
                from,
                to: *next,
            },
            bytes: 1,
        });
    }

    /// The reader has come to the stop of a split.
    pub(super) fn finish(&mut self, split: Plot) {
        let (split_epoch, next) = self.held.remove(&split).expect("it is held");
        let finished = Report::Released {
            reader: ReaderId(0),
            split,
            split_epoch,
            next,
            why: ReleaseReason::Finished,
        };
        self.coordinator.handle_report(finished, self.now);
        self.carry_out();
    }

    /// Somebody asks that a split be read on as what it is by now.
    pub(super) fn readmit(&mut self, split: Plot) {
        let report = Report::Command(Command::Readmit(split));
        self.coordinator.handle_report(report, self.now);
        self.carry_out();
    }

    /// All is found that the metadata lists.
    pub(super) fn all_found(&mut self) {
        let epoch = self.coordinator.metadata_epoch;
        self.discovered(DiscoveryEvent::AllFound { epoch });
    }

    /// The reader cannot read a split on.
    pub(super) fn lose(&mut self, split: Plot, cause: LossCause<u64>) {
        let (split_epoch, next) = self.held.remove(&split).expect("it is held");
        let lost = Report::Lost {
            reader: ReaderId(0),
            split,
            split_epoch,
            cause,
            next,
            message: "out of range".to_owned(),
        };
        self.coordinator.handle_report(lost, self.now);
        self.carry_out();
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.coordinator.handle_time(self.now);
        self.carry_out();
    }

    pub(super) fn tick(&mut self) {
        self.pass(Duration::from_millis(100));
    }

    pub(super) fn bindings(&self) -> Vec<&Binding<Plot>> {
        let bindings = self.log.iter().filter_map(|record| match record {
            LogRecord::Binding(binding) => Some(binding),
            _ => None,
        });
        bindings.collect()
    }

    pub(super) fn next(&self, split: Plot) -> Option<u64> {
        self.held.get(&split).map(|(_, next)| *next)
    }

    pub(super) fn said(&self, words: &str) -> bool {
        self.told.iter().any(|event| match event {
            SourceEvent::Health(health) => health.message.contains(words),
            _ => false,
        })
    }

    /// The errors that are bound, each with what comes after.
    pub(super) fn bound_errors(&self) -> Vec<(Plot, u64, Aftermath<Plot>)> {
        let errors = self.bindings().into_iter().flat_map(|one| &one.errors);
        let error = |error: &SplitError<Plot>| (error.split, error.position, error.then.clone());
        errors.map(error).collect()
    }
}
