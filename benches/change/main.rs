//! What a change of clusters costs those that it does not name, under load.
//!
//! ```text
//! cargo bench --bench change [-- --rounds N --seconds N]
//! cargo bench --bench change -- --rate 100000 --fetch-wait 100 --only none --only move
//! ```
//!
//! A process has embedded clusters: `a` and `b` with 48 partitions each, to which together a million records
//! of 100 bytes are written a second (`--rate`); `c` and `d` with 24, to which a record a millisecond is
//! written; `e` with 24 of a thousand records. Another one reads `a` to `d` with two workers, ticks of
//! 100 ms, its log in a folder and a probe, and is another one for each measurement. Half a second after a
//! measurement has begun there is a change, in turn, so that what disturbs the machine disturbs all of them:
//!
//! * `none`: there is none;
//! * `add`: the metadata lists `e` too;
//! * `remove`: it lists `c` no more;
//! * `move`: every tenth partition of `a` and `b` is moved to the other worker;
//! * `properties`: `c` has another `client.id`;
//! * `hang`: `d` hangs from before the measurement on, and `c` is removed;
//! * `remove-hung`: `d` hangs likewise, and is removed itself.
//!
//! Printed are, as a line of JSON each time and a table of medians with the least and the most:
//!
//! * `rate`: what was read of `a` and `b`, in a second;
//! * `busy`: how many cores the machine was busy, by whatever. Gaps tell something only while there is time
//!   left; where there is none, everything waits for a core. The JSON says what of it the reader took, and the
//!   process with clusters and writers, and how `late` one of these was at most;
//! * `pause`: the longest time between two batches of `a` on one worker, or two of `b`;
//! * `beyond`: in how many rounds that was longer than in any round without a change. One round of all is to
//!   be expected by chance, so what has two or more costs something, or the machine was disturbed;
//! * `silence`: the longest time between two batches of one partition of them that does not move. It has
//!   one every 38 ms at a million records;
//! * `affected`: the same of those that move, or whose cluster changes and stays;
//! * `first`, `all`: from the answer of the metadata service until a record of `e` is there, and one of each
//!   partition;
//! * `frontier`: the longest time for which the frontier stayed;
//! * `connections`: how many were made to `a` and `b`, by their own lists of requests;
//! * `again`: how often a partition of them that does not move was assigned again or stopped being read;
//! * `twice`: how many records of such a partition were fetched that had been fetched before;
//! * `of moved`: the same of those that move, of which what was fetched and not emitted is fetched again.
//!
//! `connections`, `again` and `twice` must be zero; the benchmark fails if they are not. The embedded brokers do
//! not say which offsets they were asked for. So the reader's connections to `a` and `b` go through a relay in their
//! process, which reads in each answer to a fetch which offsets it brings; that it has seen at least as many
//! records as came out of the source is checked too.
#![expect(clippy::print_stdout, reason = "what a benchmark is for")]

#[path = "../support/batch.rs"]
mod batch;
#[path = "../support/child.rs"]
mod child;
mod clusters;
#[path = "../support/cpu.rs"]
mod cpu;
mod fetched;
#[path = "../support/figures.rs"]
mod figures;
mod load;
mod reader;
mod relay;
mod seen;
#[path = "../support/writer.rs"]
mod writer;

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};

use child::Role as Process;
use figures::spread;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The topic, and the name of the stream.
const NAME: &str = "change";

/// The clusters that no change names.
const UNNAMED: [&str; 2] = ["a", "b"];

/// Measures what a change costs those that it does not name.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// How many records are written a second to the clusters that no change names.
    #[arg(long, default_value_t = 1_000_000)]
    rate: u64,
    /// `fetch.wait.max.ms` of all clusters.
    #[arg(long, default_value_t = 10)]
    fetch_wait: u64,
    /// How long one measurement is, in seconds.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// How often each is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The changes; without it all.
    #[arg(long, value_enum)]
    only: Vec<Change>,
    /// Says what this process is to do; used by the benchmark itself.
    #[arg(long, value_enum, hide = true)]
    role: Option<Role>,
    /// Where the clusters are, in JSON.
    #[arg(long, hide = true)]
    servers: Option<String>,
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
enum Change {
    None,
    Add,
    Remove,
    Move,
    Properties,
    Hang,
    RemoveHung,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Move => "move",
            Self::Properties => "properties",
            Self::Hang => "hang",
            Self::RemoveHung => "remove-hung",
        }
    }
}

impl Arguments {
    /// What the other processes are told of them.
    fn in_words(&self) -> Vec<String> {
        let told = [("rate", self.rate), ("fetch-wait", self.fetch_wait)];
        told.map(|(name, value)| format!("--{name}={value}")).into()
    }
}

/// How many partitions a cluster has.
fn partitions(cluster: &str) -> i32 {
    if UNNAMED.contains(&cluster) { 48 } else { 24 }
}

/// What the clusters saw of a measurement that no change names.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Served {
    /// How many connections were made.
    connections: usize,
    /// How often records were asked for.
    fetches: usize,
    /// How many were sent, since the clusters were started.
    records: u64,
    /// How many were sent that had been sent before, by cluster and partition.
    twice: Vec<(String, i32, u64)>,
    /// How far behind the writers were at most.
    late_ms: f64,
    cpu_seconds: f64,
}

/// What the process that reads saw of a measurement.
#[derive(Debug, Serialize, Deserialize)]
struct Read {
    measurement: Measurement,
    /// How many records came of what no change names, since it was started.
    records: u64,
    /// The partitions that moved.
    moved: BTreeSet<(String, i32)>,
}

