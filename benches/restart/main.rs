//! How long a source that was killed is away.
//!
//! ```text
//! cargo bench --bench restart --features object-store [-- --rounds N --partitions N --workers N]
//! cargo bench --bench restart -- --only local
//! ```
//!
//! A process reads 1,000 partitions with ticks of 100 ms and its log in a folder, once as a `LocalLog` and
//! once as an `ObjectLog` (feature `object-store`), and is ended by SIGKILL at a random moment. It is
//! started again at once, and goes on where the log says. Measured, by the clock of whoever did it:
//!
//! * `first`: from the kill to the first record that the new run emits;
//! * `all`: from the start of the new process until it has emitted a record of every split.
//!
//! The clusters are embedded, in a process of their own that runs on, and what writes to them as well:
//! a record to each partition, four times a second, so that every partition has some by the time it
//! is read again. Starting Kafka is no part of any figure. One line of JSON a restart, and a table.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what a benchmark is for"
)]

mod reader;
mod server;

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use serde::Serialize;

use server::Server;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The topic that is read, and the name of the cluster and of the stream.
const NAME: &str = "bench";

/// Guards against hangs only.
const DEADLINE: Duration = Duration::from_secs(120);

/// Measures how long a source that was killed is away.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// How many partitions are read.
    #[arg(long, default_value_t = 1_000)]
    partitions: i32,
    /// How often the source is killed, with each log.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How many workers the source has.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// The logs; without it all that were built.
    #[arg(long, value_enum)]
    only: Vec<Log>,
    /// Says that the process is to serve, or to read; used by the benchmark itself.
    #[arg(long, value_enum, hide = true)]
    role: Option<Role>,
    /// Where the cluster is.
    #[arg(long, hide = true)]
    servers: Option<String>,
    /// Where the log is.
    #[arg(long, hide = true)]
    folder: Option<std::path::PathBuf>,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Serve,
    Read,
}

/// Where bindings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Log {
    /// A `LocalLog`.
    Local,
    /// An `ObjectLog` in a folder, with every object synced.
    #[cfg(feature = "object-store")]
    Objects,
}

impl Log {
    fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            #[cfg(feature = "object-store")]
            Self::Objects => "objects",
        }
    }
}

/// What one restart came to.
#[derive(Debug, Serialize)]
struct Restart {
    log: &'static str,
    /// How long the run before had read from all partitions when it was killed.
    killed_after_ms: u128,
    kill_to_first_record_ms: f64,
    start_to_record_of_every_split_ms: f64,
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    match (arguments.role, &arguments.servers, &arguments.folder) {
        (Some(Role::Serve), ..) => server::serve(&arguments),
        (Some(Role::Read), Some(servers), Some(folder)) => {
            reader::read(&arguments, servers, folder)
        }
        (Some(Role::Read), ..) => Err("--role read needs --servers and --folder".into()),
        (None, ..) => measure(&arguments),
    }
}

fn measure(arguments: &Arguments) -> Outcome<()> {
    let server = Server::start(arguments)?;
    println!(
        "{} partitions, {} worker(s), ticks of 100 ms",
        arguments.partitions, arguments.workers
    );
    let logs = match arguments.only.as_slice() {
        [] => Log::value_variants(),
        some => some,
    };
    let mut all = Vec::new();
    for log in logs {
        // On the disk of the build, since that of temporary files may be memory.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let mut run = Run::start(arguments, *log, &server.servers, folder.path())?;
        run.await_all()?;
        let mut restarts = Vec::new();
        for _ in 0..arguments.rounds {
            // Up to a second: a tick is open, is being bound, or something else is under way.
            let moment = Duration::from_millis(500 + RandomState::new().hash_one(()) % 1_000);
            if run.lines.recv_timeout(moment).is_ok() {
                return Err("the reader says more than it should".into());
            }
            let killed = Instant::now();
            run.kill()?;
            let started = Instant::now();
            run = Run::start(arguments, *log, &server.servers, folder.path())?;
            let first = run.await_line("first")?;
            let every = run.await_all()?;
            let restart = Restart {
                log: log.name(),
                killed_after_ms: moment.as_millis(),
                kill_to_first_record_ms: millis(first - killed),
                start_to_record_of_every_split_ms: millis(every - started),
            };
            println!("{}", serde_json::to_string(&restart)?);
            restarts.push(restart);
        }
        run.kill()?;
        all.push(restarts);
    }
    print_table(&all);
    Ok(())
}

/// A process that reads. It is killed when it is dropped.
struct Run {
    process: Child,
    /// What it says, as it says it.
    lines: Receiver<(String, Instant)>,
}

impl Run {
    fn start(arguments: &Arguments, log: Log, servers: &str, folder: &Path) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--role", "read", "--only", log.name()])
            .args(["--servers", servers])
            .args(["--partitions", &arguments.partitions.to_string()])
            .args(["--workers", &arguments.workers.to_string()])
            .arg("--folder")
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().ok_or("the reader has no output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send((line, Instant::now())).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, lines })
    }

    /// When it said this, which it says next.
    fn await_line(&self, expected: &str) -> Outcome<Instant> {
        let (line, at) = self.lines.recv_timeout(DEADLINE)?;
        if line != expected {
            return Err(format!("the reader says '{line}', expected '{expected}'").into());
        }
        Ok(at)
    }

    /// When every split had brought a record.
    fn await_all(&self) -> Outcome<Instant> {
        loop {
            let (line, at) = self.lines.recv_timeout(DEADLINE)?;
            if line == "all" {
                return Ok(at);
            }
        }
    }

    /// Ends it by SIGKILL, and waits until it is gone.
    fn kill(&mut self) -> Outcome<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Most have been killed already, and then there is nothing to do.
        self.kill().ok();
    }
}

/// Milliseconds, to a tenth.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

fn print_table(all: &[Vec<Restart>]) {
    println!();
    println!(
        "{:<10} {:>36}   {:>42}",
        "log", "kill to first record, ms (min..max)", "start to all splits, ms (min..max)"
    );
    for restarts in all {
        let Some(log) = restarts.first().map(|first| first.log) else {
            continue;
        };
        let first = spread(restarts.iter().map(|one| one.kill_to_first_record_ms));
        let every = spread(
            restarts
                .iter()
                .map(|one| one.start_to_record_of_every_split_ms),
        );
        println!("{log:<10} {first:>36}   {every:>42}");
    }
}

/// The median, and between what the figures lie.
fn spread(figures: impl Iterator<Item = f64>) -> String {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let (least, most) = (figures[0], figures[figures.len() - 1]);
    format!("{:.0} ({least:.0}..{most:.0})", figures[figures.len() / 2])
}
