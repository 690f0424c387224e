//! Makes offsets of rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::fetcher::ffi::control::{
    CommittedAnswer, ControlClient, ControlError, GroupClient, Isolation, OffsetAnswer, Place,
    TopicPartition,
};
use crate::metadata::secret::ResolvedProperties;
use crate::model::{GroupId, KafkaPosition, Offset, Partition, StartAt, StopAt};

/// Where a partition starts and stops, asked of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The partition, of which no other question of the same batch is.
    pub(super) partition: TopicPartition,
    /// The rules.
    pub(super) rules: Rules,
    /// When its start was first wanted, from which [`StartAt::BeforeNow`] counts.
    pub(super) wanted: SystemTime,
}

/// By which rules a partition is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) start: StartAt,
    pub(super) stop: StopAt,
    /// Whether nothing is read that is not there by now, whatever `stop` says.
    pub(super) up_to_end: bool,
}

impl Rules {
    /// These rules for a source that ends by itself, if `bounded`: each partition stops somewhere, and
    /// at its end at the latest.
    pub(super) fn new(start: StartAt, stop: StopAt, bounded: bool) -> Self {
        Self {
            start,
            stop: if bounded { stop.somewhere() } else { stop },
            up_to_end: bounded,
        }
    }

    /// Whether it may take the coordinator of a group to answer them.
    pub(super) fn ask_group(&self) -> bool {
        let mut starts = std::iter::successors(Some(&self.start), |rule| rule.otherwise());
        let mut stops = std::iter::successors(Some(&self.stop), |rule| rule.otherwise());
        starts.any(|rule| matches!(rule, StartAt::Committed { .. }))
            || stops.any(|rule| matches!(rule, StopAt::Committed { .. }))
    }

    /// Those whose start is where a partition ends.
    pub(super) fn end() -> Self {
        Self::new(StartAt::Latest, StopAt::Never, false)
    }
}

/// Where a partition starts and stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) start: KafkaPosition,
    /// `None`: nowhere. It is an offset alone, since nothing depends on what was before it.
    pub(super) stop: Option<KafkaPosition>,
    /// The rules that said so, in words.
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

/// One of the rules of a question.
#[derive(Clone, Debug)]
enum Rule {
    Start(StartAt),
    Stop(StopAt),
}

impl Rule {
    /// The rule that takes over from it, if there is one.
    fn otherwise(&self) -> Option<Self> {
        match self {
            Self::Start(rule) => rule.otherwise().cloned().map(Self::Start),
            Self::Stop(rule) => rule.otherwise().cloned().map(Self::Stop),
        }
    }

    fn offsets(&self) -> Option<&BTreeMap<Partition, Offset>> {
        match self {
            Self::Start(StartAt::Positions { offsets, .. })
            | Self::Stop(StopAt::Positions { offsets, .. }) => Some(offsets),
            Self::Start(_) | Self::Stop(_) => None,
        }
    }

    fn group(&self) -> Option<&GroupId> {
        match self {
            Self::Start(StartAt::Committed { group, .. })
            | Self::Stop(StopAt::Committed { group, .. }) => Some(group),
            Self::Start(_) | Self::Stop(_) => None,
        }
    }

    /// Whether it takes a partition's end to answer it.
    fn needs_end(&self) -> bool {
        !matches!(
            self,
            Self::Start(StartAt::Earliest) | Self::Stop(StopAt::Never)
        )
    }

    /// Whether it takes a partition's beginning to answer it.
    fn needs_beginning(&self) -> bool {
        matches!(
            self,
            Self::Start(StartAt::Earliest | StartAt::BeforeEnd { .. })
        )
    }
}

/// In words; the start by itself, the stop as what follows it.
impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(rule) => Display::fmt(rule, f),
            Self::Stop(rule) => Display::fmt(rule, f),
        }
    }
}

/// A rule of a question without an answer.
struct Open {
    /// Where its answer goes.
    index: usize,
    partition: TopicPartition,
    rule: Rule,
    /// Why the rule is not the one that was asked about, in words; empty if it is.
    because: String,
    wanted: SystemTime,
}

/// Where a rule is, and in words why.
type Found = Result<Option<(KafkaPosition, String)>, ControlError>;

