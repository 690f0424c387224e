//! What a user can ask a running source for.

use std::fmt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use crate::epoch::ReaderId;
use crate::explain::Explanation;
use crate::protocol::Command;
use crate::split::Split;
use crate::tick::Tick;
use crate::wake::Waker;

/// How many commands may wait to be passed on.
const COMMANDS_MAX: usize = 1_024;

/// Asks a running source to do something, from any thread of any of its processes.
///
/// Clones speak to the same source. What is asked for takes effect soon after; what cannot be done is
/// said in the health stream.
pub struct SourceControl<S: Split> {
    shared: Arc<Mutex<Shared<S>>>,
}

struct Shared<S: Split> {
    /// Kept apart, so that it is never lost among very many others.
    stop: bool,
    commands: Vec<Command<S>>,
    /// Who wants an explanation, and nobody asked for them yet.
    asking: Vec<Sender<Explanation<S>>>,
    /// Who wants one that was asked for.
    asked: Vec<Sender<Explanation<S>>>,
    /// The readers of this process.
    readers: Vec<Waker>,
}

impl<S: Split> SourceControl<S> {
    /// A control that no source listens to yet. What is asked for before one does is not lost.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Mutex::new(Shared {
                stop: false,
                commands: Vec::new(),
                asking: Vec::new(),
                asked: Vec::new(),
                readers: Vec::new(),
            })),
        }
    }

    /// Ends the source: what was read is closed in a last tick, and when that is durable, the
    /// frontier becomes empty and the dataflow can end.
    ///
    /// It ends on all workers of all processes, whoever asks. Asking again does nothing. A source that
    /// is ended before its first tick leaves its log as it is: what was asked for by then is not
    /// recorded.
    pub fn stop(&self) {
        self.ask(Command::Stop);
    }

    /// Gives a split to a reader, until the assignor has a reason to move it.
    pub fn move_split(&self, split: S, to: ReaderId) {
        self.ask(Command::Move { split, to });
    }

    /// Takes all splits from a reader, and gives it none until it is [refilled](Self::refill).
    ///
    /// When every reader is drained, all of them are given splits again: somebody has to read. A restart
    /// begins with all readers: they are known by their workers' indices, which may be others then.
    pub fn drain(&self, reader: ReaderId) {
        self.ask(Command::Drain(reader));
    }

    /// Lets a reader have splits again that was drained.
    pub fn refill(&self, reader: ReaderId) {
        self.ask(Command::Refill(reader));
    }

    /// Does not read a split until it is [resumed](Self::resume), also after a restart; its position
    /// stays.
    pub fn pause(&self, split: S) {
        self.ask(Command::Pause(split));
    }

    /// Reads a split on that was paused.
    pub fn resume(&self, split: S) {
        self.ask(Command::Resume(split));
    }

    /// Reads a split on that was quarantined, from where it failed.
    pub fn readmit(&self, split: S) {
        self.ask(Command::Readmit(split));
    }

    /// Takes the answer of the metadata service that is held back at that moment, since it loses much of
    /// what is in force.
    ///
    /// If none is held back and something is drained, that is cut: no more of it is read than was by then,
    /// and the answer that removes it is in force. Another answer that comes before it is takes the cut back,
    /// and while ticks are given again nothing is cut.
    pub fn confirm_metadata(&self) {
        self.ask(Command::ConfirmMetadata);
    }

    /// Asks what the source does and why: for every split where it is, who says so and since when, and
    /// the options in force.
    ///
    /// The answer comes soon after; nothing waits for it. A source that does not run, or has ended,
    /// gives none, so whoever takes it should wait for a limited time.
    #[must_use = "the answer comes by it"]
    pub fn explain(&self) -> Receiver<Explanation<S>> {
        let (asking, answer) = mpsc::channel();
        let mut shared = self.lock();
        if shared.asking.len() < COMMANDS_MAX {
            shared.asking.push(asking);
        }
        shared.wake();
        answer
    }

    /// Runs the assignor now.
    pub fn rebalance(&self) {
        self.ask(Command::Rebalance);
    }

    /// Says what the assignor would do, without doing it, as
    /// [`SourceEvent::PlanShown`](crate::event::SourceEvent::PlanShown).
    pub fn show_plan(&self) {
        self.ask(Command::ShowPlan);
    }

    /// Lets the log drop what only ticks up to and with `since` need: nobody goes back to them.
    ///
    /// A log drops by itself what is older than it was set up to keep; this is for who knows better.
    pub fn compact(&self, since: Tick) {
        self.ask(Command::Compact(since));
    }

    /// Writes all that a restart needs to the log now, and not only now and then: what is asked for
    /// right before an end makes the next start read little.
    pub fn snapshot(&self) {
        self.ask(Command::Snapshot);
    }

    /// Asks for something.
    ///
    /// When very many commands wait already, the last of them is replaced: nobody passes them on, or
    /// somebody asks in a loop.
    pub fn ask(&self, command: Command<S>) {
        let mut shared = self.lock();
        if command == Command::Stop {
            shared.stop = true;
        } else {
            if shared.commands.len() >= COMMANDS_MAX {
                shared.commands.pop();
            }
            shared.commands.push(command);
        }
        shared.wake();
    }

    /// What was asked for since the last call, by whichever `reader` comes first.
    pub(crate) fn take(&self, reader: ReaderId) -> Vec<Command<S>> {
        let mut shared = self.lock();
        let mut commands = std::mem::take(&mut shared.commands);
        if !shared.asking.is_empty() {
            let mut asking = std::mem::take(&mut shared.asking);
            shared.asked.append(&mut asking);
            let answer_to = reader;
            commands.push(Command::Explain { answer_to });
        }
        if std::mem::take(&mut shared.stop) {
            commands.push(Command::Stop);
        }
        commands
    }

    /// Gives an explanation to whoever asked for one.
    pub(crate) fn explained(&self, explanation: Explanation<S>) {
        for asked in std::mem::take(&mut self.lock().asked) {
            // Who does not want it any more has dropped the other end.
            asked.send(explanation.clone()).ok();
        }
    }

    pub(crate) fn listen(&self, reader: Waker) {
        self.lock().readers.push(reader);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared<S>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Split> Shared<S> {
    fn wake(&self) {
        for reader in &self.readers {
            reader.wake();
        }
    }
}

impl<S: Split> Clone for SourceControl<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S: Split> Default for SourceControl<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Split> fmt::Debug for SourceControl<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceControl")
            .field("commands", &self.lock().commands)
            .finish_non_exhaustive()
    }
}
