//! What fetchers do.

use std::time::Duration;

use timely_splits::epoch::SplitEpoch;
use timely_splits::fetcher::{DownCause, Fetched, FetcherDown};
use timely_splits::loss::LossCause;

use crate::forest::Leaf;
use crate::model::Batch;
use crate::run::{Happening, Simulation};

impl Simulation {
    pub(super) fn fetch_later(&mut self, reader: usize, leaf: Leaf, attempt: u64) {
        let most = self.case.swarm.fetch * 1_000 + 1;
        let now = self.elapsed();
        let port = &mut self.ports[reader];
        let hung = port.hung_until.saturating_sub(now);
        let delay = Duration::from_micros(port.random.below(most)) + hung;
        self.soon(delay, Happening::Fetch(reader, leaf, attempt));
    }

    /// Connects to a leaf, or never does.
    pub(super) fn prepare(&mut self, reader: usize, leaf: Leaf) {
        let most = self.case.swarm.fetch * 1_000 + 1;
        let now = self.elapsed();
        let port = &mut self.ports[reader];
        let hung = port.hung_until.saturating_sub(now);
        let delay = Duration::from_micros(port.random.below(most)) + hung;
        if !port.random.chance(20) {
            self.soon(
                delay,
                Happening::Fetched(reader, Fetched::Prepared(leaf), 0),
            );
        }
    }

    /// Takes what comes next in a leaf, which is then under way to the reader.
    pub(super) fn fetch(&mut self, reader: usize, leaf: Leaf, attempt: u64) {
        let current = self.ports[reader].attempts.get(&leaf) == Some(&attempt);
        let told = self.model.readers[reader].fetcher.get_mut(&leaf);
        let Some((split_epoch, next)) = told.filter(|_| current) else {
            return;
        };
        if *next < self.world.first(leaf) || *next > self.world.end(leaf) {
            let down = FetcherDown {
                split: leaf,
                split_epoch: *split_epoch,
                cause: DownCause::Lost(LossCause::OutOfRange),
                message: "deleted on purpose".to_owned(),
            };
            // Nothing more comes of this attempt.
            self.ports[reader].attempts.remove(&leaf);
            self.deliver(reader, Fetched::Down(down), 0);
            return;
        }
        let Some(piece) = self.world.read(leaf, *split_epoch, *next) else {
            self.ports[reader].idle.insert(leaf);
            return;
        };
        *next = piece.end;
        self.deliver(reader, Fetched::Piece(piece), attempt);
        self.fetch_later(reader, leaf, attempt);
    }

    pub(super) fn deliver(&mut self, reader: usize, fetched: Fetched<Leaf, Batch>, attempt: u64) {
        let hung = self.ports[reader].hung_until.saturating_sub(self.elapsed());
        self.soon(hung, Happening::Fetched(reader, fetched, attempt));
    }

    /// What was fetched is there, or comes late if its split was unassigned meanwhile.
    pub(super) fn arrive(&mut self, reader: usize, fetched: Fetched<Leaf, Batch>, attempt: u64) {
        if let Fetched::Piece(piece) = &fetched
            && attempt > 0
            && !self.is_assigned(reader, piece.split, piece.split_epoch)
        {
            let port = &mut self.ports[reader];
            if port.random.chance(self.case.swarm.late) {
                let delay = Duration::from_millis(port.random.below(400));
                // An attempt of none, so that it is not late again.
                self.soon(delay, Happening::Fetched(reader, fetched, 0));
            }
            return;
        }
        self.ports[reader].fetched.push_back(fetched);
        self.read_soon(reader, Duration::ZERO);
    }

    /// Has the reader look at what was fetched, after all that reaches it until then.
    pub(super) fn read_soon(&mut self, reader: usize, after: Duration) {
        if !std::mem::replace(&mut self.ports[reader].reading, true) {
            self.soon(after, Happening::Read(reader));
        }
    }

    pub(super) fn is_assigned(&self, reader: usize, leaf: Leaf, split_epoch: SplitEpoch) -> bool {
        let told = self.model.readers[reader].fetcher.get(&leaf);
        told.is_some_and(|(current, _)| *current == split_epoch)
    }

    /// The reader looks at what was fetched, some of it at a time.
    pub(super) fn read(&mut self, reader: usize) {
        let held_back = if self.healing.is_some() {
            0
        } else {
            self.case.swarm.held_back
        };
        let random = &mut self.ports[reader].random;
        self.model.offer_again(reader, || random.chance(held_back));
        for _ in 0..3 {
            if self.model.readers[reader].state.open().is_none() {
                return;
            }
            let Some(fetched) = self.ports[reader].fetched.pop_front() else {
                break;
            };
            if let Fetched::Piece(piece) = &fetched
                && self.ports[reader].random.chance(held_back)
                && self.model.hold(reader, piece)
            {
                continue;
            }
            self.model.fetched(reader, fetched);
        }
        let parked = !self.model.readers[reader].state.parked().is_empty();
        if parked || !self.ports[reader].fetched.is_empty() {
            self.read_soon(reader, Duration::from_millis(2));
        }
    }

    /// Fetchers look for more where there was none.
    pub(super) fn wake_fetchers(&mut self, leaf: Leaf) {
        let leaf = self.model.history.read_as(leaf);
        for reader in 0..self.ports.len() {
            if self.ports[reader].idle.remove(&leaf)
                && let Some(attempt) = self.ports[reader].attempts.get(&leaf).copied()
            {
                self.fetch_later(reader, leaf, attempt);
            }
        }
    }

    pub(super) fn progress(&mut self, reader: usize) {
        let positions = self.model.readers[reader].state.positions();
        let lags = positions.map(|(leaf, split_epoch, next)| {
            let lag = self.world.end(*leaf).saturating_sub(*next);
            (*leaf, split_epoch, lag)
        });
        let lags = lags.collect();
        self.model.lags(reader, lags);
        self.soon(Duration::from_millis(100), Happening::Progress(reader));
    }
}
