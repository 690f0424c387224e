//! What one worker reads of one client, by the names that messages carry.

use std::collections::BTreeMap;
use std::time::Instant;

use timely_splits::epoch::SplitEpoch;

use super::ffi::TopicKey;
use crate::model::{KafkaPosition, KafkaSplit, Offset};

/// A partition as messages name it.
pub(super) type PartitionKey = (TopicKey, i32);

/// A split that is read, and how far.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// The split.
    pub(super) split: KafkaSplit,
    /// The assignment under which it is read.
    pub(super) split_epoch: SplitEpoch,
    /// The end of what was handed over.
    pub(super) next: KafkaPosition,
    /// Where there was nothing more to read although there was more, when the broker said so last, and
    /// when that was.
    pub(super) held_back: Option<(Offset, Instant)>,
}

/// The place of a [`Reading`] in its [`Table`], valid until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(usize);

/// The splits that one worker reads of one client.
///
/// # Invariants
///
/// A message whose partition is found here was fetched under the assignment of its [`Reading`]. So a
/// split is put here only after the client has acknowledged that the assignment before it, of the
/// same worker, is over; and whoever puts it here is not taking messages off the queue meanwhile.
#[derive(Debug, Default)]
pub(super) struct Table {
    readings: Vec<Option<Reading>>,
    free: Vec<usize>,
    slots: BTreeMap<PartitionKey, usize>,
    /// What was found last: messages come in runs of one partition.
    found: Option<(PartitionKey, usize)>,
}

impl Table {
    /// Reads a split.
    pub(super) fn insert(&mut self, key: PartitionKey, reading: Reading) {
        self.remove(key);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.readings.push(None);
            self.readings.len() - 1
        });
        self.readings[slot] = Some(reading);
        self.slots.insert(key, slot);
    }

    /// Stops reading a split.
    pub(super) fn remove(&mut self, key: PartitionKey) -> Option<Reading> {
        let slot = self.slots.remove(&key)?;
        self.found = None;
        self.free.push(slot);
        self.readings[slot].take()
    }

    /// The place of what is read of a partition.
    pub(super) fn find(&mut self, key: PartitionKey) -> Option<Slot> {
        if let Some((found, slot)) = self.found
            && found == key
        {
            return Some(Slot(slot));
        }
        let slot = *self.slots.get(&key)?;
        self.found = Some((key, slot));
        Some(Slot(slot))
    }

    /// What is read at a place.
    pub(super) fn at(&mut self, slot: Slot) -> &mut Reading {
        self.readings[slot.0]
            .as_mut()
            .expect("a slot is used before its reading is removed")
    }

    /// Stops reading everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Reading> {
        std::mem::take(self).readings.into_iter().flatten()
    }
}
