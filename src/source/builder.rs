//! Describes a source.

use std::time::Duration;

use timely_splits::assignor::{Assignor, StickyBalanced};
use timely_splits::event::Observer;
use timely_splits::log::{BindingLog, MemoryLog};
use timely_splits::resume::Resume;

use super::settings::Settings;
use super::{EnumerationParts, KafkaSource, OnFailure};
use crate::discovery::CommitOffsets;
use crate::memory::MemoryBudget;
use crate::metadata::{
    MetadataOptions, MetadataService, PropertyMistake, Subscription, SubscriptionError,
};
use crate::model::{ClientProperties, KafkaSplit, LossRules, StartAt, StopAt};

/// Why a source cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No metadata service was given.
    #[error("source {name}: no metadata service; expected one by .metadata(...)")]
    NoMetadata {
        /// The source.
        name: String,
    },
    /// No subscription was given, or one that cannot match anything.
    #[error("source {name}: {error}")]
    Subscription {
        /// The source.
        name: String,
        /// What is wrong with it.
        error: SubscriptionError,
    },
    /// A client property is unknown, or is set by the source itself.
    #[error("source {name}: {mistake}")]
    Property {
        /// The source.
        name: String,
        /// What is wrong with it.
        mistake: PropertyMistake,
    },
    /// The process has no thread or file descriptor left.
    #[error("source {name}: the thread that wakes its workers cannot be started")]
    Resources {
        /// The source.
        name: String,
        /// What the operating system reported.
        source: std::io::Error,
    },
    /// Offsets are to be committed to a group that there cannot be.
    #[error("source {name}: group {group:?} cannot have offsets; expected an id of {expected}")]
    Group {
        /// The source.
        name: String,
        /// The id of the group.
        group: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A duration or a number is zero where that makes no sense.
    #[error("source {name}: {setting} is zero; expected {expected}")]
    Zero {
        /// The source.
        name: String,
        /// What was set.
        setting: &'static str,
        /// What was expected.
        expected: &'static str,
    },
}

/// Describes a [`KafkaSource`].
///
/// A metadata service and a subscription have to be given; everything else has a default.
#[derive(Default)]
pub struct KafkaSourceBuilder {
    settings: Settings,
    metadata: Option<Box<dyn MetadataService>>,
    observer: Option<Observer<KafkaSplit>>,
    log: Option<Box<dyn BindingLog<KafkaSplit>>>,
    assignor: Option<Box<dyn Assignor<KafkaSplit>>>,
    on_failure: OnFailure,
}

