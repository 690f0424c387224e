//! Finds the splits of the subscribed streams.
//!
//! Every question to a cluster blocks, a hung cluster's for its whole deadline. So each cluster has
//! a control thread and a control client of its own, and one that hangs delays no other. The timely
//! thread leaves requests in their inboxes and takes events off one queue, and never waits for
//! either.
//!
//! - [`Inbox`]: what a control thread is to do; a newer target replaces an older one.
//! - [`Asker`]: the control thread of one cluster, which describes topics in rounds.
//! - [`Aside`](aside::Aside): what it has done on another thread, since ticks wait for it.
//! - [`Starts`](starts::Starts): splits whose start is being looked up.
//! - [`Commits`](commits::Commits): positions that the cluster is told, for people and tools.
//! - [`resolve`](resolve::resolve): makes offsets of rules.
//! - [`AllFound`](found::AllFound): whether all clusters have answered.
//! - [`Findings`](findings::Findings): what a cluster has said, reported once for each target.
//! - [`Claims`](claims::Claims): which cluster name has which Kafka cluster.
//! - [`Outlet`], [`Voice`](outlet::Voice): events, and health without repetition.

mod aside;
mod asker;
mod check;
mod claims;
mod commits;
mod findings;
mod found;
mod inbox;
mod outlet;
mod resolve;
mod starts;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use timely_splits::discovery::{Appeared, DiscoveryEvent, DiscoveryRequest, SplitDiscovery};
use timely_splits::epoch::{MetadataEpoch, RequestId};
use timely_splits::health::{FailureKind, Health, HealthStatus};
use timely_splits::split::Split;

use self::asker::{AskOptions, Asker, Common};
use self::check::RangeCheck;
pub use self::commits::CommitOffsets;
pub(crate) use self::commits::Committing;
use self::inbox::{Inbox, Target, TopicRules, WantedIdentities, WantedStart, Wanting};
use self::outlet::Outlet;
use self::streams::SubscribedStreams;
use crate::metadata::thread::{MetadataOptions, MetadataThread};
use crate::metadata::{MetadataService, Subscription};
use crate::model::{
    ClientProperties, ClusterId, KafkaIdentity, KafkaPosition, KafkaSplit, SharedMetadata,
    StartRules, StopAt, StreamsMetadata,
};

/// The most events that wait to be polled; a control thread that has more to say waits.
const EVENTS_MAX: usize = 1_024;

/// The default of [`DiscoveryOptions::linger`].
const LINGER: Duration = Duration::from_secs(10);

/// How a [`KafkaDiscovery`] asks.
#[derive(Clone, Debug)]
pub(crate) struct DiscoveryOptions {
    /// Where the reading of a partition starts whose stream does not say so.
    pub(crate) starts: StartRules,
    /// Where the reading of a partition stops whose stream does not say so.
    pub(crate) stop: StopAt,
    /// Whether each partition is read to its end by now at most.
    pub(crate) bounded: bool,
    /// How long after an answer a cluster is asked for its partitions again.
    pub(crate) interval: Duration,
    /// How long a cluster may take to answer one question.
    pub(crate) timeout: Duration,
    /// Properties of every control client, below those of its cluster.
    pub(crate) properties: ClientProperties,
    /// How the metadata service is asked.
    pub(crate) metadata: MetadataOptions,
    /// Whether positions are committed, and how.
    pub(crate) committing: Option<Committing>,
    /// For how long the control thread of a cluster that is not listed any more waits for positions: its
    /// splits are released then, and what was read of them last is bound at the end of the tick.
    pub(crate) linger: Duration,
}

impl Default for DiscoveryOptions {
    fn default() -> Self {
        Self {
            starts: StartRules::default(),
            stop: StopAt::Never,
            bounded: false,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            properties: ClientProperties::new(),
            metadata: MetadataOptions::default(),
            committing: None,
            linger: LINGER,
        }
    }
}

/// A cluster that is asked.
#[derive(Debug)]
struct Listed {
    inbox: Arc<Inbox>,
    /// What was last left there as its target.
    target: Target,
}

