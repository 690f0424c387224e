//! Everything there is: the real coordinator and readers, and a model of all around them.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use timely_splits::coordinator::{Coordinator, CoordinatorOptions, Intention};
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit};
use timely_splits::epoch::{ReaderId, RequestId};
use timely_splits::event::SourceEvent;
use timely_splits::health::{FailureKind, HealthStatus};
use timely_splits::log::LogRecord;
use timely_splits::loss::Remains;
use timely_splits::protocol::{Command, Report};

use crate::choice::AnyReader;
use crate::ledger::{Ledger, Violation};
use crate::letters::{Letter, Letters};
use crate::part::Part;
use crate::reader::Reader;
use crate::step::{Budget, Step};
use crate::{RELEASE_DEADLINE, TICK_INTERVAL, TICKS_WAITING_MAX, now};

/// How many readers there are.
pub(crate) const READERS: usize = 2;

/// What is explored: how much there is to read, and what may happen meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) splits: u8,
    /// Records of each split.
    pub(crate) records: u64,
    /// Where each split stops; then the source is bounded, and pieces have two records.
    pub(crate) stop: Option<u64>,
    pub(crate) drains: Option<Drains>,
    pub(crate) budget: Budget,
}

/// How splits are drained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drains {
    /// The first split: its letter says that it is drained, and how.
    pub(crate) first: char,
    /// How many of the splits are listed at first.
    pub(crate) listed: usize,
    /// Where a split ends when that is asked for the first time; later it has all its records.
    pub(crate) end: u64,
}

impl Model {
    pub(crate) fn letters(&self) -> impl Iterator<Item = Letter> + use<> {
        let first = self.drains.map_or('a', |drains| drains.first);
        (first..).take(usize::from(self.splits)).map(Letter)
    }

    fn listed(&self) -> impl Iterator<Item = Letter> + use<> {
        let listed = self.drains.map_or(usize::MAX, |drains| drains.listed);
        self.letters().take(listed)
    }
}

/// What the discovery was asked of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Asked {
    Start,
    End,
}

/// A state.
///
/// Parts are shared between states until they change.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) coordinator: Part<Coordinator<Letter, AnyReader>>,
    pub(crate) readers: [Part<Reader>; READERS],
    /// The records of the log. What they come to is in the ledger, which stands for them.
    log: Rc<Vec<LogRecord<Letter>>>,
    pub(crate) appending: Option<Part<Vec<LogRecord<Letter>>>>,
    /// What the discovery was asked: where splits start, or where they end.
    pub(crate) asked: VecDeque<(RequestId, Letter, Asked)>,
    /// What the metadata service says.
    pub(crate) metadata: Letters,
    /// Whether it has said so in this run.
    pub(crate) informed: bool,
    pub(crate) stopped: bool,
    pub(crate) stop: Option<u64>,
    /// Where splits end by now.
    end: u64,
    records: u64,
    pub(crate) budget: Budget,
    /// How much later it is than at the start. Time passes in steps of its own, or equal situations
    /// would differ by when they came about.
    later: Duration,
    pub(crate) ledger: Part<Ledger>,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.coordinator, &self.readers, &self.appending).hash(hasher);
        (&self.asked, &self.metadata, self.informed, self.stopped).hash(hasher);
        (self.budget, self.later, self.end, &self.ledger).hash(hasher);
    }
}

impl World {
    /// A world in which nothing was ever read.
    pub(crate) fn new(model: &Model) -> Result<Self, Violation> {
        let mut world = Self {
            coordinator: Part::new(coordinator(model.stop)),
            readers: readers(model.stop),
            log: Rc::default(),
            appending: None,
            asked: VecDeque::new(),
            metadata: Letters(model.listed().collect()),
            informed: false,
            stopped: false,
            stop: model.stop,
            end: model.drains.map_or(0, |drains| drains.end),
            records: model.records,
            budget: model.budget,
            later: Duration::ZERO,
            ledger: Part::new(Ledger::default()),
        };
        world.start()?;
        Ok(world)
    }

    fn now(&self) -> Duration {
        now() + self.later
    }

    /// The log is opened and the readers say hello.
    fn start(&mut self) -> Result<(), Violation> {
        let (records, now) = (Rc::clone(&self.log), self.now());
        self.coordinator().handle_opened(&records, now);
        for index in 0..READERS {
            self.reader(index, Reader::act)?;
            self.report(index)?;
        }
        Ok(())
    }

    fn coordinator(&mut self) -> &mut Coordinator<Letter, AnyReader> {
        self.coordinator.change()
    }

