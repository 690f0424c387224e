//! What one reader may emit: a state machine without I/O.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::action::{ReaderAction, ReaderOptions, Verdict};
use super::full::Full;
use super::listed::Groups;
use super::parked::Parked;
use super::replay::Replaying;
use crate::assignor::ReaderProfile;
use crate::binding::{SplitError, SplitRange};
use crate::defect::{self, Defect};
use crate::epoch::{MetadataEpoch, ReaderId, SplitEpoch};
use crate::fetcher::{DownCause, FetcherDown, Piece};
use crate::health::FailureKind;
use crate::protocol::{Assignment, Configuration, Directive, Moved, ReleaseReason, Report};
use crate::split::{Metadata, Split};
use crate::tick::Tick;

/// What one reader may emit.
///
/// # Invariants
///
/// * A piece is emitted only under the split's current assignment, and only where the last one
///   ended.
/// * What a release or a close reports as next is what was emitted, never what was fetched.
/// * Nothing is emitted before the first tick opens, or after the last tick.
#[derive(Clone, Debug)]
pub struct ReaderState<S: Split, B> {
    pub(super) id: ReaderId,
    pub(super) options: ReaderOptions,
    pub(super) metadata: Option<(MetadataEpoch, S::Metadata)>,
    pub(super) held: BTreeMap<S, Held<S>>,
    /// The same splits.
    pub(super) groups: Groups<S>,
    /// Pieces of held splits that were not admitted.
    pub(super) parked: Parked<S, B>,
    open: Option<Tick>,
    /// Closed ticks that this reader holds until they are durable, oldest first.
    undurable: VecDeque<Tick>,
    /// Ticks that are given again, before the first one opens.
    pub(super) replaying: Option<Replaying<S>>,
    /// What was emitted at the open tick, by assignment.
    moved: BTreeMap<(S, SplitEpoch), Emitted<S>>,
    pub(super) errors: Vec<SplitError<S>>,
    open_bytes: usize,
    /// When the last tick was closed in which something could be emitted until then, in reading time.
    pub(super) emitted_until: Duration,
    pub(super) full: Full,
    /// Splits to be given to the fetcher again, by when.
    pub(super) retries: BTreeMap<(Duration, S), SplitEpoch>,
    /// Splits that may be behind their ends: they came, moved, or were when that was last told.
    pub(super) may_lag: BTreeSet<S>,
    /// The last of the splits at which it was looked in turn.
    pub(super) looked_up_to: Option<S>,
    pub(super) actions: VecDeque<ReaderAction<S>>,
    pub(super) ignored: u64,
}

/// Two readers with equal hashes act alike from here on, but for the count of what was ignored, and for
/// which lags are due.
impl<S: Split, B: Hash> Hash for ReaderState<S, B> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.id, &self.options, &self.metadata).hash(hasher);
        (&self.held, &self.parked).hash(hasher);
        (&self.open, &self.undurable).hash(hasher);
        (&self.moved, &self.errors, self.open_bytes).hash(hasher);
        (&self.retries, &self.actions, &self.replaying).hash(hasher);
        (self.emitted_until, &self.full).hash(hasher);
    }
}

/// What was emitted of one assignment at one tick.
#[derive(Clone, Debug, Hash)]
struct Emitted<S: Split> {
    from: S::Position,
    to: S::Position,
    bytes: u64,
}

/// A split that this reader may emit.
#[derive(Clone, Debug, Hash)]
pub(super) struct Held<S: Split> {
    pub(super) split_epoch: SplitEpoch,
    pub(super) next: S::Position,
    /// Nothing at this position or past it is emitted.
    pub(super) stop: Option<S::Position>,
    /// How far behind its end it is, as that was last told.
    pub(super) lag: Option<u64>,
    /// How often in a row reading it stopped without a record in between.
    pub(super) failures: u32,
    /// How often in a row what reads it crashed.
    pub(super) crashes: u32,
    /// When a piece of it was last emitted, or it was or will be last given to the fetcher, in reading time.
    pub(super) moved_at: Duration,
}

