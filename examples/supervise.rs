//! Keeps the processes of a dataflow running on this machine.
//!
//! ```text
//! cargo run --release --example supervise -- -n 2 -- \
//!     target/release/examples/exact_sink --metadata streams.yaml --stream orders --folder state
//! ```
//!
//! Each process gets `-n 2 -p 0` or `-n 2 -p 1` as well. When one of them ends badly, the rest is ended and all
//! are started again, after a pause that grows. SIGTERM and Ctrl-C are passed on, and the end of the
//! processes is waited for. What happens is told on standard error.
//!
//! Exit status: 0 if all processes ended well, or were asked to; 1 if not.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use timely_kafka::supervise::{Supervision, supervise};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Keeps the processes of a dataflow running on this machine.
#[derive(Debug, Parser)]
#[command(name = "supervise", max_term_width = 100)]
struct Arguments {
    /// How many processes there are
    #[arg(short = 'n', long, default_value_t = 1, value_name = "COUNT",
        value_parser = clap::value_parser!(u16).range(1..))]
    processes: u16,

    /// A file with the host:port of each process on this machine, one a line
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,

    /// How long a process has to end when it was asked to, in seconds
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    grace: u64,

    /// The program
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,

    /// Its arguments, after --
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    arguments: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .from_env()?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let mut supervision = Supervision::new(arguments.program)
        .arguments(arguments.arguments)
        .processes(usize::from(arguments.processes))
        .grace(Duration::from_secs(arguments.grace));
    if let Some(file) = arguments.hostfile {
        supervision = supervision.hosts(file);
    }
    supervise(&supervision)?;
    Ok(())
}
