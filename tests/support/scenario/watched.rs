//! A log and metadata services that tell what they are asked, and can be held up.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use timely_kafka::metadata::{FileMetadataService, MetadataError, MetadataService};
use timely_kafka::model::{KafkaSplit, StreamsMetadata};
use timely_splits::epoch::{Incarnation, LogSequence};
use timely_splits::log::{
    Appended, BindingLog, LocalLog, LogError, LogExtent, LogRecord, MemoryLog,
};
use timely_splits::tick::Tick;

use super::observed::Seen;
use super::plan::Plan;

/// Where everything goes that is seen.
pub(crate) type Sink = Arc<dyn Fn(Seen) + Send + Sync>;

/// What threads of one process wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<(Mutex<Passes>, Condvar)>);

#[derive(Debug, Default)]
struct Passes {
    open: bool,
    answered: bool,
}

impl Gate {
    /// Lets the log append what binds records.
    pub(crate) fn open(&self) {
        self.change(|passes| passes.open = true);
    }

    fn answered(&self) {
        self.change(|passes| passes.answered = true);
    }

    /// Waits until the metadata service has answered.
    pub(crate) fn await_answer(&self) {
        self.wait(|passes| passes.answered);
    }

    fn is_open(&self) -> bool {
        self.0.0.lock().unwrap().open
    }

    fn change(&self, change: impl FnOnce(&mut Passes)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    fn wait(&self, until: impl Fn(&Passes) -> bool) {
        let passes = self.0.0.lock().unwrap();
        drop(
            self.0
                .1
                .wait_while(passes, |passes| !until(passes))
                .unwrap(),
        );
    }
}

/// Keeps the records in memory or in a folder. While its gate is shut it holds bindings with ranges back,
/// or has starts written and says nothing.
pub(crate) struct WatchedLog {
    inner: Box<dyn BindingLog<KafkaSplit>>,
    sink: Sink,
    gate: Gate,
    starts_held: bool,
}

impl WatchedLog {
    pub(crate) fn new(plan: &Plan, sink: &Sink, gate: &Gate) -> Self {
        Self {
            inner: match &plan.log {
                Some(folder) => Box::new(LocalLog::at(folder)),
                None => Box::new(MemoryLog::new()),
            },
            sink: Arc::clone(sink),
            gate: gate.clone(),
            starts_held: plan.starts_held,
        }
    }
}

impl BindingLog<KafkaSplit> for WatchedLog {
    fn open(&mut self) -> Result<LogExtent, LogError> {
        self.inner.open()
    }

    fn read(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<KafkaSplit>>, LogError> {
        self.inner.read(from, records_max)
    }

    fn compact(&mut self, since: Tick) -> Result<(), LogError> {
        self.inner.compact(since)
    }

    fn append(
        &mut self,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<KafkaSplit>],
    ) -> Result<Appended, LogError> {
        let bindings = || {
            records.iter().filter_map(|record| match record {
                LogRecord::Binding(binding) => Some(binding),
                _ => None,
            })
        };
        if bindings().any(|binding| !binding.ranges.is_empty()) && !self.gate.is_open() {
            let oldest = bindings().next().expect("there is one with ranges");
            (self.sink)(Seen::Held {
                tick: oldest.tick.0,
            });
            self.gate.wait(|passes| passes.open);
        }
        let appended = self.inner.append(incarnation, expected, records)?;
        let mut started = false;
        for record in records {
            if let LogRecord::Start { split, start, .. } = record {
                (self.sink)(Seen::Start {
                    split: split.clone(),
                    start: *start,
                });
                started = true;
            }
        }
        if started && self.starts_held {
            self.gate.wait(|passes| passes.open);
        }
        Ok(appended)
    }
}

/// Counts what another service is asked.
pub(crate) struct WatchedService {
    inner: Box<dyn MetadataService>,
    sink: Sink,
    gate: Gate,
    times: usize,
}

impl WatchedService {
    pub(crate) fn new(inner: Box<dyn MetadataService>, sink: &Sink, gate: &Gate) -> Self {
        Self {
            inner,
            sink: Arc::clone(sink),
            gate: gate.clone(),
            times: 0,
        }
    }
}

impl MetadataService for WatchedService {
    fn ask(&mut self, deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        let said = self.inner.ask(deadline);
        self.times += 1;
        (self.sink)(Seen::Asked { times: self.times });
        if said.is_ok() {
            self.gate.answered();
        }
        said
    }

    fn interval(&self) -> Option<Duration> {
        self.inner.interval()
    }
}

/// Answers by the next of its files at every question.
pub(crate) struct Alternating {
    files: Vec<FileMetadataService>,
    next: usize,
}

impl Alternating {
    pub(crate) fn new(files: &[PathBuf]) -> Self {
        Self {
            files: files.iter().map(FileMetadataService::new).collect(),
            next: 0,
        }
    }
}

impl MetadataService for Alternating {
    fn ask(&mut self, deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        let next = self.next % self.files.len();
        self.next += 1;
        self.files[next].ask(deadline)
    }

    fn interval(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }
}
