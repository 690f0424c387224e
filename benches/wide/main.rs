//! What many clusters and partitions cost.
//!
//! ```text
//! cargo bench --bench wide                        # 10,000 partitions over 50 clusters of 3 brokers
//! cargo bench --bench wide -- --case dead         # 200 clusters, half of them dead
//! cargo bench --bench wide -- --case grow         # 100 clusters, one more every tick
//! cargo bench --bench wide -- --case add          # one more among 5 clusters, and among 50; and one less
//! cargo bench --bench wide -- --kafka ADDRESS --partitions 200 --topics 10
//! ```
//!
//! The clusters are embedded, in one process of their own; `--kafka` has one that runs instead, where
//! topics `wide-N` are made and filled, and removed afterwards. What reads them is another process, a
//! new one in each round. Ways to read are taken in turn, so that what disturbs the machine disturbs all:
//!
//! * `bare`: a librdkafka client a cluster, with the properties that the source gives its own, and a
//!   thread each that polls until all was read, and then no more;
//! * `source`: this crate's source with a probe, ticks of 100 ms, and the log in a folder.
//!
//! The case `wide` measures *start*, from before anything is made until a record of every partition
//! was seen; *idle* seconds after that; *add* and *remove*, of one cluster, until its records are there and
//! for a second; with the requests that the others got meanwhile, against those of the idle time; *some dead*, as idle, with
//! `--dying` clusters dead, half of them down, half hanging; and *close*, with these. The case `dead` measures the time to
//! read all of the living clusters, with as many dead ones and without. The case `grow` measures from the
//! metadata's answer to the first records of each cluster that is added. The case `add` measures what threads
//! take from the metadata's answer until a record of each partition of a new cluster is there, and what they
//! take in the same time without it: those that there were before, and those that are new. Of its removal it
//! measures a second, beside one in which nothing happens; what threads take that end meanwhile is not in it.
//!
//! One line of JSON a measurement, and a table: the median of rounds and between what they lie.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what a benchmark is for"
)]

mod cases;
mod process;
mod reader;
mod server;

use std::error::Error;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The name of the stream.
const NAME: &str = "wide";

/// Guards against hangs only.
const DEADLINE: Duration = Duration::from_secs(120);

/// The name of a topic.
fn topic(index: usize) -> String {
    format!("wide-{index}")
}

/// Measures what many clusters and partitions cost.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// What is measured.
    #[arg(long, value_enum, default_value_t = Case::Wide)]
    case: Case,
    /// How many clusters are read; those of the case `dead` that live.
    #[arg(long)]
    clusters: Option<usize>,
    /// How many brokers each has.
    #[arg(long)]
    brokers: Option<u16>,
    /// How many topics each has.
    #[arg(long)]
    topics: Option<usize>,
    /// How many partitions each topic has.
    #[arg(long)]
    partitions: Option<i32>,
    /// How many records each partition has.
    #[arg(long)]
    records: Option<usize>,
    /// How many clusters are dead when the source is closed.
    #[arg(long, default_value_t = 10)]
    dying: usize,
    /// How often each way is measured.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// For how long nothing is done.
    #[arg(long, default_value_t = 10.0)]
    idle_seconds: f64,
    /// How many workers the source has.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// The ways to read; without it all.
    #[arg(long, value_enum)]
    only: Vec<Way>,
    /// Where a cluster is that runs.
    #[arg(long, value_name = "ADDRESS")]
    kafka: Option<String>,
    /// Says that the process is to serve, or to read; used by the benchmark itself.
    #[arg(long, value_enum, hide = true)]
    role: Option<Role>,
    /// What is to be served.
    #[arg(long, hide = true)]
    shape: Option<String>,
    /// In which way to read.
    #[arg(long, value_enum, hide = true)]
    way: Option<Way>,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Serve,
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Many partitions.
    Wide,
    /// Many clusters, half of them dead.
    Dead,
    /// Many clusters, one by one.
    Grow,
    /// One more among few clusters, and among many.
    Add,
}

/// How partitions are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    Bare,
    Source,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Source => "source",
        }
    }
}

/// What there is to be read.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Shape {
    clusters: usize,
    brokers: u16,
    topics: usize,
    partitions: i32,
    records: usize,
}

impl Shape {
    /// The same of so many clusters.
    fn of(&self, clusters: usize) -> Self {
        Self {
            clusters,
            ..self.clone()
        }
    }

    /// How many partitions so many of its clusters have.
    fn partitions_of(&self, clusters: usize) -> usize {
        clusters * self.topics * self.partitions.unsigned_abs() as usize
    }
}

impl Arguments {
    fn shape(&self) -> Shape {
        let (clusters, brokers, topics, partitions, records) = match self.case {
            Case::Wide | Case::Add => (50, 3, 10, 20, 3),
            Case::Dead => (100, 1, 2, 10, 2_000),
            Case::Grow => (100, 1, 10, 2, 3),
        };
        let clusters = if self.kafka.is_some() { 1 } else { clusters };
        Shape {
            clusters: self.clusters.unwrap_or(clusters),
            brokers: self.brokers.unwrap_or(brokers),
            topics: self.topics.unwrap_or(topics),
            partitions: self.partitions.unwrap_or(partitions),
            records: self.records.unwrap_or(records),
        }
    }

    fn ways(&self) -> &[Way] {
        if self.only.is_empty() {
            Way::value_variants()
        } else {
            &self.only
        }
    }
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    match (arguments.role, &arguments.shape, arguments.way) {
        (Some(Role::Serve), Some(shape), _) => server::serve(&serde_json::from_str(shape)?),
        (Some(Role::Read), _, Some(way)) => reader::serve(way, arguments.workers),
        (Some(_), ..) => Err("--role needs --shape or --way".into()),
        (None, ..) => match arguments.case {
            Case::Wide => cases::wide(&arguments),
            Case::Dead => cases::dead(&arguments),
            Case::Grow => cases::grow(&arguments),
            Case::Add => cases::add(&arguments),
        },
    }
}
