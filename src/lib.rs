//! Reads logical streams that live in several Kafka clusters into timely and differential dataflow.

pub mod metadata;
pub mod model;
pub mod records;