impl Open {
    /// Goes on with the rule that takes over where this one has nothing to say.
    fn otherwise(&mut self, because: &str) {
        let otherwise = self.rule.otherwise();
        self.rule = otherwise.expect("only a rule that has one leaves a partition to another");
        self.because = match self.because.as_str() {
            "" => format!(", since {because}"),
            before => format!("{before} and {because}"),
        };
    }

    fn answer(&self, at: KafkaPosition, rule: &str) -> Found {
        Ok(Some((at, format!("{rule}{}", self.because))))
    }

    /// The first record time to look for, if the rule is for a time.
    fn since(&self) -> Option<u64> {
        match &self.rule {
            Rule::Start(StartAt::Time { record_time_ms })
            | Rule::Stop(StopAt::Time { record_time_ms }) => Some(*record_time_ms),
            Rule::Start(StartAt::BeforeNow(time)) => {
                let now = self.wanted.duration_since(UNIX_EPOCH).unwrap_or_default();
                let since = now.saturating_sub(*time).as_millis();
                Some(u64::try_from(since).unwrap_or(u64::MAX))
            }
            Rule::Start(_) | Rule::Stop(_) => None,
        }
    }
}

/// What is asked of a partition: where it starts, where it stops, and where it ends by now.
const OF_ONE: usize = 3;

/// Where each partition of `questions` starts and stops; one answer for each, in order.
///
/// An error is the answer of a partition about which the cluster could not be asked, in whichever of
/// the steps: never what another rule says.
pub(super) fn resolve(asks: &mut impl Ask, questions: Vec<Question>) -> Vec<Answer> {
    let mut found: BTreeMap<usize, Found> = BTreeMap::new();
    let count = questions.len();
    let up_to_end: Vec<_> = questions.iter().map(|one| one.rules.up_to_end).collect();
    let mut open: Vec<Open> = Vec::with_capacity(2 * count);
    for (
        index,
        Question {
            partition,
            rules,
            wanted,
        },
    ) in questions.into_iter().enumerate()
    {
        let end = rules.up_to_end.then_some(Rule::Stop(StopAt::End));
        let of_one = [
            Some(Rule::Start(rules.start)),
            Some(Rule::Stop(rules.stop)),
            end,
        ];
        open.extend(of_one.into_iter().enumerate().filter_map(|(which, rule)| {
            Some(Open {
                index: OF_ONE * index + which,
                partition: partition.clone(),
                rule: rule?,
                because: String::new(),
                wanted,
            })
        }));
    }
    // Each round is about a rule further in: there are as many as the deepest rule has.
    while open.iter().any(|one| one.rule.otherwise().is_some()) {
        open = take_given(open, &mut found);
        open = ask_groups(asks, open, &mut found);
    }
    ask_places(asks, open, &mut found);
    let mut take = |index| found.remove(&index).unwrap_or(Err(ControlError::LeftOut));
    let answers = up_to_end.into_iter().enumerate().map(|(index, up_to_end)| {
        let of_one = [0, 1].map(|which| take(OF_ONE * index + which));
        let end = up_to_end.then(|| take(OF_ONE * index + 2));
        joined(of_one, end)
    });
    answers.collect()
}

/// The answer about a partition, of where its start, its stop and its end are.
fn joined([start, stop]: [Found; 2], end: Option<Found>) -> Answer {
    let (start, mut rule) = start?.ok_or(ControlError::LeftOut)?;
    let mut stop = stop?;
    if let Some(end) = end {
        let (end, _) = end?.ok_or(ControlError::LeftOut)?;
        stop = stop.map(|(at, words)| match at.next {
            offset if offset <= end.next => (at, words),
            _ => (end, format!("the end, since {words} is behind it")),
        });
    }
    if let Some((_, words)) = &stop {
        rule = format!("{rule}; stops at {words}");
    }
    let stop = stop.map(|(at, _)| KafkaPosition::at(at.next));
    Ok(Resolved { start, stop, rule })
}

