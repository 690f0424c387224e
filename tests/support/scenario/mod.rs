//! Runs a source as its users do, and tells whether what came out is exactly what went in.
//!
//! A scenario is written once, as a function of [`Brokers`] and [`Backend`], and runs over embedded
//! clusters and real Kafka, in threads and in operating-system processes.
//!
//! - [`Brokers`]: the clusters, with what writes to them; [`World`] adds the metadata file.
//! - [`Plan`]: how the source is configured, in words that cross to another process.
//! - [`Run`]: a running source; [`child`] is the hidden mode of a test binary that runs a part of it.
//! - [`Observed`]: what all workers saw, and a way to wait for it.
//! - [`assert_exact`], [`assert_exact_but_for_holes`]: what must be true at the end.
//! - [`shared`], [`undisturbed`], [`offsets`]: the scenarios that run on all kinds of clusters.

#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

pub(crate) mod brokers;
pub(crate) mod child;
pub(crate) mod drains;
pub(crate) mod exactly;
pub(crate) mod load;
pub(crate) mod observed;
pub(crate) mod offsets;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod replays;
pub(crate) mod run;
pub(crate) mod shared;
pub(crate) mod undisturbed;
pub(crate) mod watched;
pub(crate) mod worker;
pub(crate) mod world;

use libtest_mimic::Arguments;

pub(crate) use brokers::{Brokers, Embedded};
pub(crate) use exactly::{assert_exact, assert_exact_but_for_holes};
pub(crate) use observed::{Output, State};
pub(crate) use plan::{Backend, GoingOn, Plan, Service, Streams};
pub(crate) use run::Run;
pub(crate) use world::{Described, World};

/// How many scenarios run at once unless the command line says so: they wait most of the time.
const SIDE_BY_SIDE: usize = 4;

/// What the command line asks for.
pub(crate) fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(SIDE_BY_SIDE);
    arguments
}
