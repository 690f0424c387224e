//! Why a log cannot be used, and whether that may pass.

use std::error::Error as StdError;
use std::io;

use crate::epoch::LogSequence;
use crate::health::FailureKind;

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("binding log {name}: {message}")]
pub struct LogError {
    /// The log, as a person knows it.
    pub name: String,
    /// What happened and what was expected.
    pub message: String,
    /// Whether it may pass.
    ///
    /// What is transient is tried again, and a run waits for it, also to begin. What is definite ends a
    /// run that opens the log or reads from it. An append is tried again in either case: somebody may
    /// change what has to be changed, and until then nothing is lost.
    pub kind: FailureKind,
    /// What the storage reported.
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

impl LogError {
    /// The same at every attempt: damage, a newer format, another run that has the log.
    pub fn definite(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            message: message.into(),
            kind: FailureKind::Definite,
            source: None,
        }
    }

    /// May pass: a store that is away, a disk that is full.
    pub fn transient(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Transient,
            ..Self::definite(name, message)
        }
    }

    /// Records were asked for that the log does not hold any more.
    pub(super) fn dropped(name: &str, from: LogSequence, first: LogSequence) -> Self {
        Self::definite(
            name,
            format!(
                "record {from} was dropped; expected one from {first} on, or a log that keeps more"
            ),
        )
    }
}

/// Whether an error of the file system may pass.
///
/// Whatever is about the place itself, that it is not there, is something else or may not be used, stays
/// until somebody changes it. All the rest is about how the system fares.
pub(super) fn kind_of(error: &io::Error) -> FailureKind {
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::AlreadyExists
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::InvalidData
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::Unsupported => FailureKind::Definite,
        _ => FailureKind::Transient,
    }
}

/// Whether an error may pass behind which there is one of the file system.
#[cfg(feature = "object-store")]
pub(super) fn kind_behind(error: &(dyn StdError + 'static)) -> FailureKind {
    let mut next = Some(error);
    while let Some(one) = next {
        if let Some(of_files) = one.downcast_ref::<io::Error>() {
            return kind_of(of_files);
        }
        next = one.source();
    }
    FailureKind::Transient
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_the_place_does_not_pass_and_what_is_about_the_system_may() {
        let kind = |errno| kind_of(&io::Error::from_raw_os_error(errno));
        // ENOENT, EACCES, ENOTDIR, EROFS
        for errno in [2, 13, 20, 30] {
            assert_eq!(kind(errno), FailureKind::Definite, "{errno}");
        }
        // EINTR, EIO, EAGAIN, ENOMEM, EMFILE, ENOSPC, ETIMEDOUT, ESTALE
        for errno in [4, 5, 11, 12, 24, 28, 110, 116] {
            assert_eq!(kind(errno), FailureKind::Transient, "{errno}");
        }
    }
}
