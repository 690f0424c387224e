//! A reader that may emit nothing for want of room.

use std::time::Duration;

use super::action::ReaderAction;
use super::state::ReaderState;
use crate::protocol::Report;
use crate::split::Split;

/// When there was no room.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Full {
    /// Since when there is none.
    since: Option<Duration>,
    /// How long there was none before that.
    before: Duration,
    /// Whether the coordinator was told of the open tick.
    pub(super) told: bool,
}

impl Full {
    /// A clock that stands still while there is no room.
    ///
    /// What a split did not bring is measured by it: when a user who had stopped for long goes on, no
    /// split is stuck because of that.
    pub(super) fn reading_time(&self, now: Duration) -> Duration {
        self.since.unwrap_or(now).saturating_sub(self.before)
    }
}

impl<S: Split, B> ReaderState<S, B> {
    /// There is no room to emit anything. If that is because of what was emitted at the open tick,
    /// `by_tick`, the coordinator is asked to close it before its time.
    pub fn handle_full(&mut self, by_tick: bool, now: Duration) {
        self.full.since.get_or_insert(now);
        let Some(tick) = self.open().filter(|_| by_tick && !self.full.told) else {
            return;
        };
        self.full.told = true;
        let reader = self.id;
        let full = Report::Full { reader, tick };
        self.actions.push_back(ReaderAction::Report(full));
    }

    /// There is room to emit something.
    pub fn handle_room(&mut self, now: Duration) {
        if let Some(since) = self.full.since.take() {
            self.full.before += now.saturating_sub(since);
        }
    }
}
