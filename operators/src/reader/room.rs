//! How much more may be emitted, and what a person is told when nothing may.

use std::time::Duration;

use super::in_flight::InFlight;
use crate::budget::Account;
use crate::epoch::ReaderId;
use crate::health::{Health, HealthStatus};
use crate::source::SourceOptions;
use crate::split::Split;
use crate::tick::{SourceTime, Tick};

/// How long nothing was read for want of room before a person is told.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// What is in flight of one worker, and whether more may be.
///
/// With a probe that is what was emitted at ticks that the probe has not passed, without one it is
/// what was emitted and not dropped. What waits to be admitted takes room as well.
#[derive(Debug)]
pub(super) struct Room<T: SourceTime> {
    account: Account,
    in_flight: Option<InFlight<T>>,
    /// The bytes that were in flight when it was last looked at.
    emitted: usize,
    /// The bytes that waited to be admitted then.
    parked: usize,
    /// Since when there is none.
    full_since: Option<Duration>,
    told: bool,
}

impl<T: SourceTime> Room<T> {
    pub(super) fn new<S: Split>(options: &SourceOptions<T, S>) -> Self {
        let probe = options.probe.clone();
        Self {
            account: options.budget.open(),
            in_flight: probe.map(|probe| InFlight::new(probe, options.time)),
            emitted: 0,
            parked: 0,
            full_since: None,
            told: false,
        }
    }

    /// Bytes were emitted at a tick.
    pub(super) fn emitted(&mut self, tick: Tick, bytes: usize) {
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.emitted(tick, bytes);
        }
    }

    /// How many bytes may be in flight besides those that are, if `unreleased` were not dropped, of which
    /// `parked` wait to be admitted.
    pub(super) fn left(&mut self, unreleased: usize, parked: usize) -> usize {
        self.parked = parked;
        self.emitted = match &mut self.in_flight {
            Some(in_flight) => in_flight.bytes(),
            None => unreleased.saturating_sub(parked),
        };
        self.account.room(self.emitted + parked)
    }

    /// Whether another source may wait for what this one gives back.
    pub(super) fn borrows(&self) -> bool {
        self.account.borrows()
    }

    /// Whether to close the open tick, at which `open_bytes` were emitted, would make room: what is in flight
    /// at older ones waits for the user.
    pub(super) fn is_full_of_tick(&self, open_bytes: usize) -> bool {
        open_bytes > 0 && open_bytes >= self.emitted / 2
    }

    /// What a person should know of `worker` once nothing was read for long because there was no room, and
    /// once there is some again.
    pub(super) fn tell(
        &mut self,
        worker: ReaderId,
        is_full: bool,
        now: Duration,
    ) -> Option<Health> {
        let say =
            |status, message: String| Health::new(format!("worker {worker}"), status, message);
        if !is_full {
            self.full_since = None;
            let was_told = std::mem::take(&mut self.told);
            return was_told
                .then(|| say(HealthStatus::Well, "there is room; it reads on".to_owned()));
        }
        let since = *self.full_since.get_or_insert(now);
        if self.told || now < since + TOLD_AFTER {
            return None;
        }
        self.told = true;
        let (used, parked, whole) = (self.emitted, self.parked, self.account.whole());
        let what = match &self.in_flight {
            Some(in_flight) => match in_flight.oldest() {
                Some(tick) => format!(
                    "{used} bytes were emitted that the probe has not passed, the first at tick {tick}"
                ),
                None => "other workers and sources have it".to_owned(),
            },
            None => format!("{used} bytes were emitted in batches that are not dropped"),
        };
        let waiting = match parked {
            0 => String::new(),
            parked => format!(", {parked} bytes wait until the admission hook admits them"),
        };
        let message = format!(
            "nothing is read for want of room: {what}{waiting}; all that share it have {whole} bytes"
        );
        Some(say(HealthStatus::Waiting, message))
    }
}
