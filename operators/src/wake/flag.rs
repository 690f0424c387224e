//! The memory that a thread and the operator that it wakes share.
//!
//! It is on its own so that `operators/tests/wake.rs` can go through every schedule there is.

use super::atomic::{AtomicBool, Ordering};

/// Whether an operator was woken and has not begun to run.
///
/// # Invariants
///
/// * **Nothing is lost.** What a thread left for the operator before it raised the flag is seen by
///   the operator after it lowered the flag, in this run of it or in the next.
/// * **One at a time.** Between two runs of the operator one `raise` at most is the first.
#[derive(Debug)]
pub(crate) struct WakeFlag(AtomicBool);

impl WakeFlag {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Notes that the operator is to run; true for the first who says so since it ran, and who has
    /// to activate it.
    pub(crate) fn raise(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Notes that the operator runs. It looks for what woke it after this.
    ///
    /// A plain store would do less: only who reads what others have swapped in sees what they left.
    pub(crate) fn lower(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}
