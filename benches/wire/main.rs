//! What a record costs from a batch as Kafka sends it to the user's operator, without any client.
//!
//! ```text
//! cargo bench --bench wire -- [--records N] [--size BYTES] [--rounds N]
//! ```
//!
//! Record batches are made beforehand, in memory. A fetcher indexes them where they lie
//! (`BatchBuilder::share`), and all the rest is what it is in a source of Kafka's: readers, ticks, bindings,
//! a probe. So this is what would be left if a client cost nothing. Two ways, in turn:
//!
//! * `count`: one worker, an operator that counts;
//! * `exchange`: two workers, and each batch moves to the worker of its split before it is counted.
//!
//! Each measurement is a process of its own. CPU is that of all its threads, from before the dataflow is
//! built until the last record was counted.
#![expect(clippy::print_stdout, reason = "what a benchmark is for")]

#[path = "../support/batch.rs"]
mod batch;
mod dataflow;
#[path = "../support/meter.rs"]
mod meter;
mod prepared;

use std::error::Error;
use std::process::{Command, Stdio};

use clap::{Parser, ValueEnum};

use meter::{Measurement, Spread};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Measures what reading a record costs without a client.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// How many records are read in one measurement.
    #[arg(long, default_value_t = 4_000_000)]
    records: u64,
    /// The bytes of the value of a record; there is no key.
    #[arg(long, default_value_t = 100)]
    size: usize,
    /// How often each way is measured.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// The way to measure once; used by the benchmark itself.
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A way to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Count,
    Exchange,
}

impl Mode {
    const ALL: [Self; 2] = [Self::Count, Self::Exchange];

    fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Exchange => "exchange",
        }
    }

    fn workers(self) -> usize {
        match self {
            Self::Count => 1,
            Self::Exchange => 2,
        }
    }
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    if let Some(mode) = arguments.mode {
        let measurement = dataflow::measure(arguments.records, arguments.size, mode)?;
        println!("{}", serde_json::to_string(&measurement)?);
        return Ok(());
    }
    let mut measured = [const { Vec::new() }; Mode::ALL.len()];
    for _ in 0..arguments.rounds {
        for (mode, of_mode) in Mode::ALL.into_iter().zip(&mut measured) {
            let measurement = measure_in_a_process(&arguments, mode)?;
            println!("{}", serde_json::to_string(&measurement)?);
            of_mode.push(measurement);
        }
    }
    println!("\n{:<16} {:>27}", "", "CPU ns/record (min..max)");
    for (mode, of_mode) in Mode::ALL.into_iter().zip(&measured) {
        let cpu = Spread::of(of_mode.iter().map(|one| one.cpu_ns_per_record));
        println!(
            "{:<16} {:>9.1} ({:>7.1}..{:>7.1})",
            mode.name(),
            cpu.median,
            cpu.least,
            cpu.most,
        );
    }
    Ok(())
}

fn measure_in_a_process(arguments: &Arguments, mode: Mode) -> Outcome<Measurement> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--mode", mode.name()])
        .args(["--records", &arguments.records.to_string()])
        .args(["--size", &arguments.size.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("measuring {}: {}", mode.name(), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
