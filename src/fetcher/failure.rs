//! What it means that a partition is not read on.

use timely_splits::health::FailureKind;

use super::ffi::NativeError;
use crate::model::{KafkaPosition, TopicName};

/// librdkafka's code for "the offset is not there, and I was told not to go elsewhere". It stands for
/// retention and for truncation alike.
const AUTO_OFFSET_RESET: i32 = -140;

/// librdkafka's code for a truncated log, where it says so.
const LOG_TRUNCATION: i32 = -139;

/// What can be done about `error`, met when a split of `topic` was read at `position`, and the words
/// for it, which are printed after the name of the split.
pub(super) fn describe(
    topic: &TopicName,
    position: KafkaPosition,
    error: &NativeError,
) -> (FailureKind, String) {
    let words = format!("{} ({})", error.message, error.name);
    // Only the text tells a truncated log from one whose beginning is gone.
    let truncated = error.code == LOG_TRUNCATION
        || error.code == AUTO_OFFSET_RESET && error.message.contains("truncation");
    if truncated {
        let message = format!(
            "the log was truncated below position {position}; \
             expected the records before it to stay: {words}"
        );
        (FailureKind::Definite, message)
    } else if error.code == AUTO_OFFSET_RESET {
        let message = format!(
            "position {position} is out of range; \
             expected one that the broker still holds: {words}"
        );
        (FailureKind::Definite, message)
    } else {
        let message = format!("reading topic {topic} at position {position} failed: {words}");
        (FailureKind::Transient, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Offset;

    fn described(code: i32, message: &str) -> (FailureKind, String) {
        let topic = TopicName::new("orders").unwrap();
        let error = NativeError {
            code,
            name: "NAME".to_owned(),
            message: message.to_owned(),
            property: None,
        };
        describe(&topic, KafkaPosition::at(Offset::new(120)), &error)
    }

    #[test]
    fn a_truncated_log_is_told_from_one_whose_beginning_is_gone() {
        let (truncated_kind, truncated) =
            described(AUTO_OFFSET_RESET, "Partition log truncation detected");
        let (gone_kind, gone) = described(AUTO_OFFSET_RESET, "Broker: Offset out of range");

        assert_eq!(truncated_kind, FailureKind::Definite);
        assert!(truncated.contains("truncated below position 120"));
        assert_eq!(gone_kind, FailureKind::Definite);
        assert_eq!(
            gone,
            "position 120 is out of range; \
             expected one that the broker still holds: Broker: Offset out of range (NAME)"
        );
    }

    #[test]
    fn a_missing_right_may_pass_and_names_the_topic() {
        let (kind, message) = described(29, "Broker: Topic authorization failed");

        assert_eq!(kind, FailureKind::Transient);
        assert!(message.contains("reading topic orders at position 120 failed"));
    }
}
