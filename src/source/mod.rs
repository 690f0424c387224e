//! The source as a user builds and reads it.

mod builder;
mod settings;
mod story;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use timely::dataflow::{ProbeHandle, Scope, Stream, StreamVec};
use timely_splits::assignor::Assignor;
use timely_splits::binding::{Binding, SplitError};
use timely_splits::budget::SourceBudget;
use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::enumerator::Enumeration;
use timely_splits::event::Observer;
use timely_splits::health::Health;
use timely_splits::log::BindingLog;
use timely_splits::reader::AdmissionHook;
use timely_splits::source::{Reading, SourceOptions, read_splits};
use timely_splits::tick::{SourceTime, TimeMap};

use self::settings::Settings;
/// What a source can be asked for while it runs.
pub type SourceControl = timely_splits::control::SourceControl<KafkaSplit>;

/// A binding log in a folder of a local disk: a source that is started again goes on after its last
/// bound tick.
pub type LocalLog = timely_splits::log::LocalLog<KafkaSplit>;

/// A binding log in an object store: a source can be started again on another machine.
#[cfg(feature = "object-store")]
pub type ObjectLog = timely_splits::log::ObjectLog<KafkaSplit>;

pub use self::builder::{BuildError, KafkaSourceBuilder};
use crate::discovery::{Committing, KafkaDiscovery};
use crate::fetcher::{ClientPool, KafkaFetcher};
use crate::memory::Sharers;
use crate::metadata::MetadataService;
use crate::model::{ClientProperties, KafkaSplit};
use crate::records::RecordBatch;

/// How long the last commits may take when a source is closed.
const LAST_COMMITS_WITHIN: Duration = Duration::from_secs(5);

/// Reads Kafka streams, over all the clusters they live in.
///
/// It is built once a process, outside [`execute`](crate::execute()), since the workers of a process
/// share its clients, and then [read](Self::read) once on every worker. Clones are the same source.
///
/// # Examples
///
/// A stream in one cluster, which runs in this process:
///
/// ```
/// use timely::dataflow::operators::Inspect;
/// use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};
/// use timely_kafka::metadata::FixedMetadataService;
/// use timely_kafka::model::{KafkaStream, StreamsMetadata};
/// use timely_kafka::records::BatchStream;
/// use timely_kafka::{KafkaSource, Subscription, timely};
///
/// let cluster = EmbeddedCluster::start()?;
/// cluster.create_topic("orders", 3)?;
/// cluster.produce("orders", 0, [EmbeddedRecord::new("apples", "3")])?;
/// let metadata = StreamsMetadata::new()
///     .with_cluster("here", cluster.client_properties())?
///     .with_stream("orders", KafkaStream::new().with_topics("here", ["orders"])?)?;
///
/// let source = KafkaSource::builder()
///     .metadata(FixedMetadataService::new(metadata))
///     .subscribe(Subscription::streams(["orders"]))
///     .build()?;
/// timely_kafka::execute(timely::Config::process(2), move |worker| {
///     worker.dataflow(|scope| {
///         let read = source.read(scope);
///         let control = read.control.clone();
///         read.batches.records().inspect(move |order| {
///             println!("{order:?}");
///             control.stop(); // one is enough for an example
///         });
///     });
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct KafkaSource {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    budget: SourceBudget,
    pool: Arc<ClientPool>,
    control: SourceControl,
    observer: Option<Observer<KafkaSplit>>,
    on_failure: OnFailure,
    /// Taken by worker 0.
    enumeration: Mutex<Option<EnumerationParts>>,
    /// Disconnected when the last offsets are committed; there is one if any are.
    committing: Mutex<Option<Receiver<Infallible>>>,
}

pub(crate) struct EnumerationParts {
    service: Box<dyn MetadataService>,
    observer: Option<Observer<KafkaSplit>>,
    log: Box<dyn BindingLog<KafkaSplit>>,
    assignor: Box<dyn Assignor<KafkaSplit>>,
    on_failure: OnFailure,
}

