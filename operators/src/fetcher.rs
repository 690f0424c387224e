//! What reads splits on a reader's behalf.
//!
//! The reader operator decides what may be emitted; a [`SplitFetcher`] brings the batches. It lives
//! on the timely thread but does no I/O there: whatever blocks happens on threads of its own, which
//! wake the operator when there is something to [`poll`](SplitFetcher::poll).

use timely::{Accountable, Container};

use crate::epoch::{MetadataEpoch, SplitEpoch};
use crate::health::{FailureKind, Health};
use crate::loss::LossCause;
use crate::split::Split;

/// Reads the splits of one reader.
///
/// # Contract
///
/// The numbers are those that the conformance kit (feature `conformance`) reports.
///
/// * **F1 Never blocks.** Every method returns at once; a call takes time proportional to what it
///   hands over.
/// * **F2 Chained.** The pieces of one assignment, in the order of [`poll`](Self::poll), join: the
///   first starts at the assigned position, each later one where the one before it ended.
/// * **F3 Whole.** A piece holds every record of its range once, in order. Where a piece ends,
///   another fetcher can go on, and loses and repeats nothing.
/// * **F4 Stamped.** Every piece carries the split epoch of the assignment it was read under. An
///   assignment of a split replaces the one before; to unassign one that is over does nothing.
/// * **F5 Stops.** After [`unassign`](Self::unassign) late pieces may still come, which the reader
///   drops, but soon nothing of the split is read any more.
/// * **F6 Wakes.** When there is something to poll after `poll` had [`Polled::Drained`], the fetcher
///   wakes the operator, at least once and from any thread.
/// * **F7 Measured.** A poll stops soon after the bytes that it was allowed, and moves at least one
///   piece if there is one. Without anything to hand over it is [`Polled::Drained`] before long.
/// * **F8 Bounded.** What was fetched and not polled is bounded.
/// * **F9 Says what failed.** An assignment that cannot be read any more ends with one
///   [`Fetched::Down`] under its split epoch. Other splits go on, and so does this one once it is
///   assigned again, be it under the same split epoch.
/// * **F10 Undisturbed.** Metadata that still lists a split changes nothing about its assignment,
///   or ends it with a [`Fetched::Down`].
/// * **F11 Honest about lag.** A split that was read to its end has no lag, or an unknown one.
/// * **F12 Honest about memory.** When all batches are dropped, no byte is unreleased.
/// * **F13 Prepares.** Each [`prepare`](Self::prepare) is answered, at once or by one
///   [`Fetched::Prepared`], which also answers those of the same split that wait; also if what the
///   split is read from is away, or goes meanwhile.
/// * **F14 Cuts.** The parts of a batch that was cut have its records, each once and in order, and each
///   the records that are before the position at which it ends and not before the one at which it
///   starts.
/// * **F15 Speaks without room.** A poll of no bytes moves no piece, and all there is of the rest but
///   ends of assignments, which may wait for the pieces before them. What it leaves comes when there
///   is room.
pub trait SplitFetcher<S: Split>: 'static {
    /// What a piece of a split is emitted as: one container holds records of one split.
    type Batch: Container + Accountable + Clone;

    /// A metadata epoch began. What it lists may be assigned next; what it does not list has been
    /// unassigned before.
    fn adopt(&mut self, epoch: MetadataEpoch, metadata: &S::Metadata);

    /// Begins to read `split` at `start`.
    fn assign(&mut self, split: &S, split_epoch: SplitEpoch, start: &S::Position);

    /// `split` may be assigned soon, and another reader has it until then: connects to where it is
    /// read from. The default has nothing to connect to.
    fn prepare(&mut self, _split: &S) -> Prepared {
        Prepared::AtOnce
    }

    /// How far the end of `split`, as far as it is known, is behind `position`, in steps of it.
    ///
    /// Asked once a second of the splits that came, moved or had a lag, and of the others in turn.
    ///
    /// A split with a lag that is not moved by any piece for long is taken for stuck, and is
    /// unassigned and assigned again.
    fn lag(&mut self, _split: &S, _position: &S::Position) -> Option<u64> {
        None
    }

    /// Stops reading `split`.
    fn unassign(&mut self, split: &S, split_epoch: SplitEpoch);

    /// Moves what was fetched to `fetched`, until about `bytes_max` bytes were moved.
    ///
    /// At least one piece is moved if there is one, of any size; but none if `bytes_max` is zero. Then the
    /// operator comes back by itself, whatever this says.
    fn poll(&mut self, bytes_max: usize, fetched: &mut Vec<Fetched<S, Self::Batch>>) -> Polled;

    /// Cuts a batch that this fetcher handed over at positions within its piece, in order; gives one
    /// part more than there are positions, `None` where no record is.
    fn cut(&mut self, batch: Self::Batch, at: &[S::Position]) -> Vec<Option<Self::Batch>>;

    /// The bytes of batches that this fetcher handed over and that are still alive.
    ///
    /// It bounds what is read of a source without a probe. Zero if the batches do not tell.
    fn unreleased_bytes(&self) -> usize {
        0
    }
}

