//! The only place that speaks to librdkafka's C interface.

pub(crate) mod mock;
