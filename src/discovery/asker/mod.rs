//! The control thread of one cluster.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use timely_splits::discovery::DiscoveryEvent;
use timely_splits::health::{FailureKind, HealthStatus};

use super::claims::Claims;
use super::commits::{Commits, Committing};
use super::findings::Findings;
use super::inbox::{Bound, Inbox, Post, Target, WantedStart, Wanting};
use super::outlet::{Outlet, Unheard, Voice};
use super::resolve::{Asking, Question, Resolved, resolve as resolve_starts};
use super::starts::{Backoff, Starts};
use crate::fetcher::ffi::control::{
    ATTEND_EVERY, ControlClient, ControlError, FoundTopic, Isolation, TopicAnswer,
};
use crate::metadata::secret::{ResolvedProperties, resolve};
use crate::model::{
    ClientProperties, ClusterId, KafkaClusterId, KafkaIdentity, StartAt, TopicName,
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
}

/// Asks one cluster, on a thread of its own, until its inbox is closed.
pub(in crate::discovery) struct Asker {
    cluster: ClusterId,
    inbox: Arc<Inbox>,
    claims: Arc<Claims>,
    outlet: Outlet,
    voice: Voice,
    options: AskOptions,
    target: Option<Target>,
    /// The client of the target's properties, made when first needed, and what it was made of.
    client: Option<(ResolvedProperties, ControlClient)>,
    /// When the topics are to be described; `None` while there is no target.
    round_due: Option<Instant>,
    backoff: Backoff,
    findings: Findings,
    /// Whether the cluster is not read because another name has it, which any new metadata can end.
    refused: bool,
    starts: Starts,
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
        claims: Arc<Claims>,
        outlet: Outlet,
        options: AskOptions,
    ) -> io::Result<()> {
        let asker = Self::new(cluster, inbox, claims, outlet, options);
        let name = format!("kafka-control-{}", asker.cluster);
        // Not joined, by nobody: it may be inside a call when it is to end.
        thread::Builder::new()
            .name(name)
            .spawn(move || asker.run())?;
        Ok(())
    }

    fn new(
        cluster: ClusterId,
        inbox: Arc<Inbox>,
        claims: Arc<Claims>,
        outlet: Outlet,
        options: AskOptions,
    ) -> Self {
        let commits = options.committing.clone();
        let commits = commits.map(|committing| Commits::new(&cluster, committing));
        Self {
            commits,
            cluster,
            inbox,
            claims,
            voice: Voice::new(outlet.clone()),
            outlet,
            options,
            target: None,
            client: None,
            round_due: None,
            backoff: Backoff::new(),
            findings: Findings::default(),
            refused: false,
            starts: Starts::default(),
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
        if self.commits.is_some() {
            let last = self.inbox.take_last();
            // That nobody hears what it comes to is nothing to be said.
            self.commit(last).ok();
        }
    }

    /// When there is something to do without being told.
    fn due(&self) -> Option<Instant> {
        let attend = self.client.is_some().then(|| Instant::now() + ATTEND_EVERY);
        let due = [self.round_due, self.starts.due(), attend];
        due.into_iter().flatten().min()
    }

    /// From when on what is bound is to be committed, if it is at all and it is known where.
    fn commit_due(&self) -> Option<Instant> {
        self.target.as_ref()?;
        self.commits.as_ref().map(Commits::due)
    }

    fn adopt(&mut self, post: Post) -> Result<(), Unheard> {
        let now = Instant::now();
        let clock = SystemTime::now();
        if let Some(target) = post.target {
            self.aim(target, now)?;
        }
        for wanted in post.starts {
            if let Some(rule) = self.rule(&wanted) {
                self.starts
                    .want(wanted.request, wanted.split, rule, (now, clock));
            }
        }
        Ok(())
    }

    /// What is to be asked about the split; `None` if it is not listed.
    fn rule(&self, wanted: &WantedStart) -> Option<StartAt> {
        let rules = self.target.as_ref()?.topics.get(&wanted.split.topic)?;
        let rule = match &wanted.rule {
            Wanting::Given(rule) => return Some(rule.clone()),
            Wanting::OfTopic => &rules.start,
            Wanting::OfNewCluster if rules.new_clusters.is_some() => &rules.new_clusters,
            Wanting::OfNewTopic if rules.new_topics.is_some() => &rules.new_topics,
            Wanting::OfNewCluster | Wanting::OfNewTopic => &rules.start,
            // By default it begins where it begins: what was written between its creation and its
            // discovery must not be lost.
            Wanting::OfNewPartitions => &rules.new_partitions,
        };
        Some(rule.clone().unwrap_or(StartAt::Earliest))
    }

    /// Takes `wanted` over, and asks for it if it differs from the one before.
    ///
    /// If its epoch alone does, other clusters changed. Asking at each of their changes would load
    /// this one with what does not concern it, and if they came faster than it answers, no answer
    /// would ever be about the metadata of its time.
    fn aim(&mut self, wanted: Target, now: Instant) -> Result<(), Unheard> {
        let before = self.target.take();
        let before = before.as_ref();
        let target = self.target.insert(wanted);
        let same = before.is_some_and(|before| before.asks_the_same(target));
        if before.is_none_or(|before| before.properties != target.properties) {
            // Dropping it closes it on another thread.
            self.client = None;
            self.backoff = Backoff::new();
            self.findings.doubt();
        }
        let listed = |topic: &TopicName| target.topics.contains_key(topic);
        self.findings.retain(listed);
        self.starts.retain(|split| listed(&split.topic));
        let cluster = &self.cluster;
        let topics = target.topics.keys();
        let subjects: BTreeSet<_> = topics.map(|topic| topic_subject(cluster, topic)).collect();
        self.voice
            .retain(|subject| !subject.starts_with("topic ") || subjects.contains(subject));
        if !same || self.refused {
            self.round_due = Some(now);
        }
        self.report()
    }

    /// Reports what is known under the current epoch, as far as that was not done.
    fn report(&mut self) -> Result<(), Unheard> {
        let Some(target) = &self.target else {
            return Ok(());
        };
        let events = self.findings.report(&self.cluster, target.epoch);
        events
            .into_iter()
            .try_for_each(|event| self.outlet.send(event))
    }

    fn step(&mut self) -> Result<(), Unheard> {
        if self.round_due.is_some_and(|due| due <= Instant::now()) {
            self.round()?;
        }
        self.look_up()?;
        if self.commit_due().is_some_and(|due| due <= Instant::now()) {
            let bound = self.inbox.take_bound();
            return self.commit(bound);
        }
        Ok(())
    }

    /// Commits what is bound; what fails is left for the next time.
    fn commit(&mut self, bound: Bound) -> Result<(), Unheard> {
        let properties = self.target.as_ref().map(|target| target.properties.clone());
        let Some(properties) = properties.filter(|_| !bound.is_empty()) else {
            return Ok(());
        };
        if let Some(commits) = &mut self.commits {
            let failed = commits.commit(&properties, bound, &mut self.voice)?;
            self.inbox.give_back(failed);
        }
        Ok(())
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
            self.options.interval
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
        let asked = client
            .describe_topics(&topics, timeout)
            .and_then(|answers| Ok((answers, client.cluster_id(timeout)?)));
        // The metadata may have changed while the cluster was asked. What it said of a topic holds
        // under any epoch, but only if it is still reached in the same way.
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
                self.renew(&target.properties);
                return Ok(false);
            }
        };
        if let Some(id) = &id
            && let Some(other) = self.claims.claim(&self.cluster, &self.inbox, id)
        {
            let message = format!(
                "it is the same Kafka cluster as cluster {other}, by its id {}, and is not read; \
                 expected one name for one cluster",
                id.0
            );
            self.refused = true;
            self.findings.doubt();
            self.voice.say(&subject, DEFINITE, &message)?;
            return Ok(true);
        }
        self.refused = false;
        self.voice.well(&subject, "it answers")?;
        self.note(answers, id)?;
        self.report()?;
        Ok(true)
    }

    /// Makes the client if there is none; whether there is one.
    fn connect(&mut self, properties: &ClientProperties) -> Result<bool, Unheard> {
        if self.client.is_some() {
            return Ok(true);
        }
        let made = resolve(properties)
            .map_err(|error| in_words(&error))
            .and_then(|resolved| match ControlClient::new(&resolved) {
                Ok(client) => Ok((resolved, client)),
                Err(error) => Err(error.to_string()),
            });
        match made {
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

    /// Gives a client up whose secrets are not what they were: that may be why it fails.
    fn renew(&mut self, properties: &ClientProperties) {
        let resolved = resolve(properties).ok();
        self.client
            .take_if(|(made_of, _)| resolved.is_some_and(|resolved| resolved != *made_of));
    }

    /// Notes what `answers` say of each listed topic, and says what is wrong with it.
    fn note(
        &mut self,
        answers: Vec<TopicAnswer>,
        cluster: Option<KafkaClusterId>,
    ) -> Result<(), Unheard> {
        for TopicAnswer { topic, found } in answers {
            let target = self.target.as_ref();
            if !target.is_some_and(|target| target.topics.contains_key(&topic)) {
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

    /// Looks up the starts that are due, one call's worth at a time.
    fn look_up(&mut self) -> Result<(), Unheard> {
        let subject = format!("offsets of cluster {}", self.cluster);
        loop {
            let batch = self.starts.batch(Instant::now());
            if batch.is_empty() {
                break;
            }
            let (splits, questions): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let answers = self.ask_starts(questions)?;
            if self.inbox.is_closed() {
                return Err(Unheard);
            }
            let now = Instant::now();
            let mut failed = None;
            for (split, answer) in splits.into_iter().zip(answers) {
                match answer {
                    Ok(Resolved { start, rule }) => {
                        if let Some(request) = self.starts.answered(&split) {
                            tracing::debug!(%split, %start, rule, "resolved where reading starts");
                            self.outlet.send(DiscoveryEvent::Resolved {
                                request,
                                split,
                                start,
                                rule,
                            })?;
                        }
                    }
                    Err(error) => {
                        self.starts.failed(&split, now);
                        failed.get_or_insert((split, error));
                    }
                }
            }
            if let Some((split, error)) = failed {
                let message = format!("asking where split {split} starts failed: {error}");
                self.voice.say(&subject, TRANSIENT, &message)?;
                // A target may have come meanwhile, which is worth more than the rest.
                return Ok(());
            }
        }
        if self.starts.is_empty() {
            self.voice
                .well(&subject, "all that were asked for are known")?;
        }
        Ok(())
    }

    /// Asks where reading starts; one answer for each question, in order.
    fn ask_starts(
        &mut self,
        questions: Vec<Question>,
    ) -> Result<Vec<Result<Resolved, ControlError>>, Unheard> {
        let properties = self.target.as_ref().map(|target| target.properties.clone());
        let properties = properties.unwrap_or_default();
        let connected = self.connect(&properties)?;
        let Some((made_of, client)) = self.client.as_mut().filter(|_| connected) else {
            // `connect` has said why.
            let unknown = questions.iter().map(|_| Err(ControlError::LeftOut));
            return Ok(unknown.collect());
        };
        let isolation = match properties.value("isolation.level") {
            Some("read_uncommitted") => Isolation::Uncommitted,
            _ => Isolation::Committed,
        };
        let mut asking = Asking {
            properties: made_of,
            client,
            isolation,
            timeout: self.options.timeout,
        };
        Ok(resolve_starts(&mut asking, questions))
    }
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
