//! The model, driven by hand: what is not held back moves at once.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use timely_splits::assignor::StickyBalanced;
use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::discovery::{Appeared, DiscoveryEvent, DiscoveryRequest, FoundSplit};
use timely_splits::epoch::{ReaderId, RequestId, SplitEpoch};
use timely_splits::event::SourceEvent;
use timely_splits::fetcher::{DownCause, Fetched, FetcherDown, Piece};
use timely_splits::loss::Remains;
use timely_splits::protocol::Command;
use timely_splits::reader::{ReaderOptions, Verdict};
use timely_splits::split::Metadata;

use crate::forest::{Forest, Leaf};
use crate::model::{Batch, Model, Settings};

/// How many messages move at once, at most, before a test is called hung.
const MOVES_MAX: usize = 100_000;

pub(crate) const TICK: Duration = Duration::from_millis(100);

pub(crate) fn leaf(tree: char, number: u16) -> Leaf {
    Leaf::new(tree, number)
}

/// A source, the world around it, and what of it stands still for now.
pub(crate) struct Rig {
    pub(crate) model: Model,
    /// How many records each leaf has.
    pub(crate) ends: BTreeMap<Leaf, u64>,
    pub(crate) log_answers: bool,
    pub(crate) starts_answered: bool,
    pub(crate) found_answered: bool,
    pub(crate) ends_answered: bool,
    /// The last question where a leaf ends.
    pub(crate) ends_asked: Option<RequestId>,
    pub(crate) deaf: BTreeSet<usize>,
    pub(crate) mute: BTreeSet<usize>,
    pub(crate) hung: BTreeSet<usize>,
    /// Readers whose fetchers do not get as far as being prepared.
    pub(crate) unprepared: BTreeSet<usize>,
    /// How often it was asked where a leaf starts.
    pub(crate) starts_asked: u64,
    /// Beside what a leaf appeared, as it was asked last where it starts.
    pub(crate) appeared: BTreeMap<Leaf, Appeared>,
    pub(crate) said: Vec<SourceEvent<Leaf>>,
}

pub(crate) fn settings(readers: usize) -> Settings {
    Settings {
        coordinator: CoordinatorOptions {
            tick_interval: TICK,
            calm_for: Duration::ZERO,
            ..CoordinatorOptions::new(readers)
        },
        reader: ReaderOptions::default(),
        assignor: Rc::new(|| Box::new(StickyBalanced)),
        metadata_apart: false,
    }
}

impl Rig {
    /// Readers that read the first leaf of each of `trees`, all of which have 10 records.
    pub(crate) fn reading(readers: usize, trees: &str) -> Self {
        let mut rig = Self::closed(settings(readers));
        for tree in trees.chars() {
            rig.ends.insert(leaf(tree, 0), 10);
        }
        rig.open();
        rig.list(trees);
        rig
    }

    pub(crate) fn closed(settings: Settings) -> Self {
        Self {
            model: Model::new(settings),
            ends: BTreeMap::new(),
            log_answers: true,
            starts_answered: true,
            found_answered: true,
            ends_answered: true,
            ends_asked: None,
            deaf: BTreeSet::new(),
            mute: BTreeSet::new(),
            hung: BTreeSet::new(),
            unprepared: BTreeSet::new(),
            starts_asked: 0,
            appeared: BTreeMap::new(),
            said: Vec::new(),
        }
    }

    pub(crate) fn open(&mut self) {
        self.model.open();
        self.settle();
    }

    pub(crate) fn list(&mut self, trees: &str) {
        self.model.metadata(Forest::of(trees));
        self.settle();
    }

    pub(crate) fn ask(&mut self, command: Command<Leaf>) {
        self.model.command(0, command);
        self.settle();
    }

    pub(crate) fn move_to(&mut self, leaf: Leaf, reader: usize) {
        self.ask(Command::Move {
            split: leaf,
            to: ReaderId(reader),
        });
    }

    /// Moves messages until none is left that is not held back.
    pub(crate) fn settle(&mut self) {
        for _ in 0..MOVES_MAX {
            if !self.step() {
                return;
            }
        }
        panic!("L: it does not come to rest");
    }

