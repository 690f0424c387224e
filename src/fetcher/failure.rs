//! What it means that a partition is not read on.

use timely_splits::fetcher::DownCause;
use timely_splits::health::FailureKind;
use timely_splits::loss::LossCause;

use super::ffi::NativeError;
use crate::model::{KafkaPosition, LeaderEpoch, Offset, TopicName};

/// librdkafka's code for "the offset is not there, and I was told not to go elsewhere". It stands for
/// retention and for truncation alike.
const AUTO_OFFSET_RESET: i32 = -140;

/// librdkafka's code for a truncated log, where it says so.
const LOG_TRUNCATION: i32 = -139;

/// A batch of records whose checksum is wrong, as librdkafka or a broker says it, and one that cannot be
/// decompressed.
const DAMAGED: [i32; 3] = [-199, 2, -198];

/// What can be done about `error`, met when a split of `topic` was read at `position`, and the words
/// for it, which are printed after the name of the split.
pub(super) fn describe(
    topic: &TopicName,
    position: KafkaPosition,
    error: &NativeError,
) -> (DownCause<KafkaPosition>, String) {
    let words = format!("{} ({})", error.message, error.name);
    // Only the text tells a truncated log from one whose beginning is gone.
    let truncated = error.code == LOG_TRUNCATION
        || error.code == AUTO_OFFSET_RESET && error.message.contains("truncation");
    if truncated {
        let message = format!(
            "the log was truncated below position {position}; \
             expected the records before it to stay: {words}"
        );
        let cut = cut_at(&error.message).filter(|cut| *cut < position);
        (DownCause::Lost(LossCause::Truncated(cut)), message)
    } else if error.code == AUTO_OFFSET_RESET {
        let message = format!(
            "position {position} is out of range; \
             expected one that the broker still holds: {words}"
        );
        (DownCause::Lost(LossCause::OutOfRange), message)
    } else if DAMAGED.contains(&error.code) {
        let message = format!(
            "the records of topic {topic} at position {position} are damaged; \
             expected what was written: {words}"
        );
        (DownCause::Damaged, message)
    } else {
        let message = format!("reading topic {topic} at position {position} failed: {words}");
        (DownCause::Failed(FailureKind::Transient), message)
    }
}

/// Where a log was cut off, which librdkafka tells in words only: "broker end offset is 100 (offset
/// leader epoch 0)". Its end by now is no answer, since what was written after the cut was not read.
fn cut_at(words: &str) -> Option<KafkaPosition> {
    fn number(text: &str) -> Option<u64> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        text[..digits].parse().ok()
    }
    let (_, end) = words.split_once("broker end offset is ")?;
    let epoch = end.split_once("(offset leader epoch ");
    let epoch = epoch.and_then(|(_, epoch)| number(epoch));
    Some(KafkaPosition {
        next: Offset::new(number(end)?),
        leader_epoch: epoch
            .and_then(|epoch| i32::try_from(epoch).ok())
            .map(LeaderEpoch),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Offset;

    fn described(code: i32, message: &str) -> (DownCause<KafkaPosition>, String) {
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
        let words = "Partition log truncation detected at offset 120 (leader epoch 0): broker end offset is \
                     100 (offset leader epoch 0). Reset to INVALID.";
        let (truncated_kind, truncated) = described(AUTO_OFFSET_RESET, words);
        let (gone_kind, gone) = described(AUTO_OFFSET_RESET, "Broker: Offset out of range");

        let cut = KafkaPosition {
            next: Offset::new(100),
            leader_epoch: Some(LeaderEpoch(0)),
        };
        let expected = DownCause::Lost(LossCause::Truncated(Some(cut)));
        assert_eq!(truncated_kind, expected);
        assert!(truncated.contains("truncated below position 120"));
        assert_eq!(gone_kind, DownCause::Lost(LossCause::OutOfRange));
        assert_eq!(
            gone,
            "position 120 is out of range; \
             expected one that the broker still holds: Broker: Offset out of range (NAME)"
        );
    }

    /// A client that says it in other words leaves it open where the log was cut off.
    #[test]
    fn where_a_log_was_cut_off_is_known_only_if_it_is_said() {
        let (cause, _) = described(LOG_TRUNCATION, "Broker: log truncation");
        let (above, _) = described(LOG_TRUNCATION, "broker end offset is 130 (x)");

        assert_eq!(cause, DownCause::Lost(LossCause::Truncated(None)));
        assert_eq!(above, DownCause::Lost(LossCause::Truncated(None)));
    }

    #[test]
    fn what_is_damaged_is_told_from_what_fails() {
        for code in DAMAGED {
            let (cause, message) = described(code, "MessageSet failed CRC32C check");
            assert_eq!(cause, DownCause::Damaged);
            assert!(message.contains("position 120 are damaged"), "{message}");
        }
    }

    #[test]
    fn a_missing_right_may_pass_and_names_the_topic() {
        let (kind, message) = described(29, "Broker: Topic authorization failed");

        assert_eq!(kind, DownCause::Failed(FailureKind::Transient));
        assert!(message.contains("reading topic orders at position 120 failed"));
    }
}
