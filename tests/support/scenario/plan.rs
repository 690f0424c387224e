//! How a source is configured, in words that can be sent to another process.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use timely_kafka::metadata::{
    FileMetadataService, FixedMetadataService, MetadataOptions, MetadataService, Subscription,
};
use timely_kafka::model::{ClientProperties, StartAt, StopAt};
use timely_kafka::{BuildError, CommitOffsets, KafkaSource, LossRules, OnFailure, Resume, Tick};

use super::watched::{Alternating, Gate, Sink, WatchedLog, WatchedService};

/// On what a source runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// So many workers in this process.
    Threads(usize),
    /// Two processes of so many workers each.
    TwoProcesses(usize),
}

impl Backend {
    pub(crate) fn workers(self) -> usize {
        match self {
            Self::Threads(workers) => workers,
            Self::TwoProcesses(each) => 2 * each,
        }
    }
}

/// Which streams are read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Streams {
    Named(Vec<String>),
    Matching(String),
}

/// What tells about streams.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Service {
    /// The metadata file, as it is at any time.
    File,
    /// The metadata file as it is at the first question; nobody asks again.
    Once,
    /// These files in turn, at every question the next one, a millisecond apart.
    Alternating(Vec<PathBuf>),
}

/// Where a source goes on that has a log.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum GoingOn {
    After,
    At(u64),
    Replaying(u64),
}

impl GoingOn {
    fn resume(self) -> Resume {
        match self {
            Self::After => Resume::Continue,
            Self::At(tick) => Resume::At(Tick(tick)),
            Self::Replaying(from) => Resume::Replay { from: Tick(from) },
        }
    }
}

/// Everything about a source but the clusters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) metadata: PathBuf,
    pub(crate) service: Service,
    pub(crate) streams: Streams,
    pub(crate) start: StartAt,
    pub(crate) stop: StopAt,
    /// Whether it ends by itself.
    pub(crate) bounded: bool,
    pub(crate) properties: ClientProperties,
    pub(crate) tick: Duration,
    pub(crate) discovery: Duration,
    /// How long a tick waits for what its records were read of.
    pub(crate) identified_within: Duration,
    /// Whether the log holds back what binds records until the gate is opened.
    pub(crate) gated: bool,
    /// Whether the log answers what records a start only when the gate is opened.
    pub(crate) starts_held: bool,
    /// The folder of the log, which is in memory if there is none.
    pub(crate) log: Option<PathBuf>,
    pub(crate) going_on: GoingOn,
    /// Whether all workers but the first join only when the metadata was answered.
    pub(crate) late_readers: bool,
    /// How long after it was given first an answer must be given again that loses much, if it is not as
    /// the default says.
    pub(crate) confirmed_after: Option<Duration>,
    /// Whether an answer is believed at once that loses much.
    pub(crate) unguarded: bool,
    /// The group to which offsets are committed, and how often, if they are.
    pub(crate) commits: Option<(String, Duration)>,
    pub(crate) losses: LossRules,
    /// Whether its process ends when it goes no further. Several sources run in the process of a test.
    pub(crate) ends_with_failure: bool,
}

impl Plan {
    /// Reads the stream `orders` as the file at `metadata` describes it, by short ticks.
    pub(crate) fn new(metadata: PathBuf) -> Self {
        Self {
            metadata,
            service: Service::File,
            streams: Streams::Named(vec!["orders".to_owned()]),
            start: StartAt::Earliest,
            stop: StopAt::Never,
            bounded: false,
            properties: ClientProperties::new(),
            tick: Duration::from_millis(20),
            discovery: Duration::from_millis(500),
            identified_within: Duration::from_secs(2),
            gated: false,
            starts_held: false,
            log: None,
            going_on: GoingOn::After,
            late_readers: false,
            confirmed_after: None,
            unguarded: false,
            commits: None,
            losses: LossRules::default(),
            ends_with_failure: false,
        }
    }

    /// The source, which tells `sink` what its log and its metadata service do.
    pub(crate) fn build(&self, sink: &Sink, gate: &Gate) -> Result<KafkaSource, BuildError> {
        let file = || FileMetadataService::new(&self.metadata);
        let service: Box<dyn MetadataService> = match &self.service {
            Service::File => Box::new(file()),
            Service::Once => {
                let deadline = Instant::now() + Duration::from_secs(10);
                let answer = file().ask(deadline).expect("the metadata file is right");
                Box::new(FixedMetadataService::new(answer))
            }
            Service::Alternating(files) => Box::new(Alternating::new(files)),
        };
        let subscription = match &self.streams {
            Streams::Named(names) => Subscription::streams(names),
            Streams::Matching(pattern) => Subscription::pattern(pattern),
        };
        if !self.gated && !self.starts_held {
            gate.open();
        }
        let mut builder = KafkaSource::builder();
        if let Some((group, every)) = &self.commits {
            builder = builder.commit_offsets(CommitOffsets::to_group(group).every(*every));
        }
        if self.bounded {
            builder = builder.bounded();
        }
        let mut options = MetadataOptions::default();
        if let (Some(after), Some(guard)) = (self.confirmed_after, &mut options.shrink_guard) {
            guard.confirmed_after = after;
        }
        if !self.ends_with_failure {
            builder = builder.on_failure(OnFailure::StandStill);
        }
        if self.unguarded {
            options.shrink_guard = None;
        }
        builder
            .metadata_options(options)
            .metadata(WatchedService::new(service, sink, gate))
            .subscribe(subscription)
            .start(self.start.clone())
            .stop(self.stop.clone())
            .losses(self.losses)
            .properties(self.properties.clone())
            .tick_interval(self.tick)
            .discovery_interval(self.discovery)
            .identify_within(self.identified_within)
            .resume(self.going_on.resume())
            .log(WatchedLog::new(self, sink, gate))
            .build()
    }
}
