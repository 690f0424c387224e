//! The process with the clusters.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};

use timely_kafka::embedded::EmbeddedCluster;

use crate::fill::fill;
use crate::{Arguments, Outcome, TOPIC, told, topic};

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
            topic::create(servers, TOPIC, arguments.partitions())?;
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
                .try_for_each(|servers| topic::delete(servers, TOPIC)),
        };
        if let Err(error) = ended {
            eprintln!("the server is left as it is: {error}");
        }
    }
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
