//! The process with the clusters.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde::{Deserialize, Serialize};
use timely_kafka::embedded::{EmbeddedCluster, KafkaApi};
use tokio::runtime::{Builder, Runtime};

use crate::{Outcome, Shape, topic};

/// How long a cluster that hangs holds its answers back: beyond every deadline.
const HANG: Duration = Duration::from_secs(3_600);

/// What the process is told, a line each; it answers each by a line.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Ends clusters: every other one is down, the rest hang.
    Kill(Vec<usize>),
    /// Counts requests from here on.
    Track,
    /// Says how many there were.
    Count,
}

/// How many requests of each kind a cluster got.
pub(crate) type Counts = BTreeMap<String, usize>;

/// Clusters. If they are a process of ours, that ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where the clusters are.
    pub(crate) clusters: Vec<String>,
    process: Option<Process>,
    topics: usize,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// The process ends when this is closed, also if that happens by a crash.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts the process and waits until all records are there.
    pub(crate) fn start(shape: &Shape) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--role", "serve", "--shape"])
            .arg(serde_json::to_string(shape)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        Ok(Self {
            clusters: serde_json::from_str(&line)?,
            process: Some(Process {
                child,
                input,
                output,
            }),
            topics: shape.topics,
        })
    }

    /// Makes and fills topics where a cluster runs.
    pub(crate) fn at(servers: &str, shape: &Shape) -> Outcome<Self> {
        let (admin, runtime) = admin(servers)?;
        for index in 0..shape.topics {
            let name = topic(index);
            let new = NewTopic::new(&name, shape.partitions, TopicReplication::Fixed(1));
            let created = runtime.block_on(admin.create_topics([&new], &AdminOptions::new()))?;
            for outcome in created {
                outcome.map_err(|(one, error)| format!("topic {one} is not made: {error}"))?;
            }
        }
        fill(servers, shape)?;
        Ok(Self {
            clusters: vec![servers.to_owned()],
            process: None,
            topics: shape.topics,
        })
    }

    /// Has the process do something, if there is one.
    fn order(&mut self, order: &Order) -> Outcome<Option<String>> {
        let Some(process) = &mut self.process else {
            return Ok(None);
        };
        let input = process.input.as_mut().ok_or("the server was ended")?;
        writeln!(input, "{}", serde_json::to_string(order)?)?;
        let mut line = String::new();
        process.output.read_line(&mut line)?;
        Ok(Some(line))
    }

    /// Ends clusters: every other one is down, the rest hang.
    pub(crate) fn kill(&mut self, clusters: impl IntoIterator<Item = usize>) -> Outcome<()> {
        self.order(&Order::Kill(clusters.into_iter().collect()))?;
        Ok(())
    }

    /// Counts requests from here on.
    pub(crate) fn track(&mut self) -> Outcome<()> {
        self.order(&Order::Track)?;
        Ok(())
    }

    /// How many requests each cluster got since then; nothing of one that runs by itself.
    pub(crate) fn count(&mut self) -> Outcome<Vec<Counts>> {
        let counted = self.order(&Order::Count)?;
        Ok(counted.map_or(Ok(Vec::new()), |line| serde_json::from_str(&line))?)
    }

    fn end(&mut self) -> Outcome<()> {
        if let Some(process) = &mut self.process {
            drop(process.input.take());
            process.child.wait()?;
            return Ok(());
        }
        let Some(servers) = self.clusters.first() else {
            return Ok(());
        };
        let (admin, runtime) = admin(servers)?;
        let names: Vec<String> = (0..self.topics).map(topic).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for outcome in runtime.block_on(admin.delete_topics(&names, &AdminOptions::new()))? {
            outcome.map_err(|(name, error)| format!("topic {name} is not deleted: {error}"))?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
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

/// Serves until the input ends.
pub(crate) fn serve(shape: &Shape) -> Outcome<()> {
    let mut clusters = Vec::new();
    for _ in 0..shape.clusters {
        let cluster = EmbeddedCluster::start_with(shape.brokers)?;
        for index in 0..shape.topics {
            cluster.create_topic(&topic(index), shape.partitions)?;
        }
        fill(&cluster.bootstrap_servers(), shape)?;
        clusters.push(cluster);
    }
    let addresses = clusters.iter().map(EmbeddedCluster::bootstrap_servers);
    println!(
        "{}",
        serde_json::to_string(&addresses.collect::<Vec<String>>())?
    );
    for line in std::io::stdin().lines() {
        match serde_json::from_str(&line?)? {
            Order::Kill(dying) => {
                for (turn, index) in dying.into_iter().enumerate() {
                    if turn % 2 == 0 {
                        clusters[index].broker_down()?;
                    } else {
                        clusters[index].delay(HANG)?;
                    }
                }
                println!();
            }
            Order::Track => {
                clusters.iter().for_each(EmbeddedCluster::track_requests);
                println!();
            }
            Order::Count => {
                let counts: Vec<Counts> = clusters.iter().map(counts).collect();
                println!("{}", serde_json::to_string(&counts)?);
            }
        }
    }
    // What the brokers and their clients take to end is nothing that anybody waits for.
    std::process::exit(0);
}

fn counts(cluster: &EmbeddedCluster) -> Counts {
    let counts = cluster.request_counts().into_iter();
    let name = |api: KafkaApi| format!("{api:?}");
    counts.map(|(api, count)| (name(api), count)).collect()
}

/// Writes the records of every partition of a cluster.
pub(crate) fn fill(servers: &str, shape: &Shape) -> Outcome<()> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("linger.ms", "5")
        .set("queue.buffering.max.messages", "10000000")
        .create()?;
    for index in 0..shape.topics {
        let name = topic(index);
        for partition in 0..shape.partitions {
            for _ in 0..shape.records {
                let record = BaseRecord::<(), _>::to(&name).partition(partition);
                producer
                    .send(record.payload(&[b'x'; 100]))
                    .map_err(|(error, _)| error)?;
            }
        }
    }
    producer.flush(Duration::from_secs(60))?;
    Ok(())
}
