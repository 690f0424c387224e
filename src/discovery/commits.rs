//! Positions that a cluster is told, for people and tools.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use timely_splits::health::{FailureKind, HealthStatus};

use super::asker::in_words;
use super::inbox::Bound;
use super::outlet::{Unheard, Voice};
use super::starts::Backoff;
use crate::fetcher::ffi::control::{CommitClient, ControlError, PartitionPosition};
use crate::metadata::secret::{ResolvedProperties, resolve};
use crate::model::{ClientProperties, ClusterId, KafkaSplit};

/// How often positions are committed unless the user says so.
const EVERY: Duration = Duration::from_secs(5);

/// How long a cluster may take for one commit: meanwhile it is asked nothing else.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time between two attempts, unless commits are farther apart.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The longest id of a group that Kafka's protocol can carry, in bytes.
const GROUP_BYTES_MAX: usize = 32_767;

/// Tells each cluster up to where it was read, as the committed offsets of a group.
///
/// They are for people and tools, which see by them how far the source is and what is left, as
/// `kafka-consumer-groups --describe` shows it. The source itself goes by its log alone and never
/// reads them.
///
/// What is committed for a partition is where it goes on after its last durable binding, or where
/// reading it starts as long as nothing of it is bound; never more. The group stays without members,
/// so that nobody else may use its id: a group with members has no offsets written to it from
/// outside, and health says so.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use timely_kafka::CommitOffsets;
///
/// let commit = CommitOffsets::to_group("orders-view").every(Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOffsets {
    group: String,
    every: Duration,
}

impl CommitOffsets {
    /// To the group of this id on every cluster, every five seconds.
    #[must_use]
    pub fn to_group(group: &str) -> Self {
        Self {
            group: group.to_owned(),
            every: EVERY,
        }
    }

    /// How long after a commit the next one is made, if something was bound. Shorter: tools see the
    /// source closer to where it is. Longer: fewer records in Kafka's topic of offsets.
    #[must_use]
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    pub(crate) fn interval(&self) -> Duration {
        self.every
    }

    /// What a group has to be that this one is not, if anything.
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        let group = &self.group;
        let fits = !group.is_empty() && group.len() <= GROUP_BYTES_MAX && !group.contains('\0');
        (!fits).then_some("1 to 32,767 bytes without a NUL character")
    }
}

/// What the control threads of a source commit, and by what it is known that they have.
#[derive(Clone, Debug)]
pub(crate) struct Committing {
    pub(crate) offsets: CommitOffsets,
    /// Each thread has one: when all are gone, the last commits are made.
    pub(crate) _under_way: Sender<Infallible>,
}

/// The commits of one cluster, of which there is one at a time.
#[derive(Debug)]
pub(super) struct Commits {
    subject: String,
    committing: Committing,
    /// The client, made when first needed, and what it was made of.
    client: Option<(ResolvedProperties, CommitClient)>,
    due: Instant,
    backoff: Backoff,
}

impl Commits {
    pub(super) fn new(cluster: &ClusterId, committing: Committing) -> Self {
        Self {
            subject: format!("committed offsets of cluster {cluster}"),
            committing,
            client: None,
            due: Instant::now(),
            backoff: Backoff::new(),
        }
    }

    /// From when on the next commit may be made.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Takes what the client says off its queue.
    pub(super) fn attend(&mut self) {
        if let Some((_, client)) = &mut self.client {
            client.attend();
        }
    }

    /// Commits `bound` in the cluster that is reached by `properties`; what is to be tried again.
    pub(super) fn commit(
        &mut self,
        properties: &ClientProperties,
        bound: Bound,
        voice: &mut Voice,
    ) -> Result<Bound, Unheard> {
        // Of two generations of a partition the later one comes last.
        let positions: BTreeMap<_, _> = bound
            .iter()
            .map(|(split, at)| ((split.topic.clone(), split.partition), *at))
            .collect();
        let positions: Vec<PartitionPosition> = positions.into_iter().collect();
        let answers = match self.client(properties) {
            Ok(client) => client.commit(&positions, TIMEOUT),
            Err(words) => {
                self.due = Instant::now() + BACKOFF_MAX;
                let message = format!("no client can be made for them: {words}");
                voice.say(&self.subject, DEFINITE, &message)?;
                return Ok(bound);
            }
        };
        let mut failed = BTreeMap::new();
        for ((partition, _), answer) in positions.into_iter().zip(answers) {
            match answer {
                // What a deleted topic has to say is said of the topic.
                Ok(()) | Err(ControlError::UnknownTopic) => {}
                Err(error) => {
                    failed.insert(partition, error);
                }
            }
        }
        tracing::debug!(
            subject = self.subject,
            positions = bound.len(),
            failed = failed.len(),
            "committed"
        );
        let offsets = &self.committing.offsets;
        let now = Instant::now();
        let Some(error) = failed.values().next() else {
            self.backoff = Backoff::new();
            self.due = now + offsets.every;
            voice.well(&self.subject, "they are written again")?;
            return Ok(Bound::new());
        };
        let message = format!(
            "writing those of group {} failed: {error}; reading goes on, and what is bound by then \
             is written at the next attempt",
            offsets.group
        );
        // What it has not done yet it must not do later: that would overwrite the next commit.
        self.client = None;
        let wait = self.backoff.failed(BACKOFF_MAX);
        self.due = now + wait.max(offsets.every);
        voice.say(&self.subject, status(error), &message)?;
        let again =
            |split: &KafkaSplit| failed.contains_key(&(split.topic.clone(), split.partition));
        Ok(bound
            .into_iter()
            .filter(|(split, _)| again(split))
            .collect())
    }

    /// The client of these properties, or why there is none.
    fn client(&mut self, properties: &ClientProperties) -> Result<&mut CommitClient, String> {
        let resolved = resolve(properties).map_err(|error| in_words(&error))?;
        let client = match self.client.take() {
            Some((made_of, client)) if made_of == resolved => client,
            _ => CommitClient::new(&resolved, &self.committing.offsets.group)
                .map_err(|error| error.to_string())?,
        };
        let (_, client) = self.client.insert((resolved, client));
        Ok(client)
    }
}

const DEFINITE: HealthStatus = HealthStatus::Failing(FailureKind::Definite);

/// Whether somebody has to change something before a commit can succeed.
fn status(error: &ControlError) -> HealthStatus {
    let kind = match error {
        ControlError::Refused(refused) if is_definite(&refused.name) => FailureKind::Definite,
        _ => FailureKind::Transient,
    };
    HealthStatus::Failing(kind)
}

/// By librdkafka's names: what may not be written, or not to this group.
fn is_definite(name: &str) -> bool {
    name.ends_with("_AUTHORIZATION_FAILED") || name == "INVALID_GROUP_ID"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_an_id_that_kafka_can_carry() {
        for group in ["", "a\0b", &"g".repeat(32_768)] {
            assert!(CommitOffsets::to_group(group).mistake().is_some());
        }
        assert_eq!(CommitOffsets::to_group("orders-view").mistake(), None);
    }
}
