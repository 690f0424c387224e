//! A source of letters: splits in memory, a fetcher and a discovery without threads.
#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

mod letters;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use timely_splits::assignor::StickyBalanced;
use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit, SplitDiscovery};
use timely_splits::enumerator::Enumeration;
use timely_splits::epoch::{MetadataEpoch, SplitEpoch};
use timely_splits::fetcher::{
    DownCause, Fetched, FetcherDown, Piece, Polled, SplitFetcher, cut_rows,
};
use timely_splits::health::FailureKind;
use timely_splits::log::BindingLog;
use timely_splits::loss::Remains;
use timely_splits::source::Reading;
use timely_splits::wake::Waker;

pub(crate) use self::letters::{Letter, Letters};

/// A record: the split and the offset.
pub(crate) type Row = (char, u64);

/// What exists outside the dataflow.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<WorldState>>);

#[derive(Default)]
struct WorldState {
    /// How many records each split has.
    ends: BTreeMap<Letter, u64>,
    /// What the metadata service has answered and nobody heard.
    answer: Option<Letters>,
    broken: BTreeMap<Letter, FailureKind>,
    wakers: Vec<Waker>,
    /// How many records a piece has at most, if not three.
    piece_max: Option<u64>,
    /// Splits whose records before a position are gone.
    gone_before: BTreeMap<Letter, u64>,
    /// Where the reading of splits stops that stop.
    stops: BTreeMap<Letter, u64>,
    /// How often each split was given to a fetcher.
    assigned: BTreeMap<Letter, usize>,
}

impl World {
    /// Answers the metadata question from here on: these letters.
    pub(crate) fn list(&self, letters: &str) {
        let mut world = self.0.lock().unwrap();
        world.answer = Some(Letters::of(letters));
        world.wake();
    }

    /// Appends records to a split.
    pub(crate) fn write(&self, letter: char, records: u64) {
        let mut world = self.0.lock().unwrap();
        *world.ends.entry(Letter(letter)).or_default() += records;
        world.wake();
    }

    /// Has the reading of a split stop at a position, if it is found from here on.
    pub(crate) fn stop_at(&self, letter: char, position: u64) {
        let mut world = self.0.lock().unwrap();
        world.stops.insert(Letter(letter), position);
    }

    /// Makes the next attempt to read a split fail.
    pub(crate) fn break_once(&self, letter: char, kind: FailureKind) {
        let mut world = self.0.lock().unwrap();
        world.broken.insert(Letter(letter), kind);
        world.wake();
    }

    /// Nothing that was broken and not found to be is broken any more.
    pub(crate) fn mend(&self) {
        self.0.lock().unwrap().broken.clear();
    }

    /// Brings so many records in one piece from here on.
    pub(crate) fn bring(&self, piece_max: u64) {
        self.0.lock().unwrap().piece_max = Some(piece_max);
    }

    /// Deletes the records of a split before a position.
    pub(crate) fn delete_before(&self, letter: char, position: u64) {
        let mut world = self.0.lock().unwrap();
        world.gone_before.insert(Letter(letter), position);
    }

    pub(crate) fn assignments(&self, letter: char) -> usize {
        let world = self.0.lock().unwrap();
        world.assigned.get(&Letter(letter)).copied().unwrap_or(0)
    }

    pub(crate) fn enumeration(&self, log: impl BindingLog<Letter>) -> Enumeration<Letter> {
        let world = self.clone();
        Enumeration {
            discovery: Box::new(move |waker| {
                world.0.lock().unwrap().wakers.push(waker);
                let found = VecDeque::new();
                Box::new(WorldDiscovery { world, found })
            }),
            log: Box::new(log),
            assignor: Box::new(StickyBalanced),
            coordination: CoordinatorOptions::new(0),
        }
    }

    pub(crate) fn reading(&self) -> Reading<Letter, WorldFetcher> {
        let world = self.clone();
        Reading {
            fetcher: Box::new(move |waker| {
                world.0.lock().unwrap().wakers.push(waker);
                let assigned = BTreeMap::new();
                WorldFetcher { world, assigned }
            }),
            admission: None,
        }
    }
}

impl WorldState {
    fn wake(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }
}

struct WorldDiscovery {
    world: World,
    found: VecDeque<DiscoveryEvent<Letter>>,
}

