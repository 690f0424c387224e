//! The process with the cluster.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};

use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};

use crate::{Arguments, Outcome, TOPIC};

/// A process with a cluster that holds the records. It ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where the cluster is.
    pub(crate) servers: String,
    process: Child,
    /// The process ends when this is closed, also if that happens by a crash.
    input: Option<ChildStdin>,
}

impl Server {
    /// Starts the process and waits until all records are there.
    pub(crate) fn start(arguments: &Arguments) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--role", "serve"])
            .args(["--records", &arguments.records.to_string()])
            .args(["--size", &arguments.size.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or("the server has no output")?;
        let mut servers = String::new();
        BufReader::new(output).read_line(&mut servers)?;
        let servers = servers.trim().to_owned();
        if servers.is_empty() {
            return Err(format!("the server ended: {}", process.wait()?).into());
        }
        Ok(Self {
            servers,
            process,
            input,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        if let Err(error) = self.process.wait() {
            eprintln!("the server is left alone: {error}");
        }
    }
}

/// Serves until the input ends.
pub(crate) fn serve(arguments: &Arguments) -> Outcome<()> {
    let cluster = EmbeddedCluster::start()?;
    let partitions = arguments.partitions();
    cluster.create_topic(TOPIC, partitions)?;
    let value = vec![b'v'; arguments.size];
    for partition in 0..partitions {
        let records = arguments.records_of(partition);
        let same = std::iter::repeat_with(|| EmbeddedRecord::value(value.clone()));
        cluster.produce(TOPIC, partition, same.take(usize::try_from(records)?))?;
        let end = cluster.end_offset(TOPIC, partition)?.get();
        if end != records {
            return Err(format!("partition {partition} ends at {end}, expected {records}").into());
        }
    }
    println!("{}", cluster.bootstrap_servers());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
