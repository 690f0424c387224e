//! What a cluster has said about its topics, and what of it was reported.

use std::collections::{BTreeMap, BTreeSet};

use timely_splits::discovery::{DiscoveryEvent, FoundSplit};
use timely_splits::epoch::MetadataEpoch;

use crate::model::{ClusterId, KafkaIdentity, KafkaSplit, Partition, TopicName};

/// What was last said of a partition that was once there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    There,
    /// The cluster says that it does not exist.
    Gone,
    /// Whether it is there is unknown, since the cluster is reached in another way, or is another one.
    Unsure,
}

#[derive(Debug, Default)]
struct Topic {
    /// What it was when it was last there.
    identity: Option<KafkaIdentity>,
    /// Bounded by the partitions that the topic ever had while it is listed.
    partitions: BTreeMap<Partition, Presence>,
}

/// What a cluster has said about the listed topics, so that it can be reported for a new target before
/// the cluster has answered again.
///
/// # Invariants
///
/// A partition is gone only if it was there and the cluster then said otherwise; a topic that could
/// not be asked for stays what it was. Another cluster that answers in its place has nothing to say of
/// what is gone, nor of what there is in all: of it only what it has is noted.
#[derive(Debug, Default)]
pub(super) struct Findings {
    topics: BTreeMap<TopicName, Topic>,
    /// Whether another cluster answers than the one that is meant.
    foreign: bool,
    /// Whether the cluster has answered since it is reached as it is.
    answered: bool,
    /// The topics about which it has, so that what there is of them is known.
    known: BTreeSet<TopicName>,
    /// What was last reported, and under which epoch.
    reported: Option<(MetadataEpoch, Report)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Report {
    found: Vec<(KafkaSplit, KafkaIdentity)>,
    gone: Vec<KafkaSplit>,
}

impl Findings {
    /// `topic` has just these partitions.
    pub(super) fn exists(
        &mut self,
        topic: TopicName,
        identity: KafkaIdentity,
        partitions: &BTreeSet<Partition>,
    ) {
        self.known.insert(topic.clone());
        let topic = self.topics.entry(topic).or_default();
        topic.identity = Some(identity);
        let others = match self.foreign {
            true => Presence::Unsure,
            false => Presence::Gone,
        };
        for presence in topic.partitions.values_mut() {
            *presence = others;
        }
        let there = partitions.iter();
        topic
            .partitions
            .extend(there.map(|partition| (*partition, Presence::There)));
    }

    /// The cluster says that there is no `topic`.
    pub(super) fn does_not_exist(&mut self, topic: &TopicName) {
        if self.foreign {
            return;
        }
        self.known.insert(topic.clone());
        if let Some(topic) = self.topics.get_mut(topic) {
            for presence in topic.partitions.values_mut() {
                *presence = Presence::Gone;
            }
        }
    }

    /// What `topic` was when it was last there.
    pub(super) fn identity(&self, topic: &TopicName) -> Option<&KafkaIdentity> {
        self.topics.get(topic)?.identity.as_ref()
    }

    /// Keeps the topics that are still listed.
    pub(super) fn retain(&mut self, mut listed: impl FnMut(&TopicName) -> bool) {
        self.topics.retain(|topic, _| listed(topic));
        self.known.retain(listed);
    }

    /// Whether what there is of all `topics` is known.
    pub(super) fn is_complete<'a>(&self, mut topics: impl Iterator<Item = &'a TopicName>) -> bool {
        self.answered && !self.foreign && topics.all(|topic| self.known.contains(topic))
    }

    /// What answers from here on is another cluster than the one that is meant, or is the latter: what
    /// the one before had is then in doubt.
    pub(super) fn answered_by_foreign(&mut self, foreign: bool) {
        if self.foreign != foreign {
            self.foreign = foreign;
            self.doubt();
        }
    }

    /// The cluster has answered about all topics that it could be asked for.
    pub(super) fn answered(&mut self) {
        self.answered = true;
    }

    /// The name may reach another cluster from here on: nothing is reported until it answers.
    pub(super) fn doubt(&mut self) {
        self.answered = false;
        self.known.clear();
        let topics = self.topics.values_mut();
        for presence in topics.flat_map(|topic| topic.partitions.values_mut()) {
            if *presence == Presence::There {
                *presence = Presence::Unsure;
            }
        }
    }