    /// Moves one message; false if there is none that is not held back.
    pub(crate) fn step(&mut self) -> bool {
        self.said.append(&mut self.model.told);
        self.model.fetching.clear();
        for reader in 0..self.model.readers.len() {
            let queues = &self.model.readers[reader];
            if !queues.metadata.is_empty() && !self.deaf.contains(&reader) {
                self.model.metadata_apart(reader);
                return true;
            }
            if !queues.directives.is_empty() && !self.deaf.contains(&reader) {
                self.model.directive(reader);
                return true;
            }
            if !queues.reports.is_empty() && !self.mute.contains(&reader) {
                self.model.report(reader);
                return true;
            }
        }
        if let Some((reader, leaf)) = self.model.preparing.pop_front() {
            if !self.unprepared.contains(&reader) {
                self.model.fetched(reader, Fetched::Prepared(leaf));
            }
            return true;
        }
        if self.log_answers && self.model.under_way.is_some() {
            self.model.appended();
            return true;
        }
        let Some(request) = self.model.asked.pop_front() else {
            return false;
        };
        self.answer(request);
        true
    }

    fn answer(&mut self, request: DiscoveryRequest<Leaf>) {
        match request {
            DiscoveryRequest::Discover { epoch, metadata } => {
                let listed = self.ends.keys().filter(|leaf| metadata.lists(leaf));
                let splits = listed.map(|leaf| FoundSplit::new(*leaf, 0)).collect();
                if self.found_answered {
                    let event = DiscoveryEvent::Found { epoch, splits };
                    self.model.discovered(event);
                }
            }
            DiscoveryRequest::Identify { .. } => unreachable!("no identity is asked for"),
            DiscoveryRequest::Judge { request, split } => {
                let remains = Remains {
                    identity: Some(0),
                    first: 0,
                    end: self.ends[&split],
                };
                self.model.discovered(DiscoveryEvent::Judged {
                    request,
                    split,
                    remains,
                });
            }
            DiscoveryRequest::Check { .. } => unreachable!("nothing is replayed"),
            DiscoveryRequest::End { request, split } => {
                self.ends_asked = Some(request);
                let end = self.ends[&split];
                if self.ends_answered {
                    self.model.discovered(DiscoveryEvent::End {
                        request,
                        split,
                        end,
                    });
                }
            }
            DiscoveryRequest::Resolve {
                request,
                split,
                appeared,
            } => {
                self.starts_asked += 1;
                self.appeared.insert(split, appeared);
                if self.starts_answered {
                    let start = 0;
                    self.model.discovered(DiscoveryEvent::Resolved {
                        request,
                        split,
                        start,
                        stop: None,
                        rule: "earliest".to_owned(),
                    });
                }
            }
        }
    }

    /// The discovery finds everything that the metadata in force lists.
    pub(crate) fn find(&mut self) {
        let adopted = self.model.watch.adopted().cloned();
        let (epoch, metadata) = adopted.expect("some metadata is in force");
        self.answer(DiscoveryRequest::Discover { epoch, metadata });
        self.settle();
    }

