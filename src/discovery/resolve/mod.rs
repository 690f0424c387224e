//! Makes offsets of rules.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::fetcher::ffi::control::{
    CommittedAnswer, ControlClient, ControlError, GroupClient, Isolation, OffsetAnswer, Place,
    TopicPartition,
};
use crate::metadata::secret::ResolvedProperties;
use crate::model::{GroupId, KafkaPosition, Offset, StartAt};

/// Where a partition starts, asked of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The partition, of which no other question of the same batch is.
    pub(super) partition: TopicPartition,
    /// The rule.
    pub(super) rule: StartAt,
    /// When its start was first wanted, from which [`StartAt::BeforeNow`] counts.
    pub(super) wanted: SystemTime,
}

/// Where a partition starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) start: KafkaPosition,
    /// The rule that said so, in words.
    pub(super) rule: String,
}

/// Asks a cluster, in bulk; one answer for each question, in order.
pub(super) trait Ask {
    /// The asked offset of each partition.
    fn offsets(&mut self, questions: &[(TopicPartition, Place)]) -> Vec<OffsetAnswer>;

    /// What `group` has committed for each partition.
    fn committed(&mut self, group: &GroupId, partitions: &[TopicPartition])
    -> Vec<CommittedAnswer>;
}

/// A client with how it is to ask.
pub(super) struct Asking<'a> {
    /// What the client is made of.
    pub(super) properties: &'a ResolvedProperties,
    pub(super) client: &'a mut ControlClient,
    pub(super) isolation: Isolation,
    /// How long it may take to answer one question.
    pub(super) timeout: Duration,
}

impl Ask for Asking<'_> {
    fn offsets(&mut self, questions: &[(TopicPartition, Place)]) -> Vec<OffsetAnswer> {
        let (isolation, timeout) = (self.isolation, self.timeout);
        self.client.list_offsets(questions, isolation, timeout)
    }

    fn committed(
        &mut self,
        group: &GroupId,
        partitions: &[TopicPartition],
    ) -> Vec<CommittedAnswer> {
        // Starts are wanted now and then, so the client is made when it is needed.
        match GroupClient::new(self.properties, group) {
            Ok(mut client) => client.committed(partitions, self.timeout),
            Err(error) => {
                let refused = || Err(ControlError::Refused(error.clone()));
                partitions.iter().map(|_| refused()).collect()
            }
        }
    }
}

type Answer = Result<Resolved, ControlError>;

/// A question without an answer.
struct Open {
    /// Where its answer goes.
    index: usize,
    partition: TopicPartition,
    rule: StartAt,
    /// Why the rule is not the one that was asked about, in words; empty if it is.
    because: String,
    wanted: SystemTime,
}

impl Open {
    /// Goes on with the rule that takes over where this one has nothing to say.
    fn otherwise(&mut self, because: &str) {
        let otherwise = self.rule.otherwise().cloned();
        self.rule = otherwise.expect("only a rule that has one leaves a partition to another");
        self.because = match self.because.as_str() {
            "" => format!(", since {because}"),
            before => format!("{before} and {because}"),
        };
    }

    fn answer(&self, start: KafkaPosition, rule: &str) -> Resolved {
        Resolved {
            start,
            rule: format!("{rule}{}", self.because),
        }
    }

    /// The first record time to read, if the rule is for a time.
    fn since(&self) -> Option<u64> {
        match &self.rule {
            StartAt::Time { record_time_ms } => Some(*record_time_ms),
            StartAt::BeforeNow(time) => {
                let now = self.wanted.duration_since(UNIX_EPOCH).unwrap_or_default();
                let since = now.saturating_sub(*time).as_millis();
                Some(u64::try_from(since).unwrap_or(u64::MAX))
            }
            _ => None,
        }
    }
}

/// Where each partition of `questions` starts; one answer for each, in order.
///
/// An error is the answer of a partition about which the cluster could not be asked, in whichever of
/// the steps: never what another rule says.
pub(super) fn resolve(asks: &mut impl Ask, questions: Vec<Question>) -> Vec<Answer> {
    let mut answers: BTreeMap<usize, Answer> = BTreeMap::new();
    let count = questions.len();
    let questions = questions.into_iter().enumerate();
    let mut open: Vec<Open> = questions
        .map(|(index, question)| Open {
            index,
            partition: question.partition,
            rule: question.rule,
            because: String::new(),
            wanted: question.wanted,
        })
        .collect();
    // Each round is about a rule further in: there are as many as the deepest rule has.
    while open.iter().any(|one| one.rule.otherwise().is_some()) {
        open = take_given(open, &mut answers);
        open = ask_groups(asks, open, &mut answers);
    }
    ask_places(asks, open, &mut answers);
    (0..count)
        .map(|index| answers.remove(&index).unwrap_or(Err(ControlError::LeftOut)))
        .collect()
}

