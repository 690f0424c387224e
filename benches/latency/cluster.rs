//! The cluster that holds the records.

use std::io::Read;

use timely_kafka::embedded::EmbeddedCluster;

use crate::child::Role as Process;
use crate::{Arguments, NAME, Outcome, topic};

/// A cluster with an empty topic. What was made for the benchmark ends with it.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Where it is.
    pub(crate) servers: String,
    /// None if it is not ours.
    process: Option<Process>,
}

impl Cluster {
    pub(crate) fn start(arguments: &Arguments) -> Outcome<Self> {
        if let Some(servers) = arguments.kafka.clone() {
            topic::create(&servers, NAME, arguments.partitions)?;
            return Ok(Self {
                servers,
                process: None,
            });
        }
        let partitions = format!("--partitions={}", arguments.partitions);
        let process = Process::start(&["--role=serve".to_owned(), partitions])?;
        Ok(Self {
            servers: process.hear()?,
            process: Some(process),
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.process.is_none()
            && let Err(error) = topic::delete(&self.servers, NAME)
        {
            println!("the topic {NAME} is left: {error}");
        }
    }
}

/// Serves until the input ends.
pub(crate) fn serve(arguments: &Arguments) -> Outcome<()> {
    let cluster = EmbeddedCluster::start()?;
    cluster.create_topic(NAME, arguments.partitions)?;
    println!("{}", cluster.bootstrap_servers());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
