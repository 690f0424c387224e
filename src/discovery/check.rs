//! Whether ranges can still be read that were read before.

use std::collections::BTreeMap;

use timely_splits::binding::SplitRange;
use timely_splits::discovery::DiscoveryEvent;
use timely_splits::epoch::RequestId;

use super::inbox::{WantedStart, Wanting};
use crate::model::{KafkaSplit, Offset, StartAt};

/// A check of ranges, each by two questions: where its partition begins, and where it ends.
///
/// The questions have numbers of their own, from the greatest one down, which no request of the
/// coordinator ever has.
#[derive(Debug)]
pub(super) struct RangeCheck {
    request: RequestId,
    last: RequestId,
    /// What is asked, and the range that it is about.
    asked: BTreeMap<RequestId, (StartAt, SplitRange<KafkaSplit>)>,
    lost: Vec<(SplitRange<KafkaSplit>, String)>,
}

impl RangeCheck {
    /// A check, and its first questions.
    pub(super) fn new(
        request: RequestId,
        ranges: Vec<SplitRange<KafkaSplit>>,
    ) -> (Self, Vec<WantedStart>) {
        let mut check = Self {
            request,
            last: RequestId(u64::MAX),
            asked: BTreeMap::new(),
            lost: Vec::new(),
        };
        let ask = |range| check.ask(StartAt::Earliest, range);
        let questions = ranges.into_iter().map(ask).collect();
        (check, questions)
    }

    fn ask(&mut self, rule: StartAt, range: SplitRange<KafkaSplit>) -> WantedStart {
        self.last = RequestId(self.last.0 - 1);
        let wanted = WantedStart {
            request: self.last,
            split: range.split.clone(),
            rule: Wanting::Given(rule.clone()),
        };
        self.asked.insert(self.last, (rule, range));
        wanted
    }

    /// A question was answered: what to ask next, or `None` if it was none of this check.
    pub(super) fn answered(
        &mut self,
        question: RequestId,
        at: Offset,
    ) -> Option<Option<WantedStart>> {
        let (rule, range) = self.asked.remove(&question)?;
        let (from, to) = (range.from.next, range.to.next);
        Some(match rule {
            StartAt::Earliest if at <= from => Some(self.ask(StartAt::Latest, range)),
            StartAt::Earliest => {
                let why = format!(
                    "records from {from} on are gone, the first that is left is at {at}: retention \
                     or somebody has deleted them"
                );
                self.lost.push((range, why));
                None
            }
            _ if at >= to => None,
            _ => {
                let why = format!("it ends at {at}: it was truncated, or created again");
                self.lost.push((range, why));
                None
            }
        })
    }

    /// Whether everything is known.
    pub(super) fn is_over(&self) -> bool {
        self.asked.is_empty()
    }

    pub(super) fn into_answer(self) -> DiscoveryEvent<KafkaSplit> {
        let mut lost = self.lost;
        lost.sort();
        DiscoveryEvent::Checked {
            request: self.request,
            lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterId, KafkaPosition, Partition, TopicName};

    fn range(from: u64, to: u64) -> SplitRange<KafkaSplit> {
        SplitRange {
            split: KafkaSplit::new(
                ClusterId::new("east").unwrap(),
                TopicName::new("t").unwrap(),
                Partition(0),
            ),
            from: KafkaPosition::at(Offset::new(from)),
            to: KafkaPosition::at(Offset::new(to)),
        }
    }

    /// What is said of the range 5..9 of a partition that goes from `first` to `end`.
    fn lost(first: u64, end: u64) -> Option<String> {
        let (mut check, questions) = RangeCheck::new(RequestId(3), vec![range(5, 9)]);
        let mut next = questions.into_iter().next();
        while let Some(question) = next {
            assert!(!check.is_over());
            let at = match question.rule {
                Wanting::Given(StartAt::Earliest) => first,
                _ => end,
            };
            next = check
                .answered(question.request, Offset::new(at))
                .expect("it is a question of the check");
        }
        assert!(check.is_over());
        let DiscoveryEvent::Checked { request, mut lost } = check.into_answer() else {
            panic!("a check is answered");
        };
        assert_eq!(request, RequestId(3));
        lost.pop().map(|(_, why)| why)
    }

    #[test]
    fn a_range_is_lost_if_its_first_or_its_last_record_is() {
        assert_eq!(lost(5, 9), None);
        assert_eq!(lost(0, 100), None);
        assert!(lost(6, 100).unwrap().contains("first that is left is at 6"));
        assert!(lost(0, 8).unwrap().contains("it ends at 8"));
        assert!(lost(0, 0).unwrap().contains("it ends at 0"));
    }

    #[test]
    fn an_answer_to_somebody_else_is_not_one_of_a_check() {
        let (mut check, _) = RangeCheck::new(RequestId(3), vec![range(5, 9)]);

        assert!(check.answered(RequestId(3), Offset::ZERO).is_none());
        let (empty, questions) = RangeCheck::new(RequestId(4), Vec::new());
        assert!(empty.is_over() && questions.is_empty());
    }
}
