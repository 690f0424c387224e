//! Who has a split.

use std::time::Duration;

use super::Awaited;
use super::draining::Leaving;
use super::loss::Loss;
use crate::assignor::SplitLoad;
use crate::discovery::Appeared;
use crate::epoch::{ReaderId, RequestId, SplitEpoch};
use crate::explain::{OriginKind, Story};
use crate::split::Split;
use crate::tick::Tick;

/// What the coordinator knows of one split.
#[derive(Clone, Debug, Hash)]
pub(super) struct Entry<S: Split> {
    pub(super) ownership: Ownership<S>,
    /// The epoch of the last assignment.
    pub(super) split_epoch: SplitEpoch,
    /// What the split is, as far as it was ever found.
    pub(super) identity: Option<S::Identity>,
    /// What was found in its place, if that is another one of the same name and nobody has readmitted
    /// it.
    pub(super) replaced_by: Option<S::Identity>,
    /// What is known of its next records, if they are no longer there.
    pub(super) loss: Option<Loss<S>>,
    /// Where and when it was last noticed that they are not.
    pub(super) lost_at: Option<(S::Position, Duration)>,
    /// Whether the discovery has found it in this run, since the metadata lists it: before that, what is
    /// there under its name may be another one.
    pub(super) verified: bool,
    /// Where it can be read from: the best place first.
    pub(super) racks: Vec<String>,
    /// Where its rule has its reading stop, if it does. Nothing at this position or past it is read.
    pub(super) stop: Option<S::Position>,
    /// How far it is drained, if it leaves.
    pub(super) leaving: Option<Leaving<S::Position>>,
    /// Whether the metadata lists it.
    pub(super) listed: bool,
    /// When the metadata stopped to list it, if it does not.
    pub(super) unlisted_since: Option<Tick>,
    /// Whether the discovery has found that it does not exist any more.
    pub(super) gone: bool,
    /// Whether it is to be read from its start again, as soon as all that was read of it is bound.
    pub(super) reads_again: bool,
    /// Whether it is quarantined as soon as who has it has released it.
    pub(super) barred: bool,
    /// Whether a person asked that it be not read for now.
    pub(super) paused: bool,
    /// Beside what it appeared.
    pub(super) appeared: Appeared,
    /// The rule by which its start was found, in words; empty unless the start is being recorded.
    pub(super) rule: String,
    /// What is awaited of it, and by when.
    pub(super) awaited: Option<(Duration, Awaited)>,
    /// The reader that it may be taken for from the one that has it: that one is prepared, or took too
    /// long.
    pub(super) prepared: Option<ReaderId>,
    /// What was told of why it is not read, if it fails.
    pub(super) failing: Option<String>,
    pub(super) load: SplitLoad,
    /// What is told of it.
    pub(super) story: Story<S>,
    /// The bytes that were emitted since the load was last taken.
    pub(super) emitted: u64,
}

/// Who has a split.
///
/// One value a split, so that no split can have two owners. Whether it is wanted is not in here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ownership<S: Split> {
    /// Nobody: the discovery was asked where its reading starts.
    Resolving(RequestId),
    /// Nobody: where its reading starts is not durable.
    Recording(S::Position),
    /// Nobody. It can be assigned at `next` when it is wanted, and is kept at it when not, since
    /// `since`.
    Idle { next: S::Position, since: Duration },
    /// A reader, which was told to read it.
    Assigned(ReaderId),
    /// A reader, which was told to release it and has not answered.
    Releasing(ReaderId),
    /// Nobody: it failed at `next` in a way that lasts. It is kept at it like one that is idle.
    Quarantined { next: S::Position, since: Duration },
    /// Nobody: it was read to its stop, or starts there. It is kept at it like one that is idle.
    Finished { next: S::Position, since: Duration },
}

impl<S: Split> Entry<S> {
    /// A split that was just found, and about whose start the discovery is asked. It is assigned above
    /// `split_epoch`.
    pub(super) fn found(request: RequestId, split_epoch: SplitEpoch) -> Self {
        Self {
            ownership: Ownership::Resolving(request),
            split_epoch,
            identity: None,
            replaced_by: None,
            loss: None,
            lost_at: None,
            verified: false,
            racks: Vec::new(),
            stop: None,
            leaving: None,
            listed: true,
            unlisted_since: None,
            gone: false,
            reads_again: false,
            barred: false,
            paused: false,
            appeared: Appeared::AtFirst,
            rule: String::new(),
            awaited: None,
            prepared: None,
            failing: None,
            load: SplitLoad::default(),
            story: Story::new(),
            emitted: 0,
        }
    }

