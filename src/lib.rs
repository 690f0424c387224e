//! Reads logical streams that live in several Kafka clusters into timely and differential dataflow.

mod discovery;
pub mod embedded;
mod fetcher;
pub mod metadata;
pub mod model;
pub mod records;