/// What becomes of a process whose source goes no further: its log is damaged or another run has it, or it
/// has found that it read another topic or another cluster than it took it for.
///
/// Such a source cannot end in order, since not all that it has emitted can become durable: its frontier
/// stays where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// Ends the process with [`SOURCE_FAILED_STATUS`](crate::SOURCE_FAILED_STATUS) and a line that says
    /// why, and with it the other processes of the dataflow: whoever keeps them running starts them again.
    /// Only if its workers are run by [`execute`](crate::execute()); what else they do is nothing that a
    /// source knows.
    #[default]
    EndProcess,
    /// Stands still. An [`Observer`] hears of [`SourceEvent::Failed`](crate::SourceEvent::Failed).
    StandStill,
}

/// How one worker reads a source.
pub struct ReadOptions<T: SourceTime> {
    /// How ticks appear as times of the dataflow.
    pub time: TimeMap<T>,
    /// A probe after the user's last operator: what it has not passed is bounded. Without one, what
    /// is bounded are the batches that were not dropped.
    pub probe: Option<ProbeHandle<T>>,
    /// Decides whether a piece of a split may be emitted yet; without one every piece is.
    pub admission: Option<AdmissionHook<KafkaSplit, RecordBatch>>,
}

impl<T: SourceTime> ReadOptions<T> {
    /// Without a probe or an admission hook.
    #[must_use]
    pub fn new(time: TimeMap<T>) -> Self {
        Self {
            time,
            probe: None,
            admission: None,
        }
    }

    /// With a probe, which the user puts after their last operator.
    #[must_use]
    pub fn with_probe(mut self, probe: &ProbeHandle<T>) -> Self {
        self.probe = Some(probe.clone());
        self
    }

    /// With an admission hook.
    #[must_use]
    pub fn with_admission(mut self, hook: AdmissionHook<KafkaSplit, RecordBatch>) -> Self {
        self.admission = Some(hook);
        self
    }
}

/// What a source gives to a dataflow.
///
/// # Frontier
///
/// The frontier of every stream passes a tick when the binding of the tick is durable, if anything was read in it. Until then
/// more records can come at it; after that none can, and reading the binding's ranges again gives
/// the same ones. A worker without splits, a cluster that is down and a topic without records do not
/// hold it back. It starts at zero and jumps to the present when the first tick opens.
pub struct Read<'scope, T: SourceTime> {
    /// The records, in batches of one split each, on the worker that read them.
    pub batches: Stream<'scope, T, RecordBatch>,
    /// Definite errors about splits, at the tick in which they were met.
    pub errors: StreamVec<'scope, T, SplitError<KafkaSplit>>,
    /// Which range of which split each tick stands for, from worker 0.
    pub bindings: StreamVec<'scope, T, Binding<KafkaSplit>>,
    /// What a person should know. It follows the ticks, but a replay does not give it again.
    pub health: StreamVec<'scope, T, Health>,
    /// What the source can be asked for while it runs.
    pub control: SourceControl,
}

impl KafkaSource {
    /// Begins to describe a source.
    #[must_use]
    pub fn builder() -> KafkaSourceBuilder {
        KafkaSourceBuilder::new()
    }

    pub(crate) fn new(settings: Settings, mut parts: EnumerationParts) -> io::Result<Self> {
        let pool = ClientPool::new(settings.fetching())?;
        Ok(Self {
            shared: Arc::new(Shared {
                budget: settings.memory.source(),
                settings,
                pool,
                control: SourceControl::new(),
                observer: parts.observer.take(),
                on_failure: parts.on_failure,
                enumeration: Mutex::new(Some(parts)),
                committing: Mutex::default(),
            }),
        })
    }

    /// What the source can be asked for while it runs, from any thread.
    #[must_use]
    pub fn control(&self) -> SourceControl {
        self.shared.control.clone()
    }

    /// The properties of the client that reads a cluster whose own properties are `cluster`: the
    /// defaults, those of the source, those of the cluster and what the source depends on, joined. What
    /// it may fetch ahead is its share where so many `clients` read for one worker.
    #[must_use]
    pub fn client_properties(
        &self,
        cluster: &ClientProperties,
        clients: usize,
    ) -> ClientProperties {
        self.shared
            .settings
            .fetching()
            .data(cluster, Sharers::of_clients(clients))
            .0
    }