    /// A split whose position is known from the log. It is assigned above `split_epoch`.
    pub(super) fn restored(
        stop: Option<S::Position>,
        listed: bool,
        split_epoch: SplitEpoch,
    ) -> Self {
        Self {
            stop,
            listed,
            ..Self::found(RequestId::default(), split_epoch)
        }
    }

    /// It is there again, at `at`: it goes on where it was kept, if nobody has it.
    pub(super) fn is_back(&mut self, at: Tick) {
        if let Some((next, _)) = self.ownership.kept() {
            let next = next.clone();
            self.story.goes_on(next, OriginKind::Kept, at);
        }
    }

    /// Whether it should be with a reader. Nothing that leaves should be if that is `cut`.
    pub(super) fn wanted(&self, cut: bool) -> bool {
        let meant = self.verified && self.replaced_by.is_none();
        let held = self.paused || self.barred || self.reads_again;
        let leaves = self
            .leaving
            .as_ref()
            .is_some_and(|leaving| cut || leaving.is_held());
        self.present() && meant && !held && !leaves
    }

    /// Where its reading stops by now: at its stop, or before that at the end that it is drained to.
    pub(super) fn stops_at(&self) -> Option<&S::Position> {
        let end = self.leaving.as_ref().and_then(Leaving::end);
        match (self.stop.as_ref(), end) {
            (Some(stop), Some(end)) if S::precedes(stop, end) => Some(stop),
            (stop, end) => end.or(stop),
        }
    }

    /// Whether nothing of it is to be read at `next`.
    pub(super) fn stops_by(&self, next: &S::Position) -> bool {
        self.stops_at().is_some_and(|stop| next >= stop)
    }

    /// Whether it is there, as far as metadata and discovery say.
    pub(super) fn present(&self) -> bool {
        self.listed && !self.gone
    }

    /// Who has it from `since` on if nobody reads it, and it is at `next`: it is finished if it stops
    /// there by now.
    pub(super) fn at_rest(&self, next: S::Position, since: Duration) -> Ownership<S> {
        if self.stops_by(&next) {
            Ownership::Finished { next, since }
        } else {
            Ownership::Idle { next, since }
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self.ownership, Ownership::Finished { .. })
    }

    pub(super) fn is_quarantined(&self) -> bool {
        matches!(self.ownership, Ownership::Quarantined { .. })
    }

    /// Whether the assignor may give it to a reader, now or once it is released. Nothing that leaves is given
    /// to one if that is `cut`.
    pub(super) fn assignable(&self, cut: bool) -> bool {
        self.wanted(cut)
            && match self.ownership {
                Ownership::Idle { .. } | Ownership::Assigned(_) | Ownership::Releasing(_) => true,
                Ownership::Resolving(_)
                | Ownership::Recording(_)
                | Ownership::Quarantined { .. }
                | Ownership::Finished { .. } => false,
            }
    }
}

impl<S: Split> Ownership<S> {
    /// The reader that may still emit for the split.
    pub(super) fn reader(&self) -> Option<ReaderId> {
        match self {
            Self::Assigned(reader) | Self::Releasing(reader) => Some(*reader),
            Self::Resolving(_)
            | Self::Recording(_)
            | Self::Idle { .. }
            | Self::Quarantined { .. }
            | Self::Finished { .. } => None,
        }
    }

    /// Where the split goes on and since when it is kept there, if nobody has it and its start is
    /// durable.
    pub(super) fn kept(&self) -> Option<(&S::Position, Duration)> {
        match self {
            Self::Idle { next, since }
            | Self::Quarantined { next, since }
            | Self::Finished { next, since } => Some((next, *since)),
            Self::Resolving(_) | Self::Recording(_) | Self::Assigned(_) | Self::Releasing(_) => {
                None
            }
        }
    }

    /// The split is kept from `now` on, however long it was nobody's before. Returns since when it
    /// was, if it was.
    pub(super) fn keep_from(&mut self, now: Duration) -> Option<Duration> {
        match self {
            Self::Idle { since, .. }
            | Self::Quarantined { since, .. }
            | Self::Finished { since, .. } => Some(std::mem::replace(since, now)),
            Self::Resolving(_) | Self::Recording(_) | Self::Assigned(_) | Self::Releasing(_) => {
                None
            }
        }
    }
}
