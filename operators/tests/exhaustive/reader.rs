//! A reader with its fetcher, and the links to and from it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use timely_splits::assignor::ReaderProfile;
use timely_splits::epoch::{ReaderId, SplitEpoch};
use timely_splits::fetcher::{DownCause, FetcherDown, Piece};
use timely_splits::health::FailureKind;
use timely_splits::protocol::{Configuration, Directive, Report};
use timely_splits::reader::{ReaderAction, ReaderOptions, ReaderState, Verdict};
use timely_splits::tick::Tick;

use crate::ledger::{Ledger, Violation};
use crate::letters::{Letter, Letters};
use crate::now;
use crate::part::Part;

/// The real state of a reader, with everything around it modelled.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Reader {
    pub(crate) id: ReaderId,
    pub(crate) state: ReaderState<Letter, ()>,
    pub(crate) directives: VecDeque<Directive<Letter>>,
    pub(crate) reports: VecDeque<Report<Letter>>,
    /// What the fetcher reads.
    pub(crate) fetching: BTreeMap<Letter, Fetching>,
    /// Pieces of assignments that are over, which the fetcher had fetched before it was told.
    pub(crate) late: VecDeque<Piece<Letter, ()>>,
    /// The metadata that this reader has heard of.
    pub(crate) metadata: Option<Letters>,
    /// How many records its fetcher brings at once.
    piece: u64,
    /// Whether it has heard of the last tick.
    last: bool,
    /// Whether it has given up all times.
    pub(crate) finished: bool,
}

/// What a fetcher reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fetching {
    epoch: SplitEpoch,
    /// The position to be handed over next.
    pub(crate) next: u64,
    /// Whether the next piece has left the split, and may come whatever happens.
    pub(crate) fetched: bool,
}

impl Reader {
    pub(crate) fn new(index: usize, piece: u64) -> Self {
        let id = ReaderId(index);
        let options = ReaderOptions::default();
        Self {
            id,
            state: ReaderState::new(ReaderProfile::new(id), options, Configuration::new()),
            directives: VecDeque::new(),
            reports: VecDeque::new(),
            fetching: BTreeMap::new(),
            late: VecDeque::new(),
            metadata: None,
            piece,
            last: false,
            finished: false,
        }
    }

    pub(crate) fn direct(&mut self, ledger: &mut Part<Ledger>) -> Result<(), Violation> {
        let Some(directive) = self.directives.pop_front() else {
            return Ok(());
        };
        match &directive {
            Directive::Metadata { metadata, .. } => self.metadata = Some(metadata.clone()),
            Directive::Tick { last, .. } => self.last |= *last,
            Directive::Assign(_)
            | Directive::Revoke { .. }
            | Directive::Prepare(_)
            | Directive::Durable(_)
            | Directive::Emit(_)
            | Directive::BeginReplay(_)
            | Directive::Replay(_)
            | Directive::Explained(_)
            | Directive::Reject { .. } => {}
        }
        self.state.handle_directive(directive, now());
        self.act(ledger)
    }

    /// Does what the state wants done, as the operator does.
    pub(crate) fn act(&mut self, ledger: &mut Part<Ledger>) -> Result<(), Violation> {
        while let Some(action) = self.state.poll() {
            match action {
                ReaderAction::Report(report) => {
                    if let Report::Released {
                        split, split_epoch, ..
                    } = &report
                    {
                        ledger.change().released(self.id, *split, *split_epoch);
                    }
                    self.reports.push_back(report);
                }
                ReaderAction::Fetch(split, epoch, next) => {
                    let fetching = Fetching {
                        epoch,
                        next,
                        fetched: false,
                    };
                    self.fetching.insert(split, fetching);
                }
                ReaderAction::Unfetch(split, epoch) => self.unfetch(split, epoch),
                ReaderAction::Downgrade(tick) if self.id == ReaderId::KEEPER => {
                    ledger.pass(Some(tick))?;
                }
                ReaderAction::Downgrade(tick) => {
                    let open = self.state.open();
                    if open < Some(tick) {
                        return Err(format!(
                            "reader {} gives up {open:?}, which is open",
                            self.id
                        ));
                    }
                }
                ReaderAction::Finish => {
                    ledger.pass(None)?;
                    self.finished = true;
                }
                ReaderAction::Emit(error) => ledger.change().fail(self.state.open(), &error)?,
                ReaderAction::Reject(reason) => return Err(reason),
                ReaderAction::EmitAt(..) => return Err("nothing is replayed".to_owned()),
                ReaderAction::Adopt(..) | ReaderAction::Prepare(_) => {}
            }
        }
        Ok(())
    }