    /// What is to be said under `epoch` and was not said yet. Of what another cluster has, those splits
    /// are found that the log `knows`.
    pub(super) fn report(
        &mut self,
        cluster: &ClusterId,
        epoch: MetadataEpoch,
        knows: impl Fn(&KafkaSplit) -> bool,
    ) -> Vec<DiscoveryEvent<KafkaSplit>> {
        if !self.answered {
            return Vec::new();
        }
        let mut now = self.current(cluster);
        now.found.retain(|(split, _)| !self.foreign || knows(split));
        let last = self.reported.replace((epoch, now.clone()));
        let last = last.filter(|(before, _)| *before == epoch);
        let last = last.map(|(_, report)| report);
        let mut events = Vec::new();
        if last.as_ref().is_none_or(|last| last.found != now.found) {
            let splits = now.found.into_iter();
            let splits = splits.map(|(split, identity)| FoundSplit::new(split, identity));
            let splits: Vec<_> = splits.collect();
            tracing::debug!(%cluster, %epoch, splits = splits.len(), "found splits");
            events.push(DiscoveryEvent::Found { epoch, splits });
        }
        let gone = now.gone;
        if !gone.is_empty() && last.is_none_or(|last| last.gone != gone) {
            tracing::debug!(%cluster, %epoch, splits = gone.len(), "splits are gone");
            events.push(DiscoveryEvent::Gone {
                epoch,
                splits: gone,
            });
        }
        events
    }

    fn current(&self, cluster: &ClusterId) -> Report {
        let mut report = Report::default();
        for (name, topic) in &self.topics {
            for (partition, presence) in &topic.partitions {
                let split = || KafkaSplit::new(cluster.clone(), name.clone(), *partition);
                match (presence, &topic.identity) {
                    (Presence::There, Some(identity)) => {
                        report.found.push((split(), identity.clone()));
                    }
                    (Presence::Gone, _) => report.gone.push(split()),
                    (Presence::There | Presence::Unsure, _) => {}
                }
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `found` and `gone` of what is reported, as names of partitions.
    fn report(findings: &mut Findings, epoch: u64) -> (Option<Vec<String>>, Option<Vec<String>>) {
        let cluster = ClusterId::new("east").unwrap();
        let (mut found, mut gone) = (None, None);
        for event in findings.report(&cluster, MetadataEpoch(epoch), |_| true) {
            match event {
                DiscoveryEvent::Found { splits, .. } => {
                    let names = splits.iter().map(|one| one.split.to_string());
                    found = Some(names.collect());
                }
                DiscoveryEvent::Gone { splits, .. } => {
                    gone = Some(splits.iter().map(ToString::to_string).collect());
                }
                other => panic!("{other:?}"),
            }
        }
        (found, gone)
    }

    fn words(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn topic() -> TopicName {
        TopicName::new("orders").unwrap()
    }

    fn exists(findings: &mut Findings, partitions: &[i32]) {
        let identity = KafkaIdentity {
            cluster: None,
            topic: None,
        };
        let partitions = partitions.iter().copied().map(Partition).collect();
        findings.exists(topic(), identity, &partitions);
        findings.answered();
    }

    #[test]
    fn what_is_known_is_reported_once_under_each_epoch() {
        let mut findings = Findings::default();
        let before = report(&mut findings, 1);
        exists(&mut findings, &[0]);

        let first = report(&mut findings, 1);
        let again = report(&mut findings, 1);
        let next = report(&mut findings, 2);

        assert_eq!(before, (None, None));
        assert_eq!(first, (words(&["east/orders/0"]), None));
        assert_eq!(again, (None, None));
        assert_eq!(next, first);
    }

    #[test]
    fn a_topic_that_was_there_is_gone_until_it_is_there_again() {
        let mut findings = Findings::default();
        findings.does_not_exist(&topic());
        findings.answered();
        let never = report(&mut findings, 1);
        exists(&mut findings, &[0, 1]);
        report(&mut findings, 1);

        findings.does_not_exist(&topic());
        let deleted = report(&mut findings, 1);
        let under_the_next_epoch = report(&mut findings, 2);
        exists(&mut findings, &[0]);
        let back = report(&mut findings, 2);

        let both = words(&["east/orders/0", "east/orders/1"]);
        assert_eq!(never, (words(&[]), None));
        assert_eq!(deleted, (words(&[]), both.clone()));
        assert_eq!(under_the_next_epoch, (words(&[]), both));
        let other = words(&["east/orders/1"]);
        assert_eq!(back, (words(&["east/orders/0"]), other));
    }

    #[test]
    fn a_partition_that_vanished_is_gone() {
        let mut findings = Findings::default();
        exists(&mut findings, &[0, 1]);
        report(&mut findings, 1);

        exists(&mut findings, &[0]);

        let other = words(&["east/orders/1"]);
        assert_eq!(report(&mut findings, 1), (words(&["east/orders/0"]), other));
    }

    /// Reached by other brokers, the name may mean another cluster, which has not been asked yet.
    #[test]
    fn what_another_cluster_has_is_neither_found_nor_gone_before_it_answers() {
        let mut findings = Findings::default();
        exists(&mut findings, &[0]);
        report(&mut findings, 1);

        findings.doubt();
        let doubted = report(&mut findings, 2);
        // It answered, but not about this topic.
        findings.answered();
        let unknown = report(&mut findings, 2);
        findings.does_not_exist(&topic());
        let missing = report(&mut findings, 2);

        assert_eq!(doubted, (None, None));
        assert_eq!(unknown, (words(&[]), None));
        assert_eq!(missing, (None, words(&["east/orders/0"])));
    }
}
