//! Positions that a cluster is told, for people and tools.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use timely_splits::health::{FailureKind, HealthStatus};

use super::aside::Aside;
use super::asker::in_words;
use super::inbox::{Bound, Inbox};
use super::outlet::{Unheard, Voice};
use super::starts::Backoff;
use crate::fetcher::ffi::control::{CommitClient, ControlError, PartitionPosition, TopicPartition};
use crate::metadata::secret::{ResolvedProperties, resolve};
use crate::model::{ClientProperties, ClusterId};

/// How often positions are committed unless the user says so.
const EVERY: Duration = Duration::from_secs(5);

/// How long a cluster may take for one commit.
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
///
/// A commit waits for the group's coordinator, which can hang while the rest of the cluster does not. So it
/// is made aside.
#[derive(Debug)]
pub(super) struct Commits {
    subject: String,
    committing: Committing,
    /// The client, made when first needed, and what it was made of; none while it commits.
    client: Option<Client>,
    under_way: Aside<Committed>,
    due: Instant,
    backoff: Backoff,
}

type Client = (ResolvedProperties, CommitClient);

/// What became of a commit.
#[derive(Debug)]
struct Committed {
    bound: Bound,
    client: Option<Client>,
    /// What failed, by partition; or why nothing could be asked.
    failed: Result<BTreeMap<TopicPartition, ControlError>, String>,
}

impl Commits {
    pub(super) fn new(cluster: &ClusterId, committing: Committing) -> Self {
        Self {
            subject: format!("committed offsets of cluster {cluster}"),
            committing,
            client: None,
            under_way: Aside::new(),
            due: Instant::now(),
            backoff: Backoff::new(),
        }
    }

    /// From when on the next commit may be made, unless one is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.under_way.is_under_way()).then_some(self.due)
    }

    /// Takes what the client says off its queue.
    pub(super) fn attend(&mut self) {
        if let Some((_, client)) = &mut self.client {
            client.attend();
        }
    }

    /// Commits `bound` in the cluster that is reached by `properties`, aside. What could not even be begun is
    /// returned; what is to be tried again comes from [`done`](Self::done).
    pub(super) fn begin(
        &mut self,
        properties: &ClientProperties,
        bound: Bound,
        inbox: &Arc<Inbox>,
        voice: &mut Voice,
    ) -> Result<Bound, Unheard> {
        let (properties, client) = (properties.clone(), self.client.take());
        let group = self.committing.offsets.group.clone();
        let name = format!("kafka-commit-{group}");
        let left = bound.clone();
        let work = move || commit(&properties, client, &group, bound);
        let Err(error) = self.under_way.begin(name, inbox, work) else {
            return Ok(Bound::new());
        };
        self.due = Instant::now() + self.backoff.failed(BACKOFF_MAX);
        let message = format!("no thread could be started: {error}");
        let status = HealthStatus::Failing(FailureKind::Transient);
        voice.say(&self.subject, status, &message)?;
        Ok(left)
    }

    /// What is to be tried again of the commit that was under way, once it is done.
    pub(super) fn done(&mut self, voice: &mut Voice) -> Result<Bound, Unheard> {
        match self.under_way.done() {
            Some(committed) => self.over(committed, voice),
            None => Ok(Bound::new()),
        }
    }

    /// Commits what is bound last, after what is under way, and waits for both.
    pub(super) fn last(&mut self, properties: &ClientProperties, last: Bound) {
        let under_way = self.under_way.wait();
        let (mut bound, mut client) = (Bound::new(), self.client.take());
        if let Some(before) = under_way {
            client = before.client;
            bound = again(before.bound, before.failed.as_ref());
        }
        bound.extend(last);
        if !bound.is_empty() {
            commit(properties, client, &self.committing.offsets.group, bound);
        }
    }

    fn over(&mut self, committed: Committed, voice: &mut Voice) -> Result<Bound, Unheard> {
        let Committed {
            bound,
            client,
            failed,
        } = committed;
        self.client = client;
        let offsets = &self.committing.offsets;
        let now = Instant::now();
        match &failed {
            Err(words) => {
                self.due = now + BACKOFF_MAX;
                let message = format!("no client can be made for them: {words}");
                voice.say(&self.subject, DEFINITE, &message)?;
            }
            Ok(partitions) => match partitions.values().next() {
                None => {
                    self.backoff = Backoff::new();
                    self.due = now + offsets.every;
                    voice.well(&self.subject, "they are written again")?;
                }
                Some(error) => {
                    let wait = self.backoff.failed(BACKOFF_MAX);
                    self.due = now + wait.max(offsets.every);
                    let message = format!(
                        "writing those of group {} failed: {error}; reading goes on, and what is bound \
                         by then is written at the next attempt",
                        offsets.group
                    );
                    voice.say(&self.subject, status(error), &message)?;
                }
            },
        }
        Ok(again(bound, failed.as_ref()))
    }
}

/// Commits `bound`, by `client` if it is made of what `properties` are now.
fn commit(
    properties: &ClientProperties,
    client: Option<Client>,
    group: &str,
    bound: Bound,
) -> Committed {
    let (resolved, mut client) = match client_of(properties, client, group) {
        Ok(client) => client,
        Err(words) => {
            return Committed {
                bound,
                client: None,
                failed: Err(words),
            };
        }
    };
    // Of two generations of a partition the later one comes last.
    let positions: BTreeMap<_, _> = bound
        .iter()
        .map(|(split, at)| ((split.topic.clone(), split.partition), *at))
        .collect();
    let positions: Vec<PartitionPosition> = positions.into_iter().collect();
    let answers = client.commit(&positions, TIMEOUT);
    let answers = positions.into_iter().zip(answers);
    let failed: BTreeMap<_, _> = answers
        .filter_map(|((partition, _), answer)| match answer {
            // What a deleted topic has to say is said of the topic.
            Ok(()) | Err(ControlError::UnknownTopic) => None,
            Err(error) => Some((partition, error)),
        })
        .collect();
    tracing::debug!(
        group,
        positions = bound.len(),
        failed = failed.len(),
        "committed"
    );
    Committed {
        bound,
        // What it has not done yet it must not do later: that would overwrite the next commit.
        client: failed.is_empty().then_some((resolved, client)),
        failed: Ok(failed),
    }
}

/// The client of these properties, or why there is none.
fn client_of(
    properties: &ClientProperties,
    before: Option<Client>,
    group: &str,
) -> Result<Client, String> {
    let resolved = resolve(properties).map_err(|error| in_words(&error))?;
    if let Some(client) = before.filter(|(made_of, _)| *made_of == resolved) {
        return Ok(client);
    }
    let client = CommitClient::new(&resolved, group).map_err(|error| error.to_string())?;
    Ok((resolved, client))
}

/// What of `bound` is to be tried again.
fn again(
    mut bound: Bound,
    failed: Result<&BTreeMap<TopicPartition, ControlError>, &String>,
) -> Bound {
    if let Ok(failed) = failed {
        bound.retain(|split, _| failed.contains_key(&(split.topic.clone(), split.partition)));
    }
    bound
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
