//! A reader as far as a fetcher can tell, which believes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::FetcherRig;
use crate::conformance::report::{Breach, Checked, ensure};
use crate::conformance::run::{Bell, Context};
use crate::epoch::{MetadataEpoch, SplitEpoch};
use crate::fetcher::{Fetched, FetcherDown, Piece, Polled, Prepared, SplitFetcher};
use crate::split::Split;

type Position<R> = <<R as FetcherRig>::Split as Split>::Position;
type Batch<R> = <<R as FetcherRig>::Fetcher as SplitFetcher<<R as FetcherRig>::Split>>::Batch;

/// Where reading a split stands.
#[derive(Clone, Debug)]
pub(super) struct Mark<P> {
    pub(super) position: P,
    /// The number of the next record.
    pub(super) number: u64,
}

/// What one assignment has brought.
struct Reading<P> {
    split_epoch: SplitEpoch,
    next: Mark<P>,
    /// Whether a piece of it has come.
    begun: bool,
    /// What was read under this split epoch before, and assigned again, may come again.
    again: bool,
}

/// Drives one fetcher and checks what it hands over.
pub(super) struct Driver<R: FetcherRig> {
    pub(super) context: Context,
    pub(super) rig: R,
    fetcher: R::Fetcher,
    bell: Bell,
    metadata_epoch: MetadataEpoch,
    readings: BTreeMap<R::Split, Reading<Position<R>>>,
    /// Every assignment there ever was.
    known: BTreeSet<(R::Split, SplitEpoch)>,
    /// Numbers of records that came under assignments that were over.
    pub(super) late: Vec<(R::Split, u64)>,
    pub(super) downs: Vec<FetcherDown<R::Split>>,
    /// Splits that the fetcher was to prepare for, and has not said it is; one entry a call.
    pub(super) preparing: Vec<R::Split>,
    /// Where the latest pieces ended.
    pub(super) marks: Vec<Mark<Position<R>>>,
    pub(super) batches: Vec<Batch<R>>,
    /// The obligation that is broken when what is waited for does not come.
    pub(super) missing: &'static str,
}

/// The bytes of the pieces of a poll.
pub(super) struct Moved {
    pub(super) polled: Polled,
    pub(super) bytes: Vec<usize>,
}

impl<R: FetcherRig> Driver<R> {
    pub(super) fn new(mut rig: R, context: Context) -> Self {
        let bell = Bell::new();
        let waker = bell.waker.clone();
        let (fetcher, _) = context.call("making it", || rig.fetcher(waker));
        let mut driver = Self {
            context,
            rig,
            fetcher,
            bell,
            metadata_epoch: MetadataEpoch::default(),
            readings: BTreeMap::new(),
            known: BTreeSet::new(),
            late: Vec::new(),
            downs: Vec::new(),
            preparing: Vec::new(),
            marks: Vec::new(),
            batches: Vec::new(),
            missing: "F3",
        };
        driver.adopt();
        driver
    }

    /// Leaves this fetcher for another one, as when a split moves to another process.
    pub(super) fn successor(self) -> Self {
        let Self {
            context,
            rig,
            fetcher,
            ..
        } = self;
        context.call("dropping it", || drop(fetcher));
        Self::new(rig, context)
    }

    pub(super) fn patience(&self) -> Duration {
        self.context.kit.patience
    }

    pub(super) fn fetcher(&mut self) -> &mut R::Fetcher {
        &mut self.fetcher
    }

    /// Has the fetcher cut a batch, and says which records are in each part.
    pub(super) fn cut(&mut self, batch: Batch<R>, at: &[Position<R>]) -> Vec<Vec<u64>> {
        let fetcher = &mut self.fetcher;
        let (parts, _) = self.context.call("cut", || fetcher.cut(batch, at));
        let numbers = |part: Option<Batch<R>>| part.map(|part| self.rig.numbers(&part));
        parts
            .into_iter()
            .map(|part| numbers(part).unwrap_or_default())
            .collect()
    }

    /// Begins a metadata epoch that lists all splits.
    pub(super) fn adopt(&mut self) -> Duration {
        self.metadata_epoch = self.metadata_epoch.next();
        let metadata = self
            .rig
            .metadata(&[0, 1, 2].map(|index| self.rig.split(index)));
        let (epoch, fetcher) = (self.metadata_epoch, &mut self.fetcher);
        let adopt = || fetcher.adopt(epoch, &metadata);
        self.context.call("adopt", adopt).1
    }

    pub(super) fn first(&self, split: &R::Split) -> Mark<Position<R>> {
        Mark {
            position: self.rig.start(split),
            number: 0,
        }
    }

