//! Kafka clusters inside this process, for examples and tests that must run without any broker.
//!
//! An [`EmbeddedCluster`] listens on the loopback interface and speaks Kafka's protocol to any
//! client. Faults can be put into it, and it writes down which requests it got, so that a test can
//! show what a client did *not* do: connect once more, or fetch something twice.
//!
//! # Limits
//!
//! It is librdkafka's mock broker, and what it cannot do it does in silence or not at all:
//!
//! * A partition holds 5 MiB, or 100,000 batches; older records are dropped, as by retention.
//! * Topics are created by [`EmbeddedCluster::create_topic`] only, their partitions cannot be added
//!   to, and they cannot be deleted. They can be described, with their ids; other requests of
//!   administrators are not known, and a client waits for the answer until its own deadline.
//! * Offsets cannot be looked up by time: the answer is always the end.
//! * Transactions are accepted and have no effect. Nothing is compacted.
//! * A fetch that finds nothing sleeps out its whole `fetch.wait.max.ms`, and new records do not
//!   cut it short: [`EmbeddedCluster::client_properties`] has a short one.
//! * No TLS, no SASL, no fetch sessions; the leader epoch of a partition never changes by itself.
//!
//! Whatever is claimed about Kafka has to be shown on Kafka as well.

mod cluster;
mod producer;
mod record;
mod request;
#[cfg(test)]
mod tests;

pub use self::cluster::{EmbeddedCluster, EmbeddedError};
pub use self::record::EmbeddedRecord;
pub use self::request::{EmbeddedFault, EmbeddedRequest, KafkaApi};
