//! How long after it was written a record is there, and final.
//!
//! ```text
//! scripts/kafka start bench
//! cargo bench --bench latency -- --kafka $(scripts/kafka bootstrap bench)
//! cargo bench --bench latency -- --kafka ADDRESS --rates 1000 --ticks 10 --log memory --rounds 11
//! cargo bench --bench latency -- --kafka ADDRESS --huge ADDRESS,OTHER --ticks 100
//! ```
//!
//! A process writes to eight partitions at a steady rate, the time in each value: record by record, or from
//! 10,000 records/s on a batch to each partition every 5 ms. Another one reads from the end on, measures for
//! some seconds once a second of records has come, and is another one for each measurement. Four ways, in
//! turn, so that what disturbs the machine disturbs all of them:
//!
//! * `bare`: librdkafka's callback call with the properties of the source's client, and nothing else;
//! * `source-10`, `source-100`, `source-1000`: this crate's source with one worker, its log in a folder
//!   and a probe, by ticks of so many milliseconds.
//!
//! `emitted` is the time from before a record was written until an operator after the source has it, or
//! the callback; `passed` that until the frontier which the operator sees has passed its tick, so that
//! no record comes at it any more and its binding is durable. At 1,000 and 100,000 records/s, and at half of
//! what the source reads on this machine of what was written before, which is tried first; `--half` says it
//! instead. Lines and tables say what was read, and how many cores the reader and the machine were busy:
//! where all are, a delay is how long one waits for a core. One line of JSON a measurement, and a table of
//! medians at the end, with the least and the most; `above bare` is how much later the median record is
//! there than by the bare loop in the same round.
//!
//! `--huge` shows that one partition does not keep others waiting: at 1,000 records/s without it and, in turn, with
//! one of a topic of its own on each cluster that it names, `--kafka`'s or another, which is read from its
//! beginning meanwhile and has more than can be read.
//!
//! Without `--kafka` the records go through an embedded cluster, which waits out `fetch.wait.max.ms`
//! when it has nothing, whatever arrives meanwhile: that tells nothing about Kafka.
#![expect(clippy::print_stdout, reason = "what a benchmark is for")]

mod bare;
#[path = "../support/batch.rs"]
mod batch;
#[path = "../support/child.rs"]
mod child;
mod cluster;
#[path = "../support/cpu.rs"]
mod cpu;
#[path = "../support/figures.rs"]
mod figures;
mod load;
mod measurement;
mod source;
#[path = "../support/topic.rs"]
mod topic;
#[path = "../support/writer.rs"]
mod writer;

use std::error::Error;

use clap::{Parser, ValueEnum};

use child::Role as Process;
use cluster::{Cluster, Made, Topic};
use figures::spread;
use measurement::{Load, Measurement};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The topic, and the name of the cluster and of the stream.
const NAME: &str = "latency";

/// What is steady whatever the machine can do.
const SLOW: [u64; 2] = [1_000, 100_000];

/// The topic of the huge partition.
const HUGE: &str = "latency-huge";

/// What is written to other partitions while that is read.
const BESIDE_HUGE: u64 = 1_000;

/// The records of the huge partition for each second that a measurement takes, more than anybody reads.
const HUGE_A_SECOND: u64 = 1_500_000;

/// The seconds that a measurement takes besides its length.
const AROUND: u64 = 3;

/// How many records are written to try what can be read, and for how many seconds that is done.
const TRIED: (usize, u64) = (4_000_000, 2);

/// Measures how long after it was written a record is there, and final.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// How many records are written a second; without it 1,000, 100,000, and half of what can be read.
    #[arg(long, value_delimiter = ',')]
    rates: Vec<u64>,
    /// What is half of what can be read, instead of trying it.
    #[arg(long)]
    half: Option<u64>,
    /// How long ticks are, in milliseconds.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000")]
    ticks: Vec<u64>,
    /// How long one measurement is, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How often each is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many partitions the topic has.
    #[arg(long, default_value_t = 8)]
    partitions: i32,
    /// Where the log is.
    #[arg(long, value_enum, default_value_t = Log::Folder)]
    log: Log,
    /// Where a cluster is that runs, and that has no topic `latency`; without it an embedded one is started.
    #[arg(long, value_name = "ADDRESS")]
    kafka: Option<String>,
    /// Where clusters are that have a huge partition in turn.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    huge: Vec<String>,
    /// Says what this process is to do; used by the benchmark itself.
    #[arg(long, value_enum, hide = true)]
    role: Option<Role>,
    /// Where the cluster is.
    #[arg(long, hide = true)]
    servers: Option<String>,
    /// The rate of a writer.
    #[arg(long, hide = true, default_value_t = 0)]
    rate: u64,
    /// A source reads all that is there, as fast as it can.
    #[arg(long, hide = true)]
    most: bool,
    /// The tick of a source; without it the reader is bare.
    #[arg(long, hide = true)]
    tick: Option<u64>,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Serve,
    Write,
    Read,
}

/// Where bindings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Log {
    /// On the disk of the build.
    Folder,
    /// In memory, which shows what the disk costs.
    Memory,
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    match (arguments.role, &arguments.servers) {
        (None, _) => measure_all(&arguments),
        (Some(Role::Serve), _) => cluster::serve(&arguments),
        (Some(Role::Write), Some(servers)) => load::write(&arguments, servers),
        (Some(Role::Read), Some(servers)) => {
            let measured = match arguments.tick {
                Some(tick) => source::measure(&arguments, servers, tick),
                None => bare::measure(&arguments, servers),
            }?;
            println!("{}", serde_json::to_string(&measured)?);
            Ok(())
        }
        (Some(Role::Write | Role::Read), None) => Err("this role needs --servers".into()),
    }
}

