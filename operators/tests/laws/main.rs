//! What holds of a source at any moment, under real workers: that the frontier passes nothing that is
//! not in the log, and what the discovery is told of what is bound.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

mod frontier;
mod offsets;
#[path = "../support/random.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod random;
mod run;
#[expect(dead_code, reason = "other tests need more of it")]
#[path = "../support/mod.rs"]
mod support;
