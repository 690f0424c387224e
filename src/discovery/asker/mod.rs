//! The control thread of one cluster.

mod identity;
mod look_up;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use timely_splits::health::{FailureKind, HealthStatus};

use self::identity::Identities;
use self::look_up::Found;
use super::aside::Aside;
use super::claims::Claims;
use super::commits::{Commits, Committing};
use super::findings::Findings;
use super::found::AllFound;
use super::inbox::{Inbox, Post, Target, Wanting};
use super::outlet::{Outlet, Unheard, Voice};
use super::starts::{Answered, Backoff, Starts};
use crate::fetcher::ffi::control::{
    ATTEND_EVERY, ControlClient, ControlError, FoundTopic, TopicAnswer,
};
use crate::metadata::secret::{ResolvedProperties, resolve};
use crate::model::{
    ClientProperties, ClusterId, KafkaClusterId, KafkaIdentity, KafkaSplit, TopicName,
};

const TRANSIENT: HealthStatus = HealthStatus::Failing(FailureKind::Transient);
const DEFINITE: HealthStatus = HealthStatus::Failing(FailureKind::Definite);

/// How a cluster is asked.
#[derive(Clone, Debug)]
pub(in crate::discovery) struct AskOptions {
    /// How long after an answer it is asked for its partitions again.
    pub(in crate::discovery) interval: Duration,
    /// How long it may take to answer one question.
    pub(in crate::discovery) timeout: Duration,
    /// Whether positions are committed, and how.
    pub(in crate::discovery) committing: Option<Committing>,
    /// Whether each split is read to its end by now at most.
    pub(in crate::discovery) bounded: bool,
}

/// What the control threads of all clusters share.
#[derive(Clone, Debug)]
pub(in crate::discovery) struct Common {
    pub(in crate::discovery) claims: Arc<Claims>,
    pub(in crate::discovery) all_found: Arc<AllFound>,
    pub(in crate::discovery) outlet: Outlet,
}

/// Whether what answers is to be read by the name of the cluster.
///
/// Nothing starts there and no offsets are committed there unless it is: they would be of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing has answered since it is reached as it is.
    Unknown,
    /// It is the one that is meant.
    Meant,
    /// Another name has it, which any new metadata can end.
    Taken,
    /// The name reaches another Kafka cluster than it did: then only what the log knows is reported, for
    /// the coordinator to compare, and nothing else of it is found. What it lacks is not gone.
    Foreign,
}

/// Asks one cluster, on a thread of its own, until its inbox is closed.
pub(in crate::discovery) struct Asker {
    cluster: ClusterId,
    inbox: Arc<Inbox>,
    claims: Arc<Claims>,
    all_found: Arc<AllFound>,
    outlet: Outlet,
    voice: Voice,
    options: AskOptions,
    target: Option<Target>,
    /// The client of the target's properties, made when first needed, and what it was made of.
    client: Option<Client>,
    /// When the topics are to be described; `None` while there is no target.
    round_due: Option<Instant>,
    /// How much sooner than after the interval the second round is, so that clusters that were asked
    /// first at the same time are asked later by and by.
    head_start: Duration,
    backoff: Backoff,
    findings: Findings,
    standing: Standing,
    starts: Starts,
    /// What it takes a group to answer is looked up aside, one call's worth at a time.
    under_way: Aside<Found>,
    identities: Identities,
    commits: Option<Commits>,
}

impl Asker {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the operating system has no thread to give.
    pub(in crate::discovery) fn start(
        cluster: ClusterId,
        inbox: Arc<Inbox>,
        common: Common,
        options: AskOptions,
    ) -> io::Result<()> {
        let asker = Self::new(cluster, inbox, common, options);
        let name = format!("kafka-control-{}", asker.cluster);
        // Not joined, by nobody: it may be inside a call when it is to end.
        thread::Builder::new()
            .name(name)
            .spawn(move || asker.run())?;
        Ok(())
    }

    fn new(cluster: ClusterId, inbox: Arc<Inbox>, common: Common, options: AskOptions) -> Self {
        let commits = options.committing.clone();
        let commits = commits.map(|committing| Commits::new(&cluster, committing));
        let mut hasher = DefaultHasher::new();
        cluster.hash(&mut hasher);
        // At most half of it.
        let [part, ..] = hasher.finish().to_le_bytes();
        let head_start = options.interval * u32::from(part) / 512;
        Self {
            commits,
            head_start,
            cluster,
            inbox,
            claims: common.claims,
            all_found: common.all_found,
            voice: Voice::new(common.outlet.clone()),
            outlet: common.outlet,
            options,
            target: None,
            client: None,
            round_due: None,
            backoff: Backoff::new(),
            findings: Findings::default(),
            standing: Standing::Unknown,
            starts: Starts::default(),
            under_way: Aside::new(),
            identities: Identities::default(),
        }
    }

    fn run(mut self) {
        while let Some(post) = self.inbox.take(self.due(), self.commit_due()) {
            if let Some((_, client)) = &mut self.client {
                client.attend();
            }
            if let Some(commits) = &mut self.commits {
                commits.attend();
            }
            if self.adopt(post).and_then(|()| self.step()).is_err() {
                break;
            }
        }
        self.leave_unanswered();
        self.commit_last();
    }

