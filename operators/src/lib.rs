//! Reads a changing set of splits into a timely dataflow.
//!
//! Nothing in this crate knows what a split is made of. A source supplies a
//! [`Split`](split::Split), a [`SplitDiscovery`](discovery::SplitDiscovery) that finds splits and a
//! [`SplitFetcher`](fetcher::SplitFetcher) that reads them, and gets back
//! streams whose frontier passes a tick only when it is known, durably, which positions the tick
//! stands for.
//!
//! The modules are a map of the code, in the order that data flows through them:
//!
//! - [`split`], [`epoch`], [`tick`], [`health`], [`event`]: the words that the rest is said in.
//! - [`discovery`]: finds out which splits exist.
//! - [`assignor`]: policies that pick a reader for each split.
//! - [`coordinator`]: decides who reads what, and when a tick is over. A state machine without I/O.
//! - [`enumerator`]: the operator around it.
//! - [`log`]: makes durable which positions a tick stands for, a [`binding`].
//! - [`protocol`]: what the enumerator and the readers say to each other.
//! - [`fetcher`]: brings what was read, and wakes the operator by a [`wake::Waker`].
//! - [`reader`]: decides what of it is emitted. A state machine without I/O, and its operator.
//! - [`source`]: puts the operators together; [`control`] is what the user can ask them for.

#[cfg(test)]
extern crate self as timely_splits; // what unit and integration tests share names it so

pub mod assignor;
pub mod binding;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod control;
pub mod coordinator;
#[doc(hidden)]
pub mod defect;
pub mod discovery;
pub mod enumerator;
pub mod epoch;
pub mod event;
pub mod fetcher;
pub mod health;
#[cfg(test)]
#[path = "../tests/support/letters.rs"]
mod letters;
pub mod log;
mod port;
pub mod protocol;
pub mod reader;
pub mod source;
pub mod split;
pub mod tick;
pub mod wake;