/// Asks a metadata service and the clusters it names.
///
/// Dropping it ends its threads without waiting for them; one that is inside a call ends after it.
pub(crate) struct KafkaDiscovery {
    /// The first field, so that it is gone when threads that wait for room are to end.
    events: Receiver<DiscoveryEvent<KafkaSplit>>,
    /// What this thread itself has to say: at most a line for each request.
    own: VecDeque<DiscoveryEvent<KafkaSplit>>,
    /// Ends the asking of the metadata service.
    _metadata: Option<MetadataThread>,
    /// What was last discovered.
    metadata: SharedMetadata,
    clusters: BTreeMap<ClusterId, Listed>,
    /// Listed clusters of which no thread could be started.
    threadless: BTreeSet<ClusterId>,
    /// Of clusters that are not listed, or not yet: positions of theirs wait there, if they are to be
    /// committed, for the control thread that ends or the one to come. Bounded: under the next metadata
    /// only the ones are left whose thread has not ended.
    absent: BTreeMap<ClusterId, Arc<Inbox>>,
    common: Common,
    /// What is read, of what the metadata service describes.
    subscription: Subscription,
    /// The check under way, if there is one.
    check: Option<RangeCheck>,
    options: DiscoveryOptions,
}

impl KafkaDiscovery {
    /// Starts to ask `service`; `wake` is called, on any thread, when there is something to poll.
    ///
    /// `subscription` has been validated.
    pub(crate) fn start(
        service: Box<dyn MetadataService>,
        subscription: Subscription,
        options: DiscoveryOptions,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let (sender, events) = bounded(EVENTS_MAX);
        let outlet = Outlet::new(sender, wake);
        let mut streams = SubscribedStreams::new(subscription.clone(), outlet.clone());
        // What only streams say that are not read contradicts nothing.
        let selecting = subscription.clone();
        let check = move |metadata: &StreamsMetadata| {
            let selected = selecting.select(metadata).metadata;
            selected.check_agreed()
        };
        let asking = MetadataThread::start(
            service,
            options.metadata.clone(),
            Box::new(check),
            Box::new(move |event| streams.on_event(event)),
        );
        let mut own = VecDeque::new();
        let metadata = asking
            .inspect_err(|error| own.push_back(no_thread("metadata service", error)))
            .ok();
        Self {
            events,
            own,
            _metadata: metadata,
            metadata: StreamsMetadata::new().into(),
            clusters: BTreeMap::new(),
            threadless: BTreeSet::new(),
            absent: BTreeMap::new(),
            common: Common {
                claims: Arc::default(),
                all_found: Arc::default(),
                outlet,
            },
            subscription,
            check: None,
            options,
        }
    }

    /// Gives every cluster of which `metadata` says something else its target, and ends the threads of those
    /// that it does not list any more.
    ///
    /// Of the others nothing is asked and nothing is reported: what they have said stands. If each was
    /// asked at the changes of all, one that answers slowly would never be about the metadata of its time.
    fn discover(&mut self, epoch: MetadataEpoch, metadata: SharedMetadata) {
        let mut changed = self.metadata.changes(&metadata);
        self.metadata = metadata;
        // A thread that could not be started is tried again.
        changed.append(&mut self.threadless);
        for cluster in &changed {
            if !self.metadata.lists_cluster(cluster) {
                self.remove(cluster);
            }
        }
        for cluster in &changed {
            if self.metadata.lists_cluster(cluster) {
                self.aim(cluster, epoch);
            }
        }
        // A name may have given up what it was refused for.
        for cluster in self.common.claims.refused() {
            if let Some(listed) = self.clusters.get(&cluster) {
                self.common.claims.claim_known(&cluster, &listed.inbox);
                listed.inbox.post_target(listed.target.clone());
            }
        }
        // A stream that is named and not described has no clusters yet, and is waited for.
        let known = self.subscription.is_described_by(&self.metadata);
        self.common.all_found.begin(epoch, known);
        if self.common.all_found.over().is_some() {
            self.common.outlet.wake();
        }
        self.absent.retain(|_, inbox| inbox.is_lingering());
    }

