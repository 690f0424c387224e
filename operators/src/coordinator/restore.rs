//! What the records of a log come to.

use std::collections::BTreeMap;

use super::snapshot::{RestoreError, Snapshot};
use crate::binding::Binding;
use crate::defect::{self, Defect};
use crate::epoch::{Incarnation, MetadataEpoch, SplitEpoch};
use crate::log::LogRecord;
use crate::loss::Aftermath;
use crate::resume::Resume;
use crate::split::{Metadata, Split};
use crate::tick::Tick;

/// What a source starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restored<S: Split> {
    pub(super) incarnation: Incarnation,
    pub(super) reserved: Tick,
    /// The last split epoch that a run may have assigned.
    pub(super) split_epochs: SplitEpoch,
    /// The last bound tick that is in force.
    pub(super) bound: Option<Tick>,
    pub(super) metadata: Option<(MetadataEpoch, S::Metadata)>,
    /// What is in force after that, once all that this does not list is drained.
    pub(super) target: Option<S::Metadata>,
    /// The metadata that was in force first of all.
    pub(super) first: Option<S::Metadata>,
    pub(super) splits: BTreeMap<S, RestoredSplit<S>>,
    /// Whether the log has bindings that this makes void.
    pub(super) rewound: bool,
    /// What is to be given again, if anything is.
    pub(super) replay: Option<ReplayRange<S>>,
    /// Whether every split that a bounded source reads is among these.
    pub(super) all_found: bool,
}

impl<S: Split> Restored<S> {
    /// The last bound tick that is in force.
    pub(crate) fn bound(&self) -> Option<Tick> {
        self.bound
    }

    /// Whether the run goes back, and the log does not say so yet.
    pub(crate) fn goes_back(&self) -> bool {
        self.rewound
    }

    /// What splits are, as far as it is known.
    pub(crate) fn identities(&self) -> impl Iterator<Item = (&S, &S::Identity)> {
        let splits = self.splits.iter();
        splits.filter_map(|(split, one)| Some((split, one.identity.as_ref()?)))
    }

    /// Up to where splits are bound, those that are to be given again too.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (&S, &S::Position)> {
        let ends = self.replay.as_ref().map(|replay| &replay.ends);
        self.splits.iter().map(move |(split, restored)| {
            let end = ends.and_then(|ends| ends.get(split));
            (split, end.unwrap_or(&restored.position))
        })
    }
}

/// What a log says of one split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestoredSplit<S: Split> {
    pub(super) position: S::Position,
    pub(super) quarantined: bool,
    pub(super) paused: bool,
    pub(super) identity: Option<S::Identity>,
    pub(super) unlisted_since: Option<Tick>,
    pub(super) stop: Option<S::Position>,
    pub(super) end: Option<S::Position>,
}

impl<S: Split> RestoredSplit<S> {
    fn at(position: S::Position, stop: Option<S::Position>) -> Self {
        Self {
            stop,
            position,
            quarantined: false,
            paused: false,
            identity: None,
            unlisted_since: None,
            end: None,
        }
    }
}

/// Bound ticks that are to be given again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReplayRange<S: Split> {
    /// The first of them is at or after this one.
    pub(super) from: Tick,
    /// Where each split is after the last of them.
    pub(super) ends: BTreeMap<S, S::Position>,
}

/// Works the records of a log off, in their order, to what a source starts from.
#[derive(Clone, Debug)]
pub(crate) struct Restoration<S: Split> {
    resume: Resume,
    /// How many records were worked off.
    index: usize,
    /// What all of them come to.
    state: Restored<S>,
    /// What there was at the tick to start from, once a later one is bound.
    base: Option<Base<S>>,
    /// Splits that were forgotten after the base, with their position.
    forgotten: BTreeMap<S, S::Position>,
}

/// What there was at the tick to start from.
#[derive(Clone, Debug)]
struct Base<S: Split> {
    /// The last tick that was bound.
    bound: Option<Tick>,
    /// The splits, and those that started since.
    splits: BTreeMap<S, RestoredSplit<S>>,
}

impl<S: Split> Restoration<S> {
    pub(crate) fn new(resume: Resume) -> Self {
        Self {
            resume,
            index: 0,
            state: Restored {
                incarnation: Incarnation::default(),
                reserved: Tick::default(),
                split_epochs: SplitEpoch::default(),
                bound: None,
                metadata: None,
                target: None,
                first: None,
                splits: BTreeMap::new(),
                rewound: false,
                replay: None,
                all_found: false,
            },
            base: None,
            forgotten: BTreeMap::new(),
        }
    }

