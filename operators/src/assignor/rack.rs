//! Readers near to what they read, as far as counts allow.
//!
//! A split that is read across racks costs money and time. But the racks of readers and of splits are
//! seldom in proportion, and a reader that has everything because it is near helps nobody.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::ops::Range;

use super::sticky::quotas;
use super::{Assignor, Plan, ReaderProfile, Situation, SplitProfile};
use crate::split::Split;

/// Gives each split to a reader in the best of the racks that it can be read from, as far as no
/// reader has more than its share and a slack, or less.
///
/// Shares are in proportion to capacities. Within these bounds no single move would bring a split
/// nearer, and what is in its place stays. A split without racks, and one that no reader is near to,
/// is like any other that is not in its place.
///
/// It takes O((N + M) log M) for a split with few racks, once for each round of moves that made
/// room for others; there are two or three of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RackAware {
    /// By how many splits a reader may be beyond its share, or below; 1 by default. More: more splits
    /// are read from nearby. Less: counts are more equal. With none and a number of splits that
    /// divides evenly nothing that has a reader can move to a nearer one.
    pub slack: usize,
}

impl Default for RackAware {
    fn default() -> Self {
        Self { slack: 1 }
    }
}

impl<S: Split> Assignor<S> for RackAware {
    fn plan(&self, situation: &Situation<'_, S>) -> Plan {
        let mut seats = Seats::new(situation, self.slack);
        seats.keep(situation.splits);
        seats.place_homeless();
        seats.fill();
        while seats.improve() {}
        Plan {
            readers: seats.readers,
            hot: Vec::new(),
        }
    }
}

/// The racks that readers are in, in some order; each is known by its place.
struct Names<'a>(Vec<(Key, &'a [u8])>);

/// A name by its length and some of its bytes, for a short one all of them. The racks of every split
/// are looked up, and nearly all of them are told apart by this.
type Key = (u64, usize);

impl<'a> Names<'a> {
    fn of(readers: &'a [ReaderProfile]) -> Self {
        let racks = readers.iter().filter_map(|reader| reader.rack.as_deref());
        let names: BTreeSet<_> = racks.map(Self::keyed).collect();
        Self(names.into_iter().collect())
    }

    /// A name with its key, and what the key does not have of it.
    fn keyed(name: &str) -> (Key, &[u8]) {
        let name = name.as_bytes();
        let (key, rest): (u64, &[u8]) = match name {
            [] => (0, &[]),
            [a] => (u64::from(*a), &[]),
            [a, b] => (u64::from_be_bytes([*a, *b, 0, 0, 0, 0, 0, 0]), &[]),
            [a, b, c] => (u64::from_be_bytes([*a, *b, *c, 0, 0, 0, 0, 0]), &[]),
            [a, b, c, d, .., e, f, g, h] => {
                let key = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                (key, &name[4..name.len() - 4])
            }
            [a, b, c, d, rest @ ..] => {
                let last = rest
                    .iter()
                    .fold(0, |last, byte| last << 8 | u64::from(*byte));
                let first = u32::from_be_bytes([*a, *b, *c, *d]);
                (u64::from(first) << 32 | last, &[])
            }
        };
        ((key, name.len()), rest)
    }

    fn find(&self, name: &str) -> Option<usize> {
        let (key, rest) = Self::keyed(name);
        let first = self.0.partition_point(|(other, _)| *other < key);
        let alike = self.0[first..]
            .iter()
            .take_while(|(other, _)| *other == key);
        let place = { alike }.position(|(_, other)| rest.is_empty() || *other == rest);
        place.map(|place| first + place)
    }
}

/// Who has what, and who has room.
struct Seats {
    /// The least, the rounded up and the greatest count of each reader.
    bounds: Vec<(usize, usize, usize)>,
    counts: Vec<usize>,
    /// The rack of each reader; a number of its own for no rack.
    rack_of: Vec<usize>,
    /// The readers of each rack that have room, by how much, and after the racks those of all.
    ///
    /// A reader with room has an entry that says so much or more. One that lost room is put right when
    /// it comes to the top: most of those that fill up are never looked at in between.
    open: Vec<BinaryHeap<(usize, Reverse<usize>)>>,
    /// The racks of the splits that have a reader, the best first, split after split.
    racks: Vec<usize>,
    /// Where the racks of each split end.
    racks_end: Vec<usize>,
    /// For each split an index into the readers, or none of them.
    readers: Vec<usize>,
}

