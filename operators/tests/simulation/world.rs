//! What exists outside the source: leaves with records, and the truth about trees.

use std::collections::BTreeMap;
use std::time::Duration;

use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit};
use timely_splits::epoch::{MetadataEpoch, SplitEpoch};
use timely_splits::fetcher::Piece;
use timely_splits::loss::{LossPolicy, Remains};
use timely_splits::split::{Metadata, Split};

use crate::forest::{Bud, Forest, Leaf};
use crate::model::Batch;
use crate::random::Random;
use crate::swarm::Swarm;

/// Leaves with records, and the truth about trees.
pub(crate) struct World {
    leaves: BTreeMap<Leaf, Records>,
    /// How often trees were replaced.
    buds: BTreeMap<char, Bud>,
    /// What the metadata service would say if it worked.
    pub(crate) truth: Forest,
    /// Until when questions where leaves start are not answered.
    pub(crate) starts_lost_until: Duration,
    /// What the discovery was asked to look for.
    looking: Option<(MetadataEpoch, Forest)>,
    latest: bool,
    stops: bool,
    partial: u64,
    random: Random,
}

struct Records {
    /// What is before it was deleted.
    first: u64,
    end: u64,
    exists: bool,
}

impl Records {
    fn new(end: u64) -> Self {
        Self {
            first: 0,
            end,
            exists: true,
        }
    }
}

impl World {
    pub(crate) fn new(seed: u64, swarm: &Swarm) -> Self {
        let mut leaves = BTreeMap::new();
        let mut truth = Forest::of("");
        for tree in ('a'..='z').take(usize::try_from(swarm.trees).expect("few trees")) {
            truth.0.insert(tree, swarm.drains);
            for number in 0..u16::try_from(swarm.leaves).expect("few leaves") {
                leaves.insert(Leaf::new(tree, number), Records::new(5));
            }
        }
        Self {
            leaves,
            buds: BTreeMap::new(),
            truth,
            starts_lost_until: Duration::ZERO,
            looking: None,
            latest: swarm.latest,
            stops: swarm.stops,
            partial: swarm.partial,
            random: Random::of(seed, 4),
        }
    }

    /// Nothing is left out from here on, and, if there is nobody who could go on without, nothing gone.
    pub(crate) fn heal(&mut self, losses: LossPolicy) {
        if matches!(losses, LossPolicy::Fail | LossPolicy::Wait) {
            for records in self.leaves.values_mut() {
                records.first = 0;
            }
        }
        self.partial = 0;
        self.starts_lost_until = Duration::ZERO;
    }

    pub(crate) fn write(&mut self, leaf: Leaf, records: u64) {
        if let Some(leaf) = self.leaves.get_mut(&leaf) {
            leaf.end += records;
        }
    }

    /// Deletes so many of the records of a leaf, the oldest first.
    pub(crate) fn delete(&mut self, leaf: Leaf, records: u64) {
        if let Some(leaf) = self.leaves.get_mut(&leaf) {
            leaf.first = leaf.end.min(leaf.first + records);
        }
    }

    /// The position of the first record of a leaf that is there.
    pub(crate) fn first(&self, leaf: Leaf) -> u64 {
        self.leaves
            .get(&leaf.origin())
            .map_or(0, |records| records.first)
    }

    pub(crate) fn grow(&mut self, leaf: Leaf) {
        let records = self.leaves.entry(leaf);
        records.or_insert_with(|| Records::new(3)).exists = true;
    }

    /// Another tree takes the place of one, and its name: each of its leaves has so many records.
    pub(crate) fn replace(&mut self, tree: char, records: u64) {
        *self.buds.entry(tree).or_default() += 1;
        let leaves = self.leaves.iter_mut();
        for (_, leaf) in leaves.filter(|(leaf, _)| leaf.tree == tree) {
            *leaf = Records::new(records);
        }
    }

    /// How often a tree was replaced.
    pub(crate) fn bud(&self, tree: char) -> Bud {
        self.buds.get(&tree).copied().unwrap_or_default()
    }

    /// A leaf has records up to a position, at least.
    pub(crate) fn reach(&mut self, leaf: Leaf, end: u64) {
        if let Some(leaf) = self.leaves.get_mut(&leaf) {
            leaf.end = leaf.end.max(end);
        }
    }

    pub(crate) fn wither(&mut self, leaf: Leaf) {
        if let Some(leaf) = self.leaves.get_mut(&leaf) {
            leaf.exists = false;
        }
    }

    /// What a leaf is, if it exists.
    fn identity(&self, leaf: Leaf) -> Option<Bud> {
        let records = self.leaves.get(&leaf.origin())?;
        records.exists.then_some(self.bud(leaf.tree))
    }

