//! What is measured in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use crate::process::Usage;
use crate::reader::{Reader, Reading};
use crate::server::{Counts, Server};
use crate::{Arguments, Outcome, Shape, Way};

/// What a step left behind is over after this.
const CALM: Duration = Duration::from_secs(2);

/// How long the removal of a cluster is measured.
const REMOVED: Duration = Duration::from_secs(1);

/// What one step took.
#[derive(Clone, Debug, Serialize)]
struct Step {
    way: &'static str,
    step: String,
    #[serde(flatten)]
    usage: Usage,
}

/// How many clusters are added in a round, one after the other.
const ADDED: usize = 5;

/// All steps, of all rounds.
#[derive(Debug, Default)]
struct Steps(Vec<Step>);

impl Steps {
    fn note(&mut self, way: Way, step: &str, usage: Usage) -> Outcome<()> {
        let step = Step {
            way: way.name(),
            step: step.to_owned(),
            usage,
        };
        println!("{}", serde_json::to_string(&step)?);
        self.0.push(step);
        Ok(())
    }

    fn print(&self) {
        println!();
        println!(
            "{:<8} {:<12} {:>21} {:>21} {:>7} {:>12} {:>8} {:>6}",
            "", "", "seconds", "CPU seconds", "CPU %", "resident MiB", "threads", "files"
        );
        let mut by_step: Vec<((&str, &str), Vec<&Usage>)> = Vec::new();
        for one in &self.0 {
            let key = (one.way, one.step.as_str());
            match by_step.iter_mut().find(|(known, _)| *known == key) {
                Some((_, usages)) => usages.push(&one.usage),
                None => by_step.push((key, vec![&one.usage])),
            }
        }
        for ((way, step), usages) in by_step {
            let of = |figure: fn(&Usage) -> f64| spread(usages.iter().map(|usage| figure(usage)));
            let percent = of(|usage| 100.0 * usage.cpu_seconds / usage.seconds);
            println!(
                "{way:<8} {step:<12} {:>21} {:>21} {:>7.1} {:>12.0} {:>8.0} {:>6.0}",
                of(|usage| usage.seconds).in_words(),
                of(|usage| usage.cpu_seconds).in_words(),
                percent.median,
                of(|usage| usage.resident_mib).median,
                of(|usage| usage.threads as f64).median,
                of(|usage| usage.files as f64).median,
            );
        }
    }

    /// Says which threads take more CPU in a step than in another one, each pair of which took the same time.
    fn print_threads(&self, with: &str, without: &str) {
        let of_step = |step: &str| {
            let steps = self.0.iter().filter(|one| one.step == step);
            steps.map(|one| &one.usage).collect::<Vec<_>>()
        };
        let pairs: Vec<_> = of_step(with).into_iter().zip(of_step(without)).collect();
        let kinds = pairs.iter().flat_map(|(one, _)| one.cpu_by_thread.keys());
        let kinds: BTreeSet<&String> = kinds.collect();
        println!();
        println!("{:<18} {with:>21} {without:>21} {:>21}", "CPU ms", "more");
        for kind in kinds {
            let ms = |usage: &Usage| 1_000.0 * usage.cpu_by_thread.get(kind).unwrap_or(&0.0);
            println!(
                "{kind:<18} {:>21} {:>21} {:>21}",
                spread(pairs.iter().map(|(one, _)| ms(one))).in_words(),
                spread(pairs.iter().map(|(_, other)| ms(other))).in_words(),
                spread(pairs.iter().map(|(one, other)| ms(one) - ms(other))).in_words(),
            );
        }
    }
}

/// The median, and between what the figures lie.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn in_words(&self) -> String {
        format!("{:.2} ({:.2}..{:.2})", self.median, self.least, self.most)
    }
}

fn spread(figures: impl Iterator<Item = f64>) -> Spread {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    Spread {
        least: figures[0],
        median: figures[figures.len() / 2],
        most: figures[figures.len() - 1],
    }
}

fn reading<'a>(shape: &Shape, clusters: &'a [String], partitions: usize) -> Reading<'a> {
    Reading {
        clusters,
        topics: shape.topics,
        partitions: shape.partitions,
        await_partitions: partitions,
        await_records: 0,
        linger: Duration::ZERO,
    }
}

/// Many partitions over some clusters.
pub(crate) fn wide(arguments: &Arguments) -> Outcome<()> {
    let shape = arguments.shape();
    let all = shape.partitions_of(shape.clusters);
    println!("{shape:?}: {all} partitions, {} workers", arguments.workers);
    let mut steps = Steps::default();
    if let Some(address) = &arguments.kafka {
        let mut server = Server::at(address, &shape)?;
        for _ in 0..arguments.rounds {
            for way in arguments.ways().iter().copied() {
                let clusters = server.clusters.clone();
                let reader = begin(arguments, way, &mut server, &clusters, &mut steps)?;
                steps.note(way, "close", reader.close()?)?;
            }
        }
        steps.print();
        return Ok(());
    }
    for _ in 0..arguments.rounds {
        for way in arguments.ways().iter().copied() {
            // One more, to be added; and new ones each time, since some of them die.
            let more = shape.clusters + 1;
            let mut server = Server::start(&shape.of(more))?;
            let every = server.clusters.clone();
            let clusters = &every[..shape.clusters];
            let mut reader = begin(arguments, way, &mut server, clusters, &mut steps)?;
            if way == Way::Source {
                let with_it = shape.partitions_of(more);
                server.track()?;
                let added = reader.read(reading(&shape, &every, with_it))?;
                print_requests("add", server.count()?, added.seconds);
                steps.note(way, "add", added)?;
                reader.idle(CALM)?;
                server.track()?;
                reader.read(reading(&shape, clusters, with_it))?;
                let removed = reader.idle(REMOVED)?;
                print_requests("remove", server.count()?, removed.seconds);
                steps.note(way, "remove", removed)?;
            }
            if arguments.dying > 0 {
                server.kill(0..arguments.dying.min(shape.clusters))?;
                reader.idle(CALM)?;
                let seconds = Duration::from_secs_f64(arguments.idle_seconds);
                steps.note(way, "some dead", reader.idle(seconds)?)?;
            }
            steps.note(way, "close", reader.close()?)?;
        }
    }
    steps.print();
    Ok(())
}

