//! The hidden mode of a test binary: one process of a source that runs in two.

use std::env;
use std::io::{self, BufRead, Write};
use std::process;
use std::sync::Arc;
use std::thread;

use serde::{Deserialize, Serialize};
use timely_kafka::model::{ClusterId, Partition, TopicName};
use timely_kafka::{KafkaSplit, ReaderId, SourceControl};

use super::observed::Seen;
use super::plan::Plan;
use super::watched::{Gate, Sink};
use super::worker::read_all;

/// Holds the [`Part`] that a process runs; a process without it runs tests.
pub(crate) const PART: &str = "TIMELY_KAFKA_SCENARIO_PART";

/// What marks a line of standard output as something seen; timely prints there as well.
pub(crate) const MARK: &str = "seen ";

/// What one process runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) plan: Plan,
    /// Timely's own arguments.
    pub(crate) arguments: Vec<String>,
}

/// Runs a part if this process was started for that, and then does not return.
pub(crate) fn run_if_asked() {
    let Ok(part) = env::var(PART) else {
        return;
    };
    let part: Part = serde_json::from_str(&part).expect("the parent wrote it");
    let sink: Sink = Arc::new(|seen| print(&seen));
    sink(Seen::Process { pid: process::id() });
    let gate = Gate::default();
    let source = part.plan.build(&sink, &gate).expect("the plan is right");
    listen(source.control(), gate.clone());
    let words = run(&part, source, &sink, gate).err().unwrap_or_default();
    let well = words.is_empty();
    sink(Seen::Ended { well, words });
    process::exit(i32::from(!well));
}

fn run(
    part: &Part,
    source: timely_kafka::KafkaSource,
    sink: &Sink,
    gate: Gate,
) -> Result<(), String> {
    let (late, sink) = (part.plan.late_readers, Arc::clone(sink));
    let guards = timely_kafka::execute_from_args(part.arguments.iter().cloned(), move |worker| {
        if late && worker.index() > 0 {
            gate.await_answer();
        }
        read_all(worker, &source, &sink);
    })?;
    guards.join().into_iter().collect()
}

/// Does what the parent says on standard input, and ends when the parent does.
fn listen(control: SourceControl, gate: Gate) {
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            match line.as_str() {
                "stop" => control.stop(),
                "open" => gate.open(),
                _ => move_split(&control, &line),
            }
        }
        process::exit(1);
    });
}

/// Obeys `move CLUSTER TOPIC PARTITION WORKER`.
fn move_split(control: &SourceControl, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let ["move", cluster, topic, partition, worker] = words[..] else {
        panic!("unknown command {line:?}");
    };
    let cluster = ClusterId::new(cluster).expect("a name");
    let topic = TopicName::new(topic).expect("a name");
    let partition = Partition(partition.parse().expect("a number"));
    let to = ReaderId(worker.parse().expect("a number"));
    control.move_split(KafkaSplit::new(cluster, topic, partition), to);
}

fn print(seen: &Seen) {
    let line = serde_json::to_string(seen).expect("its maps have strings as keys");
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{MARK}{line}").and_then(|()| out.flush());
    if written.is_err() {
        // The parent is gone.
        process::exit(1);
    }
}