    pub(crate) fn leaves(&self) -> impl Iterator<Item = Leaf> {
        self.leaves.keys().copied()
    }

    pub(crate) fn end(&self, leaf: Leaf) -> u64 {
        self.leaves
            .get(&leaf.origin())
            .map_or(0, |records| records.end)
    }

    /// Where reading a leaf stops, whenever it is asked.
    pub(crate) fn stop(&self, leaf: Leaf) -> Option<u64> {
        self.stops.then(|| 6 + u64::from(leaf.number))
    }

    /// Whether a leaf is to be read, as things are.
    pub(crate) fn is_present(&self, leaf: Leaf) -> bool {
        let exists = self.leaves.get(&leaf).is_some_and(|leaf| leaf.exists);
        exists && self.truth.lists(&leaf)
    }

    /// What a fetcher at `next` gets, if there is anything.
    pub(crate) fn read(
        &mut self,
        leaf: Leaf,
        split_epoch: SplitEpoch,
        next: u64,
    ) -> Option<Piece<Leaf, Batch>> {
        let records = self.leaves.get(&leaf.origin())?;
        if !records.exists || next >= records.end {
            return None;
        }
        let end = records.end.min(next + 1 + self.random.below(4));
        Some(Piece {
            split: leaf,
            split_epoch,
            start: next,
            end,
            bytes: usize::try_from(end - next).expect("a few"),
            batch: Some(self.bud(leaf.tree)),
        })
    }

    /// What the discovery answers to a question, each after what it said before.
    pub(crate) fn answers(
        &mut self,
        request: DiscoveryRequest<Leaf>,
        now: Duration,
    ) -> Vec<DiscoveryEvent<Leaf>> {
        match request {
            DiscoveryRequest::Discover { epoch, metadata } => {
                self.looking = Some((epoch, metadata));
                self.discover()
            }
            DiscoveryRequest::Check { .. } => unreachable!("nothing is replayed"),
            _ if now < self.starts_lost_until => Vec::new(),
            DiscoveryRequest::Identify { request, splits } => {
                let splits = splits.into_iter();
                let splits = splits.map(|leaf| (leaf, self.identity(leaf))).collect();
                vec![DiscoveryEvent::Identified { request, splits }]
            }
            DiscoveryRequest::Judge { request, split } => {
                let remains = Remains {
                    identity: self.identity(split),
                    first: self.first(split),
                    end: self.end(split),
                };
                vec![DiscoveryEvent::Judged {
                    request,
                    split,
                    remains,
                }]
            }
            DiscoveryRequest::End { request, split } => {
                let end = self.end(split);
                vec![DiscoveryEvent::End {
                    request,
                    split,
                    end,
                }]
            }
            DiscoveryRequest::Resolve { request, split, .. } => {
                let start = if self.latest {
                    self.end(split)
                } else {
                    self.first(split)
                };
                vec![DiscoveryEvent::Resolved {
                    request,
                    split,
                    start,
                    stop: self.stop(split),
                    rule: "earliest".to_owned(),
                }]
            }
        }
    }

    /// One round of looking for what was last asked for.
    pub(crate) fn discover(&mut self) -> Vec<DiscoveryEvent<Leaf>> {
        let Some((epoch, forest)) = &self.looking else {
            return Vec::new();
        };
        let epoch = *epoch;
        let listed = self.leaves.iter().filter(|(leaf, _)| forest.lists(leaf));
        let (found, gone): (Vec<_>, Vec<_>) = listed.partition(|(_, records)| records.exists);
        let random = &mut self.random;
        let found = found.into_iter().filter(|_| !random.chance(self.partial));
        let bud = |leaf: &Leaf| self.buds.get(&leaf.tree).copied().unwrap_or_default();
        let splits = found.map(|(leaf, _)| FoundSplit::new(*leaf, bud(leaf)));
        let splits = splits.collect();
        let gone: Vec<_> = gone.into_iter().map(|(leaf, _)| *leaf).collect();
        let mut said = vec![DiscoveryEvent::Found { epoch, splits }];
        if !gone.is_empty() {
            said.push(DiscoveryEvent::Gone {
                epoch,
                splits: gone,
            });
        }
        said
    }

    /// The discovery is mistaken about a leaf.
    pub(crate) fn overlook(&self, leaf: Leaf) -> Option<DiscoveryEvent<Leaf>> {
        let (epoch, _) = self.looking.as_ref()?;
        Some(DiscoveryEvent::Gone {
            epoch: *epoch,
            splits: vec![leaf],
        })
    }

    /// All processes have ended.
    pub(crate) fn forget(&mut self) {
        self.looking = None;
    }
}