    /// Time passes, and what is due happens.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.model.now += time;
        self.model.time();
        for reader in 0..self.model.readers.len() {
            self.model.reader_time(reader);
        }
        self.settle();
    }

    /// A tick passes, and is durable afterwards.
    pub(crate) fn tick(&mut self) {
        let open = self.model.coordinator.open_tick();
        self.pass(TICK);
        assert!(open.is_some(), "a tick is open");
        assert_eq!(self.model.history.bound(), open, "the frontier moves");
    }

    /// The next piece of a leaf as the fetcher of a reader has it, if it is told to read it.
    pub(crate) fn piece(&self, reader: usize, leaf: Leaf, records: u64) -> Piece<Leaf, Batch> {
        let told = self.model.readers[reader].fetcher.get(&leaf);
        let (split_epoch, start) = *told.expect("the fetcher is told to read it");
        let end = self.ends[&leaf].min(start + records);
        piece(leaf, split_epoch, start, end)
    }

    /// A piece is fetched, and there is nothing more of it to come.
    pub(crate) fn bring(&mut self, reader: usize, piece: Piece<Leaf, Batch>) -> Verdict {
        let told = self.model.readers[reader].fetcher.get_mut(&piece.split);
        if let Some((split_epoch, next)) = told
            && *split_epoch == piece.split_epoch
        {
            *next = piece.end;
        }
        self.model.fetched(reader, Fetched::Piece(piece))
    }

    /// Reads so many records of a leaf, with whoever has it.
    pub(crate) fn read_some(&mut self, leaf: Leaf, records: u64) {
        let reader = self.owner(leaf).expect("somebody has it");
        let piece = self.piece(reader, leaf, records);
        assert_eq!(self.bring(reader, piece), Verdict::Emit);
    }

    /// Fetchers that do not hang bring all there is.
    pub(crate) fn read(&mut self) {
        for reader in 0..self.model.readers.len() {
            if self.hung.contains(&reader) || self.model.readers[reader].state.open().is_none() {
                continue;
            }
            let told: Vec<Leaf> = self.model.readers[reader].fetcher.keys().copied().collect();
            for leaf in told {
                let piece = self.piece(reader, leaf, u64::MAX / 2);
                if piece.start < piece.end {
                    self.bring(reader, piece);
                }
            }
        }
        self.settle();
    }

    /// A reader has no room, since it has emitted as much at the open tick as it may.
    pub(crate) fn fill_up(&mut self, reader: usize) {
        let now = self.model.now;
        self.model.readers[reader].state.handle_full(true, now);
        self.model.reader_time(reader);
    }

    /// The fetcher of whoever has a leaf stops reading it.
    pub(crate) fn break_down(&mut self, leaf: Leaf, cause: DownCause<u64>) {
        let reader = self.owner(leaf).expect("somebody has it");
        let (split_epoch, _) = self.model.readers[reader].fetcher[&leaf];
        let down = FetcherDown {
            split: leaf,
            split_epoch,
            cause,
            message: "broken on purpose".to_owned(),
        };
        self.model.fetched(reader, Fetched::Down(down));
        self.settle();
    }

    /// All processes end without warning; others begin, and ask for metadata.
    pub(crate) fn crash(&mut self, readers: usize, trees: &str) {
        self.end(readers);
        self.open();
        self.list(trees);
    }

    /// All processes end without warning; others begin, and have not opened the log.
    pub(crate) fn end(&mut self, readers: usize) {
        self.model.crash(false, readers);
        self.deaf.clear();
        self.mute.clear();
        self.hung.clear();
        self.unprepared.clear();
        self.said.clear();
    }

    pub(crate) fn owner(&self, leaf: Leaf) -> Option<usize> {
        self.model.watch.owner(leaf).map(|reader| reader.0)
    }

    /// How many splits each reader has, in order of their counts.
    pub(crate) fn counts(&self) -> Vec<usize> {
        let readers = self.model.readers.iter();
        let mut counts: Vec<_> = readers.map(|reader| reader.state.held()).collect();
        counts.sort_unstable();
        counts
    }

    /// Everything that the metadata lists is read to its end, and bound.
    pub(crate) fn assert_all_read(&mut self) {
        self.read();
        self.tick();
        let forest = self.model.watch.adopted().map(|(_, forest)| forest.clone());
        let forest = forest.expect("some metadata is in force");
        for (leaf, end) in self.ends.iter().filter(|(leaf, _)| forest.lists(leaf)) {
            let next = self.model.history.next(leaf);
            assert_eq!(next, Some(*end), "L: {leaf} is read to its end");
        }
        assert!(self.model.history.is_all_bound());
    }
}

pub(crate) fn piece(
    leaf: Leaf,
    split_epoch: SplitEpoch,
    start: u64,
    end: u64,
) -> Piece<Leaf, Batch> {
    Piece {
        split: leaf,
        split_epoch,
        start,
        end,
        bytes: 1,
        batch: Some(0),
    }
}
