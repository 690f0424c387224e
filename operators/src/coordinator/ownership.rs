//! Who has a split.

use crate::epoch::{ReaderId, RequestId, SplitEpoch};
use crate::split::Split;

/// What the coordinator knows of one split.
#[derive(Debug)]
pub(super) struct Entry<S: Split> {
    pub(super) ownership: Ownership<S>,
    /// The epoch of the last assignment.
    pub(super) split_epoch: SplitEpoch,
    /// What the split was when it was last found.
    pub(super) identity: S::Identity,
}

/// Who has a split.
///
/// One value a split, so that no split can have two owners. Whether it is wanted is not in here: the
/// metadata says that.
#[derive(Debug)]
pub(super) enum Ownership<S: Split> {
    /// Nobody: the discovery was asked where its reading starts.
    Resolving(RequestId),
    /// Nobody: where its reading starts is not durable.
    Recording(S::Position),
    /// Nobody. It can be assigned at this position when the metadata lists it, and is kept at it
    /// when not.
    Idle(S::Position),
    /// A reader, which was told to read it.
    Assigned(ReaderId),
    /// A reader, which was told to release it and has not answered.
    Releasing(ReaderId),
    /// Nobody: it failed at this position in a way that lasts.
    Quarantined(S::Position),
}

impl<S: Split> Ownership<S> {
    /// The reader that may still emit for the split.
    pub(super) fn reader(&self) -> Option<ReaderId> {
        match self {
            Self::Assigned(reader) | Self::Releasing(reader) => Some(*reader),
            Self::Resolving(_) | Self::Recording(_) | Self::Idle(_) | Self::Quarantined(_) => None,
        }
    }
}
