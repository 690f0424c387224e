//! Decides who reads what, and when a tick is over.
//!
//! A state machine without I/O: facts go in by the `handle_*` methods, intentions come out by
//! [`Coordinator::poll`], and `now` is an argument, a duration since the Unix epoch. It reads no
//! clock, starts no thread and holds no capability, so a test can drive every schedule there is.

#![warn(clippy::wildcard_enum_match_arm)]

mod advance;
mod assignor;
mod facts;
mod ownership;
#[cfg(test)]
mod tests;
mod ticks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::discovery::{DiscoveryEvent, DiscoveryRequest};
use crate::epoch::{Incarnation, MetadataEpoch, PlanEpoch, ReaderId, RequestId};
use crate::event::SourceEvent;
use crate::health::{FailureKind, Health, HealthStatus};
use crate::log::LogRecord;
use crate::protocol::{Directive, Report};
use crate::split::Split;
use crate::tick::Tick;

pub use self::assignor::{Assignor, StickyBalanced};
use self::ownership::Entry;
use self::ticks::{Ending, Ticks};
use crate::binding::Binding;

/// How long the log may hold up a tick that is due before a person is told.
const STALL_TOLD_AFTER: Duration = Duration::from_secs(1);

/// How long after a change of metadata no split is taken from its reader for balance.
///
/// What a change removes is gone at once, and what it adds is found by and by. Splits that were
/// moved in between, to fill gaps that the new ones are about to fill, would pause for nothing.
const BALANCED_AFTER: Duration = Duration::from_secs(2);

/// What the coordinator is told once.
#[derive(Clone, Copy, Debug)]
pub struct CoordinatorOptions {
    /// How many readers there are.
    pub readers: usize,
    /// How long a tick stays open.
    pub tick_interval: Duration,
    /// How many closed ticks may wait for the log.
    pub ticks_waiting_max: usize,
}

/// What the coordinator wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intention<S: Split> {
    /// Send a directive to a reader.
    Send(ReaderId, Directive<S>),
    /// Ask the discovery.
    Ask(DiscoveryRequest<S>),
    /// Append to the log, as this incarnation. Nothing is appended again before the answer.
    Append(Incarnation, Vec<LogRecord<S>>),
    /// The first tick opened: nothing is published before it.
    Open(Tick),
    /// Publish a binding at its tick; after it nothing is published before `next`, or nothing ever.
    Publish {
        /// The binding.
        binding: Binding<S>,
        /// The oldest tick that is not durable; `None` at the end.
        next: Option<Tick>,
    },
    /// Tell whoever watches.
    Tell(SourceEvent<S>),
}

/// Decides who reads what, and when a tick is over.
///
/// # Invariants
///
/// * **One owner.** A split is assigned to a reader only when no other one may emit for it.
/// * **No position lost or made up.** A split is assigned at the position that its last owner
///   released, or at its recorded start.
/// * **Recorded first.** The start of a split is durable before its first assignment, and a binding
///   is durable before [`Directive::Durable`] and [`Intention::Publish`].
/// * **Monotone.** Epochs only grow, and what is said about an older assignment, request or metadata
///   epoch is ignored and counted.
pub struct Coordinator<S: Split> {
    options: CoordinatorOptions,
    assignor: Box<dyn Assignor<S>>,
    phase: Phase,
    incarnation: Incarnation,
    /// The readers that said hello, with the digest of their configuration.
    readers: BTreeMap<ReaderId, u64>,
    metadata: Option<S::Metadata>,
    metadata_epoch: MetadataEpoch,
    plan_epoch: PlanEpoch,
    /// Whether something changed that the assignor must see.
    plan_due: bool,
    /// When splits may be moved for balance again, if not now.
    balance_due: Option<Duration>,
    /// The reader that the last plan gives each split.
    target: BTreeMap<S, ReaderId>,
    /// Every split that was ever found and resolved, and those that are being resolved.
    splits: BTreeMap<S, Entry<S>>,
    /// The splits of `splits` that are neither at their target nor on their way there.
    restless: BTreeSet<S>,
    /// The position of each resolved split as of the last closed tick.
    bound: BTreeMap<S, S::Position>,
    last_request: RequestId,
    ticks: Ticks<S>,
    /// Whether the wait for the log was told.
    stalled: bool,
    /// To be appended when the append under way is answered: bindings, of which there are few, and
    /// starts, one a split.
    to_append: Vec<LogRecord<S>>,
    appending: Vec<LogRecord<S>>,
    intentions: VecDeque<Intention<S>>,
    ignored: u64,
}

/// How far the run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The log is being opened, or readers are missing.
    Gathering { log_open: bool },
    /// Splits are read.
    Running,
    /// Something is wrong that only a person can mend. The frontier stays where it is.
    Wedged,
}