    /// When there is something to do without being told.
    fn due(&self) -> Option<Instant> {
        let attend = self.client.is_some().then(|| Instant::now() + ATTEND_EVERY);
        let due = [
            self.round_due,
            self.look_up_due(),
            self.identities.due(),
            attend,
        ];
        due.into_iter().flatten().min()
    }

    /// From when on what is bound is to be committed, if it is at all and the cluster is known.
    fn commit_due(&self) -> Option<Instant> {
        let commits = self.commits.as_ref().filter(|_| self.is_meant());
        commits.and_then(Commits::due)
    }

    fn is_meant(&self) -> bool {
        self.standing == Standing::Meant
    }

    fn adopt(&mut self, post: Post) -> Result<(), Unheard> {
        let now = Instant::now();
        let clock = SystemTime::now();
        if let Some(target) = post.target {
            self.aim(target, now)?;
        }
        self.identities.want(post.identities, post.judgements, now);
        for wanted in post.starts {
            if let Some(rules) = self.rules(&wanted) {
                let asked = Answered {
                    request: wanted.request,
                    of_end: wanted.rule == Wanting::End,
                };
                self.starts.want(asked, wanted.split, rules, (now, clock));
            }
        }
        Ok(())
    }

    /// Takes `wanted` over, and asks for it.
    fn aim(&mut self, wanted: Target, now: Instant) -> Result<(), Unheard> {
        let before = self.target.take();
        let before = before.as_ref();
        let target = self.target.insert(wanted);
        if before.is_none_or(|before| before.properties != target.properties) {
            // Dropping it closes it on another thread.
            self.client = None;
            self.backoff = Backoff::new();
            self.findings.doubt();
            self.standing = Standing::Unknown;
        }
        // What is there under its name when it is listed again may be another one.
        let kept = |topic: &TopicName| before.is_some_and(|before| before.keeps(target, topic));
        self.findings.retain(kept);
        self.starts.retain(|split| kept(&split.topic));
        self.identities
            .retain_judgements(|split| kept(&split.topic));
        let cluster = &self.cluster;
        let topics = target.topics.keys();
        let subjects: BTreeSet<_> = topics.map(|topic| topic_subject(cluster, topic)).collect();
        self.voice
            .retain(|subject| !subject.starts_with("topic ") || subjects.contains(subject));
        self.round_due = Some(now);
        self.report()
    }

    /// Takes back that all is known here, before anybody hears why: an epoch that begins then would be told that
    /// all was found.
    fn take_back(&self) {
        if let Some(target) = &self.target {
            self.all_found.note(&self.cluster, target.epoch, false);
        }
    }

