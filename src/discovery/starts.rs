//! Splits whose start is being looked up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use timely_splits::epoch::RequestId;

use crate::model::{KafkaSplit, StartAt};

/// The most splits that are looked up in one call.
const BATCH_MAX: usize = 1_000;

/// How long after a first failure a question is asked again; each further one doubles it.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// The longest time between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A growing delay between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backoff {
    last: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            last: Duration::ZERO,
        }
    }

    /// The delay after one more failure, at most `most`.
    pub(super) fn failed(&mut self, most: Duration) -> Duration {
        self.last = (self.last * 2).max(BACKOFF_MIN).min(most);
        self.last
    }
}

/// A split whose start is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    request: RequestId,
    start: StartAt,
    due: Instant,
    backoff: Backoff,
}

/// The splits of one cluster whose start is wanted, each asked for until it is answered.
///
/// Bounded by the splits of the cluster.
#[derive(Debug, Default)]
pub(super) struct Starts(BTreeMap<KafkaSplit, Wanted>);

impl Starts {
    /// Looks `split` up from `now` on. A later request for it replaces an earlier one.
    pub(super) fn want(
        &mut self,
        request: RequestId,
        split: KafkaSplit,
        start: StartAt,
        now: Instant,
    ) {
        let wanted = Wanted {
            request,
            start,
            due: now,
            backoff: Backoff::new(),
        };
        self.0.insert(split, wanted);
    }

    /// Keeps the splits that `kept` says are still wanted.
    pub(super) fn retain(&mut self, mut kept: impl FnMut(&KafkaSplit) -> bool) {
        self.0.retain(|split, _| kept(split));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first split is to be asked for.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().map(|wanted| wanted.due).min()
    }

    /// Splits to ask for in one call, all by the same rule.
    pub(super) fn batch(&self, now: Instant) -> Option<(StartAt, Vec<KafkaSplit>)> {
        let due = || self.0.iter().filter(|(_, wanted)| wanted.due <= now);
        let (_, Wanted { start, .. }) = due().next()?;
        let batch = due()
            .filter(|(_, wanted)| wanted.start == *start)
            .take(BATCH_MAX)
            .map(|(split, _)| split.clone())
            .collect();
        Some((*start, batch))
    }

    /// The request for `split`, which is answered.
    pub(super) fn answered(&mut self, split: &KafkaSplit) -> Option<RequestId> {
        self.0.remove(split).map(|wanted| wanted.request)
    }

    /// `split` was not answered at `now`: it is asked for again, later.
    pub(super) fn failed(&mut self, split: &KafkaSplit, now: Instant) {
        if let Some(wanted) = self.0.get_mut(split) {
            wanted.due = now + wanted.backoff.failed(BACKOFF_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterId, Partition, TopicName};

    fn split(partition: i32) -> KafkaSplit {
        KafkaSplit::new(
            ClusterId::new("east").unwrap(),
            TopicName::new("orders").unwrap(),
            Partition(partition),
        )
    }

    #[test]
    fn splits_of_one_rule_are_asked_for_together() {
        let mut starts = Starts::default();
        let now = Instant::now();
        for partition in 0..1_200 {
            starts.want(RequestId(1), split(partition), StartAt::Latest, now);
        }
        starts.want(RequestId(2), split(1_200), StartAt::Earliest, now);

        let mut sizes = Vec::new();
        while let Some((start, batch)) = starts.batch(now) {
            sizes.push((start, batch.len()));
            for split in batch {
                starts.answered(&split).unwrap();
            }
        }

        assert_eq!(
            sizes,
            [
                (StartAt::Latest, 1_000),
                (StartAt::Latest, 200),
                (StartAt::Earliest, 1)
            ]
        );
        assert!(starts.is_empty());
    }

    #[test]
    fn a_split_that_was_not_answered_is_asked_for_ever_later_and_never_given_up() {
        let mut starts = Starts::default();
        let mut now = Instant::now();
        starts.want(RequestId(1), split(0), StartAt::Latest, now);

        let mut waits = Vec::new();
        for _ in 0..9 {
            starts.failed(&split(0), now);
            let due = starts.due().unwrap();
            assert_eq!(starts.batch(now), None);
            waits.push(due.duration_since(now).as_millis());
            now = due;
        }

        assert_eq!(
            waits,
            [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]
        );
        assert!(starts.batch(now).is_some());
    }
}