    /// Ends the thread of a cluster that is not listed any more.
    fn remove(&mut self, cluster: &ClusterId) {
        self.common.all_found.remove(cluster);
        let Some(Listed { inbox, .. }) = self.clusters.remove(cluster) else {
            return;
        };
        self.common.claims.release(cluster, &inbox);
        if self.options.committing.is_some() {
            inbox.retire(self.options.linger);
            self.absent.insert(cluster.clone(), inbox);
        } else {
            inbox.end();
        }
    }

    /// Gives a listed cluster its target, if it has another one than before.
    fn aim(&mut self, cluster: &ClusterId, epoch: MetadataEpoch) {
        let target = self.target(cluster, epoch);
        let before = self.clusters.get(cluster);
        if before.is_some_and(|before| before.target.asks_the_same(&target)) {
            return;
        }
        self.common.all_found.aim(cluster, epoch);
        let inbox = match before {
            Some(before) => Arc::clone(&before.inbox),
            None => match self.start_asker(cluster) {
                Ok(inbox) => inbox,
                Err(error) => {
                    let health = no_thread(&format!("cluster {cluster}"), &error);
                    self.threadless.insert(cluster.clone());
                    return self.own.push_back(health);
                }
            },
        };
        self.common.claims.claim_known(cluster, &inbox);
        inbox.post_target(target.clone());
        let listed = Listed { inbox, target };
        self.clusters.insert(cluster.clone(), listed);
    }

    /// What the metadata, which is that of `epoch`, says of a listed cluster.
    fn target(&self, cluster: &ClusterId, epoch: MetadataEpoch) -> Target {
        let before = self.clusters.get(cluster).map(|listed| &listed.target);
        let described = self.metadata.clusters.get(cluster);
        let properties = described.map(|described| &described.properties);
        let rules = self.metadata.topics_of(cluster).into_iter().map(|topic| {
            let before = before.and_then(|before| before.topics.get(topic));
            let stop = self.metadata.stop(cluster, topic);
            let rules = TopicRules {
                since: before.map_or(epoch, |before| before.since),
                starts: (self.metadata.starts(cluster, topic)).or(&self.options.starts),
                stop: stop.unwrap_or(&self.options.stop).clone(),
            };
            (topic.clone(), rules)
        });
        Target {
            epoch,
            topics: rules.collect(),
            properties: match properties {
                Some(properties) => self.options.properties.overridden_by(properties),
                None => self.options.properties.clone(),
            },
        }
    }

    /// Asks a control thread about a split.
    fn ask(&self, wanted: WantedStart) {
        // A cluster that is not listed any more leaves requests unanswered, as promised.
        if let Some(listed) = self.clusters.get(&wanted.split.cluster) {
            listed.inbox.post_start(wanted);
        }
    }

    /// Asks the control threads what splits are, each for its cluster. Of one that is not listed nobody
    /// can tell, and ticks wait for the answer.
    fn identify(&mut self, request: RequestId, splits: Vec<KafkaSplit>) {
        let mut by_cluster: BTreeMap<ClusterId, Vec<KafkaSplit>> = BTreeMap::new();
        for split in splits {
            by_cluster
                .entry(split.cluster.clone())
                .or_default()
                .push(split);
        }
        for (cluster, of_cluster) in by_cluster {
            let wanted = WantedIdentities {
                request,
                splits: of_cluster,
            };
            match self.clusters.get(&cluster) {
                Some(listed) => listed.inbox.post_identities(wanted),
                None => {
                    self.own.push_back(wanted.unknown());
                    self.common.outlet.wake();
                }
            }
        }
    }

    /// Answers the check under way if all that it needs is known.
    fn end_check(&mut self) {
        if let Some(check) = self.check.take_if(|check| check.is_over()) {
            self.own.push_back(check.into_answer());
            self.common.outlet.wake();
        }
    }

    /// Starts the control thread of a cluster; its inbox.
    fn start_asker(&mut self, cluster: &ClusterId) -> io::Result<Arc<Inbox>> {
        let inbox = Arc::new(Inbox::default());
        if let Some(absent) = self.absent.remove(cluster) {
            // A commit of the thread that ends may be under way yet: then an earlier position can
            // overwrite a later one, until the split moves on.
            inbox.give_back(absent.take_bound());
            absent.end();
        }
        let options = AskOptions {
            interval: self.options.interval,
            timeout: self.options.timeout,
            committing: self.options.committing.clone(),
            bounded: self.options.bounded,
        };
        Asker::start(
            cluster.clone(),
            Arc::clone(&inbox),
            self.common.clone(),
            options,
        )?;
        Ok(inbox)
    }