    fn unfetch(&mut self, split: Letter, epoch: SplitEpoch) {
        if let Some(fetching) = self.fetching.remove(&split) {
            debug_assert_eq!(fetching.epoch, epoch, "a fetcher reads what it was given");
            if fetching.fetched {
                self.late.push_back(fetching.piece(split, self.piece));
            }
        }
    }

    /// The piece that the fetcher hands over next, if it has one and the operator polls.
    fn piece(&self, split: Letter) -> Option<(Tick, Piece<Letter, ()>)> {
        let piece = self.fetching.get(&split)?.piece(split, self.piece);
        Some((self.state.open()?, piece))
    }

    pub(crate) fn read(
        &mut self,
        split: Letter,
        ledger: &mut Part<Ledger>,
    ) -> Result<(), Violation> {
        let Some((tick, piece)) = self.piece(split) else {
            return Ok(());
        };
        if let Some(fetching) = self.fetching.get_mut(&split) {
            fetching.next = piece.end;
            fetching.fetched = false;
        }
        self.hand_over(tick, &piece, ledger)
    }

    pub(crate) fn late(&mut self, ledger: &mut Part<Ledger>) -> Result<(), Violation> {
        match (self.state.open(), self.late.pop_front()) {
            (Some(tick), Some(piece)) => self.hand_over(tick, &piece, ledger),
            _ => Ok(()),
        }
    }

    pub(crate) fn hold(&mut self, split: Letter) {
        if let Some((_, piece)) = self.piece(split)
            && self.state.is_next(&piece)
        {
            if let Some(fetching) = self.fetching.get_mut(&split) {
                fetching.next = piece.end;
                fetching.fetched = false;
            }
            let piece = self.up_to_stop(&piece);
            self.state.park(piece);
        }
    }

    pub(crate) fn admit(
        &mut self,
        split: Letter,
        ledger: &mut Part<Ledger>,
    ) -> Result<(), Violation> {
        let tick = self.state.open();
        if let (Some(tick), Some(piece)) = (tick, self.state.unpark(&split)) {
            self.hand_over(tick, &piece, ledger)?;
            self.state.resume(&split);
        }
        Ok(())
    }

    /// A piece without what is past the stop of its split, as the operator cuts it.
    fn up_to_stop(&self, piece: &Piece<Letter, ()>) -> Piece<Letter, ()> {
        let stop = self.state.stop_within(piece);
        Piece {
            end: stop.unwrap_or(piece.end),
            ..piece.clone()
        }
    }

    fn hand_over(
        &mut self,
        tick: Tick,
        piece: &Piece<Letter, ()>,
        ledger: &mut Part<Ledger>,
    ) -> Result<(), Violation> {
        let piece = &self.up_to_stop(piece);
        if self.state.handle_piece(piece, now()) == Verdict::Drop {
            return Ok(());
        }
        let id = self.id;
        let listed = |metadata: &Letters| metadata.0.contains(&piece.split);
        if !self.metadata.as_ref().is_some_and(listed) {
            let known = &self.metadata;
            return Err(format!(
                "I5: reader {id} emits {}, but has heard of {known:?}",
                piece.split
            ));
        }
        if self.last {
            return Err(format!("reader {id} emits after the last tick"));
        }
        ledger.change().emit(id, tick, piece)
    }

    pub(crate) fn down(&mut self, split: Letter, kind: FailureKind) {
        if let Some(fetching) = self.fetching.get(&split) {
            let down = FetcherDown {
                split,
                split_epoch: fetching.epoch,
                cause: DownCause::Failed(kind),
                message: String::new(),
            };
            self.state.handle_down(down, now());
        }
    }

    pub(crate) fn retry(&mut self) {
        let due = self.state.poll_timeout().unwrap_or(Duration::ZERO);
        self.state.handle_time(due);
    }

    /// Whether a metadata epoch is right behind an assignment.
    pub(crate) fn can_overtake(&self) -> bool {
        matches!(
            (self.directives.front(), self.directives.get(1)),
            (Some(Directive::Assign(_)), Some(Directive::Metadata { .. }))
        )
    }
}

impl Fetching {
    fn piece(&self, split: Letter, records: u64) -> Piece<Letter, ()> {
        Piece {
            split,
            split_epoch: self.epoch,
            start: self.next,
            end: self.next + records,
            bytes: 1,
            batch: None,
        }
    }
}