impl SplitDiscovery<Letter> for WorldDiscovery {
    fn request(&mut self, request: DiscoveryRequest<Letter>) {
        let all_found = match &request {
            DiscoveryRequest::Discover { epoch, .. } => {
                Some(DiscoveryEvent::AllFound { epoch: *epoch })
            }
            _ => None,
        };
        self.found.push_back(match request {
            DiscoveryRequest::Discover { epoch, metadata } => {
                let found = metadata
                    .0
                    .into_iter()
                    .map(|split| FoundSplit::new(split, ()));
                let splits = found.collect();
                DiscoveryEvent::Found { epoch, splits }
            }
            DiscoveryRequest::Identify { request, splits } => {
                let splits = splits.into_iter().map(|split| (split, Some(()))).collect();
                DiscoveryEvent::Identified { request, splits }
            }
            DiscoveryRequest::Judge { request, split } => {
                let world = self.world.0.lock().unwrap();
                let remains = Remains {
                    identity: Some(()),
                    first: world.gone_before.get(&split).copied().unwrap_or(0),
                    end: world.ends.get(&split).copied().unwrap_or(0),
                };
                DiscoveryEvent::Judged {
                    request,
                    split,
                    remains,
                }
            }
            DiscoveryRequest::Check {
                request,
                mut ranges,
            } => {
                let world = self.world.0.lock().unwrap();
                ranges.retain(|range| {
                    let gone_before = world.gone_before.get(&range.split);
                    gone_before.is_some_and(|gone| range.from < *gone)
                });
                let lost = ranges.into_iter();
                let lost = lost.map(|range| (range, "deleted".to_owned())).collect();
                DiscoveryEvent::Checked { request, lost }
            }
            DiscoveryRequest::End { request, split } => {
                let world = self.world.0.lock().unwrap();
                DiscoveryEvent::End {
                    request,
                    split,
                    end: world.ends.get(&split).copied().unwrap_or(0),
                }
            }
            DiscoveryRequest::Resolve { request, split, .. } => DiscoveryEvent::Resolved {
                request,
                split,
                start: 0,
                stop: self.world.0.lock().unwrap().stops.get(&split).copied(),
                rule: "earliest".to_owned(),
            },
        });
        self.found.extend(all_found);
        self.world.0.lock().unwrap().wake();
    }

    fn poll(&mut self) -> Option<DiscoveryEvent<Letter>> {
        let answer = || self.world.0.lock().unwrap().answer.take();
        self.found
            .pop_front()
            .or_else(|| answer().map(DiscoveryEvent::Metadata))
    }
}

/// Reads up to three records a piece.
pub(crate) struct WorldFetcher {
    world: World,
    assigned: BTreeMap<Letter, (SplitEpoch, u64)>,
}

impl SplitFetcher<Letter> for WorldFetcher {
    type Batch = Vec<Row>;

    fn adopt(&mut self, _epoch: MetadataEpoch, _metadata: &Letters) {}

    fn assign(&mut self, split: &Letter, split_epoch: SplitEpoch, start: &u64) {
        let mut world = self.world.0.lock().unwrap();
        *world.assigned.entry(*split).or_default() += 1;
        self.assigned.insert(*split, (split_epoch, *start));
        world.wake();
    }

    fn unassign(&mut self, split: &Letter, _split_epoch: SplitEpoch) {
        self.assigned.remove(split);
    }

    fn cut(&mut self, batch: Vec<Row>, at: &[u64]) -> Vec<Option<Vec<Row>>> {
        cut_rows(batch, at, |row| row.1)
    }

    fn poll(&mut self, bytes_max: usize, fetched: &mut Vec<Fetched<Letter, Vec<Row>>>) -> Polled {
        let mut world = self.world.0.lock().unwrap();
        let mut bytes_left = bytes_max;
        let mut polled = Polled::Drained;
        self.assigned.retain(|split, (split_epoch, next)| {
            let end = world.ends.get(split).copied().unwrap_or(0);
            let beyond = (*next > end).then_some(FailureKind::Definite);
            if let Some(kind) = world.broken.remove(split).or(beyond) {
                fetched.push(Fetched::Down(FetcherDown {
                    split: *split,
                    split_epoch: *split_epoch,
                    cause: DownCause::Failed(kind),
                    message: format!("split {split}: it is broken, or ends before {next}"),
                }));
                return false;
            }
            if *next < end && bytes_left > 0 {
                let to = end.min(*next + world.piece_max.unwrap_or(3));
                let rows: Vec<_> = (*next..to).map(|offset| (split.0, offset)).collect();
                bytes_left = bytes_left.saturating_sub(rows.len());
                fetched.push(Fetched::Piece(Piece {
                    split: *split,
                    split_epoch: *split_epoch,
                    start: *next,
                    end: to,
                    bytes: rows.len(),
                    batch: Some(rows),
                }));
                *next = to;
            }
            if *next < end {
                polled = Polled::More;
            }
            true
        });
        polled
    }
}
