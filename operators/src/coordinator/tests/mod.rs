//! The coordinator, driven event by event.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test looks at what it is about"
)]

mod bounded;
mod drains;
mod empty;
mod epochs;
mod losses;
mod resume;
mod waits;

use super::*;
use crate::assignor::StickyBalanced;
use crate::binding::{SplitError, SplitRange};
use crate::discovery::FoundSplit;
use crate::health::{FailureKind, HealthStatus};
use crate::letters::{Letter, Letters};
use crate::loss::Aftermath;
use crate::protocol::{Assignment, Command, Moved, ReleaseReason, Setting};
use crate::resume::Resume;

const INTERVAL: Duration = Duration::from_millis(100);

/// A coordinator whose log answers at once, and which finds what the metadata lists at position 10.
struct Driven {
    coordinator: Coordinator<Letter, StickyBalanced>,
    now: Duration,
    log: Vec<LogRecord<Letter>>,
    log_answers: bool,
    /// Where splits stop that are found, if they do.
    stop: Option<u64>,
    /// Where splits end; of the others it cannot be asked.
    ends: BTreeMap<Letter, u64>,
    /// The splits that exist, of those that are listed.
    exists: Letters,
    sent: Vec<(ReaderId, Directive<Letter>)>,
    published: Vec<(Binding<Letter>, Option<Tick>)>,
    asked: Vec<DiscoveryRequest<Letter>>,
    told: Vec<SourceEvent<Letter>>,
}

impl Driven {
    /// All readers are there.
    fn start(readers: usize) -> Self {
        let mut driven = Self::gathering(readers);
        for index in 0..readers {
            driven.report(hello(index, 7));
        }
        driven
    }

    /// The log is open.
    fn gathering(readers: usize) -> Self {
        let mut driven = Self::closed(readers);
        driven.coordinator.handle_opened(&[], driven.now);
        driven
    }

    /// The log is not open.
    fn closed(readers: usize) -> Self {
        Self::resuming(readers, Resume::Continue)
    }

    /// The log is not open, and the source goes on as said once it is.
    fn resuming(readers: usize, resume: Resume) -> Self {
        let mut options = CoordinatorOptions::new(readers);
        options.resume = resume;
        Self {
            coordinator: Coordinator::new(options, StickyBalanced),
            now: Duration::from_secs(1_000),
            log: Vec::new(),
            log_answers: true,
            stop: None,
            ends: BTreeMap::new(),
            exists: Letters::of("abcdefghijklmnopqrstuvwxyzADN"),
            sent: Vec::new(),
            published: Vec::new(),
            asked: Vec::new(),
            told: Vec::new(),
        }
    }

    fn report(&mut self, report: Report<Letter>) {
        self.coordinator.handle_report(report, self.now);
        self.carry_out();
    }

    fn metadata(&mut self, text: &str) {
        let event = DiscoveryEvent::Metadata(Letters::of(text));
        self.coordinator.handle_discovery(event, self.now);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(intention) = self.coordinator.poll() {
            match intention {
                Intention::Send(reader, directive) => self.sent.push((reader, directive)),
                Intention::Ask(request) => {
                    self.asked.push(request.clone());
                    let answer = match request {
                        DiscoveryRequest::Discover { epoch, metadata } => DiscoveryEvent::Found {
                            epoch,
                            splits: (metadata.0.intersection(&self.exists.0))
                                .map(|split| FoundSplit::new(*split, ()))
                                .collect(),
                        },
                        // Tests answer themselves what this is about.
                        DiscoveryRequest::Identify { .. } | DiscoveryRequest::Judge { .. } => {
                            continue;
                        }
                        DiscoveryRequest::Check { request, .. } => DiscoveryEvent::Checked {
                            request,
                            lost: Vec::new(),
                        },
                        DiscoveryRequest::End { request, split } => match self.ends.get(&split) {
                            Some(end) => DiscoveryEvent::End {
                                request,
                                split,
                                end: *end,
                            },
                            None => continue,
                        },
                        DiscoveryRequest::Resolve { request, split, .. } => {
                            DiscoveryEvent::Resolved {
                                request,
                                split,
                                start: 10,
                                stop: self.stop,
                                rule: "earliest".to_owned(),
                            }
                        }
                    };
                    self.coordinator.handle_discovery(answer, self.now);
                }
                Intention::Append(_, records) => {
                    self.log.extend(records);
                    if self.log_answers {
                        self.coordinator.handle_appended(self.now);
                    }
                }
                Intention::Publish { binding, next } => self.published.push((binding, next)),
                Intention::Tell(event) => self.told.push(event),
                Intention::Compact(_)
                | Intention::AskPast
                | Intention::Know(..)
                | Intention::Forget(_)
                | Intention::Open(_) => {}
            }
        }
    }

