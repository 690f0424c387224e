//! Splits that stop to come.

use std::time::Duration;

use super::action::ReaderAction;
use super::state::{Held, ReaderState};
use crate::binding::SplitError;
use crate::epoch::SplitEpoch;
use crate::fetcher::{DownCause, FetcherDown};
use crate::health::FailureKind;
use crate::loss::{Aftermath, LossCause};
use crate::protocol::Report;
use crate::split::Split;

/// How long a split whose fetcher stopped waits before it is read again, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

impl<S: Split, B> ReaderState<S, B> {
    /// The fetcher stopped reading a split by itself.
    pub fn handle_down(&mut self, down: FetcherDown<S>, now: Duration) {
        let current = |held: &&mut Held<S>| held.split_epoch == down.split_epoch;
        let Some(held) = self.held.get_mut(&down.split).filter(current) else {
            self.ignored += 1;
            return;
        };
        let next = held.next.clone();
        let kind = match down.cause {
            DownCause::Lost(cause) => {
                self.lost(down.split, down.split_epoch, cause, down.message);
                return;
            }
            DownCause::Failed(kind) => kind,
            DownCause::Crashed | DownCause::Damaged => {
                held.crashes += 1;
                if held.crashes >= self.options.crashes_max {
                    FailureKind::Definite
                } else {
                    FailureKind::Transient
                }
            }
        };
        held.failures += 1;
        let delay = (RETRY.0 * 2_u32.saturating_pow(held.failures - 1)).min(RETRY.1);
        self.actions
            .push_back(ReaderAction::Unfetch(down.split.clone(), down.split_epoch));
        match kind {
            FailureKind::Transient => {
                // It is not stuck while it waits, and may be again after that.
                held.moved_at = self.full.reading_time(now) + delay;
                self.retries
                    .insert((now + delay, down.split.clone()), down.split_epoch);
            }
            // What a tick that is given again stands for is known: no error is added to it.
            // What it has not given stays pending, so that no frontier passes it.
            FailureKind::Definite if self.is_replaying() => {
                self.let_go(&down.split);
            }
            FailureKind::Definite => {
                self.let_go(&down.split);
                let error = SplitError {
                    split: down.split.clone(),
                    position: next.clone(),
                    message: down.message.clone(),
                    then: Aftermath::Stays,
                };
                self.emit_error(error);
            }
        }
        self.actions
            .push_back(ReaderAction::Report(Report::FetcherDown {
                reader: self.id,
                split: down.split,
                split_epoch: down.split_epoch,
                kind,
                next,
                message: down.message,
            }));
    }

    /// What is to be read next of a split is not there: whoever knows what to do about it has it now.
    ///
    /// While ticks are given again, what it has not given of them stays pending, so that no frontier passes
    /// it.
    fn lost(
        &mut self,
        split: S,
        split_epoch: SplitEpoch,
        cause: LossCause<S::Position>,
        message: String,
    ) {
        let Some(held) = self.let_go(&split) else {
            return;
        };
        self.stop_replay_of(&split);
        self.actions
            .push_back(ReaderAction::Unfetch(split.clone(), split_epoch));
        self.actions.push_back(ReaderAction::Report(Report::Lost {
            reader: self.id,
            split,
            split_epoch,
            cause,
            next: held.next,
            message,
        }));
    }

    /// Emits a definite error at the open tick, if there is one: after the last one it is of no tick.
    pub(super) fn emit_error(&mut self, error: SplitError<S>) {
        if self.open().is_some() {
            self.errors.push(error.clone());
            self.actions.push_back(ReaderAction::Emit(error));
        }
    }

    /// Time has passed: splits whose fetcher stopped are read again.
    pub fn handle_time(&mut self, now: Duration) {
        while let Some(entry) = self.retries.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((_, split), split_epoch) = entry.remove_entry();
            let Some(held) = self.held.get_mut(&split) else {
                continue;
            };
            if held.split_epoch == split_epoch && !self.parked.has(&split) {
                held.moved_at = self.full.reading_time(now);
                self.actions
                    .push_back(ReaderAction::Fetch(split, split_epoch, held.next.clone()));
            }
        }
    }
}