/// Cuts rows at positions, for a [`SplitFetcher`] whose batches are vectors of rows in order.
///
/// # Examples
///
/// ```
/// use timely_splits::fetcher::cut_rows;
///
/// let parts = cut_rows(vec![3, 4, 7], &[4, 6, 9], |row| *row);
/// assert_eq!(parts, [Some(vec![3]), Some(vec![4]), Some(vec![7]), None]);
/// ```
pub fn cut_rows<D, P: Ord>(
    rows: Vec<D>,
    at: &[P],
    position: impl Fn(&D) -> P,
) -> Vec<Option<Vec<D>>> {
    let mut rows = rows.into_iter().peekable();
    let mut parts: Vec<Vec<D>> = (at.iter())
        .map(|end| std::iter::from_fn(|| rows.next_if(|row| position(row) < *end)).collect())
        .collect();
    parts.push(rows.collect());
    let whole = |part: Vec<D>| (!part.is_empty()).then_some(part);
    parts.into_iter().map(whole).collect()
}

/// Whether a [`SplitFetcher`] is prepared for a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// It is, or there is nothing that it could do before the split is assigned.
    AtOnce,
    /// It will hand over [`Fetched::Prepared`].
    Later,
}

/// Whether a [`SplitFetcher`] has more to hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// There may be more at once: the operator comes back without being woken.
    More,
    /// There is nothing until the fetcher wakes the operator.
    Drained,
}

/// What a fetcher hands over.
#[derive(Clone, Debug)]
pub enum Fetched<S: Split, B> {
    /// A range of a split, with the records in it.
    Piece(Piece<S, B>),
    /// Reading one assigned split stopped: nothing of it comes until it is assigned again.
    Down(FetcherDown<S>),
    /// The fetcher is prepared for a split, or gave that up.
    Prepared(S),
    /// Something about the fetcher that a person should know.
    Health(Health),
}

/// A range of one split, half open, with the records in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Piece<S: Split, B> {
    /// The split that was read.
    pub split: S,
    /// The assignment it was read under.
    pub split_epoch: SplitEpoch,
    /// Where the range starts: the position after the piece before.
    pub start: S::Position,
    /// Where the range ends: the position to go on from.
    pub end: S::Position,
    /// The memory that the batch takes, in bytes.
    pub bytes: usize,
    /// The records, or `None` if the range shows none.
    pub batch: Option<B>,
}

/// What became of the reading of a split that stopped by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DownCause<P> {
    /// What is read failed. Transient: the reader tries again, later, where it stopped, for as long as
    /// it takes. Definite: the split is quarantined.
    Failed(FailureKind),
    /// What reads failed, by a panic for example. The reader tries again a few times, and then
    /// quarantines the split.
    Crashed,
    /// What came is not what was written: its checksum says so. The way to here may have done it once, so
    /// the reader tries again a few times, and then quarantines the split.
    Damaged,
    /// What is to be read is not there any more. The split is released, and it is found out what is
    /// there.
    Lost(LossCause<P>),
}

/// Why an assigned split is not read any more.
#[derive(Clone, Debug)]
pub struct FetcherDown<S: Split> {
    /// The split.
    pub split: S,
    /// The assignment that ended.
    pub split_epoch: SplitEpoch,
    /// What became of it, which says what to do.
    pub cause: DownCause<S::Position>,
    /// What happened and what was expected, in words for a person.
    pub message: String,
}