    /// Lets the tick interval pass and closes the tick at every reader, with the ranges given.
    fn tick(&mut self, moved: Vec<Moved<Letter>>) {
        self.now += INTERVAL;
        self.coordinator.handle_time(self.now);
        self.carry_out();
        let closes: Vec<_> = (self.take_sent().into_iter())
            .filter_map(|(reader, directive)| match directive {
                Directive::Tick {
                    close: Some(tick), ..
                } => Some((reader, tick)),
                _ => None,
            })
            .collect();
        for (reader, tick) in closes {
            let moved = if reader == ReaderId(0) {
                moved.clone()
            } else {
                Vec::new()
            };
            self.report(Report::Closed {
                reader,
                tick,
                moved,
                errors: Vec::new(),
            });
        }
    }

    fn take_sent(&mut self) -> Vec<(ReaderId, Directive<Letter>)> {
        std::mem::take(&mut self.sent)
    }

    /// The assignments and revocations sent since the last call, as text.
    fn moves(&mut self) -> Vec<String> {
        let say = |(reader, directive): (ReaderId, Directive<Letter>)| match directive {
            Directive::Assign(Assignment {
                split,
                split_epoch,
                start,
                ..
            }) => Some(format!("{reader}: assign {split}#{split_epoch} at {start}")),
            Directive::Revoke { split, split_epoch } => {
                Some(format!("{reader}: revoke {split}#{split_epoch}"))
            }
            _ => None,
        };
        self.take_sent().into_iter().filter_map(say).collect()
    }

    fn release(&mut self, reader: usize, split: char, split_epoch: u64, next: u64) {
        self.report(Report::Released {
            reader: ReaderId(reader),
            split: Letter(split),
            split_epoch: SplitEpoch(split_epoch),
            next,
            why: ReleaseReason::NotListed,
        });
    }
}

fn hello(reader: usize, configuration: u64) -> Report<Letter> {
    Report::Hello {
        reader: ReaderProfile::new(ReaderId(reader)),
        configuration: Setting::of([("tick_interval", configuration.to_string())], []),
    }
}

/// A reader of splits of any kind.
fn hello_of<S: Split>(reader: usize) -> Report<S> {
    Report::Hello {
        reader: ReaderProfile::new(ReaderId(reader)),
        configuration: Configuration::new(),
    }
}

fn range(split: char, split_epoch: u64, from: u64, to: u64) -> Moved<Letter> {
    let split = Letter(split);
    Moved {
        split_epoch: SplitEpoch(split_epoch),
        range: SplitRange { split, from, to },
        bytes: 1,
    }
}

#[test]
fn a_split_is_assigned_at_its_recorded_start() {
    let mut driven = Driven::start(1);
    driven.log_answers = false;
    driven.metadata("a");
    assert_eq!(driven.moves(), [""; 0]);

    driven.log_answers = true;
    driven.coordinator.handle_appended(driven.now);
    driven.carry_out();

    assert_eq!(driven.moves(), ["0: assign a#1 at 10"]);
    let start = LogRecord::Start {
        split: Letter('a'),
        start: 10,
        stop: None,
    };
    assert_eq!(driven.log[0], LogRecord::Incarnation(Incarnation(1)));
    assert!(driven.log.contains(&start), "{:?}", driven.log);
}

