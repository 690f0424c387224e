//! The process with the clusters.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use timely_kafka::embedded::EmbeddedCluster;
use tokio::runtime::{Builder, Runtime};

use crate::fill::fill;
use crate::{Arguments, Outcome, TOPIC, told};

/// The clusters that hold the records. If they are in a process of ours, that ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where each is.
    pub(crate) servers: Vec<String>,
    process: Option<Child>,
    /// The process ends when this is closed, also if that happens by a crash.
    input: Option<ChildStdin>,
}

impl Server {
    /// Starts the process and waits until all records are there.
    pub(crate) fn start(arguments: &Arguments) -> Outcome<Self> {
        if let Some(servers) = &arguments.kafka {
            create_topic(servers, arguments.partitions())?;
            fill(servers, 0, arguments)?;
            return Ok(Self {
                servers: vec![servers.clone()],
                process: None,
                input: None,
            });
        }
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--role", "serve"])
            .args(told(arguments))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or("the server has no output")?;
        let mut servers = String::new();
        BufReader::new(output).read_line(&mut servers)?;
        let servers: Vec<String> = servers.split_whitespace().map(str::to_owned).collect();
        if servers.is_empty() {
            return Err(format!("the server ended: {}", process.wait()?).into());
        }
        Ok(Self {
            servers,
            process: Some(process),
            input,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let ended = match &mut self.process {
            Some(process) => process.wait().map(drop).map_err(Into::into),
            None => self
                .servers
                .iter()
                .try_for_each(|servers| delete_topic(servers)),
        };
        if let Err(error) = ended {
            eprintln!("the server is left as it is: {error}");
        }
    }
}

fn admin(servers: &str) -> Outcome<(AdminClient<DefaultClientContext>, Runtime)> {
    let admin = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .create()?;
    Ok((admin, Builder::new_current_thread().build()?))
}

fn create_topic(servers: &str, partitions: i32) -> Outcome<()> {
    let (admin, runtime) = admin(servers)?;
    let topic = NewTopic::new(TOPIC, partitions, TopicReplication::Fixed(1));
    let created = runtime.block_on(admin.create_topics([&topic], &AdminOptions::new()))?;
    for outcome in created {
        outcome.map_err(|(name, error)| format!("topic {name} is not created: {error}"))?;
    }
    Ok(())
}

fn delete_topic(servers: &str) -> Outcome<()> {
    let (admin, runtime) = admin(servers)?;
    let deleted = runtime.block_on(admin.delete_topics(&[TOPIC], &AdminOptions::new()))?;
    for outcome in deleted {
        outcome.map_err(|(name, error)| format!("topic {name} is not deleted: {error}"))?;
    }
    Ok(())
}

/// Serves until the input ends.
pub(crate) fn serve(arguments: &Arguments) -> Outcome<()> {
    let mut clusters = Vec::new();
    for number in 0..arguments.clusters {
        let cluster = EmbeddedCluster::start()?;
        cluster.create_topic(TOPIC, arguments.partitions())?;
        fill(&cluster.bootstrap_servers(), number, arguments)?;
        clusters.push(cluster);
    }
    let servers: Vec<String> = clusters
        .iter()
        .map(EmbeddedCluster::bootstrap_servers)
        .collect();
    println!("{}", servers.join(" "));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
