//! The coordinator under attack: what must come out, case by case, on the state machines as they are.
//!
//! The cases C1 to C28 of the design are here, each with its number, and [`defects`] shows for each a
//! mistake that it notices. C29 and C30 are about groups of processes that share the splits of a
//! source, and there are no such groups. Splits do not end by themselves and a split that fails is
//! not started over by any policy, so C4, C5 and C28 are about the ends that there are.

#[path = "../support/forest.rs"]
mod forest;
#[path = "../support/history.rs"]
#[expect(dead_code, reason = "the simulation uses more of it")]
mod history;
#[path = "../support/model/mod.rs"]
#[expect(dead_code, reason = "the simulation uses more of it")]
mod model;
#[cfg(feature = "defects")]
#[path = "../support/quiet.rs"]
mod quiet;

mod answers;
mod appearances;
mod changes;
#[cfg(feature = "defects")]
mod defects;
mod drains;
mod explain;
mod failures;
mod findings;
mod moves;
mod plans;
mod prepares;
mod regressions;
mod restarts;
mod rig;
