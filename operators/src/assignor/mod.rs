//! Policies that pick a reader for each split.
//!
//! An [`Assignor`] sees all readers and splits at once and says who should read what. It moves
//! nothing: the coordinator does, one revoke and one assignment at a time.
//!
//! | by [name](by_name) | | looks at | and moves |
//! | --- | --- | --- | --- |
//! | `sticky-balanced`, the default | [`StickyBalanced`] | counts | the fewest that equal counts take |
//! | `load-aware` | [`LoadAware`] | bytes and lag | the most useful few a minute |
//! | `rack-aware` | [`RackAware`] | racks, within bounds of counts | what gets nearer by it |
//! | `static` | [`Static`] | the split's text | whatever the hash says |

mod fixed;
mod load;
mod named;
mod rack;
mod sticky;

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::epoch::ReaderId;
use crate::split::Split;

pub use self::fixed::Static;
pub use self::load::LoadAware;
pub use self::named::{NAMES, UnknownAssignor, by_name};
pub use self::rack::RackAware;
pub use self::sticky::StickyBalanced;

/// Picks a reader for each split.
///
/// # Contract
///
/// * **Total.** The plan names a reader of the situation for each of its splits. The readers are not
///   empty.
/// * **Pure.** It depends on the situation alone: the same one gives the same plan, whatever was
///   planned before, and in whatever order splits and readers were added.
/// * **Quick.** It takes O((N + M) log M) for N splits and M readers, or says otherwise.
pub trait Assignor<S: Split>: Send + 'static {
    /// Plans for a situation.
    fn plan(&self, situation: &Situation<'_, S>) -> Plan;

    /// Places `splits` splits that have no reader, given only how many each reader has, so that no
    /// other split has to move; `None` if that takes a plan.
    ///
    /// It also says, with no split to place, whether the rest can stay as it is. The default takes a
    /// plan for everything.
    fn place(
        &self,
        _readers: &[ReaderProfile],
        _held: &[usize],
        _splits: usize,
    ) -> Option<Vec<usize>> {
        None
    }

    /// How often to plan although nothing changed; `None`, the default, is never. Policies that look
    /// at loads need it: loads are taken only then. It is asked once, and the coordinator's
    /// options have precedence.
    fn plan_interval(&self) -> Option<Duration> {
        None
    }
}

impl<S: Split> Assignor<S> for Box<dyn Assignor<S>> {
    fn plan(&self, situation: &Situation<'_, S>) -> Plan {
        (**self).plan(situation)
    }

    fn place(
        &self,
        readers: &[ReaderProfile],
        held: &[usize],
        splits: usize,
    ) -> Option<Vec<usize>> {
        (**self).place(readers, held, splits)
    }

    fn plan_interval(&self) -> Option<Duration> {
        (**self).plan_interval()
    }
}

/// All that a plan may depend on.
#[derive(Clone, Debug)]
pub struct Situation<'a, S> {
    /// The readers that may have splits, in the order of their ids.
    pub readers: &'a [ReaderProfile],
    /// The splits to be read, in their order.
    pub splits: &'a [SplitProfile<'a, S>],
    /// How many splits were taken from a reader within the last minute.
    pub moved_lately: usize,
}

/// What is known of a reader.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReaderProfile {
    /// The reader.
    pub id: ReaderId,
    /// How much it can take, in proportion to the others.
    pub capacity: NonZeroU32,
    /// Where it runs, in the words of whoever names racks.
    pub rack: Option<String>,
}

/// What is known of a split.
#[derive(Clone, Debug)]
pub struct SplitProfile<'a, S> {
    /// The split.
    pub split: &'a S,
    /// The reader that has it, as an index into the situation's readers; `None` also if its reader
    /// may have none.
    pub owner: Option<usize>,
    /// What reading it takes.
    pub load: SplitLoad,
    /// Where it can be read from: the best place first.
    pub racks: &'a [String],
}

/// What reading a split takes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SplitLoad {
    /// Bytes emitted a second, lately.
    pub bytes_per_second: u64,
    /// How far it is behind its end, in steps of its position.
    pub lag: u64,
}

/// Who should read what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// For each split of the situation, an index into its readers.
    pub readers: Vec<usize>,
    /// Splits, as indices into the situation, that are too much for any reader: nothing can be done
    /// for them by moving splits.
    pub hot: Vec<usize>,
}

impl ReaderProfile {
    /// A reader like any other.
    #[must_use]
    pub fn new(id: ReaderId) -> Self {
        Self {
            id,
            capacity: NonZeroU32::MIN,
            rack: None,
        }
    }
}

/// Seconds over which a rate is averaged, about.
const RATE_SECONDS: u64 = 8;

impl SplitLoad {
    /// The load after `bytes` were emitted within `elapsed`.
    #[must_use]
    pub fn after(self, bytes: u64, elapsed: Duration) -> Self {
        let millis = u64::try_from(elapsed.as_millis())
            .unwrap_or(u64::MAX)
            .max(1);
        let rate = bytes.saturating_mul(1_000) / millis;
        // A moving average in integers: the new part weighs as much as the time it stands for.
        let weight = millis.min(RATE_SECONDS * 1_000);
        let rest = RATE_SECONDS * 1_000 - weight;
        let sum = u128::from(self.bytes_per_second) * u128::from(rest)
            + u128::from(rate) * u128::from(weight);
        let average = sum / u128::from(RATE_SECONDS * 1_000);
        Self {
            bytes_per_second: u64::try_from(average).unwrap_or(u64::MAX),
            ..self
        }
    }
}
