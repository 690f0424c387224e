//! The time of the dataflow.

use std::fmt::{self, Display};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timely::order::TotalOrder;
use timely::progress::Timestamp;

/// A time that the enumerator mints: milliseconds since the Unix epoch at which it was opened.
///
/// Ticks increase strictly. When the clock goes back they crawl by one until it has caught up.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Tick(pub u64);

impl Tick {
    /// The tick to open at `now`, a duration since the Unix epoch, after this one.
    #[must_use]
    pub fn following(self, now: Duration) -> Self {
        let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        Self(millis.max(self.0.saturating_add(1)))
    }
}

impl Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

/// How ticks appear as times of the user's dataflow.
///
/// # Contract
///
/// `time_of` is strictly monotone, and `last_tick_before` is its inverse: the greatest tick `t`
/// with `time_of(t) < time`, or `None` if there is none.
#[derive(Debug)]
pub struct TimeMap<T> {
    /// The time at which what was read in a tick is emitted.
    pub time_of: fn(Tick) -> T,
    /// The last tick that is over when the frontier has reached a time.
    pub last_tick_before: fn(&T) -> Option<Tick>,
}

impl<T> Copy for TimeMap<T> {}

impl<T> Clone for TimeMap<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl TimeMap<u64> {
    /// Ticks as they are.
    #[must_use]
    pub fn identity() -> Self {
        Self {
            time_of: |tick| tick.0,
            last_tick_before: |time| time.checked_sub(1).map(Tick),
        }
    }
}

/// A time of a dataflow that ticks can be mapped to.
pub trait SourceTime: Timestamp + TotalOrder {}

impl<T: Timestamp + TotalOrder> SourceTime for T {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_went_back_makes_ticks_crawl() {
        let tick = Tick(1_000);

        assert_eq!(tick.following(Duration::from_millis(1_100)), Tick(1_100));
        assert_eq!(tick.following(Duration::from_millis(500)), Tick(1_001));
        assert_eq!(tick.following(Duration::from_millis(1_000)), Tick(1_001));
    }
}