/// Measures every way under every load in every round.
fn measure_all(arguments: &Arguments) -> Outcome<()> {
    let cluster = Cluster::start(arguments)?;
    let huge_records = HUGE_A_SECOND * (arguments.seconds + AROUND);
    let mut huge = Vec::new();
    for servers in &arguments.huge {
        let topic = Topic {
            servers: servers.clone(),
            name: HUGE,
            partitions: 1,
        };
        huge.push(Made::new(topic.clone())?);
        load::fill(&topic, usize::try_from(huge_records)?)?;
    }
    let loads = loads(arguments, &cluster.topic)?;
    let servers = &cluster.topic.servers;
    let ways = || std::iter::once(None).chain(arguments.ticks.iter().copied().map(Some));
    let mut all = Vec::new();
    for _ in 0..arguments.rounds {
        for load in &loads {
            let under = Arguments {
                huge: load.huge.iter().cloned().collect(),
                ..arguments.clone()
            };
            let _writer = process(&under, servers, "write", &[("rate", load.rate)])?;
            for tick in ways() {
                let measured = read(&under, servers, tick)?.under(load.clone());
                println!("{}", serde_json::to_string(&measured)?);
                if load.huge.is_some() && measured.records >= huge_records {
                    return Err("the huge partition was read to its end".into());
                }
                all.push(measured);
            }
        }
    }
    println!();
    for load in loads {
        print_table(&load, ways(), &all);
    }
    Ok(())
}

/// What is measured.
fn loads(arguments: &Arguments, topic: &Topic) -> Outcome<Vec<Load>> {
    let mut rates = arguments.rates.clone();
    if rates.is_empty() && !arguments.huge.is_empty() {
        rates.push(BESIDE_HUGE);
    } else if rates.is_empty() {
        let half = match arguments.half {
            Some(half) => half,
            None => half_load(arguments, topic)?,
        };
        rates = [&SLOW[..], &[half]].concat();
    }
    let huge = || std::iter::once(None).chain(arguments.huge.iter().cloned().map(Some));
    let loads = rates
        .into_iter()
        .flat_map(|rate| huge().map(move |huge| Load { rate, huge }));
    Ok(loads.collect())
}

/// Half of what a source reads that has nothing else to do.
fn half_load(arguments: &Arguments, topic: &Topic) -> Outcome<u64> {
    let (records, seconds) = TRIED;
    load::fill(topic, records)?;
    let arguments = Arguments {
        most: true,
        seconds,
        ..arguments.clone()
    };
    let most = read(&arguments, &topic.servers, Some(100))?;
    println!("{}", serde_json::to_string(&most)?);
    match most.records_per_second / 2 {
        0 => {
            Err("all was read before it could be measured: say by --half what half load is".into())
        }
        half => Ok(half),
    }
}

/// Measures once, in a process.
fn read(arguments: &Arguments, servers: &str, tick: Option<u64>) -> Outcome<Measurement> {
    let tick: Vec<_> = tick.map(|tick| ("tick", tick)).into_iter().collect();
    let line = process(arguments, servers, "read", &tick)?.hear()?;
    Ok(serde_json::from_str(&line)?)
}

fn process(
    arguments: &Arguments,
    servers: &str,
    role: &str,
    more: &[(&str, u64)],
) -> Outcome<Process> {
    let log = match arguments.log {
        Log::Folder => "folder",
        Log::Memory => "memory",
    };
    let mut words = vec![format!("--role={role}"), format!("--servers={servers}")];
    words.push(format!("--log={log}"));
    words.push(format!("--partitions={}", arguments.partitions));
    words.push(format!("--seconds={}", arguments.seconds));
    words.extend(arguments.most.then(|| "--most".to_owned()));
    let huge = arguments.huge.iter();
    words.extend(huge.map(|at| format!("--huge={at}")));
    words.extend(more.iter().map(|(name, value)| format!("--{name}={value}")));
    Process::start(&words)
}

fn print_table(load: &Load, ways: impl Iterator<Item = Option<u64>>, all: &[Measurement]) {
    print!("{} records/s, in ms", load.rate);
    if let Some(servers) = &load.huge {
        print!(", with a huge partition at {servers}");
    }
    println!();
    println!(
        "{:<12} {:>22} {:>24} {:>24} {:>24} {:>24} {:>22} {:>22} {:>22}",
        "",
        "emitted p50",
        "above bare",
        "emitted p99",
        "passed p50",
        "passed p99",
        "read, k/s",
        "reader, cores",
        "machine, cores"
    );
    let at = |tick: Option<u64>| {
        let under = all.iter().filter(|one| one.load == *load);
        under.filter(move |one| one.tick_ms == tick)
    };
    for tick in ways {
        let of_way = || at(tick);
        let with_bare = of_way().zip(at(None));
        println!(
            "{:<12} {:>22} {:>24} {:>24} {:>24} {:>24} {:>22} {:>22} {:>22}",
            measurement::name_of(tick),
            spread(of_way().map(|one| one.emitted.p50_ms)),
            spread(with_bare.map(|(one, bare)| one.emitted.p50_ms - bare.emitted.p50_ms)),
            spread(of_way().map(|one| one.emitted.p99_ms)),
            spread(of_way().filter_map(|one| Some(one.passed.as_ref()?.p50_ms))),
            spread(of_way().filter_map(|one| Some(one.passed.as_ref()?.p99_ms))),
            spread(of_way().map(|one| one.records_per_second as f64 / 1e3)),
            spread(of_way().map(|one| one.reader_cores)),
            spread(of_way().map(|one| one.machine_cores)),
        );
    }
    println!();
}
