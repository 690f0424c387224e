//! How the source behaves, and why.
//!
//! 1. [Getting started](_1_getting_started)
//! 2. [How streams and clusters are described](_2_streams_and_clusters)
//! 3. [What the frontier promises](_3_frontier)
//! 4. [When something goes wrong](_4_errors)
//! 5. [How what is stored is exact](_5_exactly_once)
//! 6. [Starting and stopping](_6_starting)
//! 7. [What people see in Kafka's tools](_7_kafkas_tools)
//! 8. [When clusters and topics come and go](_8_coming_and_going)
//! 9. [When data is gone](_9_losses)
//! 10. [Performance](_10_performance)

#[doc = include_str!("getting_started.md")]
pub mod _1_getting_started {}

#[doc = include_str!("streams_and_clusters.md")]
pub mod _2_streams_and_clusters {}

#[doc = include_str!("frontier.md")]
pub mod _3_frontier {}

#[doc = include_str!("errors.md")]
pub mod _4_errors {}

#[doc = include_str!("exactly_once.md")]
pub mod _5_exactly_once {}

#[doc = include_str!("starting.md")]
pub mod _6_starting {}

#[doc = include_str!("kafkas_tools.md")]
pub mod _7_kafkas_tools {}

#[doc = include_str!("coming_and_going.md")]
pub mod _8_coming_and_going {}
#[doc = include_str!("losses.md")]
pub mod _9_losses {}

#[doc = include_str!("performance.md")]
pub mod _10_performance {}
