//! What one reader may emit: a state machine without I/O.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::binding::{SplitError, SplitRange};
use crate::epoch::{MetadataEpoch, ReaderId, SplitEpoch};
use crate::fetcher::{FetcherDown, Piece};
use crate::health::FailureKind;
use crate::protocol::{Assignment, Directive, ReleaseReason, Report};
use crate::split::{Metadata, Split};
use crate::tick::Tick;

/// How long a split whose fetcher stopped waits before it is read again, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What the reader's operator has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReaderAction<S: Split> {
    /// Tell the enumerator.
    Report(Report<S>),
    /// Tell the fetcher about a metadata epoch.
    Adopt(MetadataEpoch, S::Metadata),
    /// Have the fetcher read a split.
    Fetch(S, SplitEpoch, S::Position),
    /// Have the fetcher stop reading a split.
    Unfetch(S, SplitEpoch),
    /// The capabilities may be downgraded to this tick, the oldest that is not durable.
    Downgrade(Tick),
    /// Emit a definite error at the open tick.
    Emit(SplitError<S>),
    /// The reader was rejected, for this reason.
    Reject(String),
    /// The last tick is durable: drop the capabilities.
    Finish,
}

/// Whether a piece is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the next of its split: emit it at the open tick.
    Emit,
    /// It is of an assignment that is over, or was read before: drop it.
    Drop,
}

/// What one reader may emit.
///
/// # Invariants
///
/// * A piece is emitted only under the split's current assignment, and only where the last one
///   ended.
/// * What a release or a close reports as next is what was emitted, never what was fetched.
/// * Nothing is emitted before the first tick opens, while too many ticks wait for the log, or after
///   the last tick.
#[derive(Debug)]
pub struct ReaderState<S: Split, B> {
    id: ReaderId,
    ticks_waiting_max: usize,
    metadata: Option<(MetadataEpoch, S::Metadata)>,
    held: BTreeMap<S, Held<S, B>>,
    open: Option<Tick>,
    /// Closed ticks that are not durable, oldest first.
    undurable: VecDeque<Tick>,
    ending: bool,
    /// What was emitted at the open tick, by assignment.
    moved: BTreeMap<(S, SplitEpoch), (S::Position, S::Position)>,
    errors: Vec<SplitError<S>>,
    open_bytes: usize,
    /// Splits to be given to the fetcher again, by when.
    retries: BTreeMap<(Duration, S), SplitEpoch>,
    actions: VecDeque<ReaderAction<S>>,
    ignored: u64,
}

/// A split that this reader may emit.
#[derive(Debug)]
struct Held<S: Split, B> {
    split_epoch: SplitEpoch,
    next: S::Position,
    /// How often in a row reading it stopped without a record in between.
    failures: u32,
    /// A piece that was not admitted. The fetcher does not read the split meanwhile.
    parked: Option<Piece<S, B>>,
}

impl<S: Split, B> ReaderState<S, B> {
    /// A reader that holds nothing and has introduced itself.
    pub fn new(id: ReaderId, ticks_waiting_max: usize, configuration: u64) -> Self {
        Self {
            id,
            ticks_waiting_max,
            metadata: None,
            held: BTreeMap::new(),
            open: None,
            undurable: VecDeque::new(),
            ending: false,
            moved: BTreeMap::new(),
            errors: Vec::new(),
            open_bytes: 0,
            retries: BTreeMap::new(),
            actions: VecDeque::from([ReaderAction::Report(Report::Hello {
                reader: id,
                configuration,
            })]),
            ignored: 0,
        }
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<ReaderAction<S>> {
        self.actions.pop_front()
    }

    /// When [`handle_time`](Self::handle_time) should be called next, if time matters.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.retries.keys().next().map(|(at, _)| *at)
    }

    /// The tick to emit at, or `None` while nothing may be emitted.
    pub fn emitting_at(&self) -> Option<Tick> {
        let waiting = self.undurable.len() >= self.ticks_waiting_max;
        self.open.filter(|_| !self.ending && !waiting)
    }

    /// The tick that is open.
    pub fn open(&self) -> Option<Tick> {
        self.open
    }

    /// The bytes that were emitted at the open tick.
    pub fn open_bytes(&self) -> usize {
        self.open_bytes
    }

