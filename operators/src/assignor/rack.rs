//! Readers near to what they read, as far as counts allow.
//!
//! A split that is read across racks costs money and time. But the racks of readers and of splits are
//! seldom in proportion, and a reader that has everything because it is near helps nobody.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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

/// Who has what, and who has room.
struct Seats {
    /// The least, the rounded up and the greatest count of each reader.
    bounds: Vec<(usize, usize, usize)>,
    counts: Vec<usize>,
    /// The rack of each reader; a number of its own for no rack.
    rack_of: Vec<usize>,
    /// The readers of each rack that have room, by how much, and after the racks those of all.
    open: Vec<BTreeSet<(usize, Reverse<usize>)>>,
    /// The racks of each split that have a reader, the best first.
    racks: Vec<Vec<usize>>,
    /// For each split an index into the readers, or none of them.
    readers: Vec<usize>,
}

impl Seats {
    fn new<S>(situation: &Situation<'_, S>, slack: usize) -> Self {
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        let rack_of: Vec<_> = (situation.readers.iter())
            .map(|ReaderProfile { rack, .. }| {
                let next = names.len();
                rack.as_deref()
                    .map_or(usize::MAX, |rack| *names.entry(rack).or_insert(next))
            })
            .collect();
        let known = |rack: &String| names.get(rack.as_str()).copied();
        let racks = |split: &SplitProfile<'_, S>| split.racks.iter().filter_map(known).collect();
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
            open: vec![BTreeSet::new(); names.len() + 1],
            racks: situation.splits.iter().map(racks).collect(),
            readers: vec![usize::MAX; situation.splits.len()],
            bounds,
            rack_of,
        };
        for reader in 0..seats.counts.len() {
            seats.recount(reader, 0);
        }
        seats
    }

    /// Sets how many splits a reader has.
    fn recount(&mut self, reader: usize, count: usize) {
        let most = self.bounds[reader].2;
        let before = most - self.counts[reader];
        let after = most - count;
        self.counts[reader] = count;
        let everywhere = self.open.len() - 1;
        for rack in [self.rack_of[reader], everywhere] {
            if let Some(open) = self.open.get_mut(rack) {
                open.remove(&(before, Reverse(reader)));
                if after > 0 {
                    open.insert((after, Reverse(reader)));
                }
            }
        }
    }

    fn give(&mut self, split: usize, reader: usize) {
        let owner = std::mem::replace(&mut self.readers[split], reader);
        if owner != usize::MAX {
            self.recount(owner, self.counts[owner] - 1);
        }
        self.recount(reader, self.counts[reader] + 1);
    }

    /// How good a reader is for a split: zero is best.
    fn rank(&self, split: usize, reader: usize) -> usize {
        let racks = &self.racks[split];
        let rack = self.rack_of[reader];
        let rank = racks.iter().position(|candidate| *candidate == rack);
        rank.unwrap_or(racks.len())
    }

    /// The reader with the most room in the best rack that is better than `rank`.
    fn nearer(&self, split: usize, rank: usize) -> Option<usize> {
        let racks = self.racks[split].iter().take(rank);
        let mut open = racks.filter_map(|rack| self.open[*rack].last());
        open.next().map(|(_, reader)| reader.0)
    }

    /// Lets who has a split keep it, those that are near first, up to the bound.
    fn keep<S>(&mut self, splits: &[SplitProfile<'_, S>]) {
        let mut held_by = vec![Vec::new(); self.counts.len()];
        for (index, split) in splits.iter().enumerate() {
            if let Some(owner) = split.owner {
                held_by[owner].push((self.rank(index, owner), index));
            }
        }
        for (reader, mut held) in held_by.into_iter().enumerate() {
            let most = self.bounds[reader].2;
            if held.len() > most {
                held.sort_unstable();
                held.truncate(most);
            }
            for (_, split) in &held {
                self.readers[*split] = reader;
            }
            self.recount(reader, held.len());
        }
    }

    /// Gives each split that nobody has to a near reader, or else to the one with the most room.
    fn place_homeless(&mut self) {
        for split in 0..self.readers.len() {
            if self.readers[split] != usize::MAX {
                continue;
            }
            let anywhere = self.open[self.open.len() - 1].last();
            let anywhere = anywhere.map(|(_, reader)| reader.0);
            let reader = self.nearer(split, usize::MAX).or(anywhere);
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
            let mut racks: Vec<_> = self.racks[split].iter().take(rank + 1).copied().collect();
            if !no_farther || rank == self.racks[split].len() {
                racks.push(short.len() - 1);
            }
            let next = racks.into_iter().find_map(|rack| {
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
