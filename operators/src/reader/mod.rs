//! Reads the splits that this worker was given.
//!
//! [`ReaderState`] decides what may be emitted and is a state machine without I/O; the operator
//! around it moves messages, batches and capabilities.

mod action;
mod down;
mod full;
mod in_flight;
mod lag;
mod listed;
mod operator;
mod parked;
mod replay;
mod room;
mod state;
mod stop;
#[cfg(test)]
mod tests;

pub use self::action::{ReaderAction, ReaderOptions, Verdict};
pub(crate) use self::operator::{ReaderParts, reader};
pub use self::state::ReaderState;
use crate::fetcher::Piece;

/// Decides whether a piece may be emitted yet, on the worker's thread.
///
/// A piece that is held back is offered again from time to time; its split is not read meanwhile,
/// its position stays, and the frontier and all other splits go on. A decoder waits like this for a
/// schema without holding anybody else: at most one piece a split, which counts as what was emitted does
/// until there is no more room for either.
pub type AdmissionHook<S, B> = Box<dyn FnMut(&Piece<S, B>) -> Admission>;

/// What an [`AdmissionHook`] decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The piece is emitted.
    Admit,
    /// The piece is held back.
    Hold,
}
