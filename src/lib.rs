//! Reads logical streams that live in several Kafka clusters into timely and differential dataflow.
//!
//! A metadata service says which topics of which clusters make up a stream, and may change its
//! answer while the dataflow runs; nothing is lost, nothing comes twice, and what did not change is
//! not disturbed. The frontier advances from Kafka's offsets, durably.
//!
//! The [`manual`] says how; [`KafkaSource`] is where to start.
//!
//! The modules are a map of the code, in the order that data flows through them:
//!
//! - [`model`]: what the source speaks of: streams, clusters, splits and positions.
//! - [`metadata`]: who says what the streams consist of, and which of them a source reads.
//! - `discovery`: finds the partitions of the topics, and where reading them starts.
//! - `fetcher`: reads them, through librdkafka.
//! - [`records`]: what was read, in batches.
//! - [`source`]: the source as it is built and read.
//! - [`execute()`]: runs workers, and ends the process when one is lost.
//! - [`supervise`]: keeps the processes of a dataflow running.
//! - [`embedded`]: Kafka clusters in this process, for examples and tests.
//!
//! The operators themselves are those of the crate `timely-splits`, which knows no Kafka.

mod discovery;
pub mod embedded;
mod execute;
mod fetcher;
pub mod manual;
mod memory;
pub mod metadata;
pub mod model;
pub mod records;
pub mod source;
pub mod supervise;

pub use timely;
pub use timely_splits::assignor;
pub use timely_splits::binding::{Binding, SplitError, SplitRange};
pub use timely_splits::coordinator::Snapshot;
pub use timely_splits::epoch::{Incarnation, LogSequence, MetadataEpoch, ReaderId, SplitEpoch};
pub use timely_splits::event::{Observer, SourceEvent};
pub use timely_splits::explain::{Explanation, Origin, OriginKind, SplitExplanation, SplitLife};
pub use timely_splits::fetcher::Piece;
pub use timely_splits::health::{FailureKind, Health, HealthStatus};
pub use timely_splits::log::{
    Appended, BindingLog, LogError, LogExtent, LogRecord, MemoryLog, SnapshotAt, Stored,
    StoredError,
};
pub use timely_splits::loss::{Aftermath, LossPolicy};
pub use timely_splits::protocol::Command;
pub use timely_splits::reader::{Admission, AdmissionHook};
pub use timely_splits::resume::Resume;
pub use timely_splits::tick::{Tick, TimeMap};

pub use crate::discovery::CommitOffsets;
pub use crate::execute::{
    PEER_LOST_STATUS, RUN_VARIABLE, SOURCE_FAILED_STATUS, execute, execute_from_args,
};
pub use crate::memory::MemoryBudget;
pub use crate::metadata::{FileMetadataService, FixedMetadataService, Subscription};
pub use crate::model::{KafkaPosition, KafkaSplit, LossRules, StartAt, StartRules, StopAt};
pub use crate::records::{BatchStream, Record, RecordBatch, RecordRef};
#[cfg(feature = "object-store")]
pub use crate::source::ObjectLog;
pub use crate::source::{
    BuildError, KafkaSource, KafkaSourceBuilder, LocalLog, OnFailure, Read, ReadOptions,
    SourceControl,
};

/// Compiles the program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
