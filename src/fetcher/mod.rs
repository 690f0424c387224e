//! What reads the splits of Kafka.

pub(crate) mod ffi;
