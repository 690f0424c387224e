//! Reads logical streams that live in several Kafka clusters into timely and differential dataflow.

mod fetcher;
pub mod metadata;
pub mod model;
pub mod records;
