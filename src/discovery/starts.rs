//! Splits whose start is being looked up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use timely_splits::epoch::RequestId;

use super::resolve::{Question, Rules};
use crate::model::KafkaSplit;

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

/// A request that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) request: RequestId,
    /// Whether it was about the end of a split, and not about its start.
    pub(super) of_end: bool,
}

/// What is asked about a split, and by which request.
pub(super) type Asked = (KafkaSplit, Answered, Question);

/// A split whose start is wanted, or whose end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    asked: Answered,
    rules: Rules,
    /// When it was first wanted by these rules.
    since: SystemTime,
    due: Instant,
    backoff: Backoff,
}

/// The splits of one cluster whose start is wanted, or whose end, each asked for until it is answered.
///
/// Bounded by the splits of the cluster.
#[derive(Debug, Default)]
pub(super) struct Starts(BTreeMap<KafkaSplit, Wanted>);

impl Starts {
    /// Looks `split` up from `now` on. A later request for it replaces an earlier one.
    ///
    /// A rule that counts from the present counts from the first request: while a cluster is down, what
    /// it says does not move on.
    pub(super) fn want(
        &mut self,
        asked: Answered,
        split: KafkaSplit,
        rules: Rules,
        now: (Instant, SystemTime),
    ) {
        let before = self.0.get(&split).filter(|before| before.rules == rules);
        let wanted = Wanted {
            asked,
            rules,
            since: before.map_or(now.1, |before| before.since),
            due: now.0,
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

    /// When the first split is to be asked for whose rules are `such`.
    pub(super) fn due(&self, such: impl Fn(&Rules) -> bool) -> Option<Instant> {
        let wanted = self.0.values().filter(|wanted| such(&wanted.rules));
        wanted.map(|wanted| wanted.due).min()
    }

    /// Splits to ask for in one call whose rules are `such`, no two of them generations of one partition.
    pub(super) fn batch(&self, now: Instant, such: impl Fn(&Rules) -> bool) -> Vec<Asked> {
        let mut batch: Vec<Asked> = Vec::new();
        let due = |wanted: &Wanted| wanted.due <= now && such(&wanted.rules);
        for (split, wanted) in self.0.iter().filter(|(_, wanted)| due(wanted)) {
            let partition = (split.topic.clone(), split.partition);
            // Generations of one partition follow each other in the map.
            let last = batch.last();
            if last.is_some_and(|(_, _, question)| question.partition == partition) {
                continue;
            }
            let question = Question {
                partition,
                rules: wanted.rules.clone(),
                wanted: wanted.since,
            };
            batch.push((split.clone(), wanted.asked, question));
            if batch.len() == BATCH_MAX {
                break;
            }
        }
        batch
    }

    /// There is an answer to `asked` about `split`; whether that is still what is asked.
    pub(super) fn answered(&mut self, split: &KafkaSplit, asked: Answered) -> bool {
        let is_asked = self
            .0
            .get(split)
            .is_some_and(|wanted| wanted.asked == asked);
        if is_asked {
            self.0.remove(split);
        }
        is_asked
    }

    /// `asked` about `split` was not answered at `now`: it is asked again, later, unless something else is.
    pub(super) fn failed(&mut self, split: &KafkaSplit, asked: Answered, now: Instant) {
        if let Some(wanted) = self.0.get_mut(split).filter(|wanted| wanted.asked == asked) {
            wanted.due = now + wanted.backoff.failed(BACKOFF_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::model::{ClusterId, Generation, Partition, StartAt, StopAt, TopicName};

    fn rules(start: StartAt) -> Rules {
        Rules::new(start, StopAt::Never, false)
    }

    fn start(request: u64) -> Answered {
        Answered {
            request: RequestId(request),
            of_end: false,
        }
    }

    fn split(partition: i32) -> KafkaSplit {
        KafkaSplit::new(
            ClusterId::new("east").unwrap(),
            TopicName::new("orders").unwrap(),
            Partition(partition),
        )
    }

    #[test]
    fn splits_are_asked_for_together_whatever_their_rules() {
        let mut starts = Starts::default();
        let now = Instant::now();
        for partition in 0..1_200 {
            let rule = match partition % 2 {
                0 => StartAt::Latest,
                _ => StartAt::Earliest,
            };
            starts.want(start(1), split(partition), rules(rule), (now, UNIX_EPOCH));
        }
        let other = KafkaSplit {
            generation: Generation(1),
            ..split(1_199)
        };
        starts.want(start(2), other, rules(StartAt::Latest), (now, UNIX_EPOCH));

        let mut sizes = Vec::new();
        loop {
            let batch = starts.batch(now, |_| true);
            if batch.is_empty() {
                break;
            }
            sizes.push(batch.len());
            for (split, asked, _) in batch {
                assert!(starts.answered(&split, asked));
            }
        }

        assert_eq!(sizes, [1_000, 200, 1]);
        assert!(starts.is_empty());
    }

    /// While a cluster was down for longer than a rule looks back, records were lost that were there when
    /// the split was found.
    #[test]
    fn a_rule_that_counts_from_the_present_counts_from_the_first_request() {
        let mut starts = Starts::default();
        let (now, first) = (Instant::now(), UNIX_EPOCH + Duration::from_secs(1));
        let later = first + Duration::from_secs(3_600);
        let rule = rules(StartAt::BeforeNow(Duration::from_secs(60)));

        starts.want(start(1), split(0), rule.clone(), (now, first));
        starts.failed(&split(0), start(1), now);
        starts.want(start(2), split(0), rule, (now, later));
        let again = starts.batch(now, |_| true);
        starts.want(start(3), split(0), rules(StartAt::Latest), (now, later));
        let other = starts.batch(now, |_| true);

        assert_eq!(again[0].2.wanted, first);
        assert_eq!(other[0].2.wanted, later);
    }

    /// What was asked aside may be asked anew meanwhile, by another rule or for the end: the answer was given
    /// to whatever was asked last.
    #[test]
    fn what_comes_of_a_request_that_was_replaced_is_nothing_of_the_next() {
        let mut starts = Starts::default();
        let now = Instant::now();
        let latest = || rules(StartAt::Latest);
        starts.want(start(1), split(0), latest(), (now, UNIX_EPOCH));
        let end = Answered {
            request: RequestId(2),
            of_end: true,
        };
        starts.want(end, split(0), Rules::end(), (now, UNIX_EPOCH));

        assert!(!starts.answered(&split(0), start(1)));
        starts.failed(&split(0), start(1), now);

        assert_eq!(starts.due(|_| true), Some(now));
        assert!(starts.answered(&split(0), end));
    }

    #[test]
    fn a_split_that_was_not_answered_is_asked_for_ever_later_and_never_given_up() {
        let mut starts = Starts::default();
        let mut now = Instant::now();
        starts.want(
            start(1),
            split(0),
            rules(StartAt::Latest),
            (now, UNIX_EPOCH),
        );

        let mut waits = Vec::new();
        for _ in 0..9 {
            starts.failed(&split(0), start(1), now);
            let due = starts.due(|_| true).unwrap();
            assert_eq!(starts.batch(now, |_| true), []);
            waits.push(due.duration_since(now).as_millis());
            now = due;
        }

        assert_eq!(
            waits,
            [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]
        );
        assert_eq!(starts.batch(now, |_| true).len(), 1);
    }
}