    /// How many splits this reader holds.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// How many pieces and directives were ignored because they were about something that is over.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The enumerator sent a directive.
    pub fn handle_directive(&mut self, directive: Directive<S>) {
        match directive {
            Directive::Metadata {
                epoch, metadata, ..
            } => self.adopt(epoch, metadata),
            Directive::Assign(assignment) => self.assign(assignment),
            Directive::Revoke { split, split_epoch } => {
                if self.holds(&split, split_epoch) {
                    self.release(&split, ReleaseReason::Revoked);
                } else {
                    // It was released already, and the report is on its way.
                    self.ignored += 1;
                }
            }
            Directive::Tick { close, open, last } => self.tick(close, open, last),
            Directive::Durable(tick) => self.durable(tick),
            Directive::Reject { reason } => self.actions.push_back(ReaderAction::Reject(reason)),
        }
    }

    /// Decides about a piece of a split. A piece to be emitted counts as emitted.
    pub fn handle_piece(&mut self, piece: &Piece<S, B>, now: Duration) -> Verdict {
        let Some(held) = self.held.get_mut(&piece.split) else {
            self.ignored += 1;
            return Verdict::Drop;
        };
        if held.split_epoch != piece.split_epoch || held.parked.is_some() || piece.start < held.next
        {
            self.ignored += 1;
            return Verdict::Drop;
        }
        if piece.start > held.next {
            // The fetcher broke its contract. Going on would lose what lies between.
            let message = format!(
                "a piece starts at {}, expected {}; reading it again from there",
                piece.start, held.next
            );
            self.handle_down(
                FetcherDown {
                    split: piece.split.clone(),
                    split_epoch: piece.split_epoch,
                    kind: FailureKind::Transient,
                    message,
                },
                now,
            );
            return Verdict::Drop;
        }
        held.next = piece.end.clone();
        held.failures = 0;
        self.open_bytes = self.open_bytes.saturating_add(piece.bytes);
        self.moved
            .entry((piece.split.clone(), piece.split_epoch))
            .and_modify(|(_, to)| *to = piece.end.clone())
            .or_insert_with(|| (piece.start.clone(), piece.end.clone()));
        Verdict::Emit
    }

    /// Keeps a piece that may not be emitted yet; the fetcher reads the split no further.
    ///
    /// The piece must be the next of its split, as [`is_next`](Self::is_next) says.
    pub fn park(&mut self, piece: Piece<S, B>) {
        let Some(held) = self.held.get_mut(&piece.split) else {
            return;
        };
        self.actions.push_back(ReaderAction::Unfetch(
            piece.split.clone(),
            piece.split_epoch,
        ));
        held.parked = Some(piece);
    }

    /// Keeps a piece that was parked already and may still not be emitted.
    pub fn park_again(&mut self, piece: Piece<S, B>) {
        if let Some(held) = self.held.get_mut(&piece.split) {
            held.parked = Some(piece);
        }
    }

    /// Whether a piece would be emitted.
    pub fn is_next(&self, piece: &Piece<S, B>) -> bool {
        self.held.get(&piece.split).is_some_and(|held| {
            held.split_epoch == piece.split_epoch
                && held.parked.is_none()
                && held.next == piece.start
        })
    }

    /// The splits with a parked piece.
    pub fn parked(&self) -> Vec<S> {
        let parked = self.held.iter().filter(|(_, held)| held.parked.is_some());
        parked.map(|(split, _)| split.clone()).collect()
    }

    /// Takes the parked piece of a split, if it has one.
    pub fn unpark(&mut self, split: &S) -> Option<Piece<S, B>> {
        self.held.get_mut(split)?.parked.take()
    }

    /// Has the fetcher read a split on, after its parked piece was emitted.
    pub fn resume(&mut self, split: &S) {
        if let Some(held) = self.held.get(split) {
            self.actions.push_back(ReaderAction::Fetch(
                split.clone(),
                held.split_epoch,
                held.next.clone(),
            ));
        }
    }

