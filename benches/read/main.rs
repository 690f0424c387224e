//! What reading a record costs, against what librdkafka alone costs.
//!
//! ```text
//! cargo bench --bench read -- [--records N] [--size BYTES] [--rounds N] [--workers N]
//! cargo bench --bench read -- --only source --only source-with-memory --rounds 11
//! cargo bench --bench read -- --clusters 4 --json --only callback --only source
//! ```
//!
//! Five ways to count the same records, in turn, so that what disturbs the machine disturbs all of
//! them:
//!
//! * `poll`: `BaseConsumer::poll` of the crate `rdkafka`;
//! * `stream`: its `StreamConsumer::recv`;
//! * `batch`: librdkafka's batch call, 1,000 records at a time;
//! * `callback`: librdkafka's callback call;
//! * `source`: this crate's source, an operator that counts and a probe, with ticks of 100 ms and the
//!   log in a folder, new for each measurement.
//!
//! There are ways more for `--only`. Two show what values cost that are copied, as this crate does, and what they would
//! cost if they were not: `copied`, the callback call that copies each value, and `kept`, the batch call whose
//! messages are kept until their values are a MiB. And `source-with-memory`, the same source with its log in memory, and
//! `source-exchange`, where each batch moves to the worker of its split before it is counted.
//!
//! With `--json` each value is a document that is decoded before it is counted, in every way. With `--clusters` the
//! records are spread over several clusters; the ways without this crate read each on a thread of its own then.
//!
//! Each measurement is a process of its own that does nothing else, and the embedded cluster that
//! serves the records is one more. `--kafka ADDRESS` has them on a cluster that runs instead, in a topic
//! `bench` that is made and filled there, and removed afterwards. All clients have the same properties, those that the source gives
//! its own; they are printed. One line of JSON a measurement, and a table at the end.
//!
//! The CPU of librdkafka's own threads is a column of its own: it is the same for all ways with the same properties.
//!
//! CPU is that of the whole process, all threads, user and system, from the first record that was counted until
//! the last. What making clients and finding partitions took until then is a column of its own, which does not
//! grow with the records.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what a benchmark is for"
)]

mod baseline;
mod content;
mod fill;
#[path = "../support/meter.rs"]
mod meter;
mod native;
mod report;
mod server;
mod source;
#[path = "../support/topic.rs"]
mod topic;

use std::error::Error;
use std::process::{Command, Stdio};

use clap::{Parser, ValueEnum};

use content::Content;
use meter::Measurement;
use server::Server;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The topic that is read.
const TOPIC: &str = "bench";

/// The name of the source and of the stream.
const NAME: &str = "bench";

/// Measures what reading a record costs.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// How many records are read in one measurement.
    #[arg(long, default_value_t = 2_800_000)]
    records: u64,
    /// The bytes of the value of a record; there is no key.
    #[arg(long, default_value_t = 100)]
    size: usize,
    /// How often each way is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many workers the source has.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// How many embedded clusters the records are spread over.
    #[arg(long, default_value_t = 1, conflicts_with = "kafka")]
    clusters: usize,
    /// Has each value be a document of JSON, which is decoded.
    #[arg(long)]
    json: bool,
    /// A property of all clients, such as `fetch.max.bytes=1000000`.
    #[arg(long, value_name = "NAME=VALUE")]
    property: Vec<String>,
    /// How the records are compressed.
    #[arg(long, value_enum, default_value_t = Compression::None)]
    compression: Compression,
    /// Where a cluster is that runs, and that has no topic `bench`; without it an embedded one is started.
    #[arg(long, value_name = "ADDRESS")]
    kafka: Option<String>,
    /// The ways to measure; without it the first five.
    #[arg(long, value_enum)]
    only: Vec<Mode>,
    /// Says that the process is to serve, or to measure once; used by the benchmark itself.
    #[arg(long, value_enum, hide = true)]
    role: Option<Role>,
    /// The way to measure once.
    #[arg(long, value_enum, hide = true)]
    mode: Option<Mode>,
    /// Where the clusters are.
    #[arg(long, hide = true)]
    servers: Vec<String>,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Serve,
    Measure,
}

/// A way to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Mode {
    Poll,
    Stream,
    Batch,
    Callback,
    Copied,
    Kept,
    Source,
    SourceWithMemory,
    SourceExchange,
}

