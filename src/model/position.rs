//! Where a record stands in its partition, and where reading goes on.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// The identity of a record in its partition, as Kafka numbers it from zero.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Offset(u64);

impl Offset {
    /// The first offset that a partition can have.
    pub const ZERO: Self = Self(0);

    /// An offset.
    ///
    /// Kafka's offsets are signed 64-bit integers that are not negative; greater values cannot
    /// occur.
    #[must_use]
    pub fn new(offset: u64) -> Self {
        Self(offset)
    }

    /// The offset as a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// The offset that follows: the next record has this one or a greater one.
    #[must_use]
    pub fn following(self) -> Self {
        Self(self.0 + 1)
    }

    /// How many offsets lie from `earlier` up to this one, zero if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

/// The count of leaders that a partition has had when a record was written.
///
/// It tells a truncated log from one with a gap (KIP-320).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaderEpoch(pub i32);

/// Where reading a partition goes on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct KafkaPosition {
    /// The offset of the next record to read. No record needs to have it: Kafka leaves gaps where
    /// transactions end and where compaction removed records.
    pub next: Offset,
    /// The leader epoch of the record before it, where the broker tells.
    pub leader_epoch: Option<LeaderEpoch>,
}

impl KafkaPosition {
    /// The position before the record at `next`, with nothing known of what precedes it.
    #[must_use]
    pub fn at(next: Offset) -> Self {
        Self {
            next,
            leader_epoch: None,
        }
    }

    /// The position after the record at `offset`, which was written under `leader_epoch`.
    #[must_use]
    pub fn after(offset: Offset, leader_epoch: Option<LeaderEpoch>) -> Self {
        Self {
            next: offset.following(),
            leader_epoch,
        }
    }
}

impl Display for KafkaPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.next, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_after_a_record_is_the_next_offset() {
        let position = KafkaPosition::after(Offset::new(41), Some(LeaderEpoch(3)));

        assert_eq!(position.next, Offset::new(42));
        assert_eq!(position.next.since(Offset::new(40)), 2);
        assert_eq!(Offset::new(40).since(position.next), 0);
    }
}
