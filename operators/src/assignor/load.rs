//! Equal loads, with as few and as useful moves as that takes.
//!
//! Counts are not loads: one split may bring most of what all bring. But loads are measured, so they
//! are never quite the same twice, and a policy that follows every change of them moves splits for
//! ever. So a load that is nearly equal counts as equal, a move has to gain something, and there are
//! only so many a minute.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::{Assignor, Plan, Situation, SplitProfile};
use crate::split::Split;

/// Seconds in which a split that is behind is taken to catch up.
const CATCH_UP_SECONDS: u128 = 60;

/// What a heat is counted in: parts of a byte a second for one unit of capacity.
const PARTS: u32 = 20;

/// Moves splits from the hottest reader to the coolest.
///
/// What a split costs is the bytes a second that it brings, those that it would bring if it caught up
/// within a minute, and as much again for its being there as the average split brings. The last part
/// spreads splits of which nothing is known evenly, and bounds how unequal counts can become: a
/// reader of idle splits has about twice its share of them.
///
/// A split that brings more than the share of the most capable reader, even alone on it, is reported
/// as hot: no move helps it.
///
/// It takes O(N + M log M) for the rest, and O(N + M log M) for each move, which are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadAware {
    /// By how much the hottest and the coolest reader may differ, in percent of the average; 20 by
    /// default. Less: more equal. More: fewer moves.
    pub hysteresis_percent: u16,
    /// How many splits are taken from a reader in a minute for this; 10 by default. Those that are
    /// moved for other reasons count as well.
    pub moves_a_minute: usize,
    /// The least that is taken for a split's being there, in bytes a second; 64 KiB by default. Rates
    /// well below it move nothing.
    pub split_bytes_per_second: u64,
    /// How many bytes a step of the position is taken for where a split is behind; 100 by default,
    /// for positions that count records.
    pub step_bytes: u64,
    /// How often it looks at loads; 10 seconds by default.
    pub interval: Duration,
}

impl Default for LoadAware {
    fn default() -> Self {
        Self {
            hysteresis_percent: 20,
            moves_a_minute: 10,
            split_bytes_per_second: 64 << 10,
            step_bytes: 100,
            interval: Duration::from_secs(10),
        }
    }
}

impl<S: Split> Assignor<S> for LoadAware {
    fn plan(&self, situation: &Situation<'_, S>) -> Plan {
        let mut heats = Heats::new(situation, self.costs(situation.splits));
        heats.place_homeless();
        // More moves than a few for each split are as good as any number of them, and bound the time.
        let many = situation.splits.len().saturating_mul(8);
        let budget = self.moves_a_minute.saturating_sub(situation.moved_lately);
        let budget = budget.min(many);
        for _ in 0..budget {
            if !heats.cool_down(self.hysteresis_percent) {
                break;
            }
        }
        Plan {
            hot: self.hot(situation),
            readers: heats.readers,
        }
    }

    fn plan_interval(&self) -> Option<Duration> {
        Some(self.interval)
    }
}

impl LoadAware {
    fn costs<S>(&self, splits: &[SplitProfile<'_, S>]) -> Vec<u128> {
        let brings = splits.iter().map(|split| {
            let behind = u128::from(split.load.lag) * u128::from(self.step_bytes);
            let catch_up = (behind / CATCH_UP_SECONDS).min(u128::from(u64::MAX));
            u128::from(split.load.bytes_per_second) + catch_up
        });
        let mut costs: Vec<_> = brings.collect();
        let average = costs.iter().sum::<u128>() / costs.len().max(1) as u128;
        let being_there = average.max(u128::from(self.split_bytes_per_second.max(1)));
        costs.iter_mut().for_each(|cost| *cost += being_there);
        costs
    }

    /// The splits that are too much for any reader.
    ///
    /// Where there are fewer splits than readers, each is more than a reader's share; so a split is
    /// hot only if it also stands out among the others.
    fn hot<S>(&self, situation: &Situation<'_, S>) -> Vec<usize> {
        let bytes = |split: &SplitProfile<'_, S>| u128::from(split.load.bytes_per_second);
        let capacities = || {
            let readers = situation.readers.iter();
            readers.map(|reader| u128::from(reader.capacity.get()))
        };
        let all: u128 = situation.splits.iter().map(bytes).sum();
        let share = all * capacities().max().unwrap_or(0) / capacities().sum::<u128>().max(1);
        let average = all / situation.splits.len().max(1) as u128;
        let too_much = share + share * u128::from(self.hysteresis_percent) / 100;
        let bound = too_much
            .max(average + average / 2)
            .max(u128::from(self.split_bytes_per_second));
        (0..situation.splits.len())
            .filter(|index| bytes(&situation.splits[*index]) > bound)
            .collect()
    }
}

/// Who has what, and how much that is for each reader.
struct Heats {
    capacities: Vec<u128>,
    costs: Vec<u128>,
    /// The cost of all splits of each reader.
    loads: Vec<u128>,
    splits: Vec<Vec<usize>>,
    /// For each split an index into the readers, or none of them.
    readers: Vec<usize>,
}

impl Heats {
    fn new<S>(situation: &Situation<'_, S>, costs: Vec<u128>) -> Self {
        let readers = situation.readers.iter();
        let mut heats = Self {
            capacities: readers.map(|r| u128::from(r.capacity.get())).collect(),
            costs,
            loads: vec![0; situation.readers.len()],
            splits: vec![Vec::new(); situation.readers.len()],
            readers: vec![usize::MAX; situation.splits.len()],
        };
        for (index, split) in situation.splits.iter().enumerate() {
            if let Some(owner) = split.owner {
                heats.give(index, owner);
            }
        }
        heats
    }

