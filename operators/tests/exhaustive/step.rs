//! What can happen next.

use timely_splits::health::FailureKind;

use crate::letters::Letter;

/// One thing that happens, to one of the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A reader hears the next directive.
    Direct(usize),
    /// A metadata epoch overtakes the assignment in front of it, on its way to a reader.
    Overtake(usize),
    /// The coordinator hears a reader's next report.
    Report(usize),
    /// The discovery says where the split starts that it was asked about.
    Resolve(usize),
    /// The log answers that the append is durable.
    Log,
    /// A fetcher hands the next piece of a split to its reader.
    Read(usize, Letter),
    /// A fetcher fetches the next piece of a split, and hands it over later.
    Fetch(usize, Letter),
    /// A piece of an assignment that is over is handed to the reader.
    Late(usize),
    /// The next piece of a split is held back by the admission hook.
    Hold(usize, Letter),
    /// A held back piece is admitted.
    Admit(usize, Letter),
    /// A fetcher stops reading a split by itself.
    Down(usize, Letter, FailureKind),
    /// The time has come to read a split again whose fetcher stopped.
    Retry(usize),
    /// The time has come to close the open tick.
    Tick,
    /// So much time passes that a release is late.
    Wait,
    /// The metadata stops to list a split.
    Remove(Letter),
    /// The metadata lists a split again.
    Add(Letter),
    /// The metadata service answers for the first time since the start.
    Inform,
    /// The metadata service fails before it has answered.
    Fail,
    /// A split is moved to a reader, by command as the assignor might.
    Move(Letter, usize),
    /// A quarantined split is readmitted.
    Readmit(Letter),
    /// The end is asked for.
    Stop,
    /// The process dies and starts again. An append under way was written, or was not.
    Crash { written: bool },
}

/// How often each thing may happen that need not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// All of the following together, but for the ticks.
    pub(crate) total: u8,
    pub(crate) ticks: u8,
    pub(crate) moves: u8,
    pub(crate) removals: u8,
    pub(crate) additions: u8,
    pub(crate) crashes: u8,
    pub(crate) stops: u8,
    pub(crate) fetches: u8,
    pub(crate) holds: u8,
    pub(crate) downs: u8,
    pub(crate) overtakings: u8,
    pub(crate) waits: u8,
    pub(crate) failures: u8,
}

impl Budget {
    /// Nothing that need not happen.
    pub(crate) const NONE: Self = Self {
        total: 0,
        ticks: 0,
        moves: 0,
        removals: 0,
        additions: 0,
        crashes: 0,
        stops: 0,
        fetches: 0,
        holds: 0,
        downs: 0,
        overtakings: 0,
        waits: 0,
        failures: 0,
    };

    /// Whether a step can be paid for.
    pub(crate) fn allows(mut self, step: Step) -> bool {
        self.pay(step)
    }

    /// Whether a step costs nothing, because it has to happen.
    pub(crate) fn is_free(step: Step) -> bool {
        { Self::NONE }.of(step).is_none()
    }

    /// Pays for a step; false if there is nothing left to pay from.
    pub(crate) fn pay(&mut self, step: Step) -> bool {
        let all = self.total;
        let Some(left) = self.of(step) else {
            return true;
        };
        let in_total = step != Step::Tick;
        if *left == 0 || (in_total && all == 0) {
            return false;
        }
        *left -= 1;
        if in_total {
            self.total -= 1;
        }
        true
    }

    /// What is left to pay a step from; `None` if it costs nothing.
    fn of(&mut self, step: Step) -> Option<&mut u8> {
        Some(match step {
            Step::Direct(_)
            | Step::Report(_)
            | Step::Resolve(_)
            | Step::Log
            | Step::Read(..)
            | Step::Late(_)
            | Step::Admit(..)
            | Step::Retry(_)
            | Step::Readmit(_)
            | Step::Inform => return None,
            Step::Tick => &mut self.ticks,
            Step::Move(..) => &mut self.moves,
            Step::Remove(_) => &mut self.removals,
            Step::Add(_) => &mut self.additions,
            Step::Crash { .. } => &mut self.crashes,
            Step::Stop => &mut self.stops,
            Step::Fetch(..) => &mut self.fetches,
            Step::Hold(..) => &mut self.holds,
            Step::Down(..) => &mut self.downs,
            Step::Overtake(_) => &mut self.overtakings,
            Step::Wait => &mut self.waits,
            Step::Fail => &mut self.failures,
        })
    }
}