/// Answers with the offsets that rules name. Returns what is open.
fn take_given(open: Vec<Open>, answers: &mut BTreeMap<usize, Found>) -> Vec<Open> {
    let mut left = Vec::new();
    for mut one in open {
        if let Some(offsets) = one.rule.offsets() {
            match offsets.get(&one.partition.1).copied() {
                Some(offset) => {
                    let answer = one.answer(KafkaPosition::at(offset), "the given offset");
                    answers.insert(one.index, answer);
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
    answers: &mut BTreeMap<usize, Found>,
) -> Vec<Open> {
    let mut groups: BTreeMap<GroupId, Vec<Open>> = BTreeMap::new();
    let mut left = Vec::new();
    for one in open {
        match one.rule.group() {
            Some(group) => groups.entry(group.clone()).or_default().push(one),
            None => left.push(one),
        }
    }
    for (group, members) in groups {
        // A partition can start and stop by one group, and is asked about once.
        let partitions: BTreeSet<_> = members.iter().map(|one| one.partition.clone()).collect();
        let partitions: Vec<_> = partitions.into_iter().collect();
        let found = asks.committed(&group, &partitions);
        let found: BTreeMap<_, _> = partitions.into_iter().zip(found).collect();
        for mut one in members {
            let committed = found.get(&one.partition).cloned();
            match committed.unwrap_or(Err(ControlError::LeftOut)) {
                Ok(Some(start)) => {
                    let rule = format!("the committed offset of group {group}");
                    answers.insert(one.index, one.answer(start, &rule));
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
fn ask_places(asks: &mut impl Ask, open: Vec<Open>, answers: &mut BTreeMap<usize, Found>) {
    // The end is asked for first. Where no record is as late as a time, reading starts at an end from
    // before that was said, so that no record is behind it that was written meanwhile and is as late.
    let ends = ask(asks, &open, |one| {
        one.rule.needs_end().then_some(Place::End)
    });
    let begins = ask(asks, &open, |one| {
        one.rule.needs_beginning().then_some(Place::Beginning)
    });
    // A partition is named once in a question, and can start at one time and stop at another.
    let start_times = ask(asks, &open, |one| match one.rule {
        Rule::Start(_) => one.since().map(Place::Since),
        Rule::Stop(_) => None,
    });
    let stop_times = ask(asks, &open, |one| match one.rule {
        Rule::Stop(_) => one.since().map(Place::Since),
        Rule::Start(_) => None,
    });
    let known = |found: &Places, partition: &TopicPartition| {
        let answer = found.get(partition).cloned().unwrap_or(Ok(None));
        answer?.ok_or(ControlError::LeftOut)
    };
    for one in open {
        let partition = &one.partition;
        let times = match one.rule {
            Rule::Start(_) => &start_times,
            Rule::Stop(_) => &stop_times,
        };
        let at = match &one.rule {
            Rule::Stop(StopAt::Never) => {
                answers.insert(one.index, Ok(None));
                continue;
            }
            Rule::Start(StartAt::Earliest) => known(&begins, partition),
            Rule::Start(StartAt::BeforeEnd { records }) => {
                known(&begins, partition).and_then(|begin| {
                    let end = known(&ends, partition)?.next.get();
                    let start = Offset::new(end.saturating_sub(*records));
                    // Nothing is known of the record before, unless it is the first or the last.
                    Ok(match start {
                        start if start <= begin.next => begin,
                        start => KafkaPosition::at(start),
                    })
                })
            }
            _ if one.since().is_some() => match times.get(partition) {
                Some(Ok(Some(at))) => Ok(KafkaPosition::at(at.next)),
                Some(Ok(None)) => known(&ends, partition),
                Some(Err(error)) => Err(error.clone()),
                None => Err(ControlError::LeftOut),
            },
            _ => known(&ends, partition),
        };
        let rule = one.rule.to_string();
        let answer = at.and_then(|at| one.answer(at, &rule));
        answers.insert(one.index, answer);
    }
}

/// What was said of the place of each partition that was asked about.
type Places = BTreeMap<TopicPartition, OffsetAnswer>;

/// Asks for one place of each partition for which `place` says one, the same one each time.
fn ask(asks: &mut impl Ask, open: &[Open], place: impl Fn(&Open) -> Option<Place>) -> Places {
    let asked = open.iter();
    let asked: BTreeMap<_, _> = asked
        .filter_map(|one| Some((one.partition.clone(), place(one)?)))
        .collect();
    if asked.is_empty() {
        return Places::new();
    }
    let questions: Vec<_> = asked.into_iter().collect();
    let answers = asks.offsets(&questions);
    let partitions = questions.into_iter().map(|(partition, _)| partition);
    partitions.zip(answers).collect()
}

#[cfg(test)]
mod tests;
