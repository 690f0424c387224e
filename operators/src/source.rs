//! Puts the operators together.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;
use timely::dataflow::operators::{Concat, ConnectLoop, Feedback};
use timely::dataflow::{ProbeHandle, Scope, Stream, StreamVec};

use crate::binding::{Binding, SplitError};
use crate::budget::{ByteBudget, SourceBudget};
use crate::control::SourceControl;
use crate::coordinator::CoordinatorOptions;
use crate::enumerator::{Enumeration, enumerator};
use crate::event::Observer;
use crate::fetcher::SplitFetcher;
use crate::health::Health;
use crate::protocol::Configuration;
use crate::reader::{AdmissionHook, ReaderOptions, ReaderParts, reader};
use crate::split::Split;
use crate::tick::{SourceTime, TimeMap};
use crate::wake::Waker;

/// How a source behaves; the same on every worker.
#[derive(Clone, Debug)]
pub struct SourceOptions<T: SourceTime, S: Split> {
    /// What the source is called in the names of its operators.
    pub name: String,
    /// How ticks appear as times of the dataflow.
    pub time: TimeMap<T>,
    /// How long a tick stays open. Shorter: records become final sooner. Longer: fewer bindings.
    pub tick_interval: Duration,
    /// How many closed ticks may wait to become durable. Then the open one stays open, and reading goes on
    /// in it until it has [`open_tick_bytes_max`](Self::open_tick_bytes_max).
    pub ticks_waiting_max: usize,
    /// How many bytes one worker emits at one tick, at most and about. A tick that is full on one worker
    /// is closed before its time.
    pub open_tick_bytes_max: usize,
    /// What the source may have of the bytes that are emitted and not passed by `probe`. All workers of a
    /// process have clones of one.
    pub budget: SourceBudget,
    /// How many bytes one worker emits in one activation, at most and about.
    pub activation_bytes_max: usize,
    /// A probe after the user's last operator. Without one a batch counts until it is dropped.
    pub probe: Option<ProbeHandle<T>>,
    /// How much this worker can take, in proportion to the others.
    pub capacity: NonZeroU32,
    /// Where this worker runs, for an assignor that looks at racks.
    pub rack: Option<String>,
    /// How often in a row what reads a split may crash before the split is quarantined.
    pub crashes_max: u32,
    /// How long a split with a lag may bring nothing before it is read again.
    pub stuck_after: Duration,
    /// What must be the same in every process; a source whose processes differ is refused.
    pub configuration: Configuration,
    /// What the user can ask for while the source runs.
    pub control: SourceControl<S>,
    /// Hears what happens.
    pub observer: Observer<S>,
}

impl<T: SourceTime, S: Split> SourceOptions<T, S> {
    /// Options with their defaults: ticks of 100 ms of which four may wait for the log, 64 MiB a worker
    /// for the open tick, and a budget of as much that is shared with nobody.
    #[must_use]
    pub fn new(name: &str, time: TimeMap<T>) -> Self {
        Self {
            name: name.to_owned(),
            time,
            tick_interval: Duration::from_millis(100),
            ticks_waiting_max: 4,
            open_tick_bytes_max: 64 << 20,
            budget: ByteBudget::new(64 << 20).source(),
            activation_bytes_max: 1 << 20,
            probe: None,
            capacity: NonZeroU32::MIN,
            rack: None,
            crashes_max: ReaderOptions::default().crashes_max,
            stuck_after: ReaderOptions::default().stuck_after,
            configuration: Configuration::new(),
            control: SourceControl::new(),
            observer: Observer::deaf(),
        }
    }

    /// What the coordinator needs of this, besides what it was given.
    pub(crate) fn coordination(
        &self,
        given: CoordinatorOptions,
        readers: usize,
    ) -> CoordinatorOptions {
        CoordinatorOptions {
            readers,
            tick_interval: self.tick_interval,
            ticks_waiting_max: self.ticks_waiting_max,
            ..given
        }
    }

    /// What a reader needs of this.
    pub(crate) fn reading(&self) -> ReaderOptions {
        ReaderOptions {
            crashes_max: self.crashes_max,
            stuck_after: self.stuck_after,
        }
    }
}

/// What reads the splits of one worker.
pub struct Reading<S: Split, F: SplitFetcher<S>> {
    /// Makes the fetcher, given what wakes its operator.
    pub fetcher: Box<dyn FnOnce(Waker) -> F>,
    /// Decides whether a piece may be emitted yet; without one every piece is.
    pub admission: Option<AdmissionHook<S, F::Batch>>,
}

impl<S: Split, F: SplitFetcher<S>> fmt::Debug for Reading<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}

/// The streams of a source.
pub struct SplitStreams<'scope, T: SourceTime, S: Split, B> {
    /// What was read, on the worker that read it.
    pub batches: Stream<'scope, T, B>,
    /// Definite errors about splits, at the tick in which they were met.
    pub errors: StreamVec<'scope, T, SplitError<S>>,
    /// What each tick stands for, from worker 0.
    pub bindings: StreamVec<'scope, T, Binding<S>>,
    /// What a person should know.
    pub health: StreamVec<'scope, T, Health>,
}

impl<T: SourceTime, S: Split, B> fmt::Debug for SplitStreams<'_, T, S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SplitStreams").finish_non_exhaustive()
    }
}

/// Reads a changing set of splits.
///
/// Called on every worker; `enumeration` is given on worker 0 and only there.
///
/// # Frontier
///
/// The frontier of each stream passes a tick when its binding is durable, if anything was read in it. When the frontiers of
/// batches and bindings have passed a tick, all records of the tick and its binding have been seen.
/// A split that brings nothing does not hold the frontier back.
///
/// # Panics
///
/// Panics if the thread that writes the log cannot be started.
pub fn read_splits<'scope, T: SourceTime, S: Split, F: SplitFetcher<S>>(
    scope: Scope<'scope, T>,
    options: &SourceOptions<T, S>,
    enumeration: Option<Enumeration<S>>,
    reading: Reading<S, F>,
) -> SplitStreams<'scope, T, S, F::Batch> {
    let (handle, reports) = scope.feedback(T::Summary::default());
    let enumerated = enumerator(reports, options, enumeration);
    let read = reader(
        enumerated.directives,
        ReaderParts {
            options,
            admission: reading.admission,
            fetcher: reading.fetcher,
        },
    );
    read.reports.connect_loop(handle);
    SplitStreams {
        batches: read.batches,
        errors: read.errors,
        bindings: enumerated.bindings,
        health: enumerated.health.concat(read.health),
    }
}