impl<S: Split> Coordinator<S> {
    /// A coordinator that knows no readers and no splits.
    pub fn new(options: CoordinatorOptions, assignor: Box<dyn Assignor<S>>) -> Self {
        Self {
            options,
            assignor,
            phase: Phase::Gathering { log_open: false },
            incarnation: Incarnation::default(),
            readers: BTreeMap::new(),
            metadata: None,
            metadata_epoch: MetadataEpoch::default(),
            plan_epoch: PlanEpoch::default(),
            plan_due: false,
            balance_due: None,
            target: BTreeMap::new(),
            splits: BTreeMap::new(),
            restless: BTreeSet::new(),
            bound: BTreeMap::new(),
            last_request: RequestId::default(),
            ticks: Ticks::new(),
            stalled: false,
            to_append: Vec::new(),
            appending: Vec::new(),
            intentions: VecDeque::new(),
            ignored: 0,
        }
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<Intention<S>> {
        self.intentions.pop_front()
    }

    /// When [`handle_time`](Self::handle_time) should be called next, if time matters.
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.phase != Phase::Running || self.ticks.closing.is_some() {
            return None;
        }
        match self.ticks.ending {
            Ending::No | Ending::Asked if !self.ticks_full() => Some(self.ticks.due),
            Ending::No | Ending::Asked if !self.stalled => Some(self.ticks.due + STALL_TOLD_AFTER),
            Ending::No | Ending::Asked | Ending::Told | Ending::Reached => None,
        }
    }

    /// How many messages were ignored because they were about something that is over.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The tick that is open, if there is one.
    pub fn open_tick(&self) -> Option<Tick> {
        self.ticks.open
    }

    /// Whether the last tick is durable.
    pub fn ended(&self) -> bool {
        self.ticks.ending == Ending::Reached
    }

    /// Time has passed.
    pub fn handle_time(&mut self, now: Duration) {
        self.advance(now);
    }

    /// The log is open and holds `records`.
    pub fn handle_opened(&mut self, records: &[LogRecord<S>], now: Duration) {
        if records.is_empty() {
            self.incarnation = self.incarnation.next();
            if let Phase::Gathering { log_open } = &mut self.phase {
                *log_open = true;
            }
        } else {
            self.wedge(
                "binding log",
                format!(
                    "holds {} records of an earlier run; expected an empty log, since a source \
                     starts anew",
                    records.len()
                ),
            );
        }
        self.advance(now);
    }

    /// The append under way is durable.
    pub fn handle_appended(&mut self, now: Duration) {
        let durable = std::mem::take(&mut self.appending);
        for record in durable {
            match record {
                LogRecord::Incarnation(_) => {}
                LogRecord::Start { split, start } => self.recorded(split, start),
                LogRecord::Binding(binding) => self.durable(binding),
            }
        }
        self.advance(now);
    }

    /// The log cannot be written any more, by this run.
    pub fn handle_log_lost(&mut self, why: &str, now: Duration) {
        self.wedge("binding log", why.to_owned());
        self.advance(now);
    }

    /// Somebody asked the source to end.
    pub fn handle_stop(&mut self, now: Duration) {
        if self.ticks.ending == Ending::No {
            self.ticks.ending = Ending::Asked;
            self.ticks.due = now;
        }
        self.advance(now);
    }

    /// The discovery answered.
    pub fn handle_discovery(&mut self, event: DiscoveryEvent<S>, now: Duration) {
        match event {
            DiscoveryEvent::Metadata(metadata) => self.adopt(metadata, now),
            DiscoveryEvent::Found { epoch, splits } => self.found(epoch, splits),
            DiscoveryEvent::Resolved {
                request,
                split,
                start,
            } => self.resolved(request, &split, start),
            DiscoveryEvent::Health(health) => self.tell(SourceEvent::Health(health)),
        }
        self.advance(now);
    }

    /// A reader reported.
    pub fn handle_report(&mut self, report: Report<S>, now: Duration) {
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
            } => self.released(reader, split, split_epoch, next, why),
            Report::Closed {
                reader,
                tick,
                ranges,
                errors,
            } => match self.ticks.closing_from(reader, tick) {
                Some(closing) => {
                    closing.ranges.extend(ranges);
                    closing.errors.extend(errors);
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
            } => self.fetcher_down(reader, (split, split_epoch), kind, next, message),
            Report::Stop => {
                self.handle_stop(now);
                return;
            }
        }
        self.advance(now);
    }

    fn ticks_full(&self) -> bool {
        self.ticks.undurable() >= self.options.ticks_waiting_max
    }

    fn wedge(&mut self, subject: &str, why: String) {
        self.phase = Phase::Wedged;
        self.tell(SourceEvent::Health(Health::new(
            subject,
            HealthStatus::Failing(FailureKind::Definite),
            why,
        )));
    }

    fn tell(&mut self, event: SourceEvent<S>) {
        self.intentions.push_back(Intention::Tell(event));
    }
}

impl<S: Split> fmt::Debug for Coordinator<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("phase", &self.phase)
            .field("metadata_epoch", &self.metadata_epoch)
            .field("splits", &self.splits)
            .field("ticks", &self.ticks)
            .finish_non_exhaustive()
    }
}
