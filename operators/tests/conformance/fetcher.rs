//! Fetchers that keep the contract, and fetchers that break it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use timely_splits::conformance::FetcherRig;
use timely_splits::epoch::{MetadataEpoch, SplitEpoch};
use timely_splits::fetcher::{Fetched, Polled, Prepared, SplitFetcher};
use timely_splits::wake::Waker;

use super::support::{Letter, Letters, Row, World, WorldFetcher};
use super::{assert_broken, kit};

type Item = Fetched<Letter, Vec<Row>>;

/// What is wrong with a fetcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    Nothing,
    WaitsForRecords,
    IsSlow,
    SkipsPieces,
    RepeatsPieces,
    RepeatsRecords,
    SkipsRecords,
    StampsTheFirstEpoch,
    StampsTheLatestEpoch,
    LetsAnOldUnassignEndTheNew,
    ReadsOnAfterUnassign,
    NeverWakes,
    IgnoresBytesMax,
    SaysMoreForEver,
    FetchesEverything,
    IsSilentAboutFailures,
    SaysFailuresTwice,
    ForgetsAtMetadata,
    InventsLag,
    LeaksBytes,
    CutsAwayTheRest,
    IsNeverPrepared,
    IsPreparedTwice,
    MovesWithoutRoom,
    IsSilentWithoutRoom,
}

/// The fetcher of the tests' world, with something wrong.
struct Faulty {
    inner: WorldFetcher,
    defect: Defect,
    waker: Waker,
    /// Nothing can be fetched any more.
    cut: Arc<AtomicBool>,
    /// Fetched and not handed over.
    hoard: Vec<Item>,
    epochs: BTreeMap<Letter, Vec<SplitEpoch>>,
    preparing: Vec<Letter>,
    polls: usize,
}

impl Faulty {
    fn spoil(&mut self, item: Item) -> Vec<Item> {
        let Fetched::Piece(mut piece) = item else {
            return match (&item, self.defect) {
                (Fetched::Down(_), Defect::IsSilentAboutFailures) => Vec::new(),
                (Fetched::Down(_), Defect::SaysFailuresTwice) => vec![item.clone(), item],
                _ => vec![item],
            };
        };
        self.polls += 1;
        let third = self.polls.is_multiple_of(3);
        let epochs = &self.epochs[&piece.split];
        let rows = piece.batch.as_mut().expect("every piece has rows");
        match self.defect {
            Defect::SkipsPieces if third => return Vec::new(),
            Defect::RepeatsPieces if third => {
                let piece = Fetched::Piece(piece);
                return vec![piece.clone(), piece];
            }
            Defect::RepeatsRecords if third => rows.push(rows[0]),
            Defect::SkipsRecords if third => rows.truncate(rows.len() - 1),
            Defect::StampsTheFirstEpoch => piece.split_epoch = epochs[0],
            Defect::StampsTheLatestEpoch => piece.split_epoch = epochs[epochs.len() - 1],
            _ => {}
        }
        vec![Fetched::Piece(piece)]
    }
}

impl SplitFetcher<Letter> for Faulty {
    type Batch = Vec<Row>;

    fn adopt(&mut self, epoch: MetadataEpoch, metadata: &Letters) {
        if self.defect == Defect::ForgetsAtMetadata {
            for (split, epochs) in &self.epochs {
                self.inner.unassign(split, epochs[epochs.len() - 1]);
            }
        }
        self.inner.adopt(epoch, metadata);
    }

    fn assign(&mut self, split: &Letter, split_epoch: SplitEpoch, start: &u64) {
        self.epochs.entry(*split).or_default().push(split_epoch);
        if self.defect != Defect::StampsTheLatestEpoch {
            // What was fetched before is not of this assignment.
            self.hoard.clear();
        }
        self.inner.assign(split, split_epoch, start);
        if matches!(
            self.defect,
            Defect::FetchesEverything | Defect::StampsTheLatestEpoch
        ) {
            while self.inner.poll(1 << 20, &mut self.hoard) == Polled::More {}
            self.waker.wake();
        }
    }

    fn unassign(&mut self, split: &Letter, split_epoch: SplitEpoch) {
        let current = self.epochs.get(split).and_then(|epochs| epochs.last()) == Some(&split_epoch);
        match self.defect {
            Defect::ReadsOnAfterUnassign => {}
            Defect::LetsAnOldUnassignEndTheNew => self.inner.unassign(split, split_epoch),
            _ if current => self.inner.unassign(split, split_epoch),
            _ => {}
        }
    }

    fn prepare(&mut self, split: &Letter) -> Prepared {
        let answers = match self.defect {
            Defect::IsNeverPrepared => 0,
            Defect::IsPreparedTwice => 2,
            _ => 1,
        };
        // It takes until the next poll, as when there is something to connect to.
        self.preparing.extend(std::iter::repeat_n(*split, answers));
        self.waker.wake();
        Prepared::Later
    }

    fn lag(&mut self, _split: &Letter, _position: &u64) -> Option<u64> {
        (self.defect == Defect::InventsLag).then_some(1)
    }

    fn cut(&mut self, batch: Vec<Row>, at: &[u64]) -> Vec<Option<Vec<Row>>> {
        let mut parts = self.inner.cut(batch, at);
        if self.defect == Defect::CutsAwayTheRest {
            parts.pop();
        }
        parts
    }

