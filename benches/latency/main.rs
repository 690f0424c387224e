//! How long after it was written a record is there, and final.
//!
//! ```text
//! scripts/kafka start bench
//! cargo bench --bench latency -- --kafka $(scripts/kafka bootstrap bench)
//! cargo bench --bench latency -- --kafka ADDRESS --rates 1000 --ticks 10 --log memory --rounds 11
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
use cluster::Cluster;
use figures::spread;
use measurement::Measurement;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The topic, and the name of the cluster and of the stream.
const NAME: &str = "latency";

/// What is steady whatever the machine can do.
const SLOW: [u64; 2] = [1_000, 100_000];

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

/// Measures every way at every rate in every round.
fn measure_all(arguments: &Arguments) -> Outcome<()> {
    let cluster = Cluster::start(arguments)?;
    let mut rates = arguments.rates.clone();
    if rates.is_empty() {
        let half = match arguments.half {
            Some(half) => half,
            None => half_load(arguments, &cluster.servers)?,
        };
        rates = [&SLOW[..], &[half]].concat();
    }
    let ways = || std::iter::once(None).chain(arguments.ticks.iter().copied().map(Some));
    let mut all = Vec::new();
    for _ in 0..arguments.rounds {
        for rate in &rates {
            let _writer = process(arguments, &cluster.servers, "write", &[("rate", *rate)])?;
            for tick in ways() {
                let measured = read(arguments, &cluster.servers, tick)?.at(*rate);
                println!("{}", serde_json::to_string(&measured)?);
                all.push(measured);
            }
        }
    }
    println!();
    for rate in rates {
        print_table(rate, ways(), &all);
    }
    Ok(())
}

/// Half of what a source reads that has nothing else to do.
fn half_load(arguments: &Arguments, servers: &str) -> Outcome<u64> {
    let (records, seconds) = TRIED;
    load::fill(arguments, servers, records)?;
    let arguments = Arguments {
        most: true,
        seconds,
        ..arguments.clone()
    };
    let most = read(&arguments, servers, Some(100))?;
    println!("{}", serde_json::to_string(&most)?);
    Ok(most.records_per_second / 2)
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
    words.extend(more.iter().map(|(name, value)| format!("--{name}={value}")));
    Process::start(&words)
}

fn print_table(rate: u64, ways: impl Iterator<Item = Option<u64>>, all: &[Measurement]) {
    println!("{rate} records/s, in ms");
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
        let at_rate = all.iter().filter(|one| one.written_per_second == rate);
        at_rate.filter(move |one| one.tick_ms == tick)
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