    fn give(&mut self, split: usize, reader: usize) {
        self.readers[split] = reader;
        self.loads[reader] += self.costs[split];
        self.splits[reader].push(split);
    }

    /// How hot a reader is with this load.
    fn heat(&self, reader: usize, load: u128) -> u128 {
        (load << PARTS) / self.capacities[reader]
    }

    /// Gives each split that nobody has to the reader that is the coolest with one more.
    fn place_homeless(&mut self) {
        let average = self.costs.iter().sum::<u128>() / self.costs.len().max(1) as u128;
        let key = |heats: &Self, reader| {
            let heat = heats.heat(reader, heats.loads[reader] + average);
            Reverse((heat, reader))
        };
        let mut coolest: BinaryHeap<_> = (0..self.loads.len())
            .map(|reader| key(self, reader))
            .collect();
        for split in 0..self.readers.len() {
            if self.readers[split] != usize::MAX {
                continue;
            }
            let Some(Reverse((_, reader))) = coolest.pop() else {
                return;
            };
            self.give(split, reader);
            coolest.push(key(self, reader));
        }
    }

    /// Moves one split from the hottest reader that has one to spare to the coolest reader; false if
    /// there is none.
    fn cool_down(&mut self, hysteresis_percent: u16) -> bool {
        let all: u128 = self.loads.iter().sum();
        let average = (all << PARTS) / self.capacities.iter().sum::<u128>().max(1);
        let tolerated = average.saturating_mul(u128::from(hysteresis_percent)) / 100;
        let mut order: Vec<_> = (0..self.loads.len())
            .map(|reader| {
                let heat = self.heat(reader, self.loads[reader]);
                // Of equally cool readers the one that a split makes the least hotter is the last.
                (Reverse(heat), self.capacities[reader], Reverse(reader))
            })
            .collect();
        order.sort_unstable();
        let Some((Reverse(least), _, Reverse(coolest))) = order.last().copied() else {
            return false;
        };
        for (Reverse(most), _, Reverse(hottest)) in order {
            if most - least <= tolerated {
                return false;
            }
            if let Some(place) = self.spare(hottest, coolest, tolerated / 2) {
                let split = self.splits[hottest].swap_remove(place);
                self.loads[hottest] -= self.costs[split];
                self.give(split, coolest);
                return true;
            }
        }
        false
    }

    /// The place among the splits of `hottest` of the one that is best moved to `coolest`.
    ///
    /// That is the largest one after whose move the first is still no cooler than the second, and if
    /// there is none, the smallest one that makes the hotter of the two cooler by `gain` at least. The
    /// second kind may turn the two around; the gain keeps it from being turned back.
    fn spare(&self, hottest: usize, coolest: usize, gain: u128) -> Option<usize> {
        let most = self.heat(hottest, self.loads[hottest]);
        let least = self.heat(coolest, self.loads[coolest]);
        let (mut fits, mut gains) = (None, None);
        for (place, split) in self.splits[hottest].iter().enumerate() {
            let cost = self.costs[*split];
            let left = self.heat(hottest, self.loads[hottest] - cost);
            let taken = self.heat(coolest, self.loads[coolest] + cost);
            // Of splits that cost the same, the first in the order of splits, wherever it stands here.
            if taken <= left {
                if fits
                    .is_none_or(|(best, first, _)| (best, Reverse(first)) < (cost, Reverse(*split)))
                {
                    fits = Some((cost, *split, place));
                }
            } else if taken + gain < most && left >= least {
                let best = gains.get_or_insert((cost, *split, place));
                *best = (*best).min((cost, *split, place));
            }
        }
        match (fits, gains) {
            (Some((_, _, place)), _) | (None, Some((_, _, place))) => Some(place),
            (None, None) => None,
        }
    }
}
