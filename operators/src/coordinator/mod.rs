//! Decides who reads what, and when a tick is over.
//!
//! A state machine without I/O: facts go in by the `handle_*` methods, intentions come out by
//! [`Coordinator::poll`], and `now` is an argument, a duration since the Unix epoch. It reads no
//! clock, starts no thread and holds no capability, so a test can drive every schedule there is.

#![warn(clippy::wildcard_enum_match_arm)]

mod advance;
mod answers;
mod bounded;
mod command;
mod draining;
mod explain;
mod facts;
mod failure;
mod identity;
mod in_force;
mod kept;
mod loss;
mod options;
mod ownership;
mod phase;
mod plan;
mod replay;
mod report;
mod restore;
mod snapshot;
mod split_epochs;
mod tables;
#[cfg(test)]
mod tests;
mod ticks;
mod written;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::assignor::{Assignor, ReaderProfile};
use crate::binding::Binding;
use crate::discovery::{DiscoveryEvent, DiscoveryRequest};
use crate::epoch::{Incarnation, MetadataEpoch, ReaderId, RequestId, SplitEpoch};
use crate::event::SourceEvent;
use crate::log::LogRecord;
use crate::protocol::{Configuration, Directive, Report};
use crate::split::{Metadata, Split};
use crate::tick::Tick;

use self::answers::Answers;
pub use self::answers::{FailureThreshold, GivingUp, ShrinkGuard};
use self::bounded::Bounded;
use self::draining::Draining;
use self::failure::Failure;
use self::identity::Proofs;
use self::in_force::ListedSince;
pub use self::options::CoordinatorOptions;
use self::ownership::Entry;
use self::phase::{Awaited, Phase};
use self::plan::Planning;
use self::replay::Replaying;
pub(crate) use self::restore::{Restoration, Restored};
pub use self::snapshot::{RestoreError, SNAPSHOT_VERSION, Snapshot, SplitSnapshot};
use self::split_epochs::SplitEpochs;
pub use self::tables::Tables;
use self::ticks::{Ending, Ticks};
use self::written::Written;

/// What the coordinator wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Intention<S: Split> {
    /// Send a directive to a reader.
    Send(ReaderId, Directive<S>),
    /// Ask the discovery.
    Ask(DiscoveryRequest<S>),
    /// Append to the log, as this incarnation. Nothing is appended again before the answer.
    Append(Incarnation, Vec<LogRecord<S>>),
    /// Let the log drop what only ticks up to and with this one need.
    Compact(Tick),
    /// The first tick opened, or is given again: nothing is published before it.
    Open(Tick),
    /// Ask the log for the next bindings that are to be given again.
    AskPast,
    /// Publish a binding at its tick; after it nothing is published before `next`, or nothing ever.
    Publish {
        /// The binding.
        binding: Binding<S>,
        /// The oldest tick that is not durable; `None` at the end.
        next: Option<Tick>,
    },
    /// Let the discovery hear what a split is: it is durable.
    Know(S, S::Identity),
    /// Let the discovery hear that a split is forgotten: it is durable.
    Forget(S),
    /// Tell whoever watches.
    Tell(SourceEvent<S>),
}

