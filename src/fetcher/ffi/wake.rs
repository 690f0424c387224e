//! File descriptors that one thread waits on for many queues.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// An event that can be raised from any thread and waited for together with others.
#[derive(Debug)]
pub(crate) struct EventFd(File);

impl EventFd {
    /// An event that is not raised.
    ///
    /// # Errors
    ///
    /// If the process has no file descriptor left.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes numbers only.
        let raw = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was opened right above and is nobody else's.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(raw) })))
    }

    /// Raises the event.
    pub(crate) fn raise(&self) {
        // Fails only when the event was raised 2^64 - 2 times and nobody waited.
        drop((&self.0).write(&1_u64.to_ne_bytes()));
    }

    /// Lowers the event, raised or not.
    pub(crate) fn lower(&self) {
        // Fails only when the event was not raised.
        drop((&self.0).read(&mut [0; size_of::<u64>()]));
    }

    pub(super) fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Waits until one of `events` is raised, at most `wait`; says which ones are, in their order.
pub(crate) fn raised(events: &[&EventFd], wait: Duration) -> Vec<bool> {
    let mut polled: Vec<libc::pollfd> = events
        .iter()
        .map(|event| libc::pollfd {
            fd: event.raw(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let millis = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
    let count = libc::nfds_t::try_from(polled.len()).expect("descriptors fit their own count");
    // SAFETY: pointer and length are those of the vector. An interruption reads as "none raised".
    unsafe { libc::poll(polled.as_mut_ptr(), count, millis) };
    polled.iter().map(|event| event.revents != 0).collect()
}
