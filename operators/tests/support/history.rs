//! Judges what a source emitted, whoever drove it: a simulation, real workers, or a test that kills.
//!
//! Each method takes one thing that happened, in the order in which it did, and panics with the
//! invariant that it breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use timely_splits::binding::{Binding, SplitError};
use timely_splits::coordinator::Snapshot;
use timely_splits::epoch::{ReaderId, SplitEpoch};
use timely_splits::log::LogRecord;
use timely_splits::loss::Aftermath;
use timely_splits::split::Split;
use timely_splits::tick::Tick;

/// A range of one split that one reader emitted at one tick.
#[derive(Clone, Debug)]
pub(crate) struct Emission<S> {
    pub(crate) at: Duration,
    pub(crate) reader: ReaderId,
    pub(crate) split: S,
    pub(crate) split_epoch: SplitEpoch,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) tick: Tick,
}

/// What was emitted, and what of it is durable.
///
/// # Invariants
///
/// What it panics about:
///
/// * **I2** What is emitted of a split goes on where it ended, over moves and restarts. What was
///   emitted at ticks that were not bound before a crash comes again.
/// * **I3** No emission is of an older assignment than the one before. What a run assigns is above all
///   that the runs before it assigned, and durably reserved.
/// * **I7** Nothing is emitted of a split whose start is not durable.
/// * **I8** A binding is exactly what was emitted at its tick; the ranges of a split join; a snapshot
///   has every known split once, where the records say.
/// * Nothing is emitted past the stop of a split, or assigned that is there; nothing is bound past the end
///   that a split is drained to.
/// * No tick is opened twice, over all runs, nor one that is not durably reserved.
/// * A tick that passes without a binding in the log had nothing emitted at it, nor had an older one
///   that is not bound.
#[derive(Clone, Debug)]
pub(crate) struct History<S: Split> {
    /// Where each split whose start is known goes on.
    next: BTreeMap<S, u64>,
    /// The same, as the log says.
    durable: BTreeMap<S, u64>,
    /// Where splits stop, as the log says.
    stops: BTreeMap<S, u64>,
    /// Where splits end that are drained, as the log says.
    ends: BTreeMap<S, u64>,
    /// What was emitted at ticks that are not bound.
    emitted: BTreeMap<Tick, BTreeMap<S, (u64, u64)>>,
    failed: BTreeMap<Tick, Vec<SplitError<S>>>,
    /// Splits that failed for good, and were not readmitted.
    quarantined: BTreeSet<S>,
    durably_quarantined: BTreeSet<S>,
    /// Splits that are paused, as the log says.
    durably_paused: BTreeSet<S>,
    epochs: BTreeMap<S, SplitEpoch>,
    bound: Option<Tick>,
    /// The last tick of this run that passed without a binding in the log.
    passed: Option<Tick>,
    reserved: Tick,
    opened: Option<Tick>,
    /// The greatest split epoch that was assigned by the runs before this one, and by this one.
    assigned_before: SplitEpoch,
    assigned: SplitEpoch,
    /// The greatest that may be.
    reserved_epochs: SplitEpoch,
}

impl<S: Split<Position = u64>> History<S> {
    pub(crate) fn new() -> Self {
        Self {
            next: BTreeMap::new(),
            durable: BTreeMap::new(),
            stops: BTreeMap::new(),
            ends: BTreeMap::new(),
            emitted: BTreeMap::new(),
            failed: BTreeMap::new(),
            quarantined: BTreeSet::new(),
            durably_quarantined: BTreeSet::new(),
            durably_paused: BTreeSet::new(),
            epochs: BTreeMap::new(),
            bound: None,
            passed: None,
            reserved: Tick::default(),
            opened: None,
            assigned_before: SplitEpoch::default(),
            assigned: SplitEpoch::default(),
            reserved_epochs: SplitEpoch::default(),
        }
    }

    /// The position up to which a split was emitted, if its start is known.
    pub(crate) fn next(&self, split: &S) -> Option<u64> {
        self.next.get(split).copied()
    }