/// Decides who reads what, and when a tick is over.
///
/// # Invariants
///
/// * **One owner.** A split is assigned to a reader only when no other one may emit for it.
/// * **No position lost or made up.** A split is assigned at the position that its last owner
///   released, at the one it was bound at before a restart, or at its recorded start.
/// * **Recorded first.** The start of a split is durable before its first assignment, a tick is
///   reserved before it is opened and a split epoch before it is assigned, and a binding that is not
///   [empty](Binding::is_empty), with all before it, is durable before [`Directive::Durable`] and
///   [`Intention::Publish`].
/// * **Metadata first.** What is known from before a restart is read only once the metadata lists it.
/// * **Monotone.** Epochs only grow, over all runs, and what is said about an older assignment,
///   request or metadata epoch is ignored and counted.
#[derive(Clone)]
pub struct Coordinator<S: Split, A = Box<dyn Assignor<S>>> {
    options: CoordinatorOptions,
    phase: Phase,
    incarnation: Incarnation,
    /// The readers that said hello, with their configuration.
    readers: BTreeMap<ReaderId, (ReaderProfile, Configuration)>,
    metadata: Option<S::Metadata>,
    /// What was in force first of all, in this run or the earliest that the log knows.
    first: Option<S::Metadata>,
    metadata_epoch: MetadataEpoch,
    listed_since: ListedSince<<S::Metadata as Metadata<S>>::Group>,
    /// The last epoch that the readers were told.
    metadata_told: MetadataEpoch,
    answers: Answers<S::Metadata>,
    draining: Draining<S>,
    planning: Planning<S, A>,
    /// Every split whose start is recorded and that was not forgotten, and those that are resolved.
    splits: BTreeMap<S, Entry<S>>,
    /// The splits of `splits`, by what lists them.
    groups: BTreeMap<<S::Metadata as Metadata<S>>::Group, BTreeSet<S>>,
    /// The position of each resolved split as of the last closed tick.
    bound: BTreeMap<S, S::Position>,
    /// The resolved splits that the last closed tick leaves quarantined.
    quarantined: BTreeSet<S>,
    /// Splits that are not present, by how long their position has been kept.
    kept: BTreeSet<(Duration, S)>,
    /// Splits that came back and are to be read from their start again.
    to_read_again: BTreeSet<S>,
    /// The splits of which something is awaited, by when it is no longer.
    deadlines: BTreeSet<(Duration, S)>,
    last_request: RequestId,
    /// How far the clock that ticks are named by is before the one that is measured by, in
    /// milliseconds.
    skew: i64,
    /// The greatest epoch of a split that was forgotten. One that comes back is assigned above it, so
    /// that what was said about it before is not taken for news.
    forgotten: SplitEpoch,
    /// Which split epochs may be assigned.
    epochs: SplitEpochs,
    ticks: Ticks<S>,
    proofs: Proofs<S>,
    /// How often records were lost, or a split failed or started over because of that.
    losses: u64,
    /// The splits that were started over, by the one as which each is found.
    generations: BTreeMap<S, S>,
    /// Since when what is needed to start is waited for, until a person was told.
    starting_since: Option<Duration>,
    /// Whether the wait for the log was told.
    stalled: bool,
    /// Why it goes no further, until that was told.
    failure: Option<Failure>,
    /// Whether the log has bindings that this run makes void, and does not say so yet.
    rewound: bool,
    /// What is to be given again before anything else is read.
    replaying: Option<Replaying<S>>,
    /// What the metadata service answered meanwhile.
    after_replay: Option<S::Metadata>,
    /// How far it is from its end, if it is to end by itself.
    bounded: Option<Bounded<S>>,
    /// To be appended when the append under way is answered: bindings and reservations, of which
    /// there are few, and starts, one a split.
    to_append: Vec<LogRecord<S>>,
    appending: Vec<LogRecord<S>>,
    /// What was written since the last snapshot.
    since_snapshot: Written,
    intentions: VecDeque<Intention<S>>,
    ignored: u64,
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// A coordinator that knows no readers and no splits.
    pub fn new(mut options: CoordinatorOptions, assignor: A) -> Self {
        options.plan_interval = (options.plan_interval).or_else(|| assignor.plan_interval());
        Self {
            bounded: options.bounded.then(Bounded::new),
            options,
            phase: Phase::Gathering { log_open: false },
            incarnation: Incarnation::default(),
            readers: BTreeMap::new(),
            metadata: None,
            first: None,
            metadata_epoch: MetadataEpoch::default(),
            listed_since: ListedSince::new(),
            metadata_told: MetadataEpoch::default(),
            answers: Answers::new(),
            draining: Draining::new(),
            planning: Planning::new(assignor),
            splits: BTreeMap::new(),
            groups: BTreeMap::new(),
            bound: BTreeMap::new(),
            quarantined: BTreeSet::new(),
            kept: BTreeSet::new(),
            to_read_again: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            last_request: RequestId::default(),
            skew: 0,
            forgotten: SplitEpoch::default(),
            epochs: SplitEpochs::default(),
            ticks: Ticks::new(),
            proofs: Proofs::default(),
            losses: 0,
            generations: BTreeMap::new(),
            starting_since: None,
            stalled: false,
            failure: None,
            rewound: false,
            replaying: None,
            after_replay: None,
            to_append: Vec::new(),
            appending: Vec::new(),
            since_snapshot: Written::default(),
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
        if !matches!(self.phase, Phase::Running | Phase::Replaying) {
            // Only what is learnt gets it any further, but a person may have to know what that is.
            let since = self.starting_since;
            let told = since.map(|since| since + advance::STALL_TOLD_AFTER);
            return told.or_else(|| self.failed_due());
        }
        let deadline = self.deadlines.first().map(|(due, _)| *due);
        let kept = self.forget_due();
        let plan = self.planning.due().filter(|_| self.planning_now());
        let proof = self.proofs.due();
        // What a drain waits for is told while it goes on.
        let running = self.phase == Phase::Running;
        let draining = self.draining.due().filter(|_| running);
        let mut due = [deadline, kept, plan, proof, draining, self.stale_due()];
        due.sort_by_key(|due| due.unwrap_or(Duration::MAX));
        match (due[0], self.tick_timeout()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// When the open tick is to be closed, or a person to be told that it cannot be.
    fn tick_timeout(&self) -> Option<Duration> {
        if self.ticks.closing.is_some() || self.ticks.open.is_none() {
            return None;
        }
        match self.ticks.ending {
            Ending::No | Ending::Asked if !self.tick_is_held() => Some(self.ticks.due),
            Ending::No | Ending::Asked if !self.stalled => {
                Some(self.ticks.due + advance::STALL_TOLD_AFTER)
            }
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

    /// The clock that ticks are named by says `wall`. Without it they are named by `now`.
    ///
    /// What is due is measured by `now`, which must not go back; this one may.
    pub fn handle_clock(&mut self, wall: Duration, now: Duration) {
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.skew = millis(wall).saturating_sub(millis(now));
    }

    /// `now` as a tick is named.
    fn name_of(&self, now: Duration) -> Tick {
        let millis = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        Tick(u64::try_from(millis.saturating_add(self.skew)).unwrap_or(0))
    }

    /// When `tick` was named, as `now` is measured.
    fn when_named(&self, tick: Tick) -> Duration {
        let millis = i64::try_from(tick.0).unwrap_or(i64::MAX);
        Duration::from_millis(u64::try_from(millis.saturating_sub(self.skew)).unwrap_or(0))
    }

    /// The tick to open at `now` after `tick`.
    fn tick_after(&self, tick: Tick, now: Duration) -> Tick {
        tick.following(Duration::from_millis(self.name_of(now).0))
    }

    /// Time has passed.
    pub fn handle_time(&mut self, now: Duration) {
        self.advance(now);
    }

    /// The log is open and holds `records`: the source goes on where they end.
    pub fn handle_opened(&mut self, records: &[LogRecord<S>], now: Duration) {
        let restored = Restored::of(records, self.options.resume);
        self.handle_restored(restored, now);
    }

    /// The log is open, and this is what its records come to.
    pub(crate) fn handle_restored(
        &mut self,
        restored: Result<Restored<S>, RestoreError>,
        now: Duration,
    ) {
        // Who has ended meanwhile begins nothing.
        if self.phase != (Phase::Gathering { log_open: false }) {
            self.ignored += 1;
            return;
        }
        match restored {
            Ok(restored) => {
                self.restore(restored, now);
                if let Phase::Gathering { log_open } = &mut self.phase {
                    *log_open = true;
                }
                self.hear_early(now);
            }
            Err(error) => self.wedge("binding log", error.to_string()),
        }
        self.advance(now);
    }

    /// The append under way is durable.
    pub fn handle_appended(&mut self, now: Duration) {
        for record in std::mem::take(&mut self.appending) {
            match record {
                LogRecord::Start { split, start, .. } => self.recorded(split, start, now),
                LogRecord::End { split, end } => self.end_recorded(&split, end, now),
                LogRecord::Binding(binding) => self.durable(binding, now),
                LogRecord::Identified { split, identity } => {
                    self.intentions.push_back(Intention::Know(split, identity));
                }
                LogRecord::Forgotten(split) => self.intentions.push_back(Intention::Forget(split)),
                LogRecord::Reserved(tick) => self.ticks.reserved = tick,
                LogRecord::ReservedEpochs(epoch) => self.epochs.reserved = epoch,
                LogRecord::Incarnation(_)
                | LogRecord::AllFound
                | LogRecord::Metadata { .. }
                | LogRecord::Readmitted(_)
                | LogRecord::Paused(_)
                | LogRecord::Resumed(_)
                | LogRecord::Snapshot(_) => {}
            }
        }
        self.advance(now);
    }

    /// The next bindings that are to be given again, or none if there are no more.
    pub fn handle_past(&mut self, bindings: Vec<Binding<S>>, now: Duration) {
        self.past(bindings);
        self.advance(now);
    }

    /// The log cannot be written any more, by this run.
    pub fn handle_log_lost(&mut self, why: &str, now: Duration) {
        self.wedge("binding log", why.to_owned());
        self.advance(now);
    }

    /// The discovery answered.
    pub fn handle_discovery(&mut self, event: DiscoveryEvent<S>, now: Duration) {
        match event {
            DiscoveryEvent::Metadata(metadata) => self.metadata_answered(metadata, now),
            DiscoveryEvent::MetadataRepeated => self.metadata_repeated(now),
            DiscoveryEvent::MetadataSettled => self.metadata_settled(now),
            DiscoveryEvent::MetadataFailed => self.metadata_failed(now),
            DiscoveryEvent::Found { epoch, splits } => self.found(epoch, splits, now),
            DiscoveryEvent::Gone { epoch, splits } => self.gone(epoch, splits, now),
            DiscoveryEvent::AllFound { epoch } => self.all_found(epoch, now),
            DiscoveryEvent::Resolved {
                request,
                split,
                start,
                stop,
                rule,
            } => self.resolved(request, &split, (start, stop), rule),
            DiscoveryEvent::End {
                request,
                split,
                end,
            } => self.end_found(request, &split, end, now),
            DiscoveryEvent::Checked { request, lost } => self.checked(request, &lost),
            DiscoveryEvent::Identified { request, splits } => self.identified(request, splits),
            DiscoveryEvent::Judged {
                request,
                split,
                remains,
            } => self.judged(request, &split, remains, now),
            DiscoveryEvent::Health(health) => self.tell(SourceEvent::Health(health)),
        }
        self.advance(now);
    }

    /// A reader reported.
    pub fn handle_report(&mut self, report: Report<S>, now: Duration) {
        self.hear(report, now);
        self.advance(now);
    }

    /// Whether the open tick has to stay open although it is due: the log is behind. The last tick
    /// opens no other one, so it takes no reservation.
    fn tick_is_held(&self) -> bool {
        let full = self.ticks.undurable() >= self.options.ticks_waiting_max;
        full || (self.ticks.unreserved && self.ticks.ending != Ending::Asked)
    }

    fn broadcast(&mut self, directive: &Directive<S>) {
        for reader in self.readers.keys() {
            self.intentions
                .push_back(Intention::Send(*reader, directive.clone()));
        }
    }

    fn tell(&mut self, event: SourceEvent<S>) {
        self.intentions.push_back(Intention::Tell(event));
    }
}

/// Two coordinators with equal hashes act alike from here on, but for what they count: what was
/// ignored, and how often the assignor ran.
impl<S: Split, A> Hash for Coordinator<S, A> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.phase, &self.incarnation, &self.readers).hash(hasher);
        (&self.metadata, &self.metadata_epoch, &self.metadata_told).hash(hasher);
        (&self.answers, &self.draining, &self.first).hash(hasher);
        self.listed_since.hash(hasher);
        (&self.planning, &self.splits, &self.bound).hash(hasher);
        (&self.quarantined, &self.kept, &self.deadlines).hash(hasher);
        self.to_read_again.hash(hasher);
        (&self.last_request, &self.forgotten, &self.epochs).hash(hasher);
        (&self.ticks, &self.stalled, &self.failure, &self.rewound).hash(hasher);
        (&self.proofs, &self.generations).hash(hasher);
        (&self.replaying, &self.after_replay, &self.bounded).hash(hasher);
        (&self.to_append, &self.appending, &self.intentions).hash(hasher);
        self.since_snapshot.hash(hasher);
    }
}

impl<S: Split, A> fmt::Debug for Coordinator<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("phase", &self.phase)
            .field("metadata_epoch", &self.metadata_epoch)
            .field("splits", &self.splits)
            .field("bound", &self.bound)
            .field("ticks", &self.ticks)
            .finish_non_exhaustive()
    }
}
