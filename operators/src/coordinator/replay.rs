//! Gives ticks that were bound before again.
//!
//! All splits that have records in them are assigned and stay where they are; readers learn piece by
//! piece which positions end which tick, and say how far they are. The frontier passes a tick once
//! every reader is beyond it: its binding has been durable for long. Metadata that changes meanwhile
//! waits for the end, since what it does not list could not be given again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::ownership::Ownership;
use super::restore::ReplayRange;
use super::{Coordinator, Intention, Phase};
use crate::assignor::Assignor;
use crate::binding::{Binding, SplitRange};
use crate::discovery::DiscoveryRequest;
use crate::epoch::{ReaderId, RequestId, SplitEpoch};
use crate::event::SourceEvent;
use crate::loss::Aftermath;
use crate::protocol::{Directive, Replay, ReplaySplit};
use crate::split::{Metadata, Split};
use crate::tick::Tick;

/// As long as fewer ticks are known that are not over, more are asked for.
const KNOWN_MIN: usize = 512;

/// How many splits a person is told that cannot be read.
const NAMED_MAX: usize = 5;

/// Ticks that are being given again.
#[derive(Clone, Debug, Hash)]
pub(super) struct Replaying<S: Split> {
    range: ReplayRange<S>,
    stage: Stage,
    /// Known and not over, oldest first.
    known: VecDeque<Binding<S>>,
    /// How far each reader is: everything before the tick was emitted.
    done: BTreeMap<ReaderId, Tick>,
    /// Splits that a person has paused: they are given again, and not read after that.
    paused: BTreeSet<S>,
    /// The last answer of the metadata service, which waits.
    answered: Option<S::Metadata>,
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The metadata has to be known, and then the ranges checked.
    Unchecked,
    /// The discovery was asked whether all can be read.
    Checking(RequestId),
    /// Readers are to have what they need.
    Assigning,
    /// The log was asked for more.
    Asking,
    /// Enough is known for now.
    Giving,
    /// All there is is known.
    Ending,
}

impl<S: Split> Replaying<S> {
    pub(super) fn new(range: ReplayRange<S>) -> Self {
        Self {
            range,
            stage: Stage::Unchecked,
            known: VecDeque::new(),
            done: BTreeMap::new(),
            paused: BTreeSet::new(),
            answered: None,
        }
    }

    /// Has a split paused at the end that is paused.
    pub(super) fn pause_after(&mut self, split: S) {
        self.paused.insert(split);
    }

    /// Whether a split at `position` has records to give again.
    pub(super) fn moves(&self, split: &S, position: &S::Position) -> bool {
        self.range
            .ends
            .get(split)
            .is_some_and(|end| end != position)
    }
}

impl<S: Split, A: Assignor<S>> Coordinator<S, A> {
    /// Begins to give ticks again.
    pub(super) fn begin_replay(&mut self, now: Duration) {
        let Some(replaying) = &self.replaying else {
            return;
        };
        let from = replaying.range.from;
        self.phase = Phase::Replaying;
        self.tell(SourceEvent::Started {
            readers: self.options.readers,
        });
        self.broadcast_metadata();
        self.intentions.push_back(Intention::Open(from));
        self.broadcast(&Directive::BeginReplay(from));
        self.planning.trigger_whole(now);
    }

    /// Goes on giving ticks again, as far as that is possible.
    pub(super) fn replay(&mut self, now: Duration) {
        let Some(stage) = self.replaying.as_ref().map(|replaying| replaying.stage) else {
            return;
        };
        match stage {
            Stage::Unchecked if self.metadata.is_some() => self.check_ranges(now),
            Stage::Assigning if self.all_assigned() => self.ask_past(),
            Stage::Giving if self.known_ticks() < KNOWN_MIN => self.ask_past(),
            Stage::Ending if self.known_ticks() == 0 => self.end_replay(now),
            Stage::Unchecked
            | Stage::Checking(_)
            | Stage::Assigning
            | Stage::Asking
            | Stage::Giving
            | Stage::Ending => {}
        }
    }

    fn known_ticks(&self) -> usize {
        self.replaying
            .as_ref()
            .map_or(0, |replaying| replaying.known.len())
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(replaying) = &mut self.replaying {
            replaying.stage = stage;
        }
    }

    fn ask_past(&mut self) {
        self.set_stage(Stage::Asking);
        self.intentions.push_back(Intention::AskPast);
    }