/// Splits were found, and started anew, because the metadata service was quicker than the log.
#[test]
fn an_answer_before_the_log_is_open_starts_no_split_anew() {
    let mut before = Driven::start(1);
    before.metadata("a");
    before.tick(vec![range('a', 1, 10, 13)]);
    let mut driven = Driven::closed(1);
    driven.report(hello(0, 7));
    driven.metadata("a");
    assert_eq!(driven.asked, []);

    driven.coordinator.handle_opened(&before.log, driven.now);
    driven.carry_out();

    assert_eq!(driven.moves(), ["0: assign a#1001 at 13"]);
    let starts = |record: &LogRecord<_>| matches!(record, LogRecord::Start { .. });
    assert!(!driven.log.iter().any(starts));
}

/// S18.
#[test]
fn the_same_answer_reaches_no_reader() {
    let mut driven = Driven::start(2);
    driven.metadata("ab");
    driven.take_sent();
    driven.asked.clear();

    for _ in 0..1_000 {
        driven.metadata("ba");
    }

    assert_eq!(driven.take_sent(), []);
    assert_eq!(driven.asked, []);
}

#[test]
fn a_split_that_leaves_and_comes_back_goes_on_where_it_was_released() {
    let mut driven = Driven::start(1);
    driven.metadata("ab");
    driven.moves();

    driven.metadata("b");
    driven.release(0, 'a', 1, 14);
    assert_eq!(driven.moves(), [""; 0]);
    driven.metadata("ab");

    assert_eq!(driven.moves(), ["0: assign a#2 at 14"]);
}

/// S19: taking a split from its reader, to fill a gap that a new one is about to fill, would pause it
/// for nothing.
#[test]
fn a_change_of_metadata_moves_splits_for_balance_only_after_a_while() {
    let mut driven = Driven::start(2);
    driven.metadata("abcd");
    driven.moves();

    driven.metadata("ab");
    driven.release(1, 'c', 1, 14);
    driven.release(1, 'd', 1, 14);
    assert_eq!(driven.moves(), [""; 0]);
    driven.metadata("abe");
    assert_eq!(driven.moves(), ["1: assign e#1 at 10"]);
    driven.metadata("ab");
    driven.release(1, 'e', 1, 14);
    assert_eq!(driven.moves(), [""; 0]);
    driven.now += CoordinatorOptions::new(2).calm_for;
    driven.coordinator.handle_time(driven.now);
    driven.carry_out();

    assert_eq!(driven.moves(), ["0: revoke b#1"]);
}

/// C9.
#[test]
fn a_split_that_comes_back_before_it_was_released_has_one_owner() {
    let mut driven = Driven::start(1);
    driven.metadata("a");
    driven.moves();

    driven.metadata("");
    driven.metadata("a");
    assert_eq!(driven.moves(), [""; 0]);
    driven.release(0, 'a', 1, 12);

    assert_eq!(driven.moves(), ["0: assign a#2 at 12"]);
}

/// C13.
#[test]
fn a_release_that_comes_twice_is_ignored_and_counted() {
    let mut driven = Driven::start(1);
    driven.metadata("a");
    driven.metadata("");
    driven.metadata("a");
    driven.release(0, 'a', 1, 12);
    driven.moves();

    driven.release(0, 'a', 1, 11);

    assert_eq!(driven.moves(), [""; 0]);
    assert_eq!(driven.coordinator.ignored(), 1);
}

#[test]
fn a_binding_is_published_only_when_it_is_durable_and_in_order() {
    let mut driven = Driven::start(2);
    driven.metadata("a");
    driven.log_answers = false;
    driven.tick(vec![range('a', 1, 10, 13)]);
    driven.tick(vec![range('a', 1, 13, 20)]);
    assert_eq!(driven.published, []);

    driven.log_answers = true;
    driven.coordinator.handle_appended(driven.now);
    driven.carry_out();

    let ranges: Vec<_> = (driven.published.iter())
        .map(|(binding, _)| (binding.ranges[0].from, binding.ranges[0].to))
        .collect();
    assert_eq!(ranges, [(10, 13), (13, 20)]);
    let durable =
        |(_, directive): &(ReaderId, Directive<Letter>)| matches!(directive, Directive::Durable(_));
    let told = driven.take_sent().into_iter().filter(durable);
    let told: Vec<_> = told.map(|(reader, _)| reader).collect();
    assert_eq!(told, [ReaderId::KEEPER; 2]);
}