/// Starts to read `clusters`, and then does nothing for a while.
fn begin(
    arguments: &Arguments,
    way: Way,
    server: &mut Server,
    clusters: &[String],
    steps: &mut Steps,
) -> Outcome<Reader> {
    let shape = arguments.shape();
    let all = shape.partitions_of(clusters.len());
    let mut reader = Reader::start(way, arguments.workers)?;
    steps.note(way, "start", reader.read(reading(&shape, clusters, all))?)?;
    reader.idle(CALM)?;
    server.track()?;
    let idle = reader.idle(Duration::from_secs_f64(arguments.idle_seconds))?;
    print_requests("idle", server.count()?, idle.seconds);
    steps.note(way, "idle", idle)?;
    Ok(reader)
}

/// Says how many requests a cluster got, on average of all but the last.
fn print_requests(step: &str, mut counts: Vec<Counts>, seconds: f64) {
    counts.pop();
    let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
    for (api, count) in counts.iter().flatten() {
        *sums.entry(api).or_default() += count;
    }
    let words = sums.into_iter().map(|(api, count)| {
        let each = count as f64 / counts.len() as f64;
        format!("{api} {each:.2} ({:.2}/s)", each / seconds)
    });
    let words: Vec<_> = words.collect();
    if !words.is_empty() {
        println!("requests to a cluster, {step}: {}", words.join(", "));
    }
}

/// Many clusters, half of them dead.
pub(crate) fn dead(arguments: &Arguments) -> Outcome<()> {
    let shape = arguments.shape();
    let mut server = Server::start(&shape.of(2 * shape.clusters))?;
    let living = shape.partitions_of(shape.clusters);
    println!("{shape:?}, and as many clusters that are dead");
    server.kill(shape.clusters..2 * shape.clusters)?;
    let mut steps = Steps::default();
    for _ in 0..arguments.rounds {
        for (step, clusters) in [
            ("alone", shape.clusters),
            ("among dead", 2 * shape.clusters),
        ] {
            let mut reader = Reader::start(Way::Source, arguments.workers)?;
            let reading = Reading {
                await_records: (living * shape.records) as u64,
                ..reading(&shape, &server.clusters[..clusters], living)
            };
            steps.note(Way::Source, step, reader.read(reading)?)?;
            reader.idle(CALM)?;
            let idle = reader.idle(Duration::from_secs_f64(arguments.idle_seconds))?;
            steps.note(Way::Source, &format!("{step}, idle"), idle)?;
            steps.note(Way::Source, &format!("{step}, close"), reader.close()?)?;
        }
    }
    steps.print();
    Ok(())
}

/// Many clusters, one by one.
pub(crate) fn grow(arguments: &Arguments) -> Outcome<()> {
    let shape = arguments.shape();
    let server = Server::start(&shape)?;
    let mut steps = Steps::default();
    for _ in 0..arguments.rounds {
        let mut reader = Reader::start(Way::Source, arguments.workers)?;
        for clusters in 1..=shape.clusters {
            let partitions = shape.partitions_of(clusters);
            let usage = reader.read(reading(&shape, &server.clusters[..clusters], partitions))?;
            // A part of them in one line of the table.
            let tenth = (clusters - 1) * 10 / shape.clusters;
            steps.note(Way::Source, &format!("tenth {}", tenth + 1), usage)?;
            reader.idle(Duration::from_millis(100))?;
        }
        steps.note(Way::Source, "close", reader.close()?)?;
    }
    steps.print();
    Ok(())
}

/// One more among few clusters, and among many; and one less.
pub(crate) fn add(arguments: &Arguments) -> Outcome<()> {
    let shape = arguments.shape();
    let mut steps = Steps::default();
    for among in [shape.clusters.div_ceil(10), shape.clusters] {
        let server = Server::start(&shape.of(among + ADDED))?;
        let (others, added) = server.clusters.split_at(among);
        for _ in 0..arguments.rounds {
            let mut reader = Reader::start(Way::Source, arguments.workers)?;
            let seen = |clusters| shape.partitions_of(among + clusters);
            reader.read(reading(&shape, others, seen(0)))?;
            reader.idle(CALM)?;
            for (index, one) in added.iter().enumerate() {
                let with_it = [others, std::slice::from_ref(one)].concat();
                let usage = reader.read(reading(&shape, &with_it, seen(index + 1)))?;
                let time = Duration::from_secs_f64(usage.seconds);
                steps.note(Way::Source, &format!("add to {among}"), usage)?;
                reader.idle(CALM)?;
                let removal = Reading {
                    linger: REMOVED,
                    ..reading(&shape, others, seen(index + 1))
                };
                let removed = reader.read(removal)?;
                steps.note(Way::Source, &format!("remove, {among}"), removed)?;
                reader.idle(CALM)?;
                for (step, lasting) in [("without", time), ("idle", REMOVED)] {
                    let without = reader.idle(lasting)?;
                    steps.note(Way::Source, &format!("{step}, {among}"), without)?;
                }
            }
            reader.close()?;
        }
        for (with, without) in [("add to", "without,"), ("remove,", "idle,")] {
            steps.print_threads(&format!("{with} {among}"), &format!("{without} {among}"));
        }
    }
    steps.print();
    Ok(())
}