    /// The fetcher stopped reading a split by itself.
    pub fn handle_down(&mut self, down: FetcherDown<S>, now: Duration) {
        let current = |held: &&mut Held<S, B>| held.split_epoch == down.split_epoch;
        let Some(held) = self.held.get_mut(&down.split).filter(current) else {
            self.ignored += 1;
            return;
        };
        let next = held.next.clone();
        held.failures += 1;
        let delay = (RETRY.0 * 2_u32.saturating_pow(held.failures - 1)).min(RETRY.1);
        self.actions
            .push_back(ReaderAction::Unfetch(down.split.clone(), down.split_epoch));
        match down.kind {
            FailureKind::Transient => {
                self.retries
                    .insert((now + delay, down.split.clone()), down.split_epoch);
            }
            FailureKind::Definite => {
                self.held.remove(&down.split);
                let error = SplitError {
                    split: down.split.clone(),
                    position: next.clone(),
                    message: down.message.clone(),
                };
                self.errors.push(error.clone());
                self.actions.push_back(ReaderAction::Emit(error));
            }
        }
        self.actions
            .push_back(ReaderAction::Report(Report::FetcherDown {
                reader: self.id,
                split: down.split,
                split_epoch: down.split_epoch,
                kind: down.kind,
                next,
                message: down.message,
            }));
    }

    /// Time has passed: splits whose fetcher stopped are read again.
    pub fn handle_time(&mut self, now: Duration) {
        while let Some(entry) = self.retries.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((_, split), split_epoch) = entry.remove_entry();
            let Some(held) = self.held.get(&split) else {
                continue;
            };
            if held.split_epoch == split_epoch && held.parked.is_none() {
                self.actions
                    .push_back(ReaderAction::Fetch(split, split_epoch, held.next.clone()));
            }
        }
    }

    fn holds(&self, split: &S, split_epoch: SplitEpoch) -> bool {
        self.held
            .get(split)
            .is_some_and(|held| held.split_epoch == split_epoch)
    }

    fn adopt(&mut self, epoch: MetadataEpoch, metadata: S::Metadata) {
        let unlisted = self.held.keys().filter(|split| !metadata.lists(split));
        for split in unlisted.cloned().collect::<Vec<_>>() {
            self.release(&split, ReleaseReason::NotListed);
        }
        self.actions
            .push_back(ReaderAction::Adopt(epoch, metadata.clone()));
        self.metadata = Some((epoch, metadata));
    }

    fn assign(&mut self, assignment: Assignment<S>) {
        let Assignment {
            split,
            split_epoch,
            start,
            ..
        } = assignment;
        let listed = self
            .metadata
            .as_ref()
            .is_some_and(|(_, metadata)| metadata.lists(&split));
        if !listed {
            // Planned under metadata that is over: handed back as it came.
            self.actions
                .push_back(ReaderAction::Report(Report::Released {
                    reader: self.id,
                    split,
                    split_epoch,
                    next: start,
                    why: ReleaseReason::NotListed,
                }));
            return;
        }
        if self
            .held
            .get(&split)
            .is_some_and(|held| held.split_epoch >= split_epoch)
        {
            self.ignored += 1;
            return;
        }
        self.actions.push_back(ReaderAction::Fetch(
            split.clone(),
            split_epoch,
            start.clone(),
        ));
        let held = Held {
            split_epoch,
            next: start,
            failures: 0,
            parked: None,
        };
        self.held.insert(split, held);
    }

    fn release(&mut self, split: &S, why: ReleaseReason) {
        let Some(held) = self.held.remove(split) else {
            return;
        };
        self.actions
            .push_back(ReaderAction::Unfetch(split.clone(), held.split_epoch));
        self.actions
            .push_back(ReaderAction::Report(Report::Released {
                reader: self.id,
                split: split.clone(),
                split_epoch: held.split_epoch,
                next: held.next,
                why,
            }));
    }

    fn tick(&mut self, close: Option<Tick>, open: Tick, last: bool) {
        if close != self.open {
            self.ignored += 1;
            return;
        }
        if let Some(tick) = close {
            self.undurable.push_back(tick);
            let ranges = std::mem::take(&mut self.moved)
                .into_iter()
                .map(|((split, split_epoch), (from, to))| {
                    (split_epoch, SplitRange { split, from, to })
                })
                .collect();
            self.actions.push_back(ReaderAction::Report(Report::Closed {
                reader: self.id,
                tick,
                ranges,
                errors: std::mem::take(&mut self.errors),
            }));
        } else {
            self.actions.push_back(ReaderAction::Downgrade(open));
        }
        self.open_bytes = 0;
        self.ending = last;
        self.open = (!last).then_some(open);
    }

    fn durable(&mut self, tick: Tick) {
        if self.undurable.front() != Some(&tick) {
            self.ignored += 1;
            return;
        }
        self.undurable.pop_front();
        match self.undurable.front().copied().or(self.open) {
            Some(oldest) => self.actions.push_back(ReaderAction::Downgrade(oldest)),
            None => self.actions.push_back(ReaderAction::Finish),
        }
    }
}