impl Seats {
    fn new<S>(situation: &Situation<'_, S>, slack: usize) -> Self {
        let names = Names::of(situation.readers);
        let place =
            |reader: &ReaderProfile| reader.rack.as_deref().and_then(|rack| names.find(rack));
        let rack_of = situation.readers.iter().map(place);
        let rack_of: Vec<_> = rack_of.map(|rack| rack.unwrap_or(usize::MAX)).collect();
        let mut racks = Vec::with_capacity(2 * situation.splits.len());
        let mut racks_end = Vec::with_capacity(situation.splits.len());
        for split in situation.splits {
            racks.extend(split.racks.iter().filter_map(|rack| names.find(rack)));
            racks_end.push(racks.len());
        }
        let bounds: Vec<_> = quotas(situation.readers, situation.splits.len())
            .into_iter()
            .map(|(quota, rest)| {
                let rounded_up = quota + usize::from(rest > 0);
                let most = rounded_up.saturating_add(slack);
                (quota.saturating_sub(slack), rounded_up, most)
            })
            .collect();
        let mut seats = Self {
            counts: vec![0; bounds.len()],
            open: vec![BinaryHeap::new(); names.0.len() + 1],
            racks,
            racks_end,
            readers: vec![usize::MAX; situation.splits.len()],
            bounds,
            rack_of,
        };
        for reader in 0..seats.counts.len() {
            seats.open(reader);
        }
        seats
    }

    /// How many more splits a reader may have.
    fn room(&self, reader: usize) -> usize {
        self.bounds[reader].2 - self.counts[reader]
    }

    /// A reader has more room than before.
    fn open(&mut self, reader: usize) {
        let room = self.room(reader);
        let everywhere = self.open.len() - 1;
        for rack in [self.rack_of[reader], everywhere] {
            if let Some(open) = self.open.get_mut(rack).filter(|_| room > 0) {
                open.push((room, Reverse(reader)));
            }
        }
    }

    /// The reader of a rack with the most room.
    fn most_open(&mut self, rack: usize) -> Option<usize> {
        while let Some(mut top) = self.open[rack].peek_mut() {
            let (said, Reverse(reader)) = *top;
            let room = self.bounds[reader].2 - self.counts[reader];
            if said == room {
                return Some(reader);
            }
            if room == 0 {
                PeekMut::pop(top);
            } else {
                top.0 = room;
            }
        }
        None
    }

    fn give(&mut self, split: usize, reader: usize) {
        let owner = std::mem::replace(&mut self.readers[split], reader);
        if owner != usize::MAX {
            self.counts[owner] -= 1;
            self.open(owner);
        }
        self.counts[reader] += 1;
    }

    /// The racks of a split that have a reader, the best first, as indices into `racks`.
    fn racks_at(&self, split: usize) -> Range<usize> {
        let start = split.checked_sub(1).map_or(0, |one| self.racks_end[one]);
        start..self.racks_end[split]
    }

    /// How good a reader is for a split: zero is best.
    fn rank(&self, split: usize, reader: usize) -> usize {
        let racks = &self.racks[self.racks_at(split)];
        let rack = self.rack_of[reader];
        let rank = racks.iter().position(|candidate| *candidate == rack);
        rank.unwrap_or(racks.len())
    }

    /// The reader with the most room in the best rack that is better than `rank`.
    fn nearer(&mut self, split: usize, rank: usize) -> Option<usize> {
        let mut racks = self.racks_at(split).take(rank);
        racks.find_map(|at| self.most_open(self.racks[at]))
    }

