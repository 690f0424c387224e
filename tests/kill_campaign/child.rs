//! The hidden mode of the runner: one process of a source that is to be killed.

use std::env;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::process;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timely_kafka::model::{ClusterId, KafkaSplit, Partition, TopicName};
use timely_kafka::timely::dataflow::ProbeHandle;
use timely_kafka::{
    FileMetadataService, KafkaSource, LocalLog, ReadOptions, ReaderId, Resume, SourceControl,
    Subscription, Tick, TimeMap,
};

use crate::random::Random;
use crate::sink;
use crate::store::{Begun, Store};

/// Holds the [`Part`] that a process runs.
const PART: &str = "TIMELY_KAFKA_CAMPAIGN_PART";

/// The stream that is read.
pub(crate) const STREAM: &str = "records";

/// Short, so that many ticks end before a process does.
const TICK: Duration = Duration::from_millis(25);

/// What one process runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) metadata: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) store: PathBuf,
    pub(crate) shards: u64,
    pub(crate) processes: usize,
    pub(crate) process: usize,
    pub(crate) workers: usize,
    pub(crate) hosts: Option<PathBuf>,
    /// What may be moved, and the numbers by which it is.
    pub(crate) splits: Vec<(String, String, i32)>,
    pub(crate) seed: u64,
    pub(crate) begin: Begin,
}

/// Where a process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Begin {
    /// After what is stored.
    AfterStored,
    /// The same ticks are given again from this one on, except for what is stored.
    Replay(u64),
}

impl Begin {
    fn resume(self, stored: Tick) -> Resume {
        match self {
            Self::AfterStored => Resume::At(stored),
            Self::Replay(from) => Resume::Replay {
                from: Tick(from.max(stored.0 + 1)),
            },
        }
    }
}

impl Part {
    /// Starts a process that runs this part, with what its environment has to say besides.
    pub(crate) fn command(&self) -> process::Command {
        let program = env::current_exe().expect("this process has a program");
        let mut command = process::Command::new(program);
        let part = serde_json::to_string(self).expect("its maps have strings as keys");
        command.env(PART, part);
        command
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["campaign".to_owned()];
        let numbers = [
            ("-w", self.workers),
            ("-n", self.processes),
            ("-p", self.process),
        ];
        for (name, number) in numbers {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        if let Some(hosts) = &self.hosts {
            arguments.extend(["-h".to_owned(), hosts.display().to_string()]);
        }
        arguments
    }
}

/// Runs a part if this process was started for that, and then does not return.
pub(crate) fn run_if_asked() {
    let Ok(part) = env::var(PART) else {
        return;
    };
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
    let part: Part = serde_json::from_str(&part).expect("the runner wrote it");
    let ended = run(&part);
    if let Err(error) = &ended {
        tracing::error!("{error}");
    }
    process::exit(i32::from(ended.is_err()));
}

fn run(part: &Part) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(&part.store, part.shards)?;
    let begun = (part.process == 0).then(|| store.begin()).transpose()?;
    let source = source(part, begun)?;
    let (ending, ended) = mpsc::channel();
    if part.process == 0 {
        let (control, part) = (source.control(), part.clone());
        thread::spawn(move || move_splits(&control, &part, &ended));
    }
    let control = source.control();
    thread::spawn(move || listen(&control));
    let run = begun.map(|begun| begun.run);
    let workers = timely_kafka::execute_from_args(part.arguments().into_iter(), move |worker| {
        worker.dataflow(|scope| {
            let stored = ProbeHandle::new();
            let options = ReadOptions::new(TimeMap::identity()).with_probe(&stored);
            let read = source.read_with(scope, options);
            let run = run.filter(|_| scope.index() == 0);
            sink::store(read.batches, &store, run, &stored).expect("the store can be opened");
        });
    })?;
    for worker in workers.join() {
        worker?;
    }
    drop(ending);
    Ok(())
}

fn source(part: &Part, begun: Option<Begun>) -> Result<KafkaSource, Box<dyn std::error::Error>> {
    let builder = KafkaSource::builder()
        .name("campaign")
        .metadata(FileMetadataService::new(&part.metadata))
        .subscribe(Subscription::streams([STREAM]))
        .tick_interval(TICK)
        .discovery_interval(Duration::from_millis(500));
    let Some(begun) = begun else {
        return Ok(builder.build()?);
    };
    Ok(builder
        .log(LocalLog::at(&part.log))
        .resume(part.begin.resume(begun.tick))
        .build()?)
}

/// Ends the source when the runner says so, and this process when the runner is gone.
fn listen(control: &SourceControl) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        assert_eq!(line, "stop", "a command of the runner");
        control.stop();
    }
    process::exit(1);
}

/// Gives splits to other workers again and again, until the source ends.
fn move_splits(control: &SourceControl, part: &Part, ended: &Receiver<()>) {
    let mut random = Random::of(part.seed, 1);
    let splits: Vec<KafkaSplit> = part.splits.iter().map(split).collect();
    let peers = part.processes * part.workers;
    loop {
        let pause = Duration::from_millis(20 + random.below(120));
        match ended.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {
                let split = &splits[random.index(splits.len())];
                control.move_split(split.clone(), ReaderId(random.index(peers)));
            }
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn split((cluster, topic, partition): &(String, String, i32)) -> KafkaSplit {
    KafkaSplit::new(
        ClusterId::new(cluster).expect("a name of the campaign"),
        TopicName::new(topic).expect("a name of the campaign"),
        Partition(*partition),
    )
}
