//! What is no longer there, and what is done about it.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::split::Split;

/// What is done about a split whose next records are no longer there.
///
/// | policy | records are gone | it was cut off | it was created again |
/// | --- | --- | --- | --- |
/// | `Fail` | an error; the split stays at its position until it is readmitted | the same | the same |
/// | `Skip` | an error with the lost range; read on from the first record that is left | an error; started over where it was cut off | an error; started over from its beginning |
/// | `Restart` | as `Skip`, since what is left begins there | an error; started over from its beginning | an error; started over from its beginning |
/// | `Wait` | health; looked at again and again until the position can be read, or it is readmitted | the same | the same |
///
/// A split that is *started over* goes on as [another split](Split::started_over), since its positions
/// are used again. One that cannot be, or that was cut off nobody knows where, fails.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum LossPolicy {
    /// It stays at its position, and the rest goes on.
    #[default]
    Fail,
    /// It goes on with what is there, after an error that says what is not.
    Skip,
    /// It is read from the beginning of what is there.
    Restart,
    /// It is not read until it is there again.
    Wait,
}

impl LossPolicy {
    /// All of them, with their names.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("fail", Self::Fail),
        ("skip", Self::Skip),
        ("restart", Self::Restart),
        ("wait", Self::Wait),
    ];
}

impl Display for LossPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = Self::NAMED.iter();
        let name = named.find(|(_, policy)| policy == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// What a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LossKind {
    /// Records of the split are gone, before or behind its position.
    Records,
    /// The split is another one of the same name.
    Recreated,
}

/// A policy for each kind of loss.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LossPolicies {
    /// For records that are gone.
    pub records: LossPolicy,
    /// For splits that are others of the same name.
    pub recreated: LossPolicy,
}

impl LossPolicies {
    /// The policy for `kind`.
    #[must_use]
    pub fn of(self, kind: LossKind) -> LossPolicy {
        match kind {
            LossKind::Records => self.records,
            LossKind::Recreated => self.recreated,
        }
    }
}

/// How a fetcher knows that it can read a split no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LossCause<P> {
    /// There is nothing at the position: the discovery is asked what there is.
    OutOfRange,
    /// The split was cut off before the position; where, if that is known. What is there from that
    /// place on was not read.
    Truncated(Option<P>),
}

/// What comes after a definite error about a split.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Aftermath<S: Split> {
    /// The split is not read on.
    Stays,
    /// The split is read on from this position: what is before it is lost.
    Skipped(S::Position),
    /// What has taken the place of the split is read as another one.
    StartedOver {
        /// The other one.
        split: S,
        /// The position of the first record of it to read.
        start: S::Position,
        /// Where its reading stops, if the one before stops: that one's stop may mean nothing here.
        stop: Option<S::Position>,
    },
}

/// What there is of a split, as the discovery found it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Remains<S: Split> {
    /// What the split is; `None` if nobody can tell.
    pub identity: Option<S::Identity>,
    /// The position of the first record that is there.
    pub first: S::Position,
    /// The position after the last one.
    pub end: S::Position,
}
