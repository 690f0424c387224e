//! Where reading stops, as a binding log stores it.

use prost::Message;
use timely_splits::log::StoredError;

use super::stored_starts::{GivenMessage, given_message, restore_given};
use super::{GroupId, StopAt};

#[derive(Clone, PartialEq, Message)]
pub(super) struct TopicStopMessage {
    #[prost(string, tag = "1")]
    pub(super) topic: String,
    /// The rule, and behind each one that which takes over from it.
    #[prost(message, repeated, tag = "2")]
    pub(super) stop: Vec<StopMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StopMessage {
    /// 1: never, 2: end, 3: time, 4: committed, 5: positions.
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(uint64, tag = "2")]
    record_time_ms: u64,
    #[prost(string, tag = "3")]
    group: String,
    #[prost(message, repeated, tag = "4")]
    positions: Vec<GivenMessage>,
}

/// A rule, and those that take over from it: not nested, since messages may be nested only so far.
pub(super) fn stop_messages(stop: Option<&StopAt>) -> Vec<StopMessage> {
    let all = std::iter::successors(stop, |stop| stop.otherwise());
    all.map(stop_message).collect()
}

fn stop_message(stop: &StopAt) -> StopMessage {
    let mut message = StopMessage::default();
    message.kind = match stop {
        StopAt::Never => 1,
        StopAt::End => 2,
        StopAt::Time { record_time_ms } => {
            message.record_time_ms = *record_time_ms;
            3
        }
        StopAt::Committed { group, .. } => {
            group.as_str().clone_into(&mut message.group);
            4
        }
        StopAt::Positions { offsets, .. } => {
            message.positions = given_message(offsets);
            5
        }
    };
    message
}

pub(super) fn restore_stop(messages: Vec<StopMessage>) -> Result<Option<StopAt>, StoredError> {
    let mut behind: Option<StopAt> = None;
    for message in messages.into_iter().rev() {
        behind = Some(restore_rule(message, behind)?);
    }
    Ok(behind)
}

/// The rule that `message` stands for, from which `behind` takes over.
fn restore_rule(message: StopMessage, behind: Option<StopAt>) -> Result<StopAt, StoredError> {
    let wrong = |words: String| StoredError::new("metadata", words);
    let needs = || wrong("a stopping rule lacks the one that takes over from it".to_owned());
    Ok(match message.kind {
        1 => StopAt::Never,
        2 => StopAt::End,
        3 => StopAt::Time {
            record_time_ms: message.record_time_ms,
        },
        4 => StopAt::Committed {
            group: GroupId::new(&message.group).map_err(|error| wrong(error.to_string()))?,
            otherwise: Box::new(behind.ok_or_else(needs)?),
        },
        5 => StopAt::Positions {
            offsets: restore_given(&message.positions),
            otherwise: Box::new(behind.ok_or_else(needs)?),
        },
        kind => {
            return Err(wrong(format!(
                "stopping rule {kind} is not known: use the version that wrote it"
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_restored() {
        let committed = StopAt::committed("billing", StopAt::End).unwrap();
        for rule in [
            StopAt::Never,
            StopAt::End,
            StopAt::Time { record_time_ms: 9 },
            committed.clone(),
            StopAt::positions([(0, 4), (2, 0)], committed),
        ] {
            let stored = stop_messages(Some(&rule));
            assert_eq!(restore_stop(stored), Ok(Some(rule)));
        }
        assert_eq!(restore_stop(stop_messages(None)), Ok(None));
    }

    #[test]
    fn a_rule_that_is_not_known_is_not_taken_for_another_one() {
        let rule = |kind| StopMessage {
            kind,
            group: "billing".to_owned(),
            ..StopMessage::default()
        };

        let refused = |kind| restore_stop(vec![rule(kind)]).unwrap_err().to_string();

        assert!(refused(99).contains("stopping rule 99 is not known"));
        assert!(refused(4).contains("lacks the one that takes over"));
    }
}
