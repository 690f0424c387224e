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
//! - [`split`], [`epoch`], [`tick`], [`health`]: the words that everything else is said in.
//! - [`discovery`]: finds out which splits exist.
//! - [`log`]: makes durable which positions a tick stands for, a [`binding`].
//! - [`protocol`]: what the enumerator and the readers say to each other.
//! - [`fetcher`]: brings what was read.

pub mod binding;
pub mod discovery;
pub mod epoch;
pub mod fetcher;
pub mod health;
pub mod log;
pub mod protocol;
pub mod split;
pub mod tick;