    /// Reports what is known under the epoch of the target, as far as that was not done.
    fn report(&mut self) -> Result<(), Unheard> {
        let Some(target) = &self.target else {
            return Ok(());
        };
        let knows = |split: &KafkaSplit| self.claims.knows(split);
        let events = self.findings.report(&self.cluster, target.epoch, knows);
        events
            .into_iter()
            .try_for_each(|event| self.outlet.send(event))?;
        let complete = self.findings.is_complete(target.topics.keys());
        let (cluster, epoch) = (&self.cluster, target.epoch);
        if self.all_found.note(cluster, epoch, complete) {
            self.outlet.wake();
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Unheard> {
        // Ticks wait for it.
        self.identify()?;
        if self.round_due.is_some_and(|due| due <= Instant::now()) {
            self.round()?;
        }
        self.look_up()?;
        self.commit()
    }

    /// Commits what is bound when that is due; what fails is left for the next time.
    fn commit(&mut self) -> Result<(), Unheard> {
        let due = self.commit_due().is_some_and(|due| due <= Instant::now());
        let (Some(commits), Some(target)) = (&mut self.commits, &self.target) else {
            return Ok(());
        };
        self.inbox.give_back(commits.done(&mut self.voice)?);
        if !due {
            return Ok(());
        }
        let bound = self.inbox.take_bound();
        if !bound.is_empty() {
            let (properties, voice) = (&target.properties, &mut self.voice);
            let left = commits.begin(properties, bound, &self.inbox, voice)?;
            self.inbox.give_back(left);
        }
        Ok(())
    }

    /// Commits what was bound last, unless that is not known to be of what answers.
    fn commit_last(&mut self) {
        if self.commits.is_none() {
            return;
        }
        let last = self.inbox.take_last();
        let is_meant = self.is_meant();
        if let (Some(commits), Some(target)) = (&mut self.commits, &self.target)
            && is_meant
        {
            commits.last(&target.properties, last);
        }
    }

    /// Describes the topics once, and says when to do it again.
    fn round(&mut self) -> Result<(), Unheard> {
        let Some(target) = self.target.clone() else {
            return Ok(());
        };
        self.round_due = None;
        let done = self.describe(&target)?;
        let wait = if done {
            self.backoff = Backoff::new();
            self.options.interval - std::mem::take(&mut self.head_start)
        } else {
            self.backoff.failed(self.options.interval)
        };
        // A target that came meanwhile may want a round at once.
        self.round_due.get_or_insert_with(|| Instant::now() + wait);
        Ok(())
    }

    /// Describes the topics of `target`; whether the cluster answered.
    fn describe(&mut self, target: &Target) -> Result<bool, Unheard> {
        if !self.connect(&target.properties)? {
            return Ok(false);
        }
        let Some((_, client)) = &mut self.client else {
            return Ok(false);
        };
        let topics: Vec<TopicName> = target.topics.keys().cloned().collect();
        let timeout = self.options.timeout;
        let known = |topic: &TopicName| self.findings.identity(topic);
        let asked = identity::ask(client, &topics, known, timeout);
        // The metadata may have changed while the cluster was asked. What it said of a topic holds
        // as long as that stays listed, but only if it is still reached in the same way.
        let meanwhile = self.inbox.take(Some(Instant::now()), None).ok_or(Unheard)?;
        self.adopt(meanwhile)?;
        let now = self.target.as_ref();
        if now.is_none_or(|now| now.properties != target.properties) {
            return Ok(true);
        }
        let subject = format!("cluster {}", self.cluster);
        let (answers, id) = match asked {
            Ok(asked) => asked,
            Err(error) => {
                let message = format!("asking for its topics failed: {error}");
                self.voice.say(&subject, TRANSIENT, &message)?;
                self.renew(&error, &target.properties);
                return Ok(false);
            }
        };
        self.compare(id.as_ref())?;
        if self.standing != Standing::Taken {
            self.note(target, answers, id)?;
        }
        self.report()?;
        Ok(true)
    }

    /// Makes the client if there is none, or if something failed; whether there is one.
    ///
    /// So one that fails is given up: another one begins with the secrets of now, and asks none but who answers.
    fn connect(&mut self, properties: &ClientProperties) -> Result<bool, Unheard> {
        self.client.take_if(|(_, client)| client.has_complained());
        if self.client.is_some() {
            return Ok(true);
        }
        match client_of(properties) {
            Ok(client) => {
                self.client = Some(client);
                Ok(true)
            }
            Err(words) => {
                let subject = format!("cluster {}", self.cluster);
                let message = format!("no client can be made for it: {words}");
                self.voice.say(&subject, DEFINITE, &message)?;
                Ok(false)
            }
        }
    }

    /// Gives a client up that failed. One that a cluster has refused is kept as long as its secrets are what they
    /// were when it was made.
    fn renew(&mut self, error: &ControlError, properties: &ClientProperties) {
        let refused = matches!(error, ControlError::Refused(_));
        let resolved = resolve(properties).ok();
        self.client.take_if(|(made_of, _)| {
            !refused || resolved.is_some_and(|resolved| resolved != *made_of)
        });
    }

    /// Notes what `answers` to a question about `asked` say of each topic that has been listed since, and
    /// says what is wrong with it.
    fn note(
        &mut self,
        asked: &Target,
        answers: Vec<TopicAnswer>,
        cluster: Option<KafkaClusterId>,
    ) -> Result<(), Unheard> {
        for TopicAnswer { topic, found } in answers {
            let target = self.target.as_ref();
            if !target.is_some_and(|target| asked.keeps(target, &topic)) {
                // It was unlisted while the cluster was asked.
                continue;
            }
            let subject = topic_subject(&self.cluster, &topic);
            match found {
                Ok(found) => {
                    self.voice.well(&subject, "it is there")?;
                    self.note_topic(topic, found, cluster.clone());
                }
                Err(ControlError::UnknownTopic) => {
                    self.findings.does_not_exist(&topic);
                    self.voice.say(
                        &subject,
                        HealthStatus::Waiting,
                        "it does not exist; it is read as soon as somebody creates it",
                    )?;
                }
                Err(ControlError::NotListed) => self.voice.say(
                    &subject,
                    HealthStatus::Waiting,
                    "it does not exist, or may not be seen; it is read as soon as it is there",
                )?,
                Err(error) => {
                    let message = format!("asking for its partitions failed: {error}");
                    self.voice.say(&subject, TRANSIENT, &message)?;
                }
            }
        }
        self.findings.answered();
        Ok(())
    }

    fn note_topic(&mut self, topic: TopicName, found: FoundTopic, cluster: Option<KafkaClusterId>) {
        let partitions: BTreeSet<_> = found.partitions.into_iter().collect();
        let identity = KafkaIdentity {
            cluster,
            topic: found.id,
        };
        self.findings.exists(topic, identity, &partitions);
    }
}

/// A control client, and what it was made of.
type Client = (ResolvedProperties, ControlClient);

/// A client of these properties, or why there is none.
fn client_of(properties: &ClientProperties) -> Result<Client, String> {
    let resolved = resolve(properties).map_err(|error| in_words(&error))?;
    let client = ControlClient::new(&resolved).map_err(|error| error.to_string())?;
    Ok((resolved, client))
}

fn topic_subject(cluster: &ClusterId, topic: &TopicName) -> String {
    format!("topic {cluster}/{topic}")
}

/// An error and what caused it, in one line.
pub(in crate::discovery) fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