#[test]
fn a_log_that_does_not_answer_stops_the_ticks_at_the_bound() {
    let mut driven = Driven::start(1);
    driven.metadata("a");
    driven.log_answers = false;
    for at in 10..30 {
        driven.tick(vec![range('a', 1, at, at + 1)]);
    }

    assert_eq!(driven.published, []);
    let bindings = |log: &[LogRecord<Letter>]| {
        let binding = |record: &&LogRecord<_>| matches!(record, LogRecord::Binding(_));
        log.iter().filter(binding).count()
    };
    driven.log_answers = true;
    driven.coordinator.handle_appended(driven.now);
    driven.carry_out();
    assert_eq!(bindings(&driven.log), 4);
    let waits = |event: &SourceEvent<_>| matches!(event, SourceEvent::Health(health) if health.status == HealthStatus::Waiting);
    assert_eq!(driven.told.iter().filter(|event| waits(event)).count(), 1);
}

#[test]
fn ranges_of_two_owners_in_one_tick_are_one_range() {
    let mut driven = Driven::start(1);
    driven.metadata("a");

    driven.tick(vec![range('a', 2, 13, 15), range('a', 1, 10, 13)]);

    let binding = &driven.published[0].0;
    assert_eq!(binding.ranges.len(), 1);
    assert_eq!((binding.ranges[0].from, binding.ranges[0].to), (10, 15));
}

#[test]
fn a_range_that_does_not_join_never_becomes_durable() {
    let mut driven = Driven::start(1);
    driven.metadata("a");

    driven.tick(vec![range('a', 1, 11, 13)]);
    driven.tick(Vec::new());

    assert_eq!(driven.published, []);
}

#[test]
fn the_last_tick_ends_the_source() {
    let mut driven = Driven::start(2);
    driven.metadata("abc");
    driven.tick(Vec::new());
    driven.report(Report::Command(Command::Stop));
    assert!(!driven.coordinator.ended());
    let open = driven.coordinator.open_tick();
    assert_eq!(open, None);

    driven.tick(Vec::new());

    assert!(driven.coordinator.ended());
    assert_eq!(driven.published.last().map(|(_, next)| *next), Some(None));
}

#[test]
fn a_reader_that_is_configured_otherwise_is_refused() {
    let mut driven = Driven::gathering(2);
    driven.report(hello(0, 7));

    driven.report(hello(1, 8));

    let rejected = driven.take_sent();
    assert_eq!(rejected.len(), 2);
    let reason = "the processes of workers 0 and 1 are configured differently: tick_interval is 7 in \
                  one and 8 in the other; expected the same in every process";
    assert!(matches!(&rejected[0].1, Directive::Reject { reason: said } if said == reason));
}

/// Bug: a plan that was due kept the timer in the past while no plan could be made, for as long as
/// readers, the log or the metadata service were waited for, so the operator never slept.
#[test]
fn a_plan_that_cannot_be_made_yet_wakes_nobody() {
    let mut before = Driven::start(1);
    before.metadata("a");
    let mut driven = Driven::gathering(1);
    driven.coordinator = Coordinator::new(CoordinatorOptions::new(1), StickyBalanced);
    driven.coordinator.handle_opened(&before.log, driven.now);
    let told = driven.coordinator.poll_timeout();
    assert!(told > Some(driven.now), "a reader is missing: {told:?}");
    driven.coordinator.handle_time(told.unwrap());
    let due = driven.coordinator.poll_timeout();
    assert_eq!(due, None, "a person was told");

    driven.report(hello(0, 7));

    let tick_due = driven.now + INTERVAL;
    assert_eq!(
        driven.coordinator.poll_timeout(),
        Some(tick_due),
        "no metadata is known"
    );
}
