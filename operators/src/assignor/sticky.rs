//! Equal counts, and as few moves as that takes.

use std::cmp::Reverse;

use super::{Assignor, Plan, ReaderProfile, Situation};
use crate::split::Split;

/// Gives every reader a count of splits in proportion to its capacity, give or take one, and moves
/// as few as that takes.
///
/// Splits are counted over all groups of splits together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StickyBalanced;

impl<S: Split> Assignor<S> for StickyBalanced {
    fn plan(&self, situation: &Situation<'_, S>) -> Plan {
        let mut held = vec![0; situation.readers.len()];
        for owner in situation.splits.iter().filter_map(|split| split.owner) {
            held[owner] += 1;
        }
        let mut room = shares(situation.readers, &held, situation.splits.len());
        // Step 1: who has a split keeps it, as far as its share goes.
        let mut readers = vec![usize::MAX; situation.splits.len()];
        let mut homeless = Vec::new();
        for (index, split) in situation.splits.iter().enumerate() {
            match split.owner {
                Some(owner) if room[owner] > 0 => {
                    room[owner] -= 1;
                    readers[index] = owner;
                }
                Some(_) | None => homeless.push(index),
            }
        }
        // Step 2: the rest goes round the readers that have room, so that neighbours, which are
        // often parts of one thing, spread.
        let mut open: Vec<_> = (0..room.len()).filter(|reader| room[*reader] > 0).collect();
        let mut homeless = homeless.into_iter().peekable();
        while homeless.peek().is_some() {
            open.retain(|reader| {
                if let Some(index) = homeless.next() {
                    readers[index] = *reader;
                    room[*reader] -= 1;
                }
                room[*reader] > 0
            });
        }
        Plan {
            readers,
            hot: Vec::new(),
        }
    }

    fn place(
        &self,
        readers: &[ReaderProfile],
        held: &[usize],
        splits: usize,
    ) -> Option<Vec<usize>> {
        let all = held.iter().sum::<usize>() + splits;
        let shares = shares(readers, held, all);
        let mut room: Vec<_> = shares
            .iter()
            .zip(held)
            .map(|(share, held)| share.checked_sub(*held))
            .collect::<Option<_>>()?;
        let mut open: Vec<_> = (0..room.len()).filter(|reader| room[*reader] > 0).collect();
        let mut placed = Vec::with_capacity(splits);
        while placed.len() < splits {
            open.retain(|reader| {
                if placed.len() < splits {
                    placed.push(*reader);
                    room[*reader] -= 1;
                }
                room[*reader] > 0
            });
        }
        Some(placed)
    }
}

/// How many splits each reader should have, of `splits`.
///
/// What is left after rounding down goes, one each, to readers whose share was rounded: first to those
/// that hold more than they would keep, which moves least, then to the largest remainders.
fn shares(readers: &[ReaderProfile], held: &[usize], splits: usize) -> Vec<usize> {
    let quotas = quotas(readers, splits);
    let mut shares: Vec<usize> = quotas.iter().map(|(share, _)| *share).collect();
    let left = splits - shares.iter().sum::<usize>();
    let mut order: Vec<_> = (0..readers.len()).collect();
    order.sort_by_key(|index| {
        let rest = quotas[*index].1;
        let over = held[*index] > shares[*index];
        let key = (rest > 0, over, rest, held[*index]);
        (Reverse(key), *index)
    });
    for index in order.into_iter().take(left) {
        shares[index] += 1;
    }
    shares
}

/// Each reader's share of `splits` in proportion to its capacity, rounded down, and what that leaves
/// of a split, in parts of all capacities.
pub(super) fn quotas(readers: &[ReaderProfile], splits: usize) -> Vec<(usize, u128)> {
    let capacity = |reader: &ReaderProfile| u128::from(reader.capacity.get());
    let total: u128 = readers.iter().map(capacity).sum();
    let quota = |reader: &ReaderProfile| {
        let exact = splits as u128 * capacity(reader);
        let share = usize::try_from(exact / total).expect("a share is no more than the whole");
        (share, exact % total)
    };
    readers.iter().map(quota).collect()
}