impl<S: Split, B> ReaderState<S, B> {
    /// A reader that holds nothing and has introduced itself.
    pub fn new(
        reader: ReaderProfile,
        options: ReaderOptions,
        configuration: Configuration,
    ) -> Self {
        Self {
            id: reader.id,
            options,
            metadata: None,
            held: BTreeMap::new(),
            groups: Groups::new(),
            parked: Parked::default(),
            open: None,
            undurable: VecDeque::new(),
            replaying: None,
            moved: BTreeMap::new(),
            errors: Vec::new(),
            open_bytes: 0,
            emitted_until: Duration::ZERO,
            full: Full::default(),
            retries: BTreeMap::new(),
            may_lag: BTreeSet::new(),
            looked_up_to: None,
            actions: VecDeque::from([ReaderAction::Report(Report::Hello {
                reader,
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

    /// The tick that is open, at which is emitted; `None` while nothing may be.
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
    pub fn handle_directive(&mut self, directive: Directive<S>, now: Duration) {
        match directive {
            Directive::Metadata {
                epoch, metadata, ..
            } => self.adopt(epoch, metadata),
            Directive::Assign(assignment) => self.assign(assignment, now),
            Directive::Prepare(split) => self.prepare(split),
            Directive::Revoke { split, split_epoch } => {
                if self.holds(&split, split_epoch) {
                    self.release(&split, ReleaseReason::Revoked);
                } else {
                    // It was released already, and the report is on its way.
                    self.ignored += 1;
                }
            }
            Directive::Tick { close, open, last } => {
                if self.open.is_some() {
                    self.emitted_until = self.full.reading_time(now);
                }
                self.tick(close, open, last, now);
            }
            Directive::Durable(tick) if self.replaying.is_some() => self.replay_durable(tick),
            Directive::Durable(tick) => self.durable(tick),
            Directive::Emit(error) => self.emit_error(error),
            Directive::BeginReplay(from) => self.begin_replay(from),
            Directive::Replay(replay) => self.replay(replay, now),
            Directive::Explained(_) => {} // for who is near; it changes nothing
            Directive::Reject { reason } => self.actions.push_back(ReaderAction::Reject(reason)),
        }
    }

    /// Decides about a piece of a split. A piece to be emitted counts as emitted.
    pub fn handle_piece(&mut self, piece: &Piece<S, B>, now: Duration) -> Verdict {
        let Some(held) = self.held.get_mut(&piece.split) else {
            self.ignored += 1;
            return Verdict::Drop;
        };
        let current =
            held.split_epoch == piece.split_epoch || defect::is(Defect::NoSplitEpochCheck);
        let is_late = piece.start < held.next && piece.end <= held.next;
        if !current || self.parked.has(&piece.split) || is_late {
            self.ignored += 1;
            return Verdict::Drop;
        }
        if piece.start != held.next {
            // The fetcher is not where this reader is. Going on would repeat what was emitted, or lose
            // what lies between.
            let message = format!(
                "a piece has {}..{}, expected one from {} on; reading it again from there",
                piece.start, piece.end, held.next
            );
            self.handle_down(
                FetcherDown {
                    split: piece.split.clone(),
                    split_epoch: piece.split_epoch,
                    cause: DownCause::Failed(FailureKind::Transient),
                    message,
                },
                now,
            );
            return Verdict::Drop;
        }
        held.next = piece.end.clone();
        held.failures = 0;
        held.crashes = 0;
        held.moved_at = self.full.reading_time(now);
        self.open_bytes = self.open_bytes.saturating_add(piece.bytes);
        self.moved
            .entry((piece.split.clone(), piece.split_epoch))
            .and_modify(|emitted| {
                emitted.to = piece.end.clone();
                emitted.bytes += piece.bytes as u64;
            })
            .or_insert_with(|| Emitted {
                from: piece.start.clone(),
                to: piece.end.clone(),
                bytes: piece.bytes as u64,
            });
        self.finish(&piece.split);
        Verdict::Emit
    }

    /// Keeps a piece that may not be emitted yet; the fetcher reads the split no further.
    ///
    /// The piece must be the next of its split, as [`is_next`](Self::is_next) says.
    pub fn park(&mut self, piece: Piece<S, B>) {
        if !self.held.contains_key(&piece.split) {
            return;
        }
        self.actions.push_back(ReaderAction::Unfetch(
            piece.split.clone(),
            piece.split_epoch,
        ));
        self.parked.keep(piece);
    }

    /// Keeps a piece that was parked already and may still not be emitted.
    pub fn park_again(&mut self, piece: Piece<S, B>) {
        if self.held.contains_key(&piece.split) {
            self.parked.keep(piece);
        }
    }

    /// Whether a piece would be emitted.
    pub fn is_next(&self, piece: &Piece<S, B>) -> bool {
        self.held.get(&piece.split).is_some_and(|held| {
            let current =
                held.split_epoch == piece.split_epoch || defect::is(Defect::NoSplitEpochCheck);
            current && !self.parked.has(&piece.split) && held.next == piece.start
        })
    }

    /// The splits with a parked piece.
    pub fn parked(&self) -> Vec<S> {
        self.parked.splits()
    }

    /// The bytes of parked pieces.
    pub fn parked_bytes(&self) -> usize {
        self.parked.bytes()
    }

    /// Takes the parked piece of a split, if it has one.
    pub fn unpark(&mut self, split: &S) -> Option<Piece<S, B>> {
        self.parked.take(split)
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

    fn holds(&self, split: &S, split_epoch: SplitEpoch) -> bool {
        self.held
            .get(split)
            .is_some_and(|held| held.split_epoch == split_epoch)
    }

    fn prepare(&mut self, split: S) {
        let metadata = self.metadata.as_ref();
        if metadata.is_some_and(|(_, metadata)| metadata.lists(&split)) {
            self.actions.push_back(ReaderAction::Prepare(split));
        } else {
            // It will not come under this metadata, so there is nothing to wait for.
            self.handle_prepared(split);
        }
    }

    /// The fetcher is connected to where a split is read from, or never will be.
    pub fn handle_prepared(&mut self, split: S) {
        let reader = self.id;
        let prepared = Report::Prepared { reader, split };
        self.actions.push_back(ReaderAction::Report(prepared));
    }

    fn assign(&mut self, assignment: Assignment<S>, now: Duration) {
        let Assignment {
            split,
            split_epoch,
            start,
            stop,
            ..
        } = assignment;
        let listed = match &self.metadata {
            Some((_, metadata)) => {
                metadata.lists(&split) || defect::is(Defect::OlderMetadataObeyed)
            }
            None => defect::is(Defect::RestoredBeforeMetadata),
        };
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
        if let Some(replaying) = &mut self.replaying {
            // How far it may be read is not known yet.
            replaying.waiting.insert(split.clone());
        } else {
            self.actions.push_back(ReaderAction::Fetch(
                split.clone(),
                split_epoch,
                start.clone(),
            ));
        }
        let held = Held {
            split_epoch,
            next: start,
            stop,
            lag: None,
            failures: 0,
            crashes: 0,
            moved_at: self.full.reading_time(now),
        };
        self.let_go(&split);
        self.groups.note(&split);
        self.held.insert(split.clone(), held);
        self.may_lag.insert(split.clone());
        self.finish(&split);
    }

    /// Holds a split no more, and nothing of it.
    pub(super) fn let_go(&mut self, split: &S) -> Option<Held<S>> {
        self.parked.take(split);
        self.groups.forget(split);
        self.held.remove(split)
    }

    pub(super) fn release(&mut self, split: &S, why: ReleaseReason) {
        let parked = self.parked.take(split);
        let Some(held) = self.let_go(split) else {
            return;
        };
        self.stop_replay_of(split);
        self.actions
            .push_back(ReaderAction::Unfetch(split.clone(), held.split_epoch));
        if defect::is(Defect::BindingForgetsRelease) {
            self.moved.remove(&(split.clone(), held.split_epoch));
        }
        let next = match parked {
            Some(parked) if defect::is(Defect::HandoverOfFetched) => parked.end,
            Some(_) | None => held.next,
        };
        let released = Report::Released {
            reader: self.id,
            split: split.clone(),
            split_epoch: held.split_epoch,
            next,
            why,
        };
        if defect::is(Defect::ReleasedTwice) {
            self.actions
                .push_back(ReaderAction::Report(released.clone()));
        }
        self.actions.push_back(ReaderAction::Report(released));
    }

    fn tick(&mut self, close: Option<Tick>, open: Tick, last: bool, now: Duration) {
        if close != self.open {
            self.ignored += 1;
            return;
        }
        if let Some(tick) = close {
            (self.may_lag).extend(self.moved.keys().map(|(split, _)| split.clone()));
            let moved = std::mem::take(&mut self.moved)
                .into_iter()
                .map(
                    |((split, split_epoch), Emitted { from, to, bytes })| Moved {
                        split_epoch,
                        range: SplitRange { split, from, to },
                        bytes,
                    },
                )
                .collect();
            self.actions.push_back(ReaderAction::Report(Report::Closed {
                reader: self.id,
                tick,
                moved,
                errors: std::mem::take(&mut self.errors),
            }));
            if last || self.id == ReaderId::KEEPER {
                self.undurable.push_back(tick);
            } else {
                self.actions.push_back(ReaderAction::Downgrade(open));
            }
        } else if last {
            // The source ends before its first tick.
            self.actions.push_back(ReaderAction::Finish);
        } else {
            self.actions.push_back(ReaderAction::Downgrade(open));
            self.end_replay(now);
        }
        self.open_bytes = 0;
        self.full.told = false;
        let ending = last && !defect::is(Defect::LastTickReadsOn);
        self.open = (!ending).then_some(open);
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
