//! One partition of one topic of one cluster, and the evidence that it is still the same.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use timely_splits::split::Split;

use super::{ClusterId, KafkaPosition, SharedMetadata, TopicName};

/// The number of a partition in its topic, from zero.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Partition(pub i32);

impl Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

/// How often a partition was started over, because its topic was deleted and created again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Generation(pub u32);

/// What one reader reads from front to back: one partition of one topic of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KafkaSplit {
    /// The cluster, by the name that the metadata gives it.
    pub cluster: ClusterId,
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: Partition,
    /// How often the partition was started over.
    pub generation: Generation,
}

impl KafkaSplit {
    /// The first generation of a partition.
    #[must_use]
    pub fn new(cluster: ClusterId, topic: TopicName, partition: Partition) -> Self {
        Self {
            cluster,
            topic,
            partition,
            generation: Generation::default(),
        }
    }
}

impl KafkaSplit {
    fn with_generation(&self, generation: Generation) -> Self {
        Self {
            generation,
            ..self.clone()
        }
    }
}

impl Display for KafkaSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.cluster, self.topic, self.partition)?;
        if self.generation != Generation::default() {
            write!(f, "#{}", self.generation.0)?;
        }
        Ok(())
    }
}

impl Split for KafkaSplit {
    type Position = KafkaPosition;
    type Identity = KafkaIdentity;
    type Metadata = SharedMetadata;

    fn contradicts(known: &KafkaIdentity, found: &KafkaIdentity) -> bool {
        fn differ<I: PartialEq>(known: Option<&I>, found: Option<&I>) -> bool {
            matches!((known, found), (Some(known), Some(found)) if known != found)
        }
        differ(known.cluster.as_ref(), found.cluster.as_ref())
            || differ(known.topic.as_ref(), found.topic.as_ref())
    }

    fn learnt(known: &KafkaIdentity, found: &KafkaIdentity) -> KafkaIdentity {
        let cluster = found.cluster.as_ref().or(known.cluster.as_ref());
        KafkaIdentity {
            cluster: cluster.cloned(),
            topic: found.topic.or(known.topic),
        }
    }

    /// The leader epoch says nothing about where a position is.
    fn precedes(one: &KafkaPosition, other: &KafkaPosition) -> bool {
        one.next < other.next
    }

    fn difference(known: &KafkaIdentity, found: &KafkaIdentity) -> String {
        let mut differences = Vec::new();
        if let (Some(known), Some(found)) = (&known.cluster, &found.cluster)
            && known != found
        {
            differences.push(format!(
                "the id of its cluster was {}, and is {}",
                known.0, found.0
            ));
        }
        if let (Some(known), Some(found)) = (known.topic, found.topic)
            && known != found
        {
            differences.push(format!("the id of its topic was {known}, and is {found}"));
        }
        differences.join("; ")
    }

    /// In another cluster there is no topic that was created again.
    fn takes_place(known: &KafkaIdentity, found: &KafkaIdentity) -> bool {
        !matches!((&known.cluster, &found.cluster), (Some(known), Some(found)) if known != found)
    }

    fn started_over(&self) -> Option<Self> {
        let generation = self.generation.0.checked_add(1)?;
        Some(self.with_generation(Generation(generation)))
    }

    fn origin(&self) -> Self {
        self.with_generation(Generation::default())
    }
}

/// The id that a Kafka cluster has given itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KafkaClusterId(pub String);

/// The id that Kafka has given a topic when it was created (KIP-516), as its 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicId(pub u128);

/// As hexadecimal digits in the groups of a UUID.
impl Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let groups = [
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..],
        ];
        f.write_str(&groups.join("-"))
    }
}

/// What tells a partition from another one of the same name.
///
/// A broker that cannot tell leaves `None`, which is "unknown" and never equal to a known id.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KafkaIdentity {
    /// The cluster's own id.
    pub cluster: Option<KafkaClusterId>,
    /// The topic's id.
    pub topic: Option<TopicId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(cluster: &str, topic: &str) -> KafkaSplit {
        KafkaSplit::new(
            ClusterId::new(cluster).unwrap(),
            TopicName::new(topic).unwrap(),
            Partition(0),
        )
    }

    /// S17.
    #[test]
    fn names_that_join_to_the_same_text_are_different_splits() {
        let (one, other) = (split("a", "t-b"), split("a-t", "b"));

        assert_ne!(one, other);
        assert_ne!(one.to_string(), other.to_string());
    }
}
