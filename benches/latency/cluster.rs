//! The clusters that hold the records.

use std::io::Read;

use timely_kafka::embedded::EmbeddedCluster;

use crate::child::Role as Process;
use crate::{Arguments, NAME, Outcome, topic};

/// A topic on a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) servers: String,
    pub(crate) name: &'static str,
    pub(crate) partitions: i32,
}

/// A topic that was made on a cluster that runs. It is deleted with this value.
#[derive(Debug)]
pub(crate) struct Made(Topic);

impl Made {
    pub(crate) fn new(topic: Topic) -> Outcome<Self> {
        topic::create(&topic.servers, topic.name, topic.partitions)?;
        Ok(Self(topic))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Err(error) = topic::delete(&self.0.servers, self.0.name) {
            println!("the topic {} is left: {error}", self.0.name);
        }
    }
}

/// A cluster with an empty topic. What was made for the benchmark ends with it.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) topic: Topic,
    _made: Option<Made>,
    _process: Option<Process>,
}

impl Cluster {
    pub(crate) fn start(arguments: &Arguments) -> Outcome<Self> {
        let partitions = arguments.partitions;
        let topic = |servers| Topic {
            servers,
            name: NAME,
            partitions,
        };
        if let Some(servers) = arguments.kafka.clone() {
            let topic = topic(servers);
            return Ok(Self {
                _made: Some(Made::new(topic.clone())?),
                _process: None,
                topic,
            });
        }
        let partitions = format!("--partitions={partitions}");
        let process = Process::start(&["--role=serve".to_owned(), partitions])?;
        Ok(Self {
            topic: topic(process.hear()?),
            _made: None,
            _process: Some(process),
        })
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
