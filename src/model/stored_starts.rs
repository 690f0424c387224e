//! Where reading starts, as a binding log stores it.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message;
use timely_splits::log::StoredError;

use super::{GroupId, Offset, Partition, StartAt, StartRules};

#[derive(Clone, PartialEq, Message)]
pub(super) struct TopicStartsMessage {
    #[prost(string, tag = "1")]
    pub(super) topic: String,
    #[prost(message, optional, tag = "2")]
    pub(super) starts: Option<StartsMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StartsMessage {
    /// The rule, and behind each one that which takes over from it: not nested, since messages may be
    /// nested only so far.
    #[prost(message, repeated, tag = "1")]
    start: Vec<RuleMessage>,
    #[prost(message, repeated, tag = "2")]
    new_partitions: Vec<RuleMessage>,
    #[prost(message, repeated, tag = "3")]
    new_topics: Vec<RuleMessage>,
    #[prost(message, repeated, tag = "4")]
    new_clusters: Vec<RuleMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct RuleMessage {
    /// 1: earliest, 2: latest, 3: time, 4: before now, 5: before the end, 6: committed, 7: positions.
    #[prost(uint32, tag = "1")]
    kind: u32,
    /// The record time in milliseconds, or how many records, or the whole seconds before now.
    #[prost(uint64, tag = "2")]
    number: u64,
    /// What is beyond the whole seconds, in nanoseconds.
    #[prost(uint32, tag = "3")]
    nanos: u32,
    #[prost(string, tag = "4")]
    group: String,
    #[prost(message, repeated, tag = "5")]
    positions: Vec<GivenMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct GivenMessage {
    #[prost(int32, tag = "1")]
    partition: i32,
    #[prost(uint64, tag = "2")]
    offset: u64,
}

/// The rules, unless they say nothing.
pub(super) fn starts_message(starts: &StartRules) -> Option<StartsMessage> {
    (!starts.is_silent()).then(|| StartsMessage {
        start: chain(starts.start.as_ref()),
        new_partitions: chain(starts.new_partitions.as_ref()),
        new_topics: chain(starts.new_topics.as_ref()),
        new_clusters: chain(starts.new_clusters.as_ref()),
    })
}

pub(super) fn restore_starts(message: Option<StartsMessage>) -> Result<StartRules, StoredError> {
    let message = message.unwrap_or_default();
    Ok(StartRules {
        start: restore_chain(message.start)?,
        new_partitions: restore_chain(message.new_partitions)?,
        new_topics: restore_chain(message.new_topics)?,
        new_clusters: restore_chain(message.new_clusters)?,
    })
}

fn chain(rule: Option<&StartAt>) -> Vec<RuleMessage> {
    let all = std::iter::successors(rule, |rule| rule.otherwise());
    all.map(rule_message).collect()
}

fn rule_message(rule: &StartAt) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.kind = match rule {
        StartAt::Earliest => 1,
        StartAt::Latest => 2,
        StartAt::Time { record_time_ms } => {
            message.number = *record_time_ms;
            3
        }
        StartAt::BeforeNow(time) => {
            (message.number, message.nanos) = (time.as_secs(), time.subsec_nanos());
            4
        }
        StartAt::BeforeEnd { records } => {
            message.number = *records;
            5
        }
        StartAt::Committed { group, .. } => {
            group.as_str().clone_into(&mut message.group);
            6
        }
        StartAt::Positions { offsets, .. } => {
            message.positions = given_message(offsets);
            7
        }
    };
    message
}

/// Offsets by partition.
pub(super) fn given_message(offsets: &BTreeMap<Partition, Offset>) -> Vec<GivenMessage> {
    let given = offsets.iter().map(|(partition, offset)| GivenMessage {
        partition: partition.0,
        offset: offset.get(),
    });
    given.collect()
}

pub(super) fn restore_given(given: &[GivenMessage]) -> BTreeMap<Partition, Offset> {
    let offsets = given.iter();
    offsets
        .map(|one| (Partition(one.partition), Offset::new(one.offset)))
        .collect()
}

fn restore_chain(chain: Vec<RuleMessage>) -> Result<Option<StartAt>, StoredError> {
    let mut behind: Option<StartAt> = None;
    for message in chain.into_iter().rev() {
        behind = Some(restore_rule(message, behind)?);
    }
    Ok(behind)
}

/// The rule that `message` stands for, from which `behind` takes over.
fn restore_rule(message: RuleMessage, behind: Option<StartAt>) -> Result<StartAt, StoredError> {
    let wrong = |words: String| StoredError::new("metadata", words);
    let needs = || wrong("a starting rule lacks the one that takes over from it".to_owned());
    Ok(match message.kind {
        1 => StartAt::Earliest,
        2 => StartAt::Latest,
        3 => StartAt::Time {
            record_time_ms: message.number,
        },
        // More nanoseconds than a second has could overflow.
        4 if message.nanos < 1_000_000_000 => {
            StartAt::BeforeNow(Duration::new(message.number, message.nanos))
        }
        5 => StartAt::BeforeEnd {
            records: message.number,
        },
        6 => StartAt::Committed {
            group: GroupId::new(&message.group).map_err(|error| wrong(error.to_string()))?,
            otherwise: Box::new(behind.ok_or_else(needs)?),
        },
        7 => StartAt::Positions {
            offsets: restore_given(&message.positions),
            otherwise: Box::new(behind.ok_or_else(needs)?),
        },
        kind => {
            return Err(wrong(format!(
                "starting rule {kind} is not known: use the version that wrote it"
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through_the_log(starts: &StartRules) -> Result<StartRules, StoredError> {
        let message = starts_message(starts).map(|message| message.encode_to_vec());
        let read = message.map(|bytes| StartsMessage::decode(bytes.as_slice()).unwrap());
        restore_starts(read)
    }

    #[test]
    fn each_rule_is_restored() {
        let committed = StartAt::committed("billing", StartAt::Latest).unwrap();
        let deep = (0..500).fold(StartAt::Earliest, |behind, offset| {
            StartAt::positions([(3, offset)], behind)
        });
        for rule in [
            StartAt::Earliest,
            StartAt::Latest,
            StartAt::Time { record_time_ms: 9 },
            StartAt::BeforeNow(Duration::from_millis(1_500)),
            StartAt::BeforeEnd { records: 7 },
            committed.clone(),
            StartAt::positions([(0, 4), (2, 0)], committed),
            deep,
        ] {
            let starts = StartRules {
                start: Some(rule.clone()),
                new_partitions: Some(rule.clone()),
                new_topics: Some(rule.clone()),
                new_clusters: Some(rule),
            };
            assert_eq!(through_the_log(&starts), Ok(starts));
        }
        let silent = StartRules::default();
        assert_eq!(through_the_log(&silent), Ok(silent));
    }

    #[test]
    fn a_rule_that_is_not_known_is_not_taken_for_another_one() {
        let rule = RuleMessage {
            kind: 99,
            ..RuleMessage::default()
        };
        let alone = RuleMessage {
            kind: 6,
            group: "billing".to_owned(),
            ..RuleMessage::default()
        };

        let refused = |one| restore_chain(vec![one]).unwrap_err().to_string();

        assert!(refused(rule).contains("starting rule 99 is not known"));
        assert!(refused(alone).contains("lacks the one that takes over"));
    }
}