    fn reader(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Reader, &mut Part<Ledger>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let reader = self.readers[index].change();
        act(reader, &mut self.ledger)?;
        reader.act(&mut self.ledger)
    }

    /// Takes a step that [`possible`](Self::possible) named; false if nothing came of it.
    pub(crate) fn step(&mut self, step: Step) -> Result<bool, Violation> {
        self.budget.pay(step);
        match step {
            Step::Direct(index) => self.reader(index, Reader::direct)?,
            Step::Overtake(index) => self.reader(index, |reader, _| {
                reader.directives.swap(0, 1);
                Ok(())
            })?,
            Step::Report(index) => self.report(index)?,
            Step::Read(index, split) => {
                self.reader(index, |reader, ledger| reader.read(split, ledger))?;
            }
            Step::Fetch(index, split) => self.reader(index, |reader, _| {
                if let Some(fetching) = reader.fetching.get_mut(&split) {
                    fetching.fetched = true;
                }
                Ok(())
            })?,
            Step::Late(index) => self.reader(index, Reader::late)?,
            Step::Hold(index, split) => self.reader(index, |reader, _| {
                reader.hold(split);
                Ok(())
            })?,
            Step::Admit(index, split) => {
                self.reader(index, |reader, ledger| reader.admit(split, ledger))?;
            }
            Step::Down(index, split, kind) => self.reader(index, |reader, _| {
                reader.down(split, kind);
                Ok(())
            })?,
            Step::Retry(index) => self.reader(index, |reader, _| {
                reader.retry();
                Ok(())
            })?,
            Step::Log => self.log()?,
            Step::Crash { written } => self.crash(written)?,
            Step::Resolve(_)
            | Step::Tick
            | Step::Wait
            | Step::Remove(_)
            | Step::Add(_)
            | Step::Inform
            | Step::Fail
            | Step::Move(..)
            | Step::Readmit(_)
            | Step::Stop => return self.coordinate(step),
        }
        Ok(true)
    }

    /// Takes a step of the coordinator; false if it changed nothing.
    fn coordinate(&mut self, step: Step) -> Result<bool, Violation> {
        let before = self.coordinator.print();
        let now = self.now();
        match step {
            Step::Resolve(index) => {
                if let Some((request, split, asked)) = self.asked.remove(index) {
                    let end = match asked {
                        Asked::Start => 0,
                        // More is written by the next time.
                        Asked::End => std::mem::replace(&mut self.end, self.records),
                    };
                    self.discovered(match asked {
                        Asked::Start => DiscoveryEvent::Resolved {
                            request,
                            split,
                            start: 0,
                            stop: self.stop,
                            rule: "earliest".to_owned(),
                        },
                        Asked::End => DiscoveryEvent::End {
                            request,
                            split,
                            end,
                        },
                    });
                }
            }
            Step::Tick => {
                let due = self.coordinator.poll_timeout().unwrap_or(now);
                self.coordinator().handle_time(due);
            }
            Step::Wait => {
                self.later += RELEASE_DEADLINE;
                let later = self.now();
                self.coordinator().handle_time(later);
            }
            Step::Remove(split) => {
                self.metadata.0.remove(&split);
                return self.changed();
            }
            Step::Add(split) => {
                self.metadata.0.insert(split);
                return self.changed();
            }
            Step::Inform => {
                self.informed = true;
                self.changed()?;
            }
            Step::Fail => self.discovered(DiscoveryEvent::MetadataFailed),
            Step::Move(split, to) => {
                let to = ReaderId(to);
                self.command(Command::Move { split, to });
            }
            Step::Readmit(split) => {
                self.command(Command::Readmit(split));
                self.ledger.change().readmit(split);
            }
            Step::Stop => {
                self.stopped = true;
                self.command(Command::Stop);
            }
            _ => {}
        }
        self.act()?;
        Ok(self.coordinator.print() != before)
    }

    fn discovered(&mut self, event: DiscoveryEvent<Letter>) {
        let now = self.now();
        self.coordinator().handle_discovery(event, now);
    }

    fn command(&mut self, command: Command<Letter>) {
        let now = self.now();
        let report = Report::Command(command);
        self.coordinator().handle_report(report, now);
    }

    /// The metadata changed: the coordinator hears of it, unless the service has not answered yet.
    fn changed(&mut self) -> Result<bool, Violation> {
        if self.informed {
            self.discovered(DiscoveryEvent::Metadata(self.metadata.clone()));
            self.act()?;
        }
        Ok(true)
    }

    fn report(&mut self, index: usize) -> Result<(), Violation> {
        let now = self.now();
        let report = self.readers[index].change().reports.pop_front();
        if let Some(report) = report {
            self.coordinator().handle_report(report, now);
        }
        self.act()
    }