/// What one measurement came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Measurement {
    change: String,
    records_per_second: f64,
    pause_ms: f64,
    silence_ms: f64,
    affected_ms: Option<f64>,
    first_ms: Option<f64>,
    all_ms: Option<f64>,
    frontier_ms: f64,
    connections: usize,
    again: usize,
    twice: u64,
    moved_twice: u64,
    fetches: usize,
    late_ms: f64,
    reader_cores: f64,
    server_cores: f64,
    machine_cores: f64,
}

impl Measurement {
    /// Whether something was done again to what no change names.
    fn is_disturbed(&self) -> bool {
        self.connections > 0 || self.again > 0 || self.twice > 0
    }
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    match (
        arguments.role,
        &arguments.servers,
        arguments.only.as_slice(),
    ) {
        (None, ..) => measure_all(&arguments),
        (Some(Role::Serve), ..) => clusters::serve(&arguments),
        (Some(Role::Read), Some(servers), [change]) => {
            reader::read(&arguments, &serde_json::from_str(servers)?, *change)
        }
        (Some(Role::Read), ..) => Err("--role read needs --servers and one change".into()),
    }
}

/// Measures every change in every round.
fn measure_all(arguments: &Arguments) -> Outcome<()> {
    let mut words = vec!["--role=serve".to_owned()];
    words.extend(arguments.in_words());
    let mut server = Process::start(&words)?;
    let changes = match arguments.only.as_slice() {
        [] => Change::value_variants(),
        some => some,
    };
    let mut all = Vec::new();
    for _ in 0..arguments.rounds {
        for change in changes {
            let measured = measure(arguments, &mut server, *change)?;
            println!("{}", serde_json::to_string(&measured)?);
            all.push(measured);
        }
    }
    print_table(changes, &all);
    if all.iter().any(Measurement::is_disturbed) {
        return Err(
            "what a change does not name was connected to, assigned or fetched again".into(),
        );
    }
    Ok(())
}

/// Measures once, in a process.
fn measure(arguments: &Arguments, server: &mut Process, change: Change) -> Outcome<Measurement> {
    say(server, "fresh")?;
    let mut words = vec!["--role=read".to_owned()];
    words.push(format!("--servers={}", server.hear()?));
    words.push(format!("--seconds={}", arguments.seconds));
    words.push(format!("--only={}", change.name()));
    words.extend(arguments.in_words());
    let mut reader = Process::start(&words)?;
    reader.hear()?; // It reads all partitions, and what started has calmed down.
    let hangs = matches!(change, Change::Hang | Change::RemoveHung);
    say(server, if hangs { "track-and-hang" } else { "track" })?;
    server.hear()?;
    say(&mut reader, "go")?;
    let read: Read = serde_json::from_str(&reader.hear()?)?;
    say(server, "served")?;
    let served: Served = serde_json::from_str(&server.hear()?)?;
    if served.records < read.records {
        let (seen, came) = (served.records, read.records);
        return Err(format!("{seen} records were seen to be fetched, and {came} came").into());
    }
    let mut measured = read.measurement;
    for (cluster, partition, records) in served.twice {
        if read.moved.contains(&(cluster, partition)) {
            measured.moved_twice += records;
        } else {
            measured.twice += records;
        }
    }
    measured.connections = served.connections;
    measured.fetches = served.fetches;
    measured.late_ms = served.late_ms;
    measured.server_cores = served.cpu_seconds / arguments.seconds as f64;
    Ok(measured)
}

/// Says a line to a process.
fn say(process: &mut Process, line: &str) -> Outcome<()> {
    let input = process.input.as_mut().ok_or("the process has no input")?;
    writeln!(input, "{line}")?;
    Ok(())
}

fn print_table(changes: &[Change], all: &[Measurement]) {
    println!();
    println!(
        "{:<12} {:>18} {:>18} {:>22} {:>8} {:>22} {:>22} {:>22} {:>22} {:>24} {:>12} {:>6} {:>6} {:>9}",
        "",
        "rate, M/s",
        "busy, cores",
        "pause, ms",
        "beyond",
        "silence, ms",
        "affected, ms",
        "first, ms",
        "all, ms",
        "frontier, ms",
        "connections",
        "again",
        "twice",
        "of moved"
    );
    let without = all.iter().filter(|one| one.change == Change::None.name());
    let longest = without.map(|one| one.pause_ms).reduce(f64::max);
    for change in changes {
        let of_change = || all.iter().filter(|one| one.change == change.name());
        let beyond = longest.map_or_else(
            || "-".to_owned(),
            |longest| {
                let beyond = of_change().filter(|one| one.pause_ms > longest).count();
                format!("{beyond}/{}", of_change().count())
            },
        );
        println!(
            "{:<12} {:>18} {:>18} {:>22} {:>8} {:>22} {:>22} {:>22} {:>22} {:>24} {:>12} {:>6} {:>6} {:>9}",
            change.name(),
            spread(of_change().map(|one| one.records_per_second / 1e6)),
            spread(of_change().map(|one| one.machine_cores)),
            spread(of_change().map(|one| one.pause_ms)),
            beyond,
            spread(of_change().map(|one| one.silence_ms)),
            spread(of_change().filter_map(|one| one.affected_ms)),
            spread(of_change().filter_map(|one| one.first_ms)),
            spread(of_change().filter_map(|one| one.all_ms)),
            spread(of_change().map(|one| one.frontier_ms)),
            of_change().map(|one| one.connections).sum::<usize>(),
            of_change().map(|one| one.again).sum::<usize>(),
            of_change().map(|one| one.twice).sum::<u64>(),
            of_change().map(|one| one.moved_twice).sum::<u64>(),
        );
    }
}