    /// The splits whose start is known.
    pub(crate) fn known(&self) -> impl Iterator<Item = &S> {
        self.next.keys()
    }

    /// Whether a split was emitted up to its stop, or up to the end that it is drained to.
    pub(crate) fn is_at_end(&self, split: &S) -> bool {
        let ends = [self.stops.get(split), self.ends.get(split)];
        ends.iter()
            .flatten()
            .any(|end| self.next(split) >= Some(**end))
    }

    /// Where a split ends that is drained, as the log says.
    pub(crate) fn end(&self, split: &S) -> Option<u64> {
        self.ends.get(split).copied()
    }

    /// Where reading a split stops, as the log says.
    pub(crate) fn stop(&self, split: &S) -> Option<u64> {
        self.stops.get(split).copied()
    }

    /// As which split one is read, as the log says, that was found as `origin`.
    pub(crate) fn read_as(&self, origin: S) -> S {
        let newest = self.durable.keys().filter(|split| split.origin() == origin);
        newest.max().cloned().unwrap_or(origin)
    }

    /// The splits that failed for good and were not readmitted.
    pub(crate) fn quarantined(&self) -> &BTreeSet<S> {
        &self.quarantined
    }

    /// The splits that are paused, as the log says.
    pub(crate) fn durably_paused(&self) -> &BTreeSet<S> {
        &self.durably_paused
    }

    /// The last tick at which nothing can be emitted any more: its binding is durable, or it passed
    /// without one.
    pub(crate) fn bound(&self) -> Option<Tick> {
        self.bound.max(self.passed)
    }

    /// A tick is published.
    pub(crate) fn published(&mut self, binding: &Binding<S>) {
        let tick = binding.tick;
        if self.bound() >= Some(tick) {
            return;
        }
        let emitted = self.emitted.keys().chain(self.failed.keys()).min();
        assert!(
            binding.is_empty() && emitted.is_none_or(|emitted| tick < *emitted),
            "time: tick {tick} is published before it is durable: {binding:?}"
        );
        self.passed = Some(tick);
    }

    /// Whether everything that was emitted is bound.
    pub(crate) fn is_all_bound(&self) -> bool {
        self.emitted.is_empty() && self.failed.is_empty()
    }

    /// The frontier may pass `tick` from here on, as far as this run knows.
    pub(crate) fn opened(&mut self, tick: Tick) {
        let last = self.opened;
        assert!(
            last < Some(tick),
            "time: tick {tick} is opened, but {last:?} was"
        );
        assert!(
            tick <= self.reserved,
            "time: tick {tick} is opened, but ticks are reserved up to {} only",
            self.reserved
        );
        self.opened = Some(tick);
    }

    pub(crate) fn emitted(&mut self, emission: Emission<S>) {
        let Emission {
            at,
            reader,
            split,
            split_epoch,
            from,
            to,
            tick,
        } = emission;
        let what = || {
            format!(
                "reader {reader} emits {from}..{to} of {split}#{split_epoch} at tick {tick}, {at:?}"
            )
        };
        let Some(next) = self.next.get_mut(&split) else {
            panic!("I7: {}, whose start is not durable", what());
        };
        assert!(
            *next == from && from <= to,
            "I2: {}, expected from {next}",
            what()
        );
        *next = to;
        let stop = self.stops.get(&split);
        assert!(
            stop.is_none_or(|stop| to <= *stop),
            "I2: {}, which stops at {stop:?}",
            what()
        );
        assert!(
            self.bound() < Some(tick),
            "I8: {}, but {:?} is bound",
            what(),
            self.bound()
        );
        let newest = self.epochs.entry(split.clone()).or_insert(split_epoch);
        assert!(
            *newest <= split_epoch,
            "I3: {}, after #{newest} was",
            what()
        );
        *newest = split_epoch;
        let ranges = self.emitted.entry(tick).or_default();
        ranges.entry(split).or_insert((from, to)).1 = to;
    }