    /// Works off the next record.
    ///
    /// The first one may be a snapshot of a tick that is at or before the one to start from.
    pub(crate) fn apply(&mut self, record: &LogRecord<S>) -> Result<(), RestoreError> {
        let index = self.index;
        self.index += 1;
        let disorder = |what| RestoreError::Disorder { index, what };
        match record {
            LogRecord::Incarnation(incarnation) => {
                let before = self.state.incarnation;
                if *incarnation <= before {
                    let what = format!("incarnation {incarnation} comes after {before}");
                    return Err(disorder(what));
                }
                self.state.incarnation = *incarnation;
            }
            LogRecord::Reserved(tick) => {
                self.state.reserved = self.state.reserved.max(*tick);
            }
            LogRecord::ReservedEpochs(epoch) => {
                self.state.split_epochs = self.state.split_epochs.max(*epoch);
            }
            LogRecord::Metadata {
                epoch,
                metadata,
                target,
                at,
            } => {
                // The first version of the format did not say when.
                let at = Some(*at).filter(|at| at.0 > 0);
                for (split, one) in self.all_splits() {
                    one.unlisted_since = match one.unlisted_since {
                        _ if metadata.lists(split) => None,
                        before => before.or(at),
                    };
                }
                (self.state.first).get_or_insert_with(|| metadata.clone());
                self.state.metadata = Some((*epoch, metadata.clone()));
                self.state.target.clone_from(target);
            }
            LogRecord::Start { split, start, stop } => {
                let one = RestoredSplit::at(start.clone(), stop.clone());
                self.start(split, one, index)?;
            }
            LogRecord::End { split, end } => self.each(split, |one| one.end.clone_from(end)),
            LogRecord::AllFound => self.state.all_found = true,
            LogRecord::Identified { split, identity } => {
                self.each(split, |one| one.identity = Some(identity.clone()));
            }
            LogRecord::Binding(binding) => {
                self.bind(binding).map_err(disorder)?;
                self.start_over(binding)?;
            }
            LogRecord::Readmitted(split) => self.each(split, |one| one.quarantined = false),
            LogRecord::Forgotten(split) => {
                if let Some(one) = self.state.splits.remove(split)
                    && self.base.is_some()
                {
                    self.forgotten.insert(split.clone(), one.position);
                }
            }
            LogRecord::Paused(split) => {
                if !self.state.splits.contains_key(split) {
                    return Err(disorder(format!("split {split} is paused without a start")));
                }
                self.each(split, |one| one.paused = true);
            }
            LogRecord::Resumed(split) => self.each(split, |one| one.paused = false),
            LogRecord::Snapshot(snapshot) => self.snapshot(snapshot, index)?,
        }
        Ok(())
    }

    /// Every split, also those of the base.
    fn all_splits(&mut self) -> impl Iterator<Item = (&S, &mut RestoredSplit<S>)> {
        let base = self.base.iter_mut().flat_map(|base| &mut base.splits);
        self.state.splits.iter_mut().chain(base)
    }

    /// Does something to a split, also to that of the base.
    fn each(&mut self, split: &S, act: impl Fn(&mut RestoredSplit<S>)) {
        if let Some(one) = self.state.splits.get_mut(split) {
            act(one);
        }
        if let Some(base) = &mut self.base
            && let Some(one) = base.splits.get_mut(split)
        {
            act(one);
        }
    }

    fn start(
        &mut self,
        split: &S,
        one: RestoredSplit<S>,
        index: usize,
    ) -> Result<(), RestoreError> {
        if self
            .state
            .splits
            .insert(split.clone(), one.clone())
            .is_some()
        {
            let what = format!("split {split} starts twice");
            return Err(RestoreError::Disorder { index, what });
        }
        if let (Resume::Replay { from }, true) = (self.resume, self.forgotten.contains_key(split)) {
            let split = split.to_string();
            return Err(RestoreError::StartedAnew { split, from });
        }
        if let Some(base) = &mut self.base {
            base.splits.entry(split.clone()).or_insert(one);
        }
        Ok(())
    }

    fn bind(&mut self, binding: &Binding<S>) -> Result<(), String> {
        let (tick, state) = (binding.tick, &mut self.state);
        if state.bound.is_some_and(|bound| bound >= tick) || tick > state.reserved {
            return Err(format!(
                "tick {tick} is bound after {:?}, with ticks up to {} reserved",
                state.bound, state.reserved
            ));
        }
        if self.base.is_none() && self.resume.base().is_some_and(|base| tick > base) {
            self.base = Some(Base {
                bound: state.bound,
                splits: state.splits.clone(),
            });
        }
        state.bound = Some(tick);
        for range in &binding.ranges {
            match state.splits.get_mut(&range.split) {
                Some(one) if one.position == range.from => one.position = range.to.clone(),
                Some(one) => {
                    return Err(format!(
                        "split {} goes on at {}, but is at {}",
                        range.split, range.from, one.position
                    ));
                }
                None => return Err(format!("split {} has no start", range.split)),
            }
        }
        for error in &binding.errors {
            let Some(one) = state.splits.get_mut(&error.split) else {
                continue;
            };
            match &error.then {
                Aftermath::Stays => one.quarantined = true,
                Aftermath::Skipped(to) if matches!(self.resume, Resume::Replay { .. }) => {
                    // A run that gives the ticks since the base again cannot read what is lost. It begins
                    // behind it, if nothing before it is to be given again.
                    let base = self.base.as_mut();
                    let there = base.and_then(|base| base.splits.get_mut(&error.split));
                    if let Some(there) = there.filter(|there| there.position == error.position) {
                        there.position = to.clone();
                    }
                }
                Aftermath::Skipped(_) | Aftermath::StartedOver { .. } => {}
            }
        }
        Ok(())
    }

