//! Moments at which a process can be made to die, for tests of what a crash leaves behind.
//!
//! With the cargo feature `kill-points` a process dies by SIGKILL at the moment that the environment
//! variable `TIMELY_SPLITS_KILL_POINT` names, when that has come as often as it says: `emitted:7` is the seventh
//! time that a batch was emitted. Without the feature [`pass`] is empty, so that nothing of this is left.

use std::fmt::{self, Display};

/// The name of the variable: a moment and a count.
#[cfg(feature = "kill-points")]
pub const VARIABLE: &str = "TIMELY_SPLITS_KILL_POINT";

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KillPoint {
    /// A batch was emitted at a tick that is not durable.
    Emitted,
    /// All readers have closed a tick, and its binding was not given to the log.
    Closed,
    /// A split was revoked, and its reader does not know it.
    Revoked,
    /// A split was released by its reader, and the coordinator does not know it.
    Released,
    /// An append has begun, and nothing is written.
    AppendBegun,
    /// A part of an append is written.
    AppendTorn,
    /// An append is written, and not synced.
    AppendWritten,
    /// An append is synced, and nobody was told.
    AppendSynced,
}

impl KillPoint {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Emitted,
        Self::Closed,
        Self::Revoked,
        Self::Released,
        Self::AppendBegun,
        Self::AppendTorn,
        Self::AppendWritten,
        Self::AppendSynced,
    ];
}

impl Display for KillPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Emitted => "emitted",
            Self::Closed => "closed",
            Self::Revoked => "revoked",
            Self::Released => "released",
            Self::AppendBegun => "append-begun",
            Self::AppendTorn => "append-torn",
            Self::AppendWritten => "append-written",
            Self::AppendSynced => "append-synced",
        })
    }
}

/// Whether the process is to die at `point` this time: it does so with [`die`].
#[cfg(feature = "kill-points")]
pub(crate) fn is(point: KillPoint) -> bool {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};

    static ARMED: OnceLock<Option<(KillPoint, AtomicI64)>> = OnceLock::new();
    let armed = ARMED.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok()?;
        let parsed = text.split_once(':').and_then(|(name, count)| {
            let armed = KillPoint::ALL
                .into_iter()
                .find(|one| one.to_string() == name)?;
            Some((armed, AtomicI64::new(count.parse().ok()?)))
        });
        assert!(
            parsed.is_some(),
            "{VARIABLE} is {text:?}; expected a moment and a count"
        );
        parsed
    });
    armed
        .as_ref()
        .is_some_and(|(at, left)| *at == point && left.fetch_sub(1, Ordering::SeqCst) == 1)
}

/// Whether the process is to die at `point` this time: never.
#[cfg(not(feature = "kill-points"))]
pub(crate) const fn is(_point: KillPoint) -> bool {
    false
}

/// Dies as by `kill -9`.
pub(crate) fn die() -> ! {
    #[cfg(feature = "kill-points")]
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
    // The signal is on its way.
    std::process::abort()
}

/// Dies at `point` if it is time.
pub(crate) fn pass(point: KillPoint) {
    if is(point) {
        die();
    }
}
