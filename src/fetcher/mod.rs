//! Reads splits from Kafka.
//!
//! librdkafka does the talking; this module decides what it is asked and what its answers mean.
//! Everything that is `unsafe` is in [`ffi`], behind types that cannot be misused.

#![expect(
    dead_code,
    unused_imports,
    reason = "the source that uses it is not there yet"
)]

pub(crate) mod ffi;
