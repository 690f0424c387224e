//! Wakes the operators when there is something to poll.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::ffi::{EventFd, raised};

/// How often an operator looks at all of its queues, whether or not they have a turn, and is woken for it if it
/// does nothing meanwhile: lost wake-ups of librdkafka have been reported, and one would stall its splits for ever.
const FALLBACK: Duration = Duration::from_millis(500);

/// Wakes the operator of one worker.
pub(super) struct WorkerWake {
    /// Raised when a cluster has a turn.
    event: Arc<EventFd>,
    /// Whether the operator has looked at its queues since it was last asked.
    looked: AtomicBool,
    /// Whether it is to look at all of them.
    all: AtomicBool,
    activate: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for WorkerWake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerWake")
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

impl WorkerWake {
    /// A wake that calls `activate`, which makes one of many calls between two runs of the operator.
    ///
    /// # Errors
    ///
    /// If the process has no file descriptor left.
    pub(super) fn new(activate: Box<dyn Fn() + Send + Sync>) -> io::Result<Self> {
        Ok(Self {
            event: Arc::new(EventFd::new()?),
            looked: AtomicBool::new(false),
            all: AtomicBool::new(false),
            activate,
        })
    }

    /// The event that whoever gives a turn raises.
    pub(super) fn event(&self) -> &Arc<EventFd> {
        &self.event
    }

    /// Says that the operator looks at its queues; says whether it is to look at all of them.
    pub(super) fn looks(&self) -> bool {
        // They order nothing: what is looked at is locked by itself.
        self.looked.store(true, Ordering::Relaxed);
        self.all.swap(false, Ordering::Relaxed)
    }

    /// Wakes the operator.
    pub(super) fn wake(&self) {
        (self.activate)();
    }
}

/// The thread that turns raised events into activations, one in a process and source.
#[derive(Debug)]
pub(super) struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    workers: Mutex<Vec<Arc<WorkerWake>>>,
    /// Raised when the workers change and when the thread is to end.
    changed: EventFd,
    ended: AtomicBool,
}

impl Shared {
    fn workers(&self) -> MutexGuard<'_, Vec<Arc<WorkerWake>>> {
        // Whoever panicked under the lock left a list that is whole.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waker {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the process has no file descriptor or thread left.
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            workers: Mutex::default(),
            changed: EventFd::new()?,
            ended: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("kafka-wake".to_owned())
            .spawn(move || run(&of_thread))?;
        Ok(Self { shared })
    }

    /// Wakes `worker` from here on.
    pub(super) fn add(&self, worker: &Arc<WorkerWake>) {
        self.shared.workers().push(Arc::clone(worker));
        self.shared.changed.raise();
    }

    /// How many workers it wakes.
    pub(super) fn count(&self) -> usize {
        self.shared.workers().len()
    }

    /// Leaves `worker` alone.
    pub(super) fn remove(&self, worker: &Arc<WorkerWake>) {
        self.shared
            .workers()
            .retain(|other| !Arc::ptr_eq(other, worker));
        self.shared.changed.raise();
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.changed.raise();
    }
}

fn run(shared: &Shared) {
    let mut fallback = Instant::now() + FALLBACK;
    while !shared.ended.load(Ordering::Acquire) {
        let workers = shared.workers().clone();
        let mut events: Vec<&EventFd> = workers.iter().map(|worker| &*worker.event).collect();
        events.push(&shared.changed);
        let now = Instant::now();
        // Rounded up, so that the wait is never zero while there is time left.
        let wait = fallback.saturating_duration_since(now) + Duration::from_millis(1);
        let which = raised(&events, wait);
        shared.changed.lower();
        let all = Instant::now() >= fallback;
        if all {
            fallback = Instant::now() + FALLBACK;
        }
        for (worker, is_raised) in workers.iter().zip(which) {
            if is_raised {
                // Lowered first: what is raised after this is seen at the next round.
                worker.event.lower();
            }
            if all {
                worker.all.store(true, Ordering::Relaxed);
            }
            let is_late = all && !worker.looked.swap(false, Ordering::Relaxed);
            if is_raised || is_late {
                worker.wake();
            }
        }
    }
}
