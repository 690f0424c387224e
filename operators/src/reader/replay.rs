//! Ticks that were bound before and are given again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::action::ReaderAction;
use super::state::ReaderState;
use crate::fetcher::Piece;
use crate::protocol::{Replay, ReplaySplit, Report};
use crate::split::Split;
use crate::tick::Tick;

/// What a reader has to give again.
///
/// # Invariants
///
/// * What is emitted of a split before one of its `ends` is emitted at the tick of that end, and
///   nothing is emitted behind the last of them.
/// * `pending` has the tick of every end that was not reached.
#[derive(Clone, Debug, Hash)]
pub(super) struct Replaying<S: Split> {
    /// The ticks that the frontier has not passed, as far as they are known.
    ticks: VecDeque<Tick>,
    /// All ticks to be given again that are before this one are known.
    known_before: Tick,
    ends: BTreeMap<S, VecDeque<(Tick, S::Position)>>,
    pending: BTreeSet<(Tick, S)>,
    /// Splits that are held and that the fetcher does not read, since it is not known how far.
    pub(super) waiting: BTreeSet<S>,
    reported: Tick,
}

impl<S: Split> Replaying<S> {
    fn new(from: Tick) -> Self {
        Self {
            ticks: VecDeque::new(),
            known_before: from,
            ends: BTreeMap::new(),
            pending: BTreeSet::new(),
            waiting: BTreeSet::new(),
            reported: from,
        }
    }

    /// The tick before which everything was emitted.
    fn done_before(&self) -> Tick {
        let pending = self.pending.first().map(|(tick, _)| *tick);
        pending.unwrap_or(self.known_before)
    }
}

impl<S: Split, B> ReaderState<S, B> {
    /// Whether ticks that were bound before are given again.
    pub fn is_replaying(&self) -> bool {
        self.replaying.is_some()
    }

    /// Whether ticks are given again and a split is being read for it.
    pub(super) fn is_fetched_for_replay(&self, split: &S) -> bool {
        let replaying = self.replaying.as_ref();
        replaying.is_some_and(|replaying| !replaying.waiting.contains(split))
    }

    pub(super) fn begin_replay(&mut self, from: Tick) {
        self.replaying = Some(Replaying::new(from));
        self.actions.push_back(ReaderAction::Downgrade(from));
    }

    /// Learns how far to read.
    pub(super) fn replay(&mut self, replay: Replay<S>, now: Duration) {
        let Some(replaying) = &mut self.replaying else {
            self.ignored += 1;
            return;
        };
        if let Some(last) = replay.ticks.last() {
            replaying.known_before = Tick(last.0.saturating_add(1));
        }
        replaying.ticks.extend(replay.ticks);
        for ReplaySplit {
            split,
            split_epoch,
            ends,
        } in replay.splits
        {
            let held = self.held.get_mut(&split);
            let Some(held) = held.filter(|held| held.split_epoch == split_epoch) else {
                self.ignored += 1;
                continue;
            };
            let pending = ends.iter().map(|(tick, _)| (*tick, split.clone()));
            replaying.pending.extend(pending);
            replaying
                .ends
                .entry(split.clone())
                .or_default()
                .extend(ends);
            if replaying.waiting.remove(&split) {
                held.moved_at = self.full.reading_time(now);
                self.actions
                    .push_back(ReaderAction::Fetch(split, split_epoch, held.next.clone()));
            }
        }
        for (tick, error) in replay.errors {
            self.actions.push_back(ReaderAction::EmitAt(tick, error));
        }
        self.report_replayed();
    }

    /// Tells the enumerator how far everything was emitted, if that is further than before.
    pub fn report_replayed(&mut self) {
        if let Some(replaying) = &mut self.replaying
            && replaying.done_before() > replaying.reported
        {
            let before = replaying.done_before();
            replaying.reported = before;
            let reader = self.id;
            let report = Report::Replayed { reader, before };
            self.actions.push_back(ReaderAction::Report(report));
        }
    }

    /// The frontier may pass `tick`.
    pub(super) fn replay_durable(&mut self, tick: Tick) {
        let next = Tick(tick.0.saturating_add(1));
        if let Some(replaying) = &mut self.replaying {
            while replaying.ticks.front().is_some_and(|known| *known <= tick) {
                replaying.ticks.pop_front();
            }
        }
        self.actions.push_back(ReaderAction::Downgrade(next));
    }

    /// What was held back until here is read on.
    pub(super) fn end_replay(&mut self, now: Duration) {
        let Some(replaying) = self.replaying.take() else {
            return;
        };
        for split in replaying.waiting {
            if let Some(held) = self.held.get_mut(&split) {
                held.moved_at = self.full.reading_time(now);
            }
            self.resume(&split);
        }
    }

    /// A split is not held any more. What of it was not given stays pending, so that no frontier passes
    /// it.
    pub(super) fn stop_replay_of(&mut self, split: &S) {
        if let Some(replaying) = &mut self.replaying {
            replaying.waiting.remove(split);
        }
    }

    /// Where the next piece of a split is to be cut, each with the tick of what is before it: nothing
    /// of what is behind the last of them may be emitted yet.
    ///
    /// With `only_oldest` nothing is emitted that the frontier does not wait for.
    pub fn cuts(&self, piece: &Piece<S, B>, only_oldest: bool) -> Vec<(Tick, S::Position)> {
        let Some(replaying) = &self.replaying else {
            return Vec::new();
        };
        let ends = replaying.ends.get(&piece.split).into_iter().flatten();
        let mut cuts = Vec::new();
        for (tick, end) in ends {
            if only_oldest && replaying.ticks.front() != Some(tick) {
                break;
            }
            cuts.push((*tick, end.clone().min(piece.end.clone())));
            if *end >= piece.end {
                break;
            }
        }
        cuts
    }

    /// A part of a piece that is the next of its split was emitted, up to `end`.
    pub fn replayed(&mut self, split: &S, end: &S::Position, now: Duration) {
        let Some(held) = self.held.get_mut(split) else {
            return;
        };
        held.next = end.clone();
        held.failures = 0;
        held.crashes = 0;
        held.moved_at = self.full.reading_time(now);
        let Some(replaying) = &mut self.replaying else {
            return;
        };
        if let Some(ends) = replaying.ends.get_mut(split) {
            while let Some((tick, _)) = ends.front().filter(|(_, at)| *at <= *end) {
                replaying.pending.remove(&(*tick, split.clone()));
                ends.pop_front();
            }
        }
        self.finish(split);
    }
}