    /// Lets who has a split keep it, those that are near first, up to the bound.
    fn keep<S>(&mut self, splits: &[SplitProfile<'_, S>]) {
        let mut held_by = vec![Vec::new(); self.counts.len()];
        for (index, split) in splits.iter().enumerate() {
            if let Some(owner) = split.owner {
                self.readers[index] = owner;
                self.counts[owner] += 1;
            }
        }
        // Only where not everything can be kept does it matter what is near.
        for (index, owner) in self.readers.iter().enumerate() {
            if *owner != usize::MAX && self.counts[*owner] > self.bounds[*owner].2 {
                held_by[*owner].push((self.rank(index, *owner), index));
            }
        }
        for (reader, mut held) in held_by.into_iter().enumerate() {
            let most = self.bounds[reader].2;
            if held.len() > most {
                held.sort_unstable();
                for (_, split) in held.drain(most..) {
                    self.readers[split] = usize::MAX;
                }
                self.counts[reader] = most;
            }
        }
    }

    /// Gives each split that nobody has to a near reader, or else to the one with the most room.
    fn place_homeless(&mut self) {
        for split in 0..self.readers.len() {
            if self.readers[split] != usize::MAX {
                continue;
            }
            let everywhere = self.open.len() - 1;
            let near = self.nearer(split, usize::MAX);
            let reader = near.or_else(|| self.most_open(everywhere));
            self.give(
                split,
                reader.expect("all bounds together are no less than all splits"),
            );
        }
    }

    /// Gives readers that have too few what others have beyond their share, and what is no farther
    /// there first.
    fn fill(&mut self) {
        for beyond_share in [true, false] {
            for no_farther in [true, false] {
                self.fill_from(beyond_share, no_farther);
            }
        }
    }

    fn fill_from(&mut self, beyond_share: bool, no_farther: bool) {
        let mut missing = 0;
        // Readers that have too few, by rack, and after the racks all of them.
        let mut short = vec![VecDeque::new(); self.open.len()];
        for (reader, (least, _, _)) in self.bounds.iter().enumerate() {
            if self.counts[reader] < *least {
                missing += *least - self.counts[reader];
                let everywhere = short.len() - 1;
                for rack in [self.rack_of[reader], everywhere] {
                    if let Some(short) = short.get_mut(rack) {
                        short.push_back(reader);
                    }
                }
            }
        }
        for split in 0..self.readers.len() {
            if missing == 0 {
                return;
            }
            let owner = self.readers[split];
            let (least, rounded_up, _) = self.bounds[owner];
            if self.counts[owner] <= if beyond_share { rounded_up } else { least } {
                continue;
            }
            let rank = self.rank(split, owner);
            let racks = &self.racks[self.racks_at(split)];
            let everywhere = short.len() - 1;
            let anywhere = (!no_farther || rank == racks.len()).then_some(everywhere);
            let racks = racks.iter().take(rank + 1).copied().chain(anywhere);
            let next = { racks }.find_map(|rack| {
                let short = &mut short[rack];
                while let Some(reader) = short.front().copied() {
                    if self.counts[reader] < self.bounds[reader].0 {
                        return Some(reader);
                    }
                    short.pop_front();
                }
                None
            });
            if let Some(reader) = next {
                self.give(split, reader);
                missing -= 1;
            }
        }
    }

    /// Moves splits to nearer readers within the bounds; false if there is nothing to move.
    ///
    /// Each move brings one split nearer and none farther, so that there is an end to it.
    fn improve(&mut self) -> bool {
        let mut improved = false;
        for split in 0..self.readers.len() {
            let owner = self.readers[split];
            if self.counts[owner] <= self.bounds[owner].0 {
                continue;
            }
            if let Some(reader) = self.nearer(split, self.rank(split, owner)) {
                self.give(split, reader);
                improved = true;
            }
        }
        improved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::ReaderId;

    #[test]
    fn names_of_every_length_are_told_apart() {
        let long = (0..20).map(|length| "abcdefghijklmnopqrst"[..length].to_owned());
        let alike =
            ["abcdxefgh", "abcdyefgh", "abcdefghx", "b", "abd", "abcdeg"].map(str::to_owned);
        let all: Vec<String> = long.chain(alike).collect();
        let reader = |rack: &String| ReaderProfile {
            rack: Some(rack.clone()),
            ..ReaderProfile::new(ReaderId(0))
        };
        let readers: Vec<_> = all.iter().chain(&all).map(reader).collect();

        let names = Names::of(&readers);

        let mut places: Vec<_> = all.iter().map(|rack| names.find(rack)).collect();
        places.sort_unstable();
        assert_eq!(places, (0..all.len()).map(Some).collect::<Vec<_>>());
        for unknown in ["a1", "abcdzefgh", "abcdefghij1", "abcdefg1", "c"] {
            assert_eq!(names.find(unknown), None);
        }
    }
}
