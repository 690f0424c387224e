//! What splits are, and what there is of those whose next record is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use timely_splits::discovery::DiscoveryEvent;
use timely_splits::epoch::RequestId;
use timely_splits::loss::Remains;

use super::{Asker, DEFINITE, Standing, TRANSIENT};
use crate::discovery::inbox::WantedIdentities;
use crate::discovery::outlet::Unheard;
use crate::discovery::starts::Backoff;
use crate::fetcher::ffi::control::{ControlClient, ControlError, Isolation, Place, TopicAnswer};
use crate::model::{ClusterId, KafkaClusterId, KafkaIdentity, KafkaSplit, TopicName};

/// The longest time between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Questions about what splits are, each asked until it is answered.
#[derive(Debug)]
pub(super) struct Identities {
    identities: Vec<WantedIdentities>,
    judgements: BTreeMap<KafkaSplit, RequestId>,
    due: Option<Instant>,
    backoff: Backoff,
}

impl Default for Identities {
    fn default() -> Self {
        Self {
            identities: Vec::new(),
            judgements: BTreeMap::new(),
            due: None,
            backoff: Backoff::new(),
        }
    }
}

impl Identities {
    /// Asks from `now` on.
    pub(super) fn want(
        &mut self,
        identities: Vec<WantedIdentities>,
        judgements: BTreeMap<KafkaSplit, RequestId>,
        now: Instant,
    ) {
        if !identities.is_empty() || !judgements.is_empty() {
            self.identities.extend(identities);
            self.judgements.extend(judgements);
            self.due = Some(now);
        }
    }

    /// When to ask next.
    pub(super) fn due(&self) -> Option<Instant> {
        let wanted = !self.identities.is_empty() || !self.judgements.is_empty();
        self.due.filter(|_| wanted)
    }

    /// Keeps the judgements of splits that `kept` says are still wanted.
    ///
    /// What a split is stays wanted when it is not listed any more: ticks in which it has records wait for
    /// that.
    pub(super) fn retain_judgements(&mut self, kept: impl Fn(&KafkaSplit) -> bool) {
        self.judgements.retain(|split, _| kept(split));
    }

    fn topics(&self) -> Vec<TopicName> {
        let identified = self.identities.iter().flat_map(|wanted| &wanted.splits);
        let splits = identified.chain(self.judgements.keys());
        let topics: BTreeSet<_> = splits.map(|split| split.topic.clone()).collect();
        topics.into_iter().collect()
    }
}

/// What is said about topics, and which Kafka cluster says it.
pub(super) type Described = (Vec<TopicAnswer>, Option<KafkaClusterId>);

/// Describes topics, and says which Kafka cluster they are of.
///
/// A client can have an answer about topics of the cluster that is now behind its addresses, and still
/// take it for the one before. So if a topic is missing, or is not the one that was `known`, it is asked
/// which cluster it is before anybody takes it for a topic that was deleted or created again.
pub(super) fn ask<'a>(
    client: &mut ControlClient,
    topics: &[TopicName],
    known: impl Fn(&TopicName) -> Option<&'a KafkaIdentity>,
    timeout: Duration,
) -> Result<Described, ControlError> {
    let answers = client.describe_topics(topics, timeout)?;
    let is_other = |answer: &TopicAnswer| match &answer.found {
        // Without an id it can be any topic of its name.
        Ok(found) => known(&answer.topic)
            .is_some_and(|known| known.topic.is_none() || known.topic != found.id),
        Err(error) => matches!(error, ControlError::UnknownTopic | ControlError::NotListed),
    };
    if answers.iter().any(is_other) {
        client.refresh(timeout)?;
    }
    let id = client.cluster_id(timeout)?;
    Ok((answers, id))
}

/// That a name reaches another Kafka cluster than it did.
fn foreign_words(was: &KafkaClusterId, is: &KafkaClusterId) -> String {
    format!(
        "another Kafka cluster answers at its address: its id was {}, and is {}; nothing of it is read; \
         expected the one before, or that its splits are readmitted",
        was.0, is.0
    )
}

/// That a name reaches the Kafka cluster of another.
fn taken_words(other: &ClusterId, id: &KafkaClusterId) -> String {
    format!(
        "it is the same Kafka cluster as cluster {other}, by its id {}, and is not read; expected one name \
         for one cluster",
        id.0
    )
}

impl Asker {
    /// Asks what splits are, and what there is of them, as far as that is wanted and due.
    pub(super) fn identify(&mut self) -> Result<(), Unheard> {
        if self.identities.due().is_none_or(|due| due > Instant::now()) {
            return Ok(());
        }
        let Some(target) = self.target.clone() else {
            return Ok(());
        };
        let connected = self.connect(&target.properties)?;
        let Some((_, client)) = self.client.as_mut().filter(|_| connected) else {
            self.identify_later();
            return Ok(());
        };
        let topics = self.identities.topics();
        let known = |topic: &TopicName| self.findings.identity(topic);
        let described = ask(client, &topics, known, self.options.timeout);
        match described {
            Ok((answers, cluster)) => {
                let before = self.standing;
                self.compare(cluster.as_ref())?;
                if self.standing != before {
                    // What waits for that is not to wait for the next round.
                    self.round_due = Some(Instant::now());
                }
                self.identified(answers, cluster.as_ref())?;
            }
            Err(error) => {
                let subject = format!("cluster {}", self.cluster);
                let message = format!("asking for its topics failed: {error}");
                self.voice.say(&subject, TRANSIENT, &message)?;
                self.renew(&error, &target.properties);
                self.identify_later();
                return Ok(());
            }
        }
        if self.identities.due().is_some() {
            self.identify_later();
        } else {
            self.identities.backoff = Backoff::new();
        }
        Ok(())
    }

