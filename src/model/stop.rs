//! Where reading stops.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use super::{GroupId, NameError, Offset, Partition};

/// Where the reading of a partition stops: no record at that offset or behind it is read.
///
/// Like a [start](super::StartAt), a rule is resolved to an offset once, at the same time, and the log
/// has that offset before a record is read. A partition whose start is not before its stop is finished
/// at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StopAt {
    /// Nowhere: records that are yet to be written are read too. In a
    /// [bounded](crate::KafkaSourceBuilder::bounded) source it means [`End`](Self::End).
    #[default]
    Never,
    /// After the last record that is there when the partition is found.
    End,
    /// Before the first record whose record time is this one or a later one; at the end, as it is when
    /// the partition is found, if there is none yet.
    Time {
        /// The time, in milliseconds since the epoch.
        record_time_ms: u64,
    },
    /// At the offset that a consumer group has committed, which is that of the next record it would
    /// read.
    Committed {
        /// The group.
        group: GroupId,
        /// Where partitions stop for which it has committed none.
        otherwise: Box<Self>,
    },
    /// At given offsets, the same in each topic that the rule is for.
    Positions {
        /// The offset of the first record not to read, by partition.
        offsets: BTreeMap<Partition, Offset>,
        /// Where partitions stop that are not named.
        otherwise: Box<Self>,
    },
}

impl StopAt {
    /// At the offsets that `group` has committed, and by `otherwise` where it has none.
    ///
    /// # Errors
    ///
    /// If `group` cannot be the name of a consumer group.
    pub fn committed(group: &str, otherwise: Self) -> Result<Self, NameError> {
        Ok(Self::Committed {
            group: GroupId::new(group)?,
            otherwise: Box::new(otherwise),
        })
    }

    /// At the given offset of each partition that is named, and by `otherwise` in the others.
    ///
    /// # Examples
    ///
    /// ```
    /// use timely_kafka::StopAt;
    ///
    /// let stop = StopAt::positions([(0, 17), (1, 4)], StopAt::End);
    /// assert_eq!(stop.to_string(), "the given offset, otherwise the end");
    /// ```
    #[must_use]
    pub fn positions(offsets: impl IntoIterator<Item = (i32, u64)>, otherwise: Self) -> Self {
        let offsets = offsets.into_iter();
        Self::Positions {
            offsets: offsets
                .map(|(partition, offset)| (Partition(partition), Offset::new(offset)))
                .collect(),
            otherwise: Box::new(otherwise),
        }
    }

    /// The rule that takes over where this one has nothing to say, if there is such a place.
    pub(crate) fn otherwise(&self) -> Option<&Self> {
        match self {
            Self::Committed { otherwise, .. } | Self::Positions { otherwise, .. } => {
                Some(otherwise)
            }
            Self::Never | Self::End | Self::Time { .. } => None,
        }
    }

    /// The same, but at the end where it would be nowhere.
    pub(crate) fn somewhere(self) -> Self {
        match self {
            Self::Never => Self::End,
            Self::Committed { group, otherwise } => Self::Committed {
                group,
                otherwise: Box::new(otherwise.somewhere()),
            },
            Self::Positions { offsets, otherwise } => Self::Positions {
                offsets,
                otherwise: Box::new(otherwise.somewhere()),
            },
            stop @ (Self::End | Self::Time { .. }) => stop,
        }
    }
}

/// In words; what follows "stops at".
impl Display for StopAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("nowhere")?,
            Self::End => f.write_str("the end")?,
            Self::Time { record_time_ms } => write!(f, "record time {record_time_ms} ms")?,
            Self::Committed { group, .. } => write!(f, "the committed offset of group {group}")?,
            Self::Positions { .. } => f.write_str("the given offset")?,
        }
        match self.otherwise() {
            Some(otherwise) => write!(f, ", otherwise {otherwise}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reads_as_words() {
        let given = StopAt::positions([(0, 1)], StopAt::Never);
        let committed = StopAt::committed("billing", given).unwrap();

        assert_eq!(
            committed.to_string(),
            "the committed offset of group billing, otherwise the given offset, otherwise nowhere"
        );
        assert_eq!(
            committed.somewhere().to_string(),
            "the committed offset of group billing, otherwise the given offset, otherwise the end"
        );
        let time = StopAt::Time { record_time_ms: 7 };
        assert_eq!(time.clone().somewhere(), time);
    }
}