    /// What is to be told next.
    fn next(&mut self) -> Option<DiscoveryEvent<KafkaSplit>> {
        // Looked at before the queue is, which has all that was found by then.
        let over = self.common.all_found.over();
        let event = (self.own.pop_front()).or_else(|| self.events.try_recv().ok());
        event.or_else(|| {
            let epoch = over?;
            self.common.all_found.said();
            Some(DiscoveryEvent::AllFound { epoch })
        })
    }
}

fn no_thread(subject: &str, error: &io::Error) -> DiscoveryEvent<KafkaSplit> {
    DiscoveryEvent::Health(Health::new(
        subject,
        HealthStatus::Failing(FailureKind::Transient),
        format!("it is not asked, because no thread could be started: {error}"),
    ))
}

impl SplitDiscovery<KafkaSplit> for KafkaDiscovery {
    fn request(&mut self, request: DiscoveryRequest<KafkaSplit>) {
        match request {
            DiscoveryRequest::Discover { epoch, metadata } => self.discover(epoch, metadata),
            DiscoveryRequest::Resolve {
                request,
                split,
                appeared,
            } => self.ask(WantedStart {
                request,
                split,
                rule: match appeared {
                    Appeared::AtFirst => Wanting::OfTopic,
                    Appeared::WithPlace => Wanting::OfNewCluster,
                    Appeared::WithGroup => Wanting::OfNewTopic,
                    Appeared::InGroup => Wanting::OfNewPartitions,
                },
            }),
            DiscoveryRequest::End { request, split } => self.ask(WantedStart {
                request,
                split,
                rule: Wanting::End,
            }),
            DiscoveryRequest::Identify { request, splits } => self.identify(request, splits),
            DiscoveryRequest::Judge { request, split } => {
                if let Some(listed) = self.clusters.get(&split.cluster) {
                    listed.inbox.post_judgement(request, split);
                }
            }
            DiscoveryRequest::Check { request, ranges } => {
                let (check, questions) = RangeCheck::new(request, ranges);
                self.check = Some(check);
                for question in questions {
                    self.ask(question);
                }
                self.end_check();
            }
        }
    }

    fn bound(&mut self, split: &KafkaSplit, position: &KafkaPosition) {
        if self.options.committing.is_none() {
            return;
        }
        if let Some(listed) = self.clusters.get(&split.cluster) {
            listed.inbox.post_bound(split, *position);
            return;
        }
        let inbox = self.absent.entry(split.cluster.clone()).or_default();
        inbox.post_bound(split, *position);
    }

    fn known(&mut self, split: &KafkaSplit, identity: &KafkaIdentity) {
        if let Some(id) = &identity.cluster {
            self.common.claims.know(split.origin(), id);
        }
    }

    fn forgotten(&mut self, split: &KafkaSplit) {
        self.common.claims.forget(&split.origin());
    }

    fn poll(&mut self) -> Option<DiscoveryEvent<KafkaSplit>> {
        loop {
            let event = self.next()?;
            let DiscoveryEvent::Resolved { request, start, .. } = &event else {
                return Some(event);
            };
            let Some(check) = &mut self.check else {
                return Some(event);
            };
            let Some(next) = check.answered(*request, start.next) else {
                return Some(event);
            };
            if let Some(question) = next {
                self.ask(question);
            }
            self.end_check();
        }
    }
}

impl Drop for KafkaDiscovery {
    fn drop(&mut self) {
        let listed = self.clusters.values().map(|listed| &listed.inbox);
        for inbox in listed.chain(self.absent.values()) {
            inbox.end();
        }
    }
}

impl fmt::Debug for KafkaDiscovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaDiscovery")
            .field("clusters", &self.clusters.keys())
            .finish_non_exhaustive()
    }
}