    /// Assigns a split from its first record on.
    pub(super) fn begin(&mut self, split: &R::Split, epoch: u64) -> Duration {
        let first = self.first(split);
        self.assign(split, epoch, first)
    }

    pub(super) fn assign(
        &mut self,
        split: &R::Split,
        epoch: u64,
        at: Mark<Position<R>>,
    ) -> Duration {
        let (split_epoch, start) = (SplitEpoch(epoch), at.position.clone());
        let again = !self.known.insert((split.clone(), split_epoch));
        let reading = Reading {
            split_epoch,
            next: at,
            begun: false,
            again,
        };
        self.readings.insert(split.clone(), reading);
        let fetcher = &mut self.fetcher;
        let assign = || fetcher.assign(split, split_epoch, &start);
        self.context.call("assign", assign).1
    }

    /// Unassigns a split, and says where reading it goes on.
    pub(super) fn unassign(&mut self, split: &R::Split) -> Checked<Mark<Position<R>>> {
        let reading = self.readings.remove(split).ok_or_else(|| Breach {
            number: "F9",
            how: format!("split {split} went down: {:?}", self.downs),
        })?;
        self.unassign_epoch(split, reading.split_epoch.0);
        Ok(reading.next)
    }

    /// Tells the fetcher that an assignment is over, whatever is assigned.
    pub(super) fn unassign_epoch(&mut self, split: &R::Split, epoch: u64) -> Duration {
        let fetcher = &mut self.fetcher;
        let unassign = || fetcher.unassign(split, SplitEpoch(epoch));
        self.context.call("unassign", unassign).1
    }

    /// Has the fetcher prepare for a split.
    pub(super) fn prepare(&mut self, split: &R::Split) {
        let fetcher = &mut self.fetcher;
        let (prepared, _) = self.context.call("prepare", || fetcher.prepare(split));
        if prepared == Prepared::Later {
            self.preparing.push(split.clone());
        }
    }

    /// How many records of a split were read under its assignments, from the first one on.
    pub(super) fn count(&self, split: &R::Split) -> u64 {
        self.readings
            .get(split)
            .map_or(0, |reading| reading.next.number)
    }

    /// Polls once, checks what came, and says what was moved and how long the call took.
    pub(super) fn poll(&mut self, bytes_max: usize) -> Checked<(Moved, Duration)> {
        self.bell.begin();
        let mut fetched = Vec::new();
        let fetcher = &mut self.fetcher;
        let poll = || fetcher.poll(bytes_max, &mut fetched);
        let (polled, took) = self.context.call("poll", poll);
        let mut bytes = Vec::new();
        for item in fetched {
            match item {
                Fetched::Piece(piece) => {
                    bytes.push(piece.bytes);
                    self.take(piece)?;
                }
                Fetched::Down(down) => self.take_down(down)?,
                Fetched::Prepared(split) => self.take_prepared(split)?,
                Fetched::Health(_) => {}
            }
        }
        Ok((Moved { polled, bytes }, took))
    }

    /// Polls until `done`, waiting to be woken wherever the fetcher promises it.
    pub(super) fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Checked {
        self.until_polled_by(1 << 20, what, done)
    }

