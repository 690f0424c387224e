//! Waking an operator from another thread.

mod flag;

use std::fmt;
use std::sync::{Arc, atomic};

use timely::scheduling::SyncActivator;

use self::flag::WakeFlag;

/// Schedules one operator, from any thread.
///
/// Wakes between two activations of the operator are one: without this the queue of activations
/// grows with every wake while the operator is busy.
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

struct Shared {
    schedule: Box<dyn Fn() + Send + Sync>,
    woken: WakeFlag,
}

impl Waker {
    /// A waker of the operator that `activator` activates.
    #[must_use]
    pub fn new(activator: SyncActivator) -> Self {
        // It fails when the worker is gone, and then there is nobody left to wake.
        Self::calling(move || {
            activator.activate().ok();
        })
    }

    /// A waker that calls `schedule`, for whoever runs a fetcher or a discovery without a dataflow.
    #[must_use]
    pub fn calling(schedule: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                schedule: Box::new(schedule),
                woken: WakeFlag::new(),
            }),
        }
    }

    /// Schedules the operator, unless it is about to run anyway.
    pub fn wake(&self) {
        if self.shared.woken.raise() {
            (self.shared.schedule)();
        }
    }

    /// Says that the operator runs; a wake from here on schedules it again.
    ///
    /// The operator calls this before it looks for what woke it, so that nothing is missed.
    pub fn clear(&self) {
        self.shared.woken.lower();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker")
            .field("woken", &self.shared.woken)
            .finish_non_exhaustive()
    }
}