    /// The splits that have records to give again, with where these begin and end.
    pub(super) fn moving(&self) -> impl Iterator<Item = (&S, &S::Position, &S::Position)> {
        let ends = self.replaying.iter().flat_map(|one| &one.range.ends);
        ends.filter_map(|(split, to)| {
            let from = self.bound.get(split).filter(|from| *from != to)?;
            Some((split, from, to))
        })
    }

    /// Finds out whether everything can be read, before anything is.
    fn check_ranges(&mut self, now: Duration) {
        let ranges = self.moving().map(|(split, from, to)| SplitRange {
            split: split.clone(),
            from: from.clone(),
            to: to.clone(),
        });
        let ranges: Vec<_> = ranges.collect();
        let listed = |range: &&SplitRange<S>| {
            (self.metadata.as_ref()).is_some_and(|metadata| metadata.lists(&range.split))
        };
        let unlisted = ranges.iter().filter(|range| !listed(range));
        let unlisted: Vec<_> = unlisted
            .map(|range| (range.clone(), "the metadata does not list it".to_owned()))
            .collect();
        if !unlisted.is_empty() {
            self.refuse_replay(&unlisted);
            return;
        }
        if ranges.is_empty() {
            self.set_stage(Stage::Assigning);
            return self.replay(now);
        }
        let request = self.next_request();
        self.set_stage(Stage::Checking(request));
        let check = DiscoveryRequest::Check { request, ranges };
        self.intentions.push_back(Intention::Ask(check));
    }

    /// The discovery knows what cannot be read.
    pub(super) fn checked(&mut self, request: RequestId, lost: &[(SplitRange<S>, String)]) {
        let stage = self.replaying.as_ref().map(|replaying| replaying.stage);
        if stage != Some(Stage::Checking(request)) {
            self.ignored += 1;
        } else if lost.is_empty() {
            self.set_stage(Stage::Assigning);
        } else {
            self.refuse_replay(lost);
        }
    }

    fn refuse_replay(&mut self, lost: &[(SplitRange<S>, String)]) {
        let name = |(range, why): &(SplitRange<S>, String)| {
            format!("split {}, {}..{}: {why}", range.split, range.from, range.to)
        };
        let named: Vec<_> = lost.iter().take(NAMED_MAX).map(name).collect();
        let more = match lost.len() - named.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let why = format!(
            "ticks cannot be replayed, since not all of their records can be read: {}{more}",
            named.join("; ")
        );
        self.wedge("source", why);
    }

    /// Whether every split that has records to give again is with a reader.
    fn all_assigned(&self) -> bool {
        self.moving().all(|(split, _, _)| {
            let entry = self.splits.get(split);
            entry.is_some_and(|entry| matches!(entry.ownership, Ownership::Assigned(_)))
        })
    }

    /// The next bindings to be given again came from the log.
    pub(super) fn past(&mut self, bindings: Vec<Binding<S>>) {
        if self.replaying.as_ref().map(|replaying| replaying.stage) != Some(Stage::Asking) {
            return;
        }
        if bindings.is_empty() {
            self.set_stage(Stage::Ending);
            return;
        }
        let ticks: Vec<_> = bindings.iter().map(|binding| binding.tick).collect();
        let mut readers = BTreeMap::new();
        for id in self.readers.keys() {
            let replay = Replay {
                ticks: ticks.clone(),
                splits: Vec::new(),
                errors: Vec::new(),
            };
            readers.insert(*id, replay);
        }
        let all = match self.ends_of(&bindings) {
            Ok(all) => all,
            Err(why) => return self.wedge("binding log", why),
        };
        for ((reader, split, split_epoch), ends) in all {
            if let Some(replay) = readers.get_mut(&reader) {
                replay.splits.push(ReplaySplit {
                    split,
                    split_epoch,
                    ends,
                });
            }
        }
        // Whoever emits an error: it is of the tick, and no reader has the split any more.
        if let Some(mut first) = readers.first_entry() {
            let errors = bindings.iter().flat_map(|binding| {
                let errors = binding.errors.iter();
                errors.map(|error| (binding.tick, error.clone()))
            });
            first.get_mut().errors.extend(errors);
        }
        for (reader, replay) in readers {
            let directive = Directive::Replay(replay);
            self.intentions
                .push_back(Intention::Send(reader, directive));
        }
        if let Some(replaying) = &mut self.replaying {
            replaying.known.extend(bindings);
            replaying.stage = Stage::Giving;
        }
    }

