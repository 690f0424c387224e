//! Reads a changing set of splits into a timely dataflow.
//!
//! Nothing in this crate knows what a split is made of. A source supplies a
//! [`Split`](split::Split), a [`SplitDiscovery`](discovery::SplitDiscovery) that finds splits and a
//! [`SplitFetcher`](fetcher::SplitFetcher) that reads them, and gets back
//! streams whose frontier passes a tick only when it is known, durably, which positions the tick
//! stands for.
//!
//! ```text
//!                worker 0                                   all workers
//!            +--------------+   directives, ticks     +--------------+
//! discovery >|  enumerator  | ----------------------> |    reader    | > batches, errors, health
//!  (yours)   |              |                         |              |
//!            | Coordinator  |   reports (feedback)    | ReaderState  |
//!  bindings <|              | <---------------------- |              |< fetcher (yours)
//!            +--------------+                         +--------------+
//!                   v ^
//!              binding log (memory, a folder, an object store, or yours)
//! ```
//!
//! Two operators move messages, batches and capabilities. What they do is decided by two state
//! machines without I/O: the [`Coordinator`](coordinator::Coordinator) says who reads what and when a
//! tick is over, a [`ReaderState`](reader::ReaderState) says what of what was fetched is emitted.
//! Whatever blocks runs on threads: those of the source, and one that writes the log.
//!
//! # The path of a record
//!
//! 1. The discovery finds its split. The coordinator asks where reading it starts, has the answer
//!    recorded, and assigns the split to the reader that the assignor picks.
//! 2. The reader passes the assignment to its fetcher, which reads, and wakes the operator. A *piece*
//!    comes back: a range of the split with the records in it.
//! 3. If the piece is of the assignment in force and starts where the last one ended, it is emitted at
//!    the open *tick*, and its range is noted.
//! 4. The tick is closed. The ranges of all readers are its *binding*, which goes to the log.
//! 5. When the binding is durable, it is published, and the frontier passes the tick. One that says
//!    nothing is published at once.
//!
//! # Modules
//!
//! In the order that data flows through them:
//!
//! - [`split`], [`epoch`], [`tick`], [`health`], [`event`]: the words that the rest is said in;
//!   [`loss`]: what is done about records that are no longer there.
//! - [`discovery`]: finds out which splits exist.
//! - [`assignor`]: policies that pick a reader for each split.
//! - [`coordinator`]: decides who reads what, and when a tick is over. A state machine without I/O.
//! - [`enumerator`]: the operator around it.
//! - [`log`]: makes durable which positions a tick stands for, a [`binding`]; [`resume`] says where a
//!   source goes on that has one.
//! - [`protocol`]: what the enumerator and the readers say to each other.
//! - [`fetcher`]: brings what was read, and wakes the operator by a [`wake::Waker`].
//! - [`reader`]: decides what of it is emitted. A state machine without I/O, and its operator.
//! - [`budget`]: how much of what was read may be in flight, over all sources of a process.
//! - [`source`]: puts the operators together; [`control`] is what the user can ask them for, and
//!   [`explain`] what they answer.
//! - `conformance`, with the feature of that name: tests what a source supplies.
//!
//! Who writes a source begins with the contracts in [`fetcher`] and [`discovery`] and the example
//! `follow_logs`, whose splits are files.

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
extern crate self as timely_splits; // what unit and integration tests share names it so

pub mod assignor;
pub mod binding;
pub mod budget;
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
pub mod explain;
pub mod fetcher;
pub mod health;
#[doc(hidden)]
pub mod kill_point;
#[cfg(test)]
#[path = "../tests/support/letters.rs"]
mod letters;
pub mod log;
pub mod loss;
mod port;
pub mod protocol;
pub mod reader;
pub mod resume;
pub mod source;
pub mod split;
pub mod tick;
pub mod wake;