    /// The cluster is asked nothing more: of what was to be identified nobody can tell.
    pub(super) fn leave_unanswered(&mut self) {
        let held = std::mem::take(&mut self.identities.identities);
        let unseen = self.inbox.take_unseen().identities;
        for wanted in held.into_iter().chain(unseen) {
            if self.outlet.send(wanted.unknown()).is_err() {
                return;
            }
        }
    }

    /// Finds out whether the Kafka cluster that answers is the one that is meant, and says so.
    ///
    /// First whether it is the one that the log knows by this name: one that is not must not be claimed, or
    /// the name that it is read by would be refused.
    pub(super) fn compare(&mut self, id: Option<&KafkaClusterId>) -> Result<(), Unheard> {
        let subject = format!("cluster {}", self.cluster);
        if let Some(id) = id {
            if let Some(was) = self.claims.contradicted(&self.cluster, id) {
                self.standing = Standing::Foreign;
                self.findings.answered_by_foreign(true);
                self.take_back();
                return self.voice.say(&subject, DEFINITE, &foreign_words(&was, id));
            }
            if let Some(other) = self.claims.claim(&self.cluster, &self.inbox, id) {
                self.standing = Standing::Taken;
                self.findings.doubt();
                self.take_back();
                return self.voice.say(&subject, DEFINITE, &taken_words(&other, id));
            }
        }
        self.standing = Standing::Meant;
        self.findings.answered_by_foreign(false);
        self.voice.well(&subject, "it answers")
    }

    fn identify_later(&mut self) {
        let wait = self.identities.backoff.failed(BACKOFF_MAX);
        self.identities.due = Some(Instant::now() + wait);
    }

    /// Answers what can be by what topics are; the rest stays.
    fn identified(
        &mut self,
        answers: Vec<TopicAnswer>,
        cluster: Option<&KafkaClusterId>,
    ) -> Result<(), Unheard> {
        // Without an answer for a topic it is not known what it is; without a topic it is nothing.
        let mut topics: BTreeMap<TopicName, Option<KafkaIdentity>> = BTreeMap::new();
        for TopicAnswer { topic, found } in answers {
            match found {
                Ok(found) => {
                    let identity = KafkaIdentity {
                        cluster: cluster.cloned(),
                        topic: found.id,
                    };
                    topics.insert(topic, Some(identity));
                }
                Err(ControlError::UnknownTopic | ControlError::NotListed) => {
                    topics.insert(topic, None);
                }
                Err(_) => {}
            }
        }
        for mut wanted in std::mem::take(&mut self.identities.identities) {
            let (known, unknown): (Vec<_>, Vec<_>) =
                (wanted.splits.into_iter()).partition(|split| topics.contains_key(&split.topic));
            let identity = |split: &KafkaSplit| topics.get(&split.topic).cloned().flatten();
            let splits = known.into_iter().map(|split| {
                let identity = identity(&split);
                (split, identity)
            });
            let request = wanted.request;
            let splits = splits.collect();
            self.outlet
                .send(DiscoveryEvent::Identified { request, splits })?;
            wanted.splits = unknown;
            if !wanted.splits.is_empty() {
                self.identities.identities.push(wanted);
            }
        }
        self.judge(&topics)
    }

    /// Says what there is of splits, where it is known what they are.
    fn judge(
        &mut self,
        topics: &BTreeMap<TopicName, Option<KafkaIdentity>>,
    ) -> Result<(), Unheard> {
        let asked: Vec<_> = (self.identities.judgements.iter())
            .filter_map(|(split, request)| {
                let identity = topics.get(&split.topic)?.clone()?;
                Some((split.clone(), *request, identity))
            })
            .collect();
        let Some((_, client)) = self.client.as_mut().filter(|_| !asked.is_empty()) else {
            return Ok(());
        };
        // Where a partition ends, whatever may be read of it.
        let mut offsets = |place| {
            let questions: Vec<_> = (asked.iter())
                .map(|(split, _, _)| ((split.topic.clone(), split.partition), place))
                .collect();
            client.list_offsets(&questions, Isolation::Uncommitted, self.options.timeout)
        };
        let (firsts, ends) = (offsets(Place::Beginning), offsets(Place::End));
        let answers = firsts.into_iter().zip(ends).zip(asked);
        for ((first, end), (split, request, identity)) in answers {
            let (Ok(Some(first)), Ok(Some(end))) = (first, end) else {
                continue;
            };
            self.identities.judgements.remove(&split);
            let remains = Remains {
                identity: Some(identity),
                first,
                end,
            };
            self.outlet.send(DiscoveryEvent::Judged {
                request,
                split,
                remains,
            })?;
        }
        Ok(())
    }
}