    /// Waits to be woken, without having polled since there was nothing, and then polls until `done`.
    pub(super) fn until_woken(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Checked {
        if !self.bell.wait(self.patience()) {
            return self.nothing_came(what, done);
        }
        self.until(what, done)
    }

    pub(super) fn until_polled_by(
        &mut self,
        bytes_max: usize,
        what: &str,
        done: impl Fn(&Self) -> bool,
    ) -> Checked {
        let mut moved_at = self.context.now();
        while !done(self) {
            let (moved, _) = self.poll(bytes_max)?;
            if done(self) {
                break;
            }
            let now = self.context.now();
            if !moved.bytes.is_empty() {
                moved_at = now;
            }
            let left = (moved_at + self.patience()).saturating_sub(now);
            if moved.polled == Polled::More {
                ensure("F7", !left.is_zero(), || {
                    format!("`poll` said `More` again and again and moved nothing: {what}")
                })?;
            } else if !self.bell.wait(left) {
                return self.nothing_came(what, done);
            }
        }
        Ok(())
    }

    /// Polls without room until `done`, as a reader does: again and again, woken or not.
    pub(super) fn until_heard(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Checked {
        let until = self.context.now() + self.patience();
        loop {
            let (moved, _) = self.poll(0)?;
            ensure("F15", moved.bytes.is_empty(), || {
                format!("`poll(0)` moved pieces of {:?} bytes", moved.bytes)
            })?;
            if done(self) {
                return Ok(());
            }
            ensure("F15", self.context.now() < until, || {
                format!("{what}: nothing came of polls without room")
            })?;
            self.bell.wait(self.patience() / 100);
        }
    }

    /// Lets the fetcher fetch for a while without being polled.
    pub(super) fn let_fetch(&self) {
        // The bell may have been rung already, and is not rung again as long as nobody polls.
        for _ in 0..2 {
            self.bell.wait(self.patience() / 10);
        }
    }

    /// Polls until nothing comes for a while.
    pub(super) fn drain_quietly(&mut self) -> Checked {
        let mut moved_at = self.context.now();
        loop {
            let (moved, _) = self.poll(1 << 20)?;
            let now = self.context.now();
            if !moved.bytes.is_empty() {
                moved_at = now;
            } else if moved.polled == Polled::More {
                let soon = now < moved_at + self.patience();
                ensure("F7", soon, || "`poll` says `More` on and on".to_owned())?;
            } else if now >= moved_at + self.patience() / 10 {
                return Ok(());
            } else {
                // It may be woken for nothing, again and again.
                self.bell.wait(self.patience() / 10);
            }
        }
    }

    /// Says whether it is the waking that is broken, or the reading.
    fn nothing_came(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Checked {
        let (moved, _) = self.poll(1 << 20)?;
        let assigned = |(split, _): &(R::Split, u64)| self.readings.contains_key(split);
        let (number, how) = if done(self) || !moved.bytes.is_empty() {
            ("F6", "it was there, and nobody was woken")
        } else if self.late.iter().any(assigned) {
            ("F4", "it came under an assignment that was over")
        } else {
            (self.missing, "nothing came")
        };
        let how = format!("{what}: {how}; what went down: {:?}", self.downs);
        Err(Breach { number, how })
    }

    fn take(&mut self, piece: Piece<R::Split, Batch<R>>) -> Checked {
        let Piece {
            split,
            split_epoch,
            start,
            end,
            bytes,
            batch,
        } = piece;
        let numbers = batch
            .as_ref()
            .map_or_else(Vec::new, |batch| self.rig.numbers(batch));
        ensure(
            "F4",
            self.known.contains(&(split.clone(), split_epoch)),
            || {
                format!(
                    "a piece of {split} is of split epoch {split_epoch}, which was not assigned"
                )
            },
        )?;
        ensure("F2", start <= end, || {
            format!("a piece of {split} goes from {start} back to {end}")
        })?;
        ensure("F7", bytes > 0 || numbers.is_empty(), || {
            format!("a piece of {split} with records takes no bytes")
        })?;
        let reading = self.readings.get_mut(&split);
        let Some(reading) = reading.filter(|reading| reading.split_epoch == split_epoch) else {
            let late = numbers.into_iter().map(|number| (split.clone(), number));
            self.late.extend(late);
            return Ok(());
        };
        if start < reading.next.position && reading.again {
            // Read before the split was assigned again; a reader drops it.
            return Ok(());
        }
        if start != reading.next.position {
            let first = !reading.begun && split_epoch > SplitEpoch(1);
            // The first piece of a later assignment is more likely one of an earlier assignment.
            let number = if first { "F4" } else { "F2" };
            let expected = &reading.next.position;
            let how = format!(
                "a piece of {split} under split epoch {split_epoch} starts at {start}, expected \
                 {expected}"
            );
            return Err(Breach { number, how });
        }
        let expected: Vec<u64> = (reading.next.number..).take(numbers.len()).collect();
        ensure("F3", numbers == expected, || {
            let range = format!("the range {start}..{end} of {split}");
            format!("{range} brought the records {numbers:?}, expected {expected:?}")
        })?;
        reading.begun = true;
        reading.next = Mark {
            position: end,
            number: reading.next.number + numbers.len() as u64,
        };
        self.marks.push(reading.next.clone());
        self.batches.extend(batch);
        Ok(())
    }

    fn take_prepared(&mut self, split: R::Split) -> Checked {
        let asked = self.preparing.iter().position(|asked| *asked == split);
        let Some(asked) = asked else {
            let how = format!("it is prepared for {split}, and nobody waits for that");
            return Err(Breach { number: "F13", how });
        };
        self.preparing.swap_remove(asked);
        Ok(())
    }

    fn take_down(&mut self, down: FetcherDown<R::Split>) -> Checked {
        let assignment = (down.split.clone(), down.split_epoch);
        ensure("F4", self.known.contains(&assignment), || {
            format!("{down:?} is about an assignment that never was")
        })?;
        let current = self.readings.get(&down.split);
        if current.is_some_and(|reading| reading.split_epoch == down.split_epoch) {
            self.readings.remove(&down.split);
        }
        self.downs.push(down);
        Ok(())
    }
}