impl KafkaSourceBuilder {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// What the source is called: in the names of its operators, in its clients' ids, in the log.
    /// The default is `kafka`.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.settings.name);
        self
    }

    /// The service that says what the streams consist of. Only the process of worker 0 asks it.
    #[must_use]
    pub fn metadata(mut self, service: impl MetadataService) -> Self {
        self.metadata = Some(Box::new(service));
        self
    }

    /// How the metadata service is asked and believed: its deadline, the back-off after a failure, which
    /// answers are held back, how many failures are borne.
    #[must_use]
    pub fn metadata_options(mut self, options: MetadataOptions) -> Self {
        self.settings.metadata = options;
        self
    }

    /// The streams to read.
    #[must_use]
    pub fn subscribe(mut self, subscription: Subscription) -> Self {
        self.settings.subscription = subscription;
        self
    }

    /// Where reading starts in partitions for which the metadata does not say it. The default is
    /// [`StartAt::Earliest`]: nothing is lost between the creation of a topic and its discovery.
    #[must_use]
    pub fn start(mut self, start: StartAt) -> Self {
        self.settings.starts.start = Some(start);
        self
    }

    /// Where reading starts in partitions that are added to a known topic, where the metadata does not say
    /// it. The default is [`StartAt::Earliest`], whatever [`start`](Self::start) says: what was written
    /// between the creation of a partition and its discovery is not lost.
    #[must_use]
    pub fn new_partitions(mut self, start: StartAt) -> Self {
        self.settings.starts.new_partitions = Some(start);
        self
    }

    /// Where reading starts in topics that appear on a known cluster after the source's first metadata,
    /// where the metadata does not say it. By default [`start`](Self::start) holds, like for what was
    /// there from the beginning.
    #[must_use]
    pub fn new_topics(mut self, start: StartAt) -> Self {
        self.settings.starts.new_topics = Some(start);
        self
    }

    /// Where reading starts in topics of clusters that appear after the source's first metadata, where
    /// the metadata does not say it. By default [`start`](Self::start) holds, like for what was there
    /// from the beginning.
    #[must_use]
    pub fn new_clusters(mut self, start: StartAt) -> Self {
        self.settings.starts.new_clusters = Some(start);
        self
    }

    /// How long the position of a partition is kept that the metadata does not list, or that does not
    /// exist any more; seven days by default. When it comes back later than that, it starts by its rule.
    #[must_use]
    pub fn keep_positions_for(mut self, time: Duration) -> Self {
        self.settings.keep_positions_for = time;
        self
    }

    /// Where reading stops in partitions for which the metadata does not say it. The default is
    /// [`StopAt::Never`].
    ///
    /// A partition ends at its stop, and the source goes on, looking for others, unless it is
    /// [bounded](Self::bounded).
    #[must_use]
    pub fn stop(mut self, stop: StopAt) -> Self {
        self.settings.stop = stop;
        self
    }

    /// Reads what there is, and ends by itself.
    ///
    /// The partitions are those that are found when all clusters have answered for the first time;
    /// none is added later, also not after a restart. Each is read up to where it ends when it is
    /// found, or to its [stop](Self::stop) if that is before. When all are finished, or are not listed
    /// or do not exist any more, the last tick is closed, and the dataflow can end.
    ///
    /// A partition that is quarantined or paused was not read to its stop: the source goes on until
    /// somebody readmits or resumes it or the metadata does not list it any more, and says so in the
    /// health stream. It waits likewise for a cluster that does not answer, and for a stream that is
    /// subscribed by name and not described.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.settings.bounded = true;
        self
    }

    /// Where bindings become durable. Without a log they are kept in memory, and a source that is
    /// started again starts anew.
    #[must_use]
    pub fn log(mut self, log: impl BindingLog<KafkaSplit>) -> Self {
        self.log = Some(Box::new(log));
        self
    }

    /// Where to go on if the log has records; [`Resume::Continue`] by default.
    #[must_use]
    pub fn resume(mut self, resume: Resume) -> Self {
        self.settings.resume = resume;
        self
    }

    /// Tells each cluster up to where it was read, for people and tools; off by default.
    ///
    /// What is committed never passes what is durable. A commit that fails is said in the health
    /// stream, and stops nothing.
    #[must_use]
    pub fn commit_offsets(mut self, commit: CommitOffsets) -> Self {
        self.settings.commit_offsets = Some(commit);
        self
    }

    /// What is done about records that are no longer there, in streams for which the metadata does not say
    /// it; by default their partitions stay at their positions until they are readmitted. The
    /// [manual](crate::manual::_9_losses) has a table of the policies.
    #[must_use]
    pub fn losses(mut self, losses: LossRules) -> Self {
        self.settings.losses = losses;
        self
    }

    /// How long the answer of a cluster holds which cluster and topics it has; zero by default, which asks
    /// before each tick becomes durable in which records of it were read.
    ///
    /// Nothing else tells that a topic was deleted and created again, or that another cluster answers: what
    /// is read of it comes without an error. With a longer time less is asked, and a tick within it can
    /// become durable with records of the other topic.
    #[must_use]
    pub fn identify_every(mut self, every: Duration) -> Self {
        self.settings.identify_every = every;
        self
    }

    /// How long a tick waits for that answer at most; 2 s by default. It becomes durable without it then,
    /// so that a cluster that is down holds nobody up, and the health stream says so.
    #[must_use]
    pub fn identify_within(mut self, within: Duration) -> Self {
        self.settings.identify_within = within;
        self
    }

    /// Picks a worker for each partition; by default [`StickyBalanced`], which keeps counts equal and
    /// moves as little as that takes. Only the process of worker 0 uses it.
    ///
    /// The others are in [`assignor`](crate::assignor), and [`by_name`](crate::assignor::by_name)
    /// finds them.
    #[must_use]
    pub fn assignor(mut self, assignor: impl Assignor<KafkaSplit>) -> Self {
        self.assignor = Some(Box::new(assignor));
        self
    }

    /// Whoever wants to hear of everything that happens: what is found, assigned and released, what the
    /// assignor would do, which ticks are durable. It hears on the workers' threads and must not block.
    #[must_use]
    pub fn observer(mut self, observer: Observer<KafkaSplit>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// What becomes of the process when the source [goes no further](crate::manual::_4_errors); by
    /// default it ends.
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Properties of the clients of all clusters; those that the metadata gives a cluster win.
    #[must_use]
    pub fn properties(mut self, properties: ClientProperties) -> Self {
        self.settings.properties = properties;
        self
    }

    /// How long a tick stays open; 100 ms by default. Shorter: records become final sooner. Longer:
    /// fewer bindings.
    #[must_use]
    pub fn tick_interval(mut self, interval: Duration) -> Self {
        self.settings.tick_interval = interval;
        self
    }

    /// How often clusters are asked for partitions that appeared; 5 s by default.
    #[must_use]
    pub fn discovery_interval(mut self, interval: Duration) -> Self {
        self.settings.discovery_interval = interval;
        self
    }

    /// The memory that the source may use for records, about: by default what it shares with the other
    /// sources of the process, [`MemoryBudget::process`].
    ///
    /// A number of bytes is a budget of its own, and a [`MemoryBudget`] one that it shares with those that
    /// are given clones of it. Each process has one, and as many bytes as the others: one that has not is refused.
    #[must_use]
    pub fn memory(mut self, budget: impl Into<MemoryBudget>) -> Self {
        self.settings.memory = budget.into();
        self
    }

    /// The source.
    ///
    /// Nothing is asked of any broker before the source is read.
    ///
    /// # Errors
    ///
    /// If something that is needed is missing, or something that was given cannot work.
    pub fn build(self) -> Result<KafkaSource, BuildError> {
        let name = || self.settings.name.clone();
        if let Err(error) = self.settings.subscription.validate() {
            return Err(BuildError::Subscription {
                name: name(),
                error,
            });
        }
        if let Some(mistake) = PropertyMistake::first_of(&self.settings.properties) {
            return Err(BuildError::Property {
                name: name(),
                mistake,
            });
        }
        let zeros = [
            (self.settings.tick_interval.is_zero(), "tick_interval"),
            (
                self.settings.discovery_interval.is_zero(),
                "discovery_interval",
            ),
            (self.settings.memory.bytes() == 0, "memory"),
            (self.settings.identify_within.is_zero(), "identify_within"),
            (
                (self.settings.commit_offsets.as_ref())
                    .is_some_and(|commit| commit.interval().is_zero()),
                "commit_offsets",
            ),
        ];
        if let Some((_, setting)) = zeros.into_iter().find(|(zero, _)| *zero) {
            return Err(BuildError::Zero {
                name: name(),
                setting,
                expected: "more than that",
            });
        }
        if let Some(commit) = &self.settings.commit_offsets
            && let Some(expected) = commit.mistake()
        {
            let group = commit.group().to_owned();
            return Err(BuildError::Group {
                name: name(),
                group,
                expected,
            });
        }
        let Some(service) = self.metadata else {
            return Err(BuildError::NoMetadata { name: name() });
        };
        let log = self.log.unwrap_or_else(|| {
            tracing::warn!(
                source = self.settings.name,
                "no log was given: the source is exact while it runs, and starts anew after a restart"
            );
            Box::new(MemoryLog::new())
        });
        let parts = EnumerationParts {
            service,
            observer: self.observer,
            log,
            assignor: self.assignor.unwrap_or_else(|| Box::new(StickyBalanced)),
            on_failure: self.on_failure,
        };
        let name = name();
        KafkaSource::new(self.settings, parts)
            .map_err(|source| BuildError::Resources { name, source })
    }
}

impl std::fmt::Debug for KafkaSourceBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaSourceBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