    fn poll(&mut self, bytes_max: usize, fetched: &mut Vec<Item>) -> Polled {
        let bytes_max = match self.defect {
            Defect::MovesWithoutRoom => bytes_max.max(1),
            Defect::IsSilentWithoutRoom if bytes_max == 0 => return Polled::Drained,
            _ => bytes_max,
        };
        fetched.extend(self.preparing.drain(..).map(Fetched::Prepared));
        let mut items = Vec::new();
        let mut polled = Polled::Drained;
        if bytes_max > 0 && !self.hoard.is_empty() {
            items.push(self.hoard.remove(0));
            polled = Polled::More;
        } else if !self.cut.load(Ordering::SeqCst) {
            polled = self.inner.poll(bytes_max, &mut items);
        }
        match self.defect {
            Defect::WaitsForRecords if items.is_empty() => {
                let (_sender, never) = crossbeam_channel::bounded::<()>(0);
                never.recv().ok();
                std::thread::park();
            }
            Defect::IsSlow => {
                crossbeam_channel::never::<()>()
                    .recv_timeout(Duration::from_millis(60))
                    .ok();
            }
            Defect::IgnoresBytesMax => {
                while polled == Polled::More {
                    polled = self.inner.poll(bytes_max, &mut items);
                }
            }
            Defect::SaysMoreForEver => polled = Polled::More,
            _ => {}
        }
        for item in items {
            let spoiled = self.spoil(item);
            fetched.extend(spoiled);
        }
        polled
    }

    fn unreleased_bytes(&self) -> usize {
        usize::from(self.defect == Defect::LeaksBytes)
    }
}

struct Rig {
    world: World,
    defect: Defect,
    cut: Arc<AtomicBool>,
}

impl Rig {
    fn new(defect: Defect) -> Self {
        Self {
            world: World::default(),
            defect,
            cut: Arc::default(),
        }
    }
}

impl FetcherRig for Rig {
    type Split = Letter;
    type Fetcher = Faulty;

    fn fetcher(&mut self, waker: Waker) -> Faulty {
        let heard = if self.defect == Defect::NeverWakes {
            Waker::calling(|| ())
        } else {
            waker
        };
        Faulty {
            inner: (self.world.reading().fetcher)(heard.clone()),
            defect: self.defect,
            waker: heard,
            cut: Arc::clone(&self.cut),
            hoard: Vec::new(),
            epochs: BTreeMap::new(),
            preparing: Vec::new(),
            polls: 0,
        }
    }

    fn split(&self, index: usize) -> Letter {
        Letter(['a', 'b', 'c'][index])
    }

    fn metadata(&self, splits: &[Letter]) -> Letters {
        Letters(splits.iter().copied().collect())
    }

    fn start(&self, _split: &Letter) -> u64 {
        0
    }

    fn write(&mut self, split: &Letter, records: usize) {
        self.world.write(split.0, records as u64);
    }

    fn numbers(&self, batch: &Vec<Row>) -> Vec<u64> {
        batch.iter().map(|(_, offset)| *offset).collect()
    }

    fn unreadable(&self, _split: &Letter) -> Option<u64> {
        Some(1_000)
    }

    fn cut_off(&mut self) -> Option<usize> {
        self.cut.store(true, Ordering::SeqCst);
        Some(10)
    }

    fn flood(&self) -> usize {
        1_000
    }
}

#[test]
fn the_fetcher_of_the_tests_keeps_its_contract() {
    kit()
        .fetcher(|| Rig::new(Defect::Nothing))
        .assert_kept_but(&[]);
}

#[test]
fn each_broken_fetcher_is_rejected_by_the_obligation_that_it_breaks() {
    let broken = [
        (Defect::WaitsForRecords, "F1"),
        (Defect::IsSlow, "F1"),
        (Defect::SkipsPieces, "F2"),
        (Defect::RepeatsPieces, "F2"),
        (Defect::RepeatsRecords, "F3"),
        (Defect::SkipsRecords, "F3"),
        (Defect::StampsTheFirstEpoch, "F4"),
        (Defect::StampsTheLatestEpoch, "F4"),
        (Defect::LetsAnOldUnassignEndTheNew, "F4"),
        (Defect::ReadsOnAfterUnassign, "F5"),
        (Defect::NeverWakes, "F6"),
        (Defect::IgnoresBytesMax, "F7"),
        (Defect::SaysMoreForEver, "F7"),
        (Defect::FetchesEverything, "F8"),
        (Defect::IsSilentAboutFailures, "F9"),
        (Defect::SaysFailuresTwice, "F9"),
        (Defect::ForgetsAtMetadata, "F10"),
        (Defect::InventsLag, "F11"),
        (Defect::LeaksBytes, "F12"),
        (Defect::IsNeverPrepared, "F13"),
        (Defect::IsPreparedTwice, "F13"),
        (Defect::CutsAwayTheRest, "F14"),
        (Defect::MovesWithoutRoom, "F15"),
        (Defect::IsSilentWithoutRoom, "F15"),
    ];
    for (defect, number) in broken {
        let kit = kit().patience(Duration::from_millis(100));

        let report = kit.fetcher(move || Rig::new(defect));

        println!("{defect:?}\n{report}");
        assert_broken(&report, number);
    }
}