    /// Closes the clients of this process, after its dataflow has ended, and waits for that for five
    /// seconds at most; says how many did not close in time and were left open. Before that it waits,
    /// for as long at most, until the last offsets are [committed](KafkaSourceBuilder::commit_offsets)
    /// if any are.
    ///
    /// A source that is dropped closes its clients as well, but waits for nothing.
    pub fn close(self) -> usize {
        let committing = self.shared.committing.lock();
        let committing = committing.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(committing) = committing {
            // Nothing is ever sent: it ends when the senders are gone, or too late.
            committing.recv_timeout(LAST_COMMITS_WITHIN).ok();
        }
        self.shared.pool.close()
    }

    /// Reads the source into a dataflow whose times are ticks: milliseconds since the Unix epoch.
    ///
    /// # Panics
    ///
    /// Panics if this worker reads the source already.
    #[must_use]
    pub fn read<'scope>(&self, scope: Scope<'scope, u64>) -> Read<'scope, u64> {
        self.read_with(scope, ReadOptions::new(TimeMap::identity()))
    }

    /// Reads the source into a dataflow with other times.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[must_use]
    pub fn read_as<'scope, T: SourceTime>(
        &self,
        scope: Scope<'scope, T>,
        time: TimeMap<T>,
    ) -> Read<'scope, T> {
        self.read_with(scope, ReadOptions::new(time))
    }

    /// Reads the source with more to say about how.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[must_use]
    pub fn read_with<'scope, T: SourceTime>(
        &self,
        scope: Scope<'scope, T>,
        options: ReadOptions<T>,
    ) -> Read<'scope, T> {
        let shared = &self.shared;
        let settings = &shared.settings;
        let mut source = SourceOptions::new(&settings.name, options.time);
        source.tick_interval = settings.tick_interval;
        source.open_tick_bytes_max = settings.memory.tick_bytes(scope.peers());
        source.budget = shared.budget.clone();
        source.probe = options.probe;
        source.configuration = settings.configuration();
        source.control = shared.control.clone();
        source.observer =
            story::observer(scope.index(), shared.observer.clone(), shared.on_failure);

        let enumeration = (scope.index() == 0).then(|| self.enumeration());
        let (pool, worker) = (Arc::clone(&shared.pool), scope.index());
        let reading = Reading::<KafkaSplit, KafkaFetcher> {
            fetcher: Box::new(move |waker| {
                pool.fetcher(worker, Box::new(move || waker.wake()))
                    .expect("a process that reads has file descriptors left")
            }),
            admission: options.admission,
        };
        let read = read_splits(scope, &source, enumeration, reading);
        Read {
            batches: read.batches,
            errors: read.errors,
            bindings: read.bindings,
            health: read.health,
            control: shared.control.clone(),
        }
    }

    /// What the enumerator on worker 0 is made of.
    fn enumeration(&self) -> Enumeration<KafkaSplit> {
        let parts = self
            .shared
            .enumeration
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .expect("a source is read once; build another one for another dataflow");
        let settings = &self.shared.settings;
        let (subscription, mut options) = (settings.subscription.clone(), settings.discovery());
        if let Some(offsets) = settings.commit_offsets.clone() {
            let (under_way, ended) = bounded(0);
            let mut committing = self
                .shared
                .committing
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *committing = Some(ended);
            options.committing = Some(Committing {
                offsets,
                _under_way: under_way,
            });
        }
        Enumeration {
            discovery: Box::new(move |waker| {
                let wake = Box::new(move || waker.wake());
                Box::new(KafkaDiscovery::start(
                    parts.service,
                    subscription,
                    options,
                    wake,
                ))
            }),
            log: parts.log,
            assignor: parts.assignor,
            coordination: CoordinatorOptions {
                resume: settings.resume,
                kept_for: settings.keep_positions_for,
                bounded: settings.bounded,
                identify_every: Some(settings.identify_every),
                identify_within: settings.identify_within,
                losses: settings.losses.policies(),
                shrink_guard: settings.metadata.shrink_guard,
                failure_threshold: settings.metadata.failure_threshold,
                stale_after: settings.metadata.stale_after,
                ..CoordinatorOptions::new(0)
            },
        }
    }
}

impl fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSource")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

impl<T: SourceTime> fmt::Debug for ReadOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOptions")
            .field("time", &self.time)
            .field("probed", &self.probe.is_some())
            .finish_non_exhaustive()
    }
}

impl<T: SourceTime> fmt::Debug for Read<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Read").finish_non_exhaustive()
    }
}