/// Answers with the offsets that rules name. Returns what is open.
fn take_given(open: Vec<Open>, answers: &mut BTreeMap<usize, Answer>) -> Vec<Open> {
    let mut left = Vec::new();
    for mut one in open {
        if let StartAt::Positions { offsets, .. } = &one.rule {
            match offsets.get(&one.partition.1).copied() {
                Some(offset) => {
                    let answer = one.answer(KafkaPosition::at(offset), "the given offset");
                    answers.insert(one.index, Ok(answer));
                    continue;
                }
                None => one.otherwise("no offset is given for it"),
            }
        }
        left.push(one);
    }
    left
}

/// Answers with what groups have committed. Returns what is open.
fn ask_groups(
    asks: &mut impl Ask,
    open: Vec<Open>,
    answers: &mut BTreeMap<usize, Answer>,
) -> Vec<Open> {
    let mut groups: BTreeMap<GroupId, Vec<Open>> = BTreeMap::new();
    let mut left = Vec::new();
    for one in open {
        match &one.rule {
            StartAt::Committed { group, .. } => groups.entry(group.clone()).or_default().push(one),
            _ => left.push(one),
        }
    }
    for (group, members) in groups {
        let partitions: Vec<_> = members.iter().map(|one| one.partition.clone()).collect();
        let found = asks.committed(&group, &partitions);
        for (mut one, committed) in members.into_iter().zip(found) {
            match committed {
                Ok(Some(start)) => {
                    let rule = format!("the committed offset of group {group}");
                    answers.insert(one.index, Ok(one.answer(start, &rule)));
                }
                Ok(None) => {
                    one.otherwise(&format!("group {group} has committed none for it"));
                    left.push(one);
                }
                Err(error) => {
                    answers.insert(one.index, Err(error));
                }
            }
        }
    }
    left
}

/// Answers by where partitions begin and end, and where records of a time are.
fn ask_places(asks: &mut impl Ask, open: Vec<Open>, answers: &mut BTreeMap<usize, Answer>) {
    // The end is asked for first. Where no record is as late as a time, reading starts at an end from
    // before that was said, so that no record is behind it that was written meanwhile and is as late.
    let ends = ask(asks, &open, |one| {
        (one.rule != StartAt::Earliest).then_some(Place::End)
    });
    let begins = ask(asks, &open, |one| {
        let needed = matches!(one.rule, StartAt::Earliest | StartAt::BeforeEnd { .. });
        needed.then_some(Place::Beginning)
    });
    let times = ask(asks, &open, |one| one.since().map(Place::Since));
    let known = |found: &BTreeMap<usize, OffsetAnswer>, index| {
        let answer = found.get(&index).cloned().unwrap_or(Ok(None));
        answer?.ok_or(ControlError::LeftOut)
    };
    for one in open {
        let index = one.index;
        let start = match &one.rule {
            StartAt::Earliest => known(&begins, index),
            StartAt::BeforeEnd { records } => known(&begins, index).and_then(|begin| {
                let end = known(&ends, index)?.next.get();
                let start = Offset::new(end.saturating_sub(*records));
                // Nothing is known of the record before, unless it is the first or the last.
                Ok(match start {
                    start if start <= begin.next => begin,
                    start => KafkaPosition::at(start),
                })
            }),
            StartAt::Time { .. } | StartAt::BeforeNow(_) => match times.get(&index) {
                Some(Ok(Some(start))) => Ok(KafkaPosition::at(start.next)),
                Some(Ok(None)) => known(&ends, index),
                Some(Err(error)) => Err(error.clone()),
                None => Err(ControlError::LeftOut),
            },
            _ => known(&ends, index),
        };
        let rule = one.rule.to_string();
        let answer = start.map(|start| one.answer(start, &rule));
        answers.insert(one.index, answer);
    }
}

/// Asks for one place of each partition for which `place` says one.
fn ask(
    asks: &mut impl Ask,
    open: &[Open],
    place: impl Fn(&Open) -> Option<Place>,
) -> BTreeMap<usize, OffsetAnswer> {
    let (indices, questions): (Vec<_>, Vec<_>) = open
        .iter()
        .filter_map(|one| Some((one.index, (one.partition.clone(), place(one)?))))
        .unzip();
    if questions.is_empty() {
        return BTreeMap::new();
    }
    let answers = asks.offsets(&questions);
    indices.into_iter().zip(answers).collect()
}

#[cfg(test)]
mod tests;