/// A codec of Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compression {
    None,
    Lz4,
    Zstd,
}

impl Compression {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl Mode {
    /// What is measured unless the command line says otherwise.
    const ALL: [Self; 5] = [
        Self::Poll,
        Self::Stream,
        Self::Batch,
        Self::Callback,
        Self::Source,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Stream => "stream",
            Self::Batch => "batch",
            Self::Callback => "callback",
            Self::Copied => "copied",
            Self::Kept => "kept",
            Self::Source => "source",
            Self::SourceWithMemory => "source-with-memory",
            Self::SourceExchange => "source-exchange",
        }
    }
}

impl Arguments {
    /// How many partitions the records of a cluster are spread over: an embedded one holds 5 MiB.
    fn partitions(&self) -> i32 {
        // A record takes up to 22 bytes besides its value, and a batch of records its head.
        let bytes = self.records * (self.size as u64 + 24);
        let partitions = (bytes >> 22) / self.clusters as u64 + 1;
        i32::try_from(partitions).unwrap_or(i32::MAX).max(8)
    }

    /// How many records there are in a partition of a cluster.
    fn records_of(&self, cluster: usize, partition: i32) -> u64 {
        let partitions = u64::from(self.partitions().unsigned_abs());
        let number = cluster as u64 * partitions + u64::from(partition.unsigned_abs());
        let all = self.clusters as u64 * partitions;
        self.records / all + u64::from(number < self.records % all)
    }

    fn content(&self) -> Content {
        if self.json {
            Content::Json
        } else {
            Content::Bytes
        }
    }

    fn modes(&self) -> &[Mode] {
        if self.only.is_empty() {
            &Mode::ALL
        } else {
            &self.only
        }
    }
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    match arguments.role {
        Some(Role::Serve) => server::serve(&arguments),
        Some(Role::Measure) => measure_once(&arguments),
        None => measure_all(&arguments),
    }
}

/// Measures every way in every round.
fn measure_all(arguments: &Arguments) -> Outcome<()> {
    let server = Server::start(arguments)?;
    let properties = source::properties(arguments, &server.servers[0])?;
    println!("client properties: {properties:?}");
    println!(
        "{} records of {} bytes{}, compressed by {}, in {} partitions of {} cluster(s), {} worker(s)",
        arguments.records,
        arguments.size,
        if arguments.json { " that are JSON" } else { "" },
        arguments.compression.name(),
        arguments.partitions(),
        arguments.clusters,
        arguments.workers,
    );
    let mut rounds = Vec::new();
    for _ in 0..arguments.rounds {
        let mut round = Vec::new();
        for mode in arguments.modes() {
            let measurement = measure_in_a_process(arguments, *mode, &server.servers)?;
            println!("{}", serde_json::to_string(&measurement)?);
            round.push(measurement);
        }
        rounds.push(round);
    }
    report::print(arguments.modes(), &rounds);
    Ok(())
}

/// What every process of the benchmark is told.
fn told(arguments: &Arguments) -> Vec<String> {
    let mut told = vec![
        format!("--records={}", arguments.records),
        format!("--size={}", arguments.size),
        format!("--workers={}", arguments.workers),
        format!("--clusters={}", arguments.clusters),
        format!("--compression={}", arguments.compression.name()),
    ];
    let properties = arguments.property.iter();
    told.extend(properties.map(|property| format!("--property={property}")));
    told.extend(arguments.json.then(|| "--json".to_owned()));
    told
}

fn measure_in_a_process(
    arguments: &Arguments,
    mode: Mode,
    servers: &[String],
) -> Outcome<Measurement> {
    let servers = servers.iter().map(|servers| format!("--servers={servers}"));
    let output = Command::new(std::env::current_exe()?)
        .args(["--role", "measure", "--mode", mode.name()])
        .args(servers)
        .args(told(arguments))
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("measuring {}: {}", mode.name(), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn measure_once(arguments: &Arguments) -> Outcome<()> {
    let Some(mode) = arguments.mode else {
        return Err("--role measure needs --mode and --servers".into());
    };
    let measurement = match mode {
        Mode::Source | Mode::SourceWithMemory | Mode::SourceExchange => {
            source::measure(arguments, mode)?
        }
        _ => baseline::measure(arguments, mode)?,
    };
    println!("{}", serde_json::to_string(&measurement)?);
    Ok(())
}
