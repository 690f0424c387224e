//! What a control thread has done on another thread, to go on with what ticks wait for.

use std::io;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, TryRecvError, bounded};

use super::inbox::Inbox;

/// Work that blocks, on a thread of its own, one at a time.
#[derive(Debug)]
pub(super) struct Aside<T>(Option<Receiver<T>>);

impl<T: Send + 'static> Aside<T> {
    pub(super) fn new() -> Self {
        Self(None)
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// Begins `work`, and has whoever looks into `inbox` look at what it came to.
    ///
    /// # Errors
    ///
    /// If the operating system has no thread to give.
    pub(super) fn begin(
        &mut self,
        name: String,
        inbox: &Arc<Inbox>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<()> {
        let (done, came_to) = bounded(1);
        let inbox = Arc::clone(inbox);
        // Not joined: what it came to is all that anybody waits for.
        thread::Builder::new().name(name).spawn(move || {
            // If nobody wants to know any more, that is all right.
            done.send(work()).ok();
            inbox.nudge();
        })?;
        self.0 = Some(came_to);
        Ok(())
    }

    /// What it came to, if it is done.
    pub(super) fn done(&mut self) -> Option<T> {
        let came = self.0.as_ref()?.try_recv();
        // It comes to nothing if it panics.
        if !matches!(came, Err(TryRecvError::Empty)) {
            self.0 = None;
        }
        came.ok()
    }

    /// Waits until it is done, if it is under way.
    pub(super) fn wait(&mut self) -> Option<T> {
        self.0.take()?.recv().ok()
    }
}
