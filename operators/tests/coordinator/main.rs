//! The coordinator under attack: what must come out, case by case, on the state machines as they are.

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

mod changes;
#[cfg(feature = "defects")]
mod defects;
mod failures;
mod moves;
mod plans;
mod regressions;
mod restarts;
mod rig;
