//! Prints the records of a Kafka stream as they come, from all clusters that it lives in.
//!
//! ```text
//! cargo run --release --example tail -- --metadata streams.yaml --stream orders
//! cargo run --release --example tail -- --metadata streams.yaml --stream orders --json | jq .value
//! cargo run --release --example tail -- --metadata streams.yaml --stream orders --plan next.yaml
//! cargo run --release --example tail -- --help
//! ```
//!
//! `streams.yaml` says which topics of which clusters the stream consists of; when it changes, what
//! is read changes with it. Ctrl-C or SIGTERM ends, with all printed that was read; a second one
//! ends at once. SIGUSR1 has it said what is read, from where on and why. Records go to standard output, everything else to standard error.
//!
//! A record is printed when its tick is complete, in the order of ticks, and within a tick by
//! cluster, topic, partition and offset: however many workers read, the order of a partition is kept.
//!
//! Exit status: 0 if it was asked to end or the reader of its output went away, 1 if something could
//! not be read or printed, 2 if it was asked for what cannot be.

mod arguments;
mod json;
mod printer;
mod signals;
mod text;

use std::error::Error;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use timely_kafka::metadata::MetadataService;
use timely_kafka::model::{MetadataChange, StreamId};
use timely_kafka::timely::dataflow::operators::Inspect;
use timely_kafka::timely::dataflow::{ProbeHandle, Scope};
use timely_kafka::{FileMetadataService, KafkaSource, ReadOptions, Subscription, TimeMap};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use self::arguments::Arguments;
use self::printer::Printer;
use self::signals::Ending;

/// How long the metadata file may take to be read before anything else is done.
const CHECK_WITHIN: Duration = Duration::from_secs(10);

/// The exit status when what was asked for cannot be, as clap has it too.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Silent unless asked for: what a person must know is told without it.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::OFF.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter.from_env_lossy())
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .init();
    // First of all: whoever asks it to end while it starts is not to be told that it failed.
    let ending = match signals::await_signals() {
        Ok(ending) => ending,
        Err(error) => {
            complain(&format!("signals cannot be awaited: {error}"));
            return ExitCode::FAILURE;
        }
    };
    if let Err(words) = arguments.check().and_then(|()| check(&arguments)) {
        complain(&words);
        return ExitCode::from(USAGE);
    }
    if let Some(next) = &arguments.plan {
        return plan(&arguments.metadata, next);
    }
    match tail(&arguments, &ending) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Finds out before anything starts what a running source would only wait for.
fn check(arguments: &Arguments) -> Result<(), String> {
    if arguments.process > 0 {
        // Only the process of worker 0 asks for metadata; elsewhere the file need not exist.
        return Ok(());
    }
    let metadata = FileMetadataService::new(&arguments.metadata)
        .ask(Instant::now() + CHECK_WITHIN)
        .map_err(|error| error.words())?;
    let stream = arguments.stream.as_str();
    if metadata.streams.contains_key(stream) {
        return Ok(());
    }
    let known: Vec<_> = metadata.streams.keys().map(StreamId::as_str).collect();
    Err(arguments::unknown_stream(
        stream,
        &arguments.metadata,
        &known,
    ))
}

/// Prints what the metadata in one file would change of that in another.
#[expect(clippy::print_stdout, reason = "it is what was asked for")]
fn plan(file: &Path, next: &Path) -> ExitCode {
    let asked = [file, next].map(|path| {
        let answer = FileMetadataService::new(path).ask(Instant::now() + CHECK_WITHIN);
        let checked = answer.and_then(|metadata| metadata.check().map(|()| metadata));
        checked.map_err(|error| error.words())
    });
    match asked {
        [Ok(before), Ok(after)] => {
            println!("{}", MetadataChange::between(&before, &after));
            ExitCode::SUCCESS
        }
        [Err(words), _] | [_, Err(words)] => {
            complain(&words);
            ExitCode::from(USAGE)
        }
    }
}

/// Reads and prints until it is asked to end; whether everything could be read and printed.
fn tail(arguments: &Arguments, ending: &Ending) -> Result<bool, Box<dyn Error>> {
    let source = KafkaSource::builder()
        .name("tail")
        .metadata(FileMetadataService::new(&arguments.metadata))
        .subscribe(Subscription::streams([arguments.stream.as_str()]))
        .start(arguments.from.into())
        .build()?;
    let control = source.control();
    let (running, stopping) = (ending.clone(), control.clone());

    let failed = Arc::new(AtomicBool::new(false));
    let (format, output, failing) = (arguments.format(), own_stdout()?, Arc::clone(&failed));
    let workers = timely_kafka::execute_from_args(arguments.timely(), move |worker| {
        running.stops(&stopping);
        worker.dataflow(|scope| {
            let printer = Printer::new(
                format,
                Arc::clone(&output),
                control.clone(),
                Arc::clone(&failing),
            );
            read(&source, scope, printer, &failing);
        });
    })?;
    for worker in workers.join() {
        worker?;
    }
    ending.ended();
    Ok(!failed.load(Ordering::SeqCst))
}

/// The dataflow, on one worker.
fn read(source: &KafkaSource, scope: Scope<'_, u64>, printer: Printer, failed: &Arc<AtomicBool>) {
    // What the probe has not passed is not printed yet, and how much of that there may be is
    // bounded: whoever prints slower than Kafka delivers reads slower.
    let printed = ProbeHandle::new();
    let options = ReadOptions::new(TimeMap::identity()).with_probe(&printed);
    let read = source.read_with(scope, options);
    printer.print(read.batches, &printed);
    read.health.inspect(|health| complain(&health.to_string()));
    let failed = Arc::clone(failed);
    read.errors.inspect(move |error| {
        failed.store(true, Ordering::SeqCst);
        complain(&format!("split {}: {}", error.split, error.message));
    });
}

/// Standard output, for records alone: whatever else in this process is printed there goes to
/// standard error from here on. Timely does so while processes wait for each other.
fn own_stdout() -> io::Result<Arc<File>> {
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(Arc::new(File::from(output)))
}

/// Says something to a person, on standard error.
#[expect(clippy::print_stderr, reason = "standard output is for records")]
fn complain(words: &str) {
    eprintln!("tail: {words}");
}
