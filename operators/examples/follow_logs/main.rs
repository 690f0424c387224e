//! Follows a folder of growing log files: one split a file, every line once, at a tick.
//!
//! ```text
//! cargo run -p timely-splits --example follow_logs            # a demonstration with a verdict
//! cargo run -p timely-splits --example follow_logs -- FOLDER  # follows FOLDER until Ctrl-C
//! ```
//!
//! Files (`*.log`) may appear and vanish while it runs. It shows all that a source has to supply,
//! and each has a file; read them in this order:
//!
//! - `split.rs`: what a split is, and the metadata that lists splits.
//! - `discovery.rs`: what finds splits.
//! - `fetcher.rs`: what reads them.
//! - `main.rs`: what puts them together, on two workers.
//! - `demo.rs`: writes files, and checks what was read of them.
//!
//! Discovery and fetcher pass the conformance kit: see `tests/conformance/follow_logs.rs`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod demo;
mod discovery;
mod fetcher;
mod split;

use std::error::Error;
use std::path::PathBuf;

use timely::communication::WorkerGuards;
use timely::dataflow::operators::Inspect;
use timely_splits::assignor::StickyBalanced;
use timely_splits::control::SourceControl;
use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::enumerator::Enumeration;
use timely_splits::log::MemoryLog;
use timely_splits::source::{Reading, SourceOptions, read_splits};
use timely_splits::tick::TimeMap;

use discovery::FolderDiscovery;
use fetcher::{Line, LogFetcher};
use split::LogFile;

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = std::env::args_os().nth(1) else {
        return demo::run();
    };
    let workers = follow(
        folder.into(),
        SourceControl::new(),
        |tick, (file, _, line)| {
            println!("{tick} {file}: {line}");
        },
    )?;
    // Nobody stops the source: this waits for Ctrl-C.
    drop(workers);
    Ok(())
}

/// Follows `folder` on two workers, and calls `on_line` with each line and its tick.
fn follow(
    folder: PathBuf,
    control: SourceControl<LogFile>,
    on_line: impl Fn(u64, &Line) + Clone + Send + Sync + 'static,
) -> Result<WorkerGuards<()>, String> {
    timely::execute(timely::Config::process(2), move |worker| {
        let (for_discovery, for_fetcher) = (folder.clone(), folder.clone());
        // Worker 0 finds splits and says when a tick is over; all workers read.
        let enumeration = (worker.index() == 0).then(|| Enumeration {
            discovery: Box::new(|waker| Box::new(FolderDiscovery::start(for_discovery, waker))),
            log: Box::new(MemoryLog::new()),
            assignor: Box::new(StickyBalanced),
            coordination: CoordinatorOptions::new(0),
        });
        let reading = Reading {
            fetcher: Box::new(|waker| LogFetcher::start(for_fetcher, waker)),
            admission: None,
        };
        let (control, on_line) = (control.clone(), on_line.clone());
        worker.dataflow::<u64, _, _>(|scope| {
            let mut options = SourceOptions::new("logs", TimeMap::identity());
            options.control = control;
            let streams = read_splits(scope, &options, enumeration, reading);
            streams.batches.inspect_core(move |event| {
                // The others say how far the frontier has come.
                if let Ok((ticks, lines)) = event {
                    let tick = *ticks.expect_singleton();
                    lines.iter().for_each(|line| on_line(tick, line));
                }
            });
            streams.health.inspect(|health| println!("{health}"));
        });
    })
}