    /// Takes into account which splits start over with a binding.
    fn start_over(&mut self, binding: &Binding<S>) -> Result<(), RestoreError> {
        for error in &binding.errors {
            let Aftermath::StartedOver {
                split: other,
                start,
                stop,
            } = &error.then
            else {
                continue;
            };
            let Some(before) = self.state.splits.remove(&error.split) else {
                continue;
            };
            if let (Resume::Replay { from }, Some(_)) = (self.resume, &self.base) {
                return Err(RestoreError::StartedAnew {
                    split: error.split.to_string(),
                    from,
                });
            }
            // An earlier version left it the stop of the one before, and did not say so.
            let stop = stop.clone().or(before.stop);
            let mut one = RestoredSplit::at(start.clone(), stop);
            one.unlisted_since = before.unlisted_since;
            self.state.splits.insert(other.clone(), one);
        }
        Ok(())
    }

    fn snapshot(&mut self, snapshot: &Snapshot<S>, index: usize) -> Result<(), RestoreError> {
        let mut complete = Restored::of_snapshot(snapshot)?;
        // One of an older version has none.
        complete.split_epochs = complete.split_epochs.max(self.state.split_epochs);
        if index == 0 {
            if let (Some(base), Some(oldest)) = (self.resume.base(), complete.bound)
                && base < oldest
            {
                let asked = base;
                return Err(RestoreError::Compacted { asked, oldest });
            }
        } else if !snapshot.rewound
            && !complete.is_at(&self.state)
            && !defect::is(Defect::SnapshotBelieved)
        {
            let what = "it differs from what the records before it say".to_owned();
            return Err(RestoreError::Incomplete { what });
        }
        self.state = complete;
        Ok(())
    }

    /// What the records come to.
    pub(crate) fn finish(self) -> Result<Restored<S>, RestoreError> {
        let mut state = self.state;
        let asked = match self.resume {
            Resume::Continue | Resume::Fresh => None,
            Resume::At(tick) | Resume::Replay { from: tick } => Some(tick),
        };
        if let Some(asked) = asked.filter(|asked| *asked > state.reserved) {
            let reserved = state.reserved;
            return Err(RestoreError::Beyond { asked, reserved });
        }
        match (self.resume, self.base) {
            (Resume::Fresh, _) => {
                state.rewound = state.bound.is_some() || !state.splits.is_empty();
                (state.bound, state.first) = (None, None);
                // Nothing was read that could be drained.
                if let (Some((_, metadata)), Some(target)) =
                    (&mut state.metadata, state.target.take())
                {
                    *metadata = target;
                }
                state.splits.clear();
                state.all_found = false;
            }
            (Resume::At(_), Some(base)) => {
                state.rewound = true;
                state.bound = base.bound;
                state.splits = base.splits;
            }
            (Resume::Replay { from }, Some(Base { mut splits, .. })) => {
                let now = |split: &S| state.splits.get(split);
                for (split, one) in &mut splits {
                    one.quarantined = now(split).is_some_and(|now| now.quarantined);
                }
                let at = |(split, one): (&S, &RestoredSplit<S>)| {
                    let end = now(split).map(|now| now.position.clone());
                    let end = end.or_else(|| self.forgotten.get(split).cloned());
                    (split.clone(), end.unwrap_or_else(|| one.position.clone()))
                };
                let ends = splits.iter().map(at).collect();
                state.replay = Some(ReplayRange { from, ends });
                state.splits = splits;
            }
            (Resume::Continue | Resume::At(_) | Resume::Replay { .. }, _) => {}
        }
        Ok(state)
    }
}

impl<S: Split> Restored<S> {
    /// What `records` come to.
    pub(crate) fn of(records: &[LogRecord<S>], resume: Resume) -> Result<Self, RestoreError> {
        let mut restoration = Restoration::new(resume);
        for record in records {
            restoration.apply(record)?;
        }
        restoration.finish()
    }

    /// Whether the splits are where they are in `other`.
    fn is_at(&self, other: &Self) -> bool {
        let place = |(split, one): (&S, &RestoredSplit<S>)| {
            let flags = (one.quarantined, one.paused);
            let ends = (one.stop.clone(), one.end.clone());
            (split.clone(), one.position.clone(), ends, flags)
        };
        let (mine, theirs) = (self.splits.iter(), other.splits.iter());
        mine.map(place).eq(theirs.map(place))
    }
}
