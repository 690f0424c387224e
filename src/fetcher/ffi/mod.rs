//! A safe face of the few calls of librdkafka that this crate needs.
//!
//! All the `unsafe` of the crate is here. Two rules hold everywhere, both because breaking them
//! makes closing a client hang for ever:
//!
//! * a list of partitions is built, used and destroyed within one call;
//! * whatever borrows from a client keeps the [`NativeClient`] alive, and is destroyed before it.

#![expect(
    unsafe_code,
    reason = "calls into librdkafka; each block says why it is sound"
)]

mod assignment;
mod client;
mod consume;
pub(crate) mod control;
pub(crate) mod mock;
mod queue;
mod wake;

pub(crate) use self::assignment::StartReading;
pub(crate) use self::client::{CLOSE_WAIT_MAX, ClientKind, NativeClient, NativeError};
pub(crate) use self::consume::{Flow, NativeRecord, NativeTopic, Receiver, TopicKey};
pub(crate) use self::queue::{NativeEvent, NativeQueue, OnFilled, Said};
pub(crate) use self::wake::{EventFd, raised};

use std::ffi::{CStr, CString, c_char};

/// The text at `text`, with what is not UTF-8 replaced; empty if there is none.
///
/// # Safety
///
/// `text` is null or points to a string that ends in NUL and lives during the call.
unsafe fn text_at(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the caller promises the rest.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// `text` as librdkafka takes it.
///
/// # Errors
///
/// If `text` has a NUL character; `what` names it in the message.
fn c_string(what: &str, text: &str) -> Result<CString, NativeError> {
    CString::new(text).map_err(|_| {
        NativeError::invalid(format!(
            "{what} has a NUL character; expected text without one"
        ))
    })
}
