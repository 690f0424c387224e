//! Reads splits from Kafka.
//!
//! librdkafka does the talking; this module decides what it is asked and what its answers mean.
//! Everything that is `unsafe` is in [`ffi`], behind types that cannot be misused.

mod attempts;
mod backlog;
mod client;
mod complaints;
mod connection;
mod drain;
mod failure;
pub(crate) mod ffi;
mod kafka;
mod open;
mod pool;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod thread;
mod transactions;
mod turns;
mod wake;

pub(crate) use self::kafka::KafkaFetcher;
pub(crate) use self::pool::ClientPool;
pub(crate) use self::settings::Settings;
