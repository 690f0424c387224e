//! Values as a log stores them.

/// A value as a log stores it: bytes that a later version can still read.
///
/// # Contract
///
/// `restore` gives back what `store` was given, in this version and in every later one: the bytes
/// outlive the program. An encoding whose fields are numbered can grow without breaking this. What
/// must not be on a disk, like the value of a secret, is left out.
pub trait Stored: Sized {
    /// The bytes of the value.
    fn store(&self) -> Vec<u8>;

    /// The value of `bytes`.
    ///
    /// # Errors
    ///
    /// If the bytes are of no value, or of a version that is newer.
    fn restore(bytes: &[u8]) -> Result<Self, StoredError>;
}

/// Nothing, as no bytes.
impl Stored for () {
    fn store(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(_bytes: &[u8]) -> Result<Self, StoredError> {
        Ok(())
    }
}

/// A number, as eight bytes, the least significant first.
impl Stored for u64 {
    fn store(&self) -> Vec<u8> {
        self.to_le_bytes().to_vec()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        let bytes = bytes
            .try_into()
            .map_err(|_| StoredError::new("number", "not eight bytes"))?;
        Ok(Self::from_le_bytes(bytes))
    }
}

/// Why bytes are no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored {what}: {message}")]
pub struct StoredError {
    /// What was to be restored.
    pub what: &'static str,
    /// What is wrong and what was expected.
    pub message: String,
}

impl StoredError {
    /// An error about a value of the kind `what`.
    pub fn new(what: &'static str, message: impl Into<String>) -> Self {
        Self {
            what,
            message: message.into(),
        }
    }
}
