//! Pieces that may not be emitted yet.

use std::collections::BTreeMap;

use crate::fetcher::Piece;
use crate::split::Split;

/// Pieces that may not be emitted yet, one a split at most.
///
/// # Invariants
///
/// * The fetcher does not read a split that has one.
/// * What they take is known without looking at them, and neither is it looked at what has none.
#[derive(Clone, Debug, Hash)]
pub(super) struct Parked<S: Split, B> {
    pieces: BTreeMap<S, Piece<S, B>>,
    bytes: usize,
}

impl<S: Split, B> Default for Parked<S, B> {
    fn default() -> Self {
        Self {
            pieces: BTreeMap::new(),
            bytes: 0,
        }
    }
}

impl<S: Split, B> Parked<S, B> {
    /// Keeps a piece, instead of what was kept of its split.
    pub(super) fn keep(&mut self, piece: Piece<S, B>) {
        self.take(&piece.split);
        self.bytes += piece.bytes;
        self.pieces.insert(piece.split.clone(), piece);
    }

    /// Gives up the piece of a split, if it has one.
    pub(super) fn take(&mut self, split: &S) -> Option<Piece<S, B>> {
        let piece = self.pieces.remove(split)?;
        self.bytes -= piece.bytes;
        Some(piece)
    }

    /// Whether a split has one.
    pub(super) fn has(&self, split: &S) -> bool {
        self.pieces.contains_key(split)
    }

    /// The splits that have one.
    pub(super) fn splits(&self) -> Vec<S> {
        self.pieces.keys().cloned().collect()
    }

    /// The bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