    /// A definite error was emitted.
    pub(crate) fn failed(&mut self, tick: Tick, error: SplitError<S>) {
        assert!(
            self.bound() < Some(tick),
            "I8: an error of {} at tick {tick}",
            error.split
        );
        if error.then == Aftermath::Stays {
            self.quarantined.insert(error.split.clone());
        }
        self.failed.entry(tick).or_default().push(error);
    }

    /// A split is read again.
    pub(crate) fn assigned(&mut self, split: &S, split_epoch: SplitEpoch) {
        let (next, stop) = (self.next.get(split), self.stops.get(split));
        assert!(
            stop.is_none() || next < stop,
            "C28: {split} is assigned at {next:?}, and stops at {stop:?}"
        );
        let (before, reserved) = (self.assigned_before, self.reserved_epochs);
        assert!(
            before < split_epoch && split_epoch <= reserved,
            "I3: {split} is assigned under #{split_epoch}, expected above #{before} and up to #{reserved}"
        );
        self.assigned = self.assigned.max(split_epoch);
        self.quarantined.remove(split);
    }

    /// The position of a split is not kept any more: it may start again.
    pub(crate) fn forgotten(&mut self, split: &S, position: u64) {
        let next = self.next.remove(split);
        assert_eq!(next, Some(position), "I7: {split} is forgotten elsewhere");
        self.epochs.remove(split);
        self.quarantined.remove(split);
    }

    /// A record is in the log for good.
    pub(crate) fn logged(&mut self, record: &LogRecord<S>) {
        match record {
            LogRecord::Reserved(tick) => self.reserved = self.reserved.max(*tick),
            LogRecord::ReservedEpochs(epoch) => {
                self.reserved_epochs = self.reserved_epochs.max(*epoch);
            }
            LogRecord::Start { split, start, stop } => {
                match stop {
                    Some(stop) => self.stops.insert(split.clone(), *stop),
                    None => self.stops.remove(split),
                };
                let before = self.durable.insert(split.clone(), *start);
                assert_eq!(before, None, "I8: {split} starts twice");
                self.next.insert(split.clone(), *start);
            }
            LogRecord::End { split, end } => {
                match end {
                    Some(end) => self.ends.insert(split.clone(), *end),
                    None => self.ends.remove(split),
                };
            }
            LogRecord::Binding(binding) => self.binding(binding),
            LogRecord::Readmitted(split) => {
                self.durably_quarantined.remove(split);
            }
            LogRecord::Forgotten(split) => {
                self.durable.remove(split);
                self.ends.remove(split);
                self.durably_quarantined.remove(split);
                self.durably_paused.remove(split);
            }
            LogRecord::Paused(split) => {
                self.durably_paused.insert(split.clone());
            }
            LogRecord::Resumed(split) => {
                self.durably_paused.remove(split);
            }
            LogRecord::Snapshot(snapshot) => self.snapshot(snapshot),
            _ => {}
        }
    }

    fn binding(&mut self, binding: &Binding<S>) {
        let tick = binding.tick;
        assert!(
            self.bound() < Some(tick) && tick <= self.reserved,
            "I8: tick {tick} is bound after {:?}, with ticks up to {} reserved",
            self.bound(),
            self.reserved
        );
        self.bound = Some(tick);
        let mut emitted = self.emitted.remove(&tick).unwrap_or_default();
        for error in self.failed.get(&tick).into_iter().flatten() {
            let Aftermath::Skipped(to) = error.then else {
                continue;
            };
            // It is the end of what was emitted, and what comes next comes after it.
            let range = emitted.entry(error.split.clone());
            range.or_insert((error.position, to)).1 = to;
            let next = self.next.insert(error.split.clone(), to);
            assert_eq!(next, Some(error.position), "I2: {} skips", error.split);
        }
        let mut bound = BTreeMap::new();
        for range in &binding.ranges {
            let before = bound.insert(range.split.clone(), (range.from, range.to));
            assert_eq!(before, None, "I8: {} twice at tick {tick}", range.split);
            let skips = |error: &SplitError<S>| {
                error.split == range.split && matches!(error.then, Aftermath::Skipped(_))
            };
            let end = self.ends.get(&range.split);
            assert!(
                end.is_none_or(|end| range.to <= *end) || binding.errors.iter().any(skips),
                "S29: {} is bound up to {} at tick {tick}, and drained to {end:?}",
                range.split,
                range.to
            );
            let position = self.durable.get_mut(&range.split);
            assert_eq!(
                position.as_deref(),
                Some(&range.from),
                "I8: the ranges of {} join",
                range.split
            );
            position
                .into_iter()
                .for_each(|position| *position = range.to);
        }
        assert_eq!(bound, emitted, "I8: tick {tick} is bound as it was emitted");
        let older = self.emitted.keys().next().filter(|older| **older < tick);
        assert_eq!(older, None, "I8: {tick} is bound before an older tick");
        let mut failed = self.failed.remove(&tick).unwrap_or_default();
        failed.sort();
        assert_eq!(binding.errors, failed, "I8: the errors of tick {tick}");
        let stays = |error: &&SplitError<S>| error.then == Aftermath::Stays;
        let stay = failed.iter().filter(stays).map(|error| error.split.clone());
        self.durably_quarantined.extend(stay);
        for error in &failed {
            if let Aftermath::StartedOver { split, start, stop } = &error.then {
                self.started_over(&error.split, split, *start, *stop);
            }
        }
    }

