//! The cluster that holds the records.

use std::io::Read;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use timely_kafka::embedded::EmbeddedCluster;
use tokio::runtime::{Builder, Runtime};

use crate::child::Role as Process;
use crate::{Arguments, NAME, Outcome};

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
            create_topic(&servers, arguments.partitions)?;
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
            && let Err(error) = delete_topic(&self.servers)
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

fn admin(servers: &str) -> Outcome<(AdminClient<DefaultClientContext>, Runtime)> {
    let admin = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .create()?;
    Ok((admin, Builder::new_current_thread().build()?))
}

fn create_topic(servers: &str, partitions: i32) -> Outcome<()> {
    let (admin, runtime) = admin(servers)?;
    let topic = NewTopic::new(NAME, partitions, TopicReplication::Fixed(1));
    let created = runtime.block_on(admin.create_topics([&topic], &AdminOptions::new()))?;
    for outcome in created {
        outcome.map_err(|(name, error)| format!("topic {name} is not created: {error}"))?;
    }
    Ok(())
}

fn delete_topic(servers: &str) -> Outcome<()> {
    let (admin, runtime) = admin(servers)?;
    let deleted = runtime.block_on(admin.delete_topics(&[NAME], &AdminOptions::new()))?;
    for outcome in deleted {
        outcome.map_err(|(name, error)| format!("topic {name} is not deleted: {error}"))?;
    }
    Ok(())
}
