//! The only place that reads a clock.

use std::time::{Duration, SystemTime};

use timely::scheduling::Activator;

/// The time since the Unix epoch. It may go back.
#[expect(
    clippy::disallowed_methods,
    reason = "operators ask here once an activation, and pass it on as an argument"
)]
pub(crate) fn now() -> Duration {
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
