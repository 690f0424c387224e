//! Where a source goes on that has a log.

use std::fmt::{self, Display};

use crate::tick::Tick;

/// Where a source goes on whose log has records. On a log without any, all of these start at the
/// rules of the splits, and a tick that was asked for is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resume {
    /// *Read on.* After the last tick that is bound. What was emitted at later ticks, which no frontier
    /// has passed, is read again.
    ///
    /// For a user who keeps nothing, or keeps what may lack the last ticks.
    #[default]
    Continue,
    /// *Read everything again, by the rules as they are now.* What the log says of splits, metadata
    /// and bindings is void from here on; ticks still only grow.
    Fresh,
    /// *My sink holds everything up to this tick, and nothing after it.* After the greatest bound tick
    /// at or below this one: what was bound later is void, and its records come again at ticks that
    /// were never used.
    ///
    /// The tick need not be one of this source's: several sources can share the tick of a sink. It is
    /// refused if no run can have opened it, or if the log was compacted beyond it.
    At(Tick),
    /// *I lost what I had computed from this tick on, and want the same again.* The records of each
    /// bound tick from this one on come again at the same tick, as fast as they can be read; then
    /// reading goes on as with [`Continue`](Self::Continue).
    ///
    /// On a topic that is compacted, records that were superseded may be missing.
    Replay {
        /// The first tick to give again.
        from: Tick,
    },
}

impl Resume {
    /// The tick after which positions are those to start from, if not the last one.
    pub(crate) fn base(self) -> Option<Tick> {
        match self {
            Self::Continue | Self::Fresh => None,
            Self::At(tick) => Some(tick),
            Self::Replay { from } => Some(Tick(from.0.saturating_sub(1))),
        }
    }
}

impl Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Continue => f.write_str("after the last bound tick"),
            Self::Fresh => f.write_str("from the start"),
            Self::At(tick) => write!(f, "after tick {tick}"),
            Self::Replay { from } => write!(f, "replaying from tick {from}"),
        }
    }
}