    fn log(&mut self) -> Result<(), Violation> {
        self.write()?;
        let now = self.now();
        self.coordinator().handle_appended(now);
        self.act()
    }

    fn write(&mut self) -> Result<(), Violation> {
        if let Some(records) = self.appending.take() {
            self.ledger.change().write(&records)?;
            Rc::make_mut(&mut self.log).extend(records.iter().cloned());
        }
        Ok(())
    }

    fn crash(&mut self, written: bool) -> Result<(), Violation> {
        if written {
            self.write()?;
        }
        self.ledger.change().crash();
        self.coordinator = Part::new(coordinator(self.stop));
        self.readers = readers(self.stop);
        self.appending = None;
        self.asked.clear();
        self.informed = false;
        self.stopped = false;
        self.start()
    }

    /// Does what the coordinator wants done, as the operator does.
    fn act(&mut self) -> Result<(), Violation> {
        while let Some(intention) = self.coordinator().poll() {
            match intention {
                Intention::Send(reader, directive) => {
                    self.ledger.change().sent(reader, &directive)?;
                    let reader = self.readers[reader.0].change();
                    reader.directives.push_back(directive);
                }
                Intention::Ask(DiscoveryRequest::Discover { epoch, metadata }) => {
                    let found = metadata.0.into_iter();
                    let splits = found.map(|split| FoundSplit::new(split, ())).collect();
                    self.discovered(DiscoveryEvent::Found { epoch, splits });
                    self.discovered(DiscoveryEvent::AllFound { epoch });
                }
                Intention::Ask(DiscoveryRequest::Resolve { request, split, .. }) => {
                    self.asked.push_back((request, split, Asked::Start));
                }
                Intention::Ask(DiscoveryRequest::End { request, split }) => {
                    self.asked.push_back((request, split, Asked::End));
                }
                Intention::Ask(DiscoveryRequest::Judge { request, split }) => {
                    let remains = Remains {
                        identity: Some(()),
                        first: 0,
                        end: self.records,
                    };
                    self.discovered(DiscoveryEvent::Judged {
                        request,
                        split,
                        remains,
                    });
                }
                Intention::Append(_, records) => {
                    if self.appending.replace(Part::new(records)).is_some() {
                        return Err("two appends are under way".to_owned());
                    }
                }
                Intention::Open(tick) => self.ledger.pass(Some(tick))?,
                Intention::Compact(_) => {}
                Intention::Know(..) | Intention::Forget(_) => {}
                other @ (Intention::AskPast
                | Intention::Ask(
                    DiscoveryRequest::Check { .. } | DiscoveryRequest::Identify { .. },
                )) => {
                    return Err(format!("nothing is replayed, but {other:?}"));
                }
                Intention::Publish { binding, next } => {
                    self.ledger.change().publish(&binding, next)?;
                }
                Intention::Tell(SourceEvent::Health(health)) => {
                    let lasting = health.status == HealthStatus::Failing(FailureKind::Definite);
                    let of_source = ["source", "binding log"].contains(&health.subject.as_str());
                    if lasting && of_source {
                        return Err(format!("the coordinator gives up: {health}"));
                    }
                }
                Intention::Tell(SourceEvent::FetcherDown { split, kind, .. }) => {
                    if kind == FailureKind::Definite {
                        self.ledger.change().quarantined.insert(split);
                    }
                }
                Intention::Tell(SourceEvent::DrainEnded { .. }) => {
                    self.ledger.change().drained = true;
                }
                Intention::Tell(SourceEvent::MetadataAdopted { metadata, .. }) => {
                    self.ledger.change().adopts(metadata)?;
                }
                Intention::Tell(_) => {}
            }
        }
        Ok(())
    }
}

fn coordinator(stop: Option<u64>) -> Coordinator<Letter, AnyReader> {
    let options = CoordinatorOptions {
        bounded: stop.is_some(),
        tick_interval: TICK_INTERVAL,
        ticks_waiting_max: TICKS_WAITING_MAX,
        reserve_ahead: TICK_INTERVAL * 4,
        snapshot_every: 1,
        // A split that is assigned again waits for the log.
        epochs_ahead: 1,
        release_deadline: RELEASE_DEADLINE,
        calm_for: Duration::ZERO,
        ..CoordinatorOptions::new(READERS)
    };
    Coordinator::new(options, AnyReader)
}

fn readers(stop: Option<u64>) -> [Part<Reader>; READERS] {
    let piece = if stop.is_some() { 2 } else { 1 };
    std::array::from_fn(|index| Part::new(Reader::new(index, piece)))
}
