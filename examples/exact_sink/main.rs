//! Stores every record of a Kafka stream once, also when it is killed at any moment.
//!
//! ```text
//! cargo run --release --example exact_sink -- --metadata streams.yaml --stream orders --folder state
//! cargo run --release --example exact_sink -- --help
//! ```
//!
//! Rows go to `SQLite` files in `state/store`, one a shard; a shard stores its rows and the tick up to
//! which it has them in one transaction. The log of the source is in `state/log`, or, with `--log` and the
//! feature `s3`, in a bucket, so that the source can be started again on another machine. End it by Ctrl-C,
//! SIGTERM or SIGKILL, start it again with as many workers as you like, and look:
//!
//! ```text
//! sqlite3 state/store/shard-0.db 'SELECT count(*), count(DISTINCT split || offset) FROM rows'
//! ```
//!
//! Why this is exact is in the manual, in the chapter about sinks. `store.rs` is the store and `sink.rs`
//! the operator.

mod sink;
mod store;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::timely::dataflow::operators::Inspect;
use timely_kafka::{
    FileMetadataService, KafkaSource, KafkaSourceBuilder, LocalLog, ReadOptions, Resume,
    Subscription, TimeMap,
};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use self::store::Store;

/// Stores every record of a Kafka stream once, also when it is killed at any moment.
#[derive(Debug, Parser)]
#[command(name = "exact_sink", max_term_width = 100)]
struct Arguments {
    /// The file that says what streams consist of: .yaml, .yml, .json or .toml
    #[arg(long, value_name = "FILE")]
    metadata: PathBuf,

    /// The stream to store
    #[arg(long, value_name = "NAME")]
    stream: String,

    /// Where the store is, and the log unless --log says otherwise
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,

    /// Where the log is: another folder, or a bucket, which the variables of the environment that begin
    /// with AWS_ say how to reach
    #[arg(long, value_name = "FOLDER|s3://BUCKET/PREFIX")]
    log: Option<String>,

    /// How many shards the store has, which cannot be changed
    #[arg(long, default_value_t = 4, value_name = "COUNT",
        value_parser = clap::value_parser!(u64).range(1..))]
    shards: u64,

    /// How many workers run, in each process
    #[arg(short, long, default_value_t = 1, value_name = "COUNT")]
    workers: u16,

    /// How many processes run, all on this machine; each is started with the same arguments, but for -p
    #[arg(short = 'n', long, default_value_t = 1, value_name = "COUNT")]
    processes: u16,

    /// Which of the processes this is, from 0
    #[arg(short, long, default_value_t = 0, value_name = "INDEX")]
    process: u16,

    /// A file with the host:port of each process, one a line
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .from_env()?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let store = Store::open(&arguments.folder.join("store"), arguments.shards)?;
    let builder = KafkaSource::builder()
        .name("exact-sink")
        .metadata(FileMetadataService::new(&arguments.metadata))
        .subscribe(Subscription::streams([arguments.stream.as_str()]));
    // The process of worker 0 begins the run, since the source's log is there.
    let begun = (arguments.process == 0)
        .then(|| store.begin())
        .transpose()?;
    let source = match begun {
        Some(begun) => arguments.log_of(builder)?.resume(Resume::At(begun.tick)),
        None => builder,
    };
    let source = source.build()?;
    let control = source.control();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || signals.forever().for_each(|_| control.stop()));

    let run = begun.map(|begun| begun.run);
    let workers = timely_kafka::execute_from_args(arguments.timely(), move |worker| {
        worker.dataflow(|scope| {
            let stored = ProbeHandle::new();
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&stored);
            let read = source.read_with(scope, options);
            read.errors
                .inspect(|error| tracing::error!("split {}: {}", error.split, error.message));
            let run = run.filter(|_| scope.index() == 0);
            let built = sink::store(read.batches, &store, run, &stored);
            built.unwrap_or_else(|error| panic!("{error}"));
        });
    })?;
    for worker in workers.join() {
        worker?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    /// A source with its log.
    fn log_of(&self, builder: KafkaSourceBuilder) -> Result<KafkaSourceBuilder, Box<dyn Error>> {
        Ok(match &self.log {
            #[cfg(feature = "s3")]
            Some(url) if url.starts_with("s3://") => {
                builder.log(timely_kafka::ObjectLog::in_s3(url)?)
            }
            #[cfg(not(feature = "s3"))]
            Some(url) if url.starts_with("s3://") => {
                return Err(format!(
                    "--log {url}: a log in S3 takes a program that is built with --features s3"
                )
                .into());
            }
            Some(folder) => builder.log(LocalLog::at(folder)),
            None => builder.log(LocalLog::at(self.folder.join("log"))),
        })
    }

    /// The arguments that are timely's, as timely reads them.
    fn timely(&self) -> impl Iterator<Item = String> + use<> {
        let mut arguments = vec!["exact_sink".to_owned()];
        let numbers = [
            ("-w", self.workers),
            ("-n", self.processes),
            ("-p", self.process),
        ];
        for (name, number) in numbers {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        if let Some(file) = &self.hostfile {
            arguments.extend(["-h".to_owned(), file.display().to_string()]);
        }
        arguments.into_iter()
    }
}
