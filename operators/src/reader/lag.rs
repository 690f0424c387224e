//! How far behind splits are.

use std::ops::Bound;
use std::time::Duration;

use super::action::ReaderAction;
use super::state::ReaderState;
use crate::epoch::SplitEpoch;
use crate::fetcher::{DownCause, FetcherDown};
use crate::health::FailureKind;
use crate::protocol::Report;
use crate::split::Split;

/// In how many turns all splits are looked at.
const TURNS: usize = 10;

impl<S: Split, B> ReaderState<S, B> {
    /// The splits that this reader holds, with the position of the next record to emit.
    pub fn positions(&self) -> impl Iterator<Item = (&S, SplitEpoch, &S::Position)> {
        self.held
            .iter()
            .map(|(split, held)| (split, held.split_epoch, &held.next))
    }

    /// The splits whose lags are to be told next, with the position of the next record to emit.
    ///
    /// Those that came, moved, or had a lag, and a part of the others in turn: what is at its end and stays
    /// there costs next to nothing, and is noticed all the same if it should move and does not.
    pub fn due_for_lag(&mut self) -> Vec<(S, SplitEpoch, S::Position)> {
        let mut due = std::mem::take(&mut self.may_lag);
        let part = self.held.len().div_ceil(TURNS);
        let after = self.looked_up_to.take();
        let after = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let others = self.held.range((after, Bound::Unbounded)).take(part);
        let others: Vec<S> = others.map(|(split, _)| split.clone()).collect();
        // Fewer are left at the end; the next turn is from the beginning.
        self.looked_up_to = others.last().filter(|_| others.len() == part).cloned();
        due.extend(others);
        due.into_iter()
            .filter_map(|split| {
                let held = self.held.get(&split)?;
                Some((split, held.split_epoch, held.next.clone()))
            })
            .collect()
    }

    /// The fetcher tells how far splits are behind their ends. What differs from what it told last is
    /// passed on, and a split that has a lag and did not move for long is read again.
    pub fn handle_lags(&mut self, mut lags: Vec<(S, SplitEpoch, u64)>, now: Duration) {
        // While ticks are given again, what is waited for is what the fetcher was given.
        let looked_until = |split: &S| match self.is_fetched_for_replay(split) {
            true => self.full.reading_time(now),
            false => self.emitted_until,
        };
        let stuck: Vec<_> = lags
            .iter()
            .filter(|(split, split_epoch, lag)| {
                let held = self.held.get(split);
                // Not by `now`: while the log holds up the reader, nothing of the split can come.
                let still = held.is_some_and(|held| {
                    held.split_epoch == *split_epoch
                        && !self.parked.has(split)
                        && held.moved_at + self.options.stuck_after <= looked_until(split)
                });
                *lag > 0 && still
            })
            .cloned()
            .collect();
        for (split, split_epoch, lag) in stuck {
            let message = format!(
                "nothing came for {:?} although {lag} are there; reading it again",
                self.options.stuck_after
            );
            let down = FetcherDown {
                split,
                split_epoch,
                cause: DownCause::Failed(FailureKind::Transient),
                message,
            };
            self.handle_down(down, now);
        }
        lags.retain(|(split, split_epoch, lag)| {
            let held = self.held.get_mut(split);
            let Some(held) = held.filter(|held| held.split_epoch == *split_epoch) else {
                return false;
            };
            if *lag > 0 {
                self.may_lag.insert(split.clone());
            }
            held.lag.replace(*lag) != Some(*lag)
        });
        if !lags.is_empty() {
            self.actions
                .push_back(ReaderAction::Report(Report::Progress {
                    reader: self.id,
                    lags,
                }));
        }
    }
}
