//! The only place that reads a clock.
//!
//! There are two. What is due is measured by one that never goes back and takes no part in
//! corrections; the names of ticks come from the one that people set.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use timely::scheduling::Activator;

/// The time to measure by: the time since the Unix epoch as this process first knew it, and what has
/// passed since. It never goes back, and a correction of the clock does not move it.
#[expect(
    clippy::disallowed_methods,
    reason = "operators ask here once an activation, and pass it on as an argument"
)]
pub(crate) fn now() -> Duration {
    static BEGIN: LazyLock<(Duration, Instant)> = LazyLock::new(|| (wall(), Instant::now()));
    let (wall, begin) = *BEGIN;
    wall + begin.elapsed()
}

/// The time since the Unix epoch, as the clock has it now. It may go back.
#[expect(
    clippy::disallowed_methods,
    reason = "asked once an activation, by the enumerator"
)]
pub(crate) fn wall() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Activates an operator at a time, once.
///
/// Timely keeps every delayed activation that it was asked for, so asking again at each activation
/// would add up.
#[derive(Debug)]
pub(crate) struct Alarm {
    activator: Activator,
    set_for: Option<Duration>,
}

impl Alarm {
    pub(crate) fn new(activator: Activator) -> Self {
        Self {
            activator,
            set_for: None,
        }
    }

    /// Activates the operator again right after this activation.
    pub(crate) fn at_once(&self) {
        self.activator.activate();
    }

    /// Makes sure that the operator is activated at `due`, or earlier.
    pub(crate) fn set(&mut self, due: Duration, now: Duration) {
        let pending = self.set_for.is_some_and(|at| at > now && at <= due);
        if !pending {
            let delay = due.saturating_sub(now).max(Duration::from_millis(1));
            self.activator.activate_after(delay);
            self.set_for = Some(now + delay);
        }
    }
}
