//! Policies that pick a reader for each split.

use std::collections::BTreeMap;

use crate::epoch::ReaderId;
use crate::split::Split;

/// Picks a reader for each split.
///
/// # Contract
///
/// The plan has every split of `current` once, at one of `readers`, and depends on the arguments
/// alone.
pub trait Assignor<S: Split>: Send + 'static {
    /// Plans for the splits of `current`, each with the reader that has it, over `readers`, which
    /// are not empty and in their order.
    fn plan(
        &mut self,
        readers: &[ReaderId],
        current: &BTreeMap<S, Option<ReaderId>>,
    ) -> BTreeMap<S, ReaderId>;
}

/// Gives every reader the same count of splits, give or take one, and moves as few as that takes.
///
/// Splits are counted over all clusters together.
#[derive(Clone, Copy, Debug, Default)]
pub struct StickyBalanced;

impl<S: Split> Assignor<S> for StickyBalanced {
    fn plan(
        &mut self,
        readers: &[ReaderId],
        current: &BTreeMap<S, Option<ReaderId>>,
    ) -> BTreeMap<S, ReaderId> {
        let mut held: BTreeMap<ReaderId, usize> = readers.iter().map(|id| (*id, 0)).collect();
        for reader in current.values().flatten() {
            if let Some(count) = held.get_mut(reader) {
                *count += 1;
            }
        }
        let mut room = room(readers, &held, current.len());
        // Step 1: who has a split keeps it, as far as its share goes.
        let mut plan = BTreeMap::new();
        let mut homeless = Vec::new();
        for (split, reader) in current {
            match reader.and_then(|reader| Some((reader, room.get_mut(&reader)?))) {
                Some((reader, left)) if *left > 0 => {
                    *left -= 1;
                    plan.insert(split.clone(), reader);
                }
                Some(_) | None => homeless.push(split),
            }
        }
        // Step 2: the rest goes round the readers that have room, so that neighbours, which are
        // often partitions of one topic, spread.
        let mut open: Vec<_> = room.into_iter().filter(|(_, left)| *left > 0).collect();
        let mut turn = 0;
        for split in homeless {
            if turn >= open.len() {
                turn = 0;
            }
            let (reader, left) = &mut open[turn];
            plan.insert(split.clone(), *reader);
            *left -= 1;
            if *left == 0 {
                open.remove(turn);
            } else {
                turn += 1;
            }
        }
        plan
    }
}

/// The share of each reader. The larger shares go to those that hold most, which moves least.
fn room(
    readers: &[ReaderId],
    held: &BTreeMap<ReaderId, usize>,
    splits: usize,
) -> BTreeMap<ReaderId, usize> {
    let (share, larger) = (splits / readers.len(), splits % readers.len());
    let mut by_count: Vec<_> = readers.to_vec();
    by_count.sort_by_key(|reader| (std::cmp::Reverse(held[reader]), *reader));
    by_count
        .into_iter()
        .enumerate()
        .map(|(rank, reader)| (reader, share + usize::from(rank < larger)))
        .collect()
}
