//! Kills a source again and again, and compares what it stored with what was written.
//!
//! `scripts/kill-campaign` runs it and says how. Each round is drawn from the seed of the campaign and
//! its number; what came of it is added to a file, so that a campaign can be ended and gone on with.

#![expect(clippy::print_stdout, reason = "a program for people")]

mod check;
mod child;
#[path = "../support/kafka.rs"]
mod kafka;
mod plan;
mod ports;
mod processes;
#[path = "../../operators/tests/support/random.rs"]
mod random;
mod replay;
mod report;
mod results;
mod round;
#[path = "../../examples/exact_sink/sink.rs"]
mod sink;
#[path = "../../examples/exact_sink/store.rs"]
mod store;
mod world;

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use kafka::RealKafka;
use plan::Plan;
use random::Random;

/// Kills a source on real Kafka again and again, and checks that it stores every record once.
#[derive(Debug, Parser)]
#[command(name = "kill-campaign", max_term_width = 100)]
struct Arguments {
    /// How many rounds to run
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    rounds: u64,

    /// Run one round, of this number
    #[arg(long, value_name = "NUMBER")]
    round: Option<u64>,

    /// How many processes the source has at most
    #[arg(long, default_value_t = 1, value_name = "COUNT",
        value_parser = clap::value_parser!(u64).range(1..=2))]
    processes: u64,

    /// What the rounds are drawn from
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,

    /// Where what comes of the rounds is kept; a campaign goes on after its last round there
    #[arg(
        long,
        default_value = "target/kill-campaign.jsonl",
        value_name = "FILE"
    )]
    results: PathBuf,

    /// Write the report of what is kept, and run nothing
    #[arg(long)]
    report: bool,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    child::run_if_asked();
    let arguments = Arguments::parse();
    let outcomes = results::load(&arguments.results)?;
    if arguments.report {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kill_campaign/REPORT.md");
        fs::write(&path, report::report(&outcomes))?;
        println!("{}", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    let processes = usize::try_from(arguments.processes)?;
    let done = outcomes
        .iter()
        .filter(|outcome| (outcome.campaign, outcome.processes) == (arguments.seed, processes))
        .map(|outcome| outcome.round + 1)
        .max()
        .unwrap_or_default();
    let rounds = match arguments.round {
        Some(round) => round..round + 1,
        None => done..done + arguments.rounds,
    };
    let kafka = RealKafka::start_quiet(&world::CLUSTERS);
    let mut bad = 0;
    for round in rounds.clone() {
        let plan = Plan::new(Random::of(arguments.seed, round).draw(), processes);
        let folder = tempfile::Builder::new()
            .prefix("kill-campaign-")
            .tempdir()?
            .keep();
        let mut outcome = round::run(&kafka, &plan, &folder);
        (outcome.campaign, outcome.round) = (arguments.seed, round);
        results::add(&arguments.results, &outcome)?;
        let deaths: Vec<&str> = outcome.deaths.iter().map(|death| &*death.how).collect();
        println!(
            "round {round}: {}; {} records, {} ticks, {} again, {:.1} s; killed: {}",
            outcome.verdict,
            outcome.records,
            outcome.ticks,
            outcome
                .replays
                .iter()
                .map(|replay| replay.ticks)
                .sum::<usize>(),
            std::time::Duration::from_millis(outcome.milliseconds).as_secs_f64(),
            deaths.join(", ")
        );
        if outcome.is_good() {
            round::clean(&folder);
        } else {
            bad += 1;
            println!("    what it left is in {}", folder.display());
        }
    }
    println!(
        "{} rounds of seed {}, {bad} of them bad",
        rounds.count(),
        arguments.seed
    );
    Ok(ExitCode::from(u8::from(bad > 0)))
}
