//! Where reading starts.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{GroupId, NameError, Offset, Partition};

/// Where the reading of a partition starts that was never read before.
///
/// A rule is resolved to an offset once, and the log has that offset before a record is read. It is
/// not asked about again after a restart, and while the cluster cannot be asked the partition is not
/// read: no rule ever becomes another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StartAt {
    /// At the first record that the broker still holds.
    #[default]
    Earliest,
    /// After the last record that is there when the partition is found.
    Latest,
    /// At the first record whose record time is this one or a later one; at the end if there is none.
    Time {
        /// The time, in milliseconds since the epoch.
        record_time_ms: u64,
    },
    /// The same, with the time so long before the one at which the partition is found.
    BeforeNow(Duration),
    /// So many offsets before the end, and not before the first record that the broker still holds.
    ///
    /// Offsets without a record count: those of transaction markers and of what compaction removed.
    BeforeEnd {
        /// How many.
        records: u64,
    },
    /// At the offset that a consumer group has committed.
    Committed {
        /// The group.
        group: GroupId,
        /// Where partitions start for which it has committed none.
        otherwise: Box<Self>,
    },
    /// At given offsets, the same in each topic that the rule is for.
    ///
    /// They are taken as they are: what the broker does not have fails when it is read.
    Positions {
        /// The offset of the first record to read, by partition.
        offsets: BTreeMap<Partition, Offset>,
        /// Where partitions start that are not named.
        otherwise: Box<Self>,
    },
}

impl StartAt {
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
    /// use timely_kafka::StartAt;
    ///
    /// let start = StartAt::positions([(0, 17), (1, 4)], StartAt::Earliest);
    /// assert_eq!(start.to_string(), "the given offset, otherwise earliest");
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
            _ => None,
        }
    }
}

/// In words; what follows "starts at".
impl Display for StartAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earliest => f.write_str("earliest")?,
            Self::Latest => f.write_str("latest")?,
            Self::Time { record_time_ms } => write!(f, "record time {record_time_ms} ms")?,
            Self::BeforeNow(time) => write!(f, "{time:?} before now")?,
            Self::BeforeEnd { records } => write!(f, "{records} records before the end")?,
            Self::Committed { group, .. } => write!(f, "the committed offset of group {group}")?,
            Self::Positions { .. } => f.write_str("the given offset")?,
        }
        match self.otherwise() {
            Some(otherwise) => write!(f, ", otherwise {otherwise}"),
            None => Ok(()),
        }
    }
}

/// Where reading starts, as far as one place says it: a stream, a cluster of it, or a topic of that.
///
/// Of several places the nearest to the partition wins, for each rule by itself: topic, cluster,
/// stream, source.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StartRules {
    /// Where partitions start; `None` leaves it to the next place.
    pub start: Option<StartAt>,
    /// Where partitions start that are added to a topic whose other partitions are known; `None` leaves
    /// it to the next place. The default of a source is [`StartAt::Earliest`].
    pub new_partitions: Option<StartAt>,
    /// Where topics start that appear on a known cluster after the source's first metadata; `None` leaves
    /// it to the next place. Where no place says it, `start` holds.
    pub new_topics: Option<StartAt>,
    /// Where topics of clusters start that appear after the source's first metadata; `None` leaves it to
    /// the next place. Where no place says it, `start` holds.
    pub new_clusters: Option<StartAt>,
}

impl StartRules {
    /// What these rules say, and `farther` ones where they say nothing.
    pub(crate) fn or(&self, farther: &Self) -> Self {
        let or =
            |near: &Option<StartAt>, far: &Option<StartAt>| near.as_ref().or(far.as_ref()).cloned();
        Self {
            start: or(&self.start, &farther.start),
            new_partitions: or(&self.new_partitions, &farther.new_partitions),
            new_topics: or(&self.new_topics, &farther.new_topics),
            new_clusters: or(&self.new_clusters, &farther.new_clusters),
        }
    }

    /// Each rule by its name in a metadata file.
    pub(crate) fn by_name(&self) -> [(&'static str, Option<&StartAt>); 4] {
        [
            ("start", self.start.as_ref()),
            ("new_partitions", self.new_partitions.as_ref()),
            ("new_topics", self.new_topics.as_ref()),
            ("new_clusters", self.new_clusters.as_ref()),
        ]
    }

    /// Whether they say anything.
    pub(crate) fn is_silent(&self) -> bool {
        self.by_name().iter().all(|(_, rule)| rule.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reads_as_words() {
        let all = StartAt::committed("billing", StartAt::BeforeNow(Duration::from_secs(900)));
        let rules = [
            (StartAt::Earliest, "earliest"),
            (StartAt::Latest, "latest"),
            (StartAt::Time { record_time_ms: 7 }, "record time 7 ms"),
            (
                StartAt::BeforeEnd { records: 10 },
                "10 records before the end",
            ),
            (
                all.unwrap(),
                "the committed offset of group billing, otherwise 900s before now",
            ),
        ];

        for (rule, words) in rules {
            assert_eq!(rule.to_string(), words);
        }
    }

    #[test]
    fn each_rule_is_that_of_the_nearest_place_that_gives_one() {
        let topic = StartRules {
            start: Some(StartAt::Latest),
            ..StartRules::default()
        };
        let stream = StartRules {
            start: Some(StartAt::Earliest),
            new_partitions: Some(StartAt::BeforeEnd { records: 1 }),
            ..StartRules::default()
        };

        let both = topic.or(&stream);

        assert_eq!(both.start, topic.start);
        assert_eq!(both.new_partitions, stream.new_partitions);
        assert!(StartRules::default().is_silent() && !both.is_silent());
    }
}
