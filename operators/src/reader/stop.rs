//! Splits that are read to their stop.

use super::state::ReaderState;
use crate::defect::{self, Defect};
use crate::fetcher::Piece;
use crate::protocol::ReleaseReason;
use crate::split::Split;

impl<S: Split, B> ReaderState<S, B> {
    /// Where a piece is to be cut before it is handled, if a part of it is past the stop of its split.
    ///
    /// What the fetcher read past it is dropped: it goes on reading until it is told to stop.
    pub fn stop_within(&self, piece: &Piece<S, B>) -> Option<S::Position> {
        let held = self.held.get(&piece.split)?;
        let stop = held.stop.as_ref()?;
        let within = held.split_epoch == piece.split_epoch && *stop < piece.end;
        within.then(|| stop.clone())
    }

    /// Hands a split back if it was read to its stop.
    ///
    /// The position gets there also where no record is: over markers of transactions and what
    /// compaction has removed, by where the records behind begin or by the end of the partition.
    pub(super) fn finish(&mut self, split: &S) {
        let held = self.held.get(split);
        let stop = held.and_then(|held| Some((&held.next, held.stop.as_ref()?)));
        let reached = stop.is_some_and(|(next, stop)| next >= stop);
        if reached && !defect::is(Defect::NeverFinished) {
            self.release(split, ReleaseReason::Finished);
        }
    }
}