    /// A split is read as another one.
    fn started_over(&mut self, split: &S, other: &S, start: u64, stop: Option<u64>) {
        let before = self.durable.insert(other.clone(), start);
        assert_eq!(before, None, "I8: {other} starts twice");
        self.next.insert(other.clone(), start);
        let stopped = self.stops.remove(split).is_some();
        assert_eq!(stopped, stop.is_some(), "I8: the stop of {other}");
        if let Some(stop) = stop {
            self.stops.insert(other.clone(), stop);
        }
        self.ends.remove(split);
        self.durable.remove(split);
        self.next.remove(split);
        self.quarantined.remove(split);
        self.durably_quarantined.remove(split);
        self.durably_paused.remove(split);
    }

    fn snapshot(&mut self, snapshot: &Snapshot<S>) {
        let splits: BTreeMap<_, _> = (snapshot.splits.iter())
            .map(|one| (one.split.clone(), one.position))
            .collect();
        assert_eq!(
            splits.len(),
            snapshot.splits.len(),
            "I8: a split is in a snapshot twice"
        );
        assert_eq!(splits, self.durable, "I8: a snapshot has every split");
        let quarantined = snapshot.splits.iter().filter(|one| one.quarantined);
        let quarantined: BTreeSet<_> = quarantined.map(|one| one.split.clone()).collect();
        assert_eq!(
            quarantined, self.durably_quarantined,
            "I8: a snapshot has what is quarantined"
        );
        let ends = snapshot.splits.iter();
        let ends: BTreeMap<_, _> = ends
            .filter_map(|one| Some((one.split.clone(), one.end?)))
            .collect();
        assert_eq!(ends, self.ends, "I8: a snapshot has where splits end");
        let paused = snapshot.splits.iter().filter(|one| one.paused);
        let paused: BTreeSet<_> = paused.map(|one| one.split.clone()).collect();
        assert_eq!(
            paused, self.durably_paused,
            "I8: a snapshot has what is paused"
        );
        assert_eq!(
            (snapshot.reserved, snapshot.split_epochs),
            (self.reserved, self.reserved_epochs),
            "I8: a snapshot has the ticks and the split epochs of the log"
        );
        // Ticks may pass while it is written.
        assert!(
            self.bound <= snapshot.bound && snapshot.bound <= self.bound(),
            "I8: a snapshot is as of {:?}, the log as of {:?}, and the frontier of {:?}",
            snapshot.bound,
            self.bound,
            self.bound()
        );
        self.bound = snapshot.bound;
    }

    /// The run ended without warning. What is not in the log is forgotten.
    pub(crate) fn crashed(&mut self) {
        self.next.clone_from(&self.durable);
        self.quarantined.clone_from(&self.durably_quarantined);
        self.emitted.clear();
        self.failed.clear();
        self.passed = None;
        self.assigned_before = self.assigned;
    }
}
