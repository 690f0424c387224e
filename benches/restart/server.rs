//! The process with the cluster, which writes to it as well.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use timely_kafka::embedded::EmbeddedCluster;

use crate::{Arguments, DEADLINE, NAME, Outcome};

/// How often a record is written to each partition.
const EVERY: Duration = Duration::from_millis(250);

/// A process with a cluster. It ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where the cluster is.
    pub(crate) servers: String,
    process: Child,
    /// The process ends when this is closed, also if that happens by a crash.
    input: Option<ChildStdin>,
}

impl Server {
    /// Starts the process and waits until every partition has a record.
    pub(crate) fn start(arguments: &Arguments) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--role", "serve"])
            .args(["--partitions", &arguments.partitions.to_string()])
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

/// Serves and writes until the input ends.
pub(crate) fn serve(arguments: &Arguments) -> Outcome<()> {
    let cluster = EmbeddedCluster::start()?;
    cluster.create_topic(NAME, arguments.partitions)?;
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("linger.ms", "5")
        .create()?;
    write(&producer, arguments.partitions)?;
    println!("{}", cluster.bootstrap_servers());
    let (alive, ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        // However it ends, this is over.
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        drop(alive);
    });
    while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        write(&producer, arguments.partitions)?;
    }
    Ok(())
}

/// Writes a record of 100 bytes to each partition.
fn write(producer: &BaseProducer, partitions: i32) -> Outcome<()> {
    for partition in 0..partitions {
        let record = BaseRecord::<(), _>::to(NAME)
            .partition(partition)
            .payload(&[b'v'; 100]);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    producer.flush(DEADLINE)?;
    Ok(())
}
