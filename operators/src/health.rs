//! What a person needs to know about a source that is not doing all it should.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// What a caller can do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FailureKind {
    /// May pass. The source retries by itself and says that it is delayed.
    Transient,
    /// The same at every attempt: somebody has to change something.
    Definite,
}

/// How the subject of a [`Health`] fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HealthStatus {
    /// It works, or works again.
    Well,
    /// It waits for something that is expected to come.
    Waiting,
    /// It fails.
    Failing(FailureKind),
}

/// One line of the health stream.
///
/// Health follows the ticks, but is no part of what a replay gives again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Health {
    /// What it is about, with its kind: `cluster east`, `split east/orders/0`, `metadata service`.
    pub subject: String,
    /// How the subject fares.
    pub status: HealthStatus,
    /// What happened and what was expected, in words for a person.
    pub message: String,
}

impl Health {
    /// A line about `subject`.
    pub fn new(
        subject: impl Into<String>,
        status: HealthStatus,
        message: impl Into<String>,
    ) -> Self {
        Self {
            subject: subject.into(),
            status,
            message: message.into(),
        }
    }
}

impl Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.message)
    }
}