    /// Where each split ends in each of these ticks, by who reads it.
    fn ends_of(&mut self, bindings: &[Binding<S>]) -> Result<Ends<S>, String> {
        let mut ends = Ends::new();
        for binding in bindings {
            for range in &binding.ranges {
                let split = &range.split;
                let skipped = binding.errors.iter().find_map(|error| match &error.then {
                    Aftermath::Skipped(to) if error.split == *split => Some((&error.position, to)),
                    Aftermath::Skipped(_) | Aftermath::Stays | Aftermath::StartedOver { .. } => {
                        None
                    }
                });
                let position = self.bound.get_mut(split);
                if let (Some(position), Some((from, to))) = (&position, skipped)
                    && **position == *to
                    && range.from == *from
                {
                    // Nothing of it comes before what is lost, so it began behind that.
                    continue;
                }
                let Some(position) = position.filter(|position| **position == range.from) else {
                    return Err(format!(
                        "split {split}: tick {} does not go on where the one before it ended",
                        binding.tick
                    ));
                };
                *position = range.to.clone();
                let entry = self.splits.get(split);
                let Some((reader, split_epoch)) =
                    entry.and_then(|entry| Some((entry.ownership.reader()?, entry.split_epoch)))
                else {
                    return Err(format!("split {split}: no reader has it"));
                };
                ends.entry((reader, split.clone(), split_epoch))
                    .or_default()
                    .push((binding.tick, range.to.clone()));
            }
        }
        Ok(ends)
    }

    /// A reader has emitted everything before a tick.
    pub(super) fn replayed(&mut self, reader: ReaderId, before: Tick) {
        let readers = self.readers.len();
        let replaying = self.replaying.as_mut();
        let Some(replaying) = replaying.filter(|_| self.phase == Phase::Replaying) else {
            self.ignored += 1;
            return;
        };
        replaying.done.insert(reader, before);
        if replaying.done.len() < readers {
            return;
        }
        let done = replaying.done.values().min().copied().unwrap_or_default();
        let over = replaying
            .known
            .partition_point(|binding| binding.tick < done);
        let over: Vec<_> = replaying.known.drain(..over).collect();
        let Some(last) = over.last().map(|binding| binding.tick) else {
            return;
        };
        for binding in over {
            let tick = binding.tick;
            self.tell(SourceEvent::Bound {
                tick,
                splits: binding.ranges.len(),
            });
            let next = Some(Tick(tick.0.saturating_add(1)));
            self.intentions
                .push_back(Intention::Publish { binding, next });
        }
        self.broadcast(&Directive::Durable(last));
    }

    /// Metadata waits until the replay is over; false if there is none.
    pub(super) fn hold_metadata(&mut self, metadata: &S::Metadata) -> bool {
        match &mut self.replaying {
            Some(replaying) if self.metadata.is_some() => {
                replaying.answered = Some(metadata.clone());
                true
            }
            Some(_) | None => false,
        }
    }

    /// All was given again: what came later is read.
    fn end_replay(&mut self, now: Duration) {
        let Some(replaying) = self.replaying.take() else {
            return;
        };
        // What is quarantined or paused by now was read for the last time, before any tick opens.
        let quarantined = self.quarantined.iter().map(|split| (split.clone(), true));
        let paused = replaying.paused.into_iter().map(|split| (split, false));
        for (split, barred) in quarantined.chain(paused).collect::<Vec<_>>() {
            let Some(entry) = self.splits.get_mut(&split) else {
                continue;
            };
            entry.paused |= !barred;
            if let Some(reader) = entry.ownership.reader() {
                entry.barred |= barred;
                entry.ownership = Ownership::Releasing(reader);
                let split_epoch = entry.split_epoch;
                self.revoke(reader, split, split_epoch, now);
            }
        }
        // What changed meanwhile takes effect now.
        for split in self.splits.keys() {
            self.planning.reconsider_later(split);
        }
        self.phase = Phase::Reserving;
        self.after_replay = replaying.answered;
    }
}

/// By reader, split and split epoch: the end of the split in each tick.
type Ends<S> = BTreeMap<(ReaderId, S, SplitEpoch), Vec<(Tick, <S as Split>::Position)>>;
