//! The numbers that tell an older fact from a newer one.
//!
//! Each counts one thing and is never compared with another. All of them start at one; zero is
//! "before the first".

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub struct $name(pub u64);

        impl $name {
            /// The one that follows.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Display::fmt(&self.0, f)
            }
        }
    )*};
}

counters! {
    /// One run of the whole source, on all its workers.
    Incarnation;
    /// The version of the metadata.
    MetadataEpoch;
    /// The run of the assignor.
    PlanEpoch;
    /// The count of assignments of one split. Those of a run are above all of the runs before it that
    /// wrote to the same log.
    ///
    /// What a reader or fetcher says about a split is about one assignment of it, and is ignored
    /// once that is over.
    SplitEpoch;
    /// The number of a request, so that the answer to an earlier one can be told.
    RequestId;
    /// The place of a record in the binding log.
    LogSequence;
}

/// The index of the worker that a reader runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReaderId(pub usize);

impl ReaderId {
    /// The reader on the worker of the enumerator. It holds the frontier of what all readers emit at the
    /// oldest tick that is not durable, so that the others need not be told what is.
    pub const KEEPER: Self = Self(0);
}

impl Display for ReaderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}
