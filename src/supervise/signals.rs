//! Waits for signals with a time limit, without a thread.

use std::fmt::{self, Display};
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// A signal that asks for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Terminate,
    Interrupt,
}

impl Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}

/// Notices that a child has ended or that somebody asks for the end.
///
/// A signal writes a byte into a socket, so that one that comes before anybody waits is not lost.
pub(super) struct SignalWatch {
    wakes: UnixStream,
    terminate: Arc<AtomicBool>,
    interrupt: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

impl SignalWatch {
    pub(super) fn start() -> io::Result<Self> {
        let (wakes, wake) = UnixStream::pair()?;
        let mut watch = Self {
            wakes,
            terminate: Arc::default(),
            interrupt: Arc::default(),
            registered: Vec::new(),
        };
        // The flags first: whoever is woken finds them set.
        let flags = [(SIGTERM, &watch.terminate), (SIGINT, &watch.interrupt)];
        for (signal, set) in flags {
            let id = flag::register(signal, Arc::clone(set))?;
            watch.registered.push(id);
        }
        for signal in [SIGTERM, SIGINT, SIGCHLD] {
            let id = low_level::pipe::register(signal, wake.try_clone()?)?;
            watch.registered.push(id);
        }
        Ok(watch)
    }

    /// The signal that has asked for the end, if one has.
    pub(super) fn asked(&self) -> Option<Asked> {
        if self.terminate.load(Ordering::SeqCst) {
            Some(Asked::Terminate)
        } else if self.interrupt.load(Ordering::SeqCst) {
            Some(Asked::Interrupt)
        } else {
            None
        }
    }

    /// Waits for a signal, at most until `deadline`.
    pub(super) fn wait_until(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        // A limit of zero would be none.
        let shortest = Duration::from_millis(1);
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()).max(shortest));
        self.wakes.set_read_timeout(left)?;
        match self.wakes.read(&mut [0; 64]) {
            Ok(_) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}
