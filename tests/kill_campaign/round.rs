//! One round: a source lives, is killed, and lives again, until it has everything.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use timely_splits::kill_point;

use crate::check::{self, Found};
use crate::child::Part;
use crate::kafka::RealKafka;
use crate::plan::{End, Life, Plan};
use crate::ports::host_file;
use crate::random::Random;
use crate::results::{Death, Outcome};
use crate::world::{CLUSTERS, World};

/// How many shards the store has: fewer and more than there are workers.
const SHARDS: u64 = 3;

/// How long a point is waited for before the processes are killed from outside.
const POINT_WITHIN: Duration = Duration::from_millis(3_500);

/// How soon a process has to notice that another one is gone.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// How long everything may take to be stored once all is well.
const STORED_WITHIN: Duration = Duration::from_secs(60);

/// How often the store is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(40);

const SIGKILL: i32 = 9;

/// The round of a plan in a folder, where what it wrote stays.
pub(crate) struct Round<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    world: World<'a>,
    outcome: Outcome,
}

/// Runs a plan.
pub(crate) fn run(kafka: &RealKafka, plan: &Plan, folder: &Path) -> Outcome {
    let began = Instant::now();
    let name = format!("{:x}", plan.seed);
    let mut round = Round {
        plan,
        folder,
        world: World::new(kafka, &name, folder),
        outcome: Outcome::new(plan),
    };
    let verdict = round.live();
    let mut outcome = round.outcome;
    outcome.verdict = verdict.err().unwrap_or_else(|| "good".to_owned());
    outcome.milliseconds = began.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
    outcome
}

impl Round<'_> {
    fn live(&mut self) -> Result<(), String> {
        let mut production = Some(self.world.produce(self.plan.seed));
        let (mut written, mut before, plan) = (None, None, self.plan);
        for (index, life) in plan.lives.iter().enumerate() {
            let mut processes = Processes::start(self, index, life)?;
            self.change(life, &mut processes);
            if life.end == End::Asked {
                self.world.heal();
                written = production.take().map(crate::world::Production::end);
                let total = written.iter().flat_map(|counts| counts.values()).sum();
                self.outcome.records = total;
                self.await_stored(total, &processes)?;
                processes.stop()?;
            } else {
                let death = processes.die(life)?;
                self.outcome.deaths.push(death);
            }
            let found = self
                .check(before.as_ref(), written.as_ref())
                .map_err(|error| format!("after life {index}: {error}"))?;
            before = Some(found);
        }
        Ok(())
    }

    /// Checks the store as the dead left it.
    fn check(
        &mut self,
        before: Option<&Found>,
        written: Option<&BTreeMap<String, u64>>,
    ) -> Result<Found, String> {
        let found = check::read(&self.store(), SHARDS)?;
        self.outcome.ticks = check::compare_with_log(&found, &self.log())?;
        if let Some(before) = before {
            check::compare_with_before(&found, before)?;
        }
        if let Some(written) = written {
            check::compare_with_written(&found, written)?;
        }
        Ok(found)
    }

    /// Makes the changes of a life, as long as it lasts.
    fn change(&mut self, life: &Life, processes: &mut Processes) {
        let began = Instant::now();
        let most = match life.end {
            End::All(at) | End::One(_, at) => at,
            End::Point(..) => POINT_WITHIN,
            End::Asked => life.changes.last().map_or(Duration::ZERO, |(at, _)| *at),
        };
        let mut random = Random::of(self.plan.seed, 3);
        for (at, change) in &life.changes {
            if *at > most || processes.one_ends_within(at.saturating_sub(began.elapsed())) {
                break;
            }
            let broker = random.pick(&CLUSTERS);
            self.world.change(*change, broker);
            self.outcome.changes.push(*change);
        }
        processes.one_ends_within(most.saturating_sub(began.elapsed()));
    }

    fn await_stored(&self, total: u64, processes: &Processes) -> Result<(), String> {
        let deadline = Instant::now() + STORED_WITHIN;
        loop {
            let stored = check::count(&self.store(), SHARDS);
            if stored == total {
                return Ok(());
            }
            if stored > total {
                return Err(format!(
                    "{stored} rows are stored; {total} records were written"
                ));
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{stored} rows of {total} are stored {STORED_WITHIN:?} after all was well"
                ));
            }
            if let Ok((index, status)) = processes.ends.recv_timeout(LOOK_EVERY) {
                return Err(format!("process {index} of the last life ended: {status}"));
            }
        }
    }

    fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

/// The processes of one life. They end with this value.
struct Processes {
    running: Vec<Running>,
    ends: Receiver<(usize, ExitStatus)>,
    /// What has ended, by the index of the process.
    ended: Vec<Option<ExitStatus>>,
    began: Instant,
}

struct Running {
    pid: u32,
    commands: Option<std::process::ChildStdin>,
}

impl Processes {
    fn start(round: &Round<'_>, index: usize, life: &Life) -> Result<Self, String> {
        let hosts = (life.processes > 1)
            .then(|| host_file(&round.folder.join(format!("hosts-{index}")), life.processes));
        let (send, ends) = channel();
        let mut processes = Self {
            running: Vec::new(),
            ends,
            ended: vec![None; life.processes],
            began: Instant::now(),
        };
        for process in 0..life.processes {
            let part = Part {
                metadata: round.world.metadata.clone(),
                log: round.log(),
                store: round.store(),
                shards: SHARDS,
                processes: life.processes,
                process,
                workers: life.workers,
                hosts: hosts.clone(),
                splits: round.world.splits(),
                seed: round.plan.seed ^ index as u64,
            };
            let said = round.folder.join(format!("said-{index}-{process}"));
            let running = start(&part, life.end, &said, &send)
                .map_err(|error| format!("starting a process: {error}"))?;
            processes.running.push(running);
        }
        Ok(processes)
    }

    /// Waits, and is true as soon as one process has ended.
    fn one_ends_within(&mut self, time: Duration) -> bool {
        if self.ended.iter().any(Option::is_some) {
            return true;
        }
        let end = self.ends.recv_timeout(time);
        if let Ok((index, status)) = end {
            self.ended[index] = Some(status);
        }
        end.is_ok()
    }

    /// Has the life end as is planned, or, if the point was not reached, from outside.
    fn die(mut self, life: &Life) -> Result<Death, String> {
        let lived = self.began.elapsed();
        let killed_itself = |status: &ExitStatus| status.signal() == Some(SIGKILL);
        let mut how = life.end.to_string();
        match life.end {
            End::Point(index, ..) if self.ended[index].as_ref().is_some_and(killed_itself) => {}
            End::Point(..) | End::All(_) if self.ended.iter().all(Option::is_none) => {
                if matches!(life.end, End::Point(..)) {
                    how = "all".to_owned();
                }
                self.kill_all();
            }
            End::One(index, _) if self.ended.iter().all(Option::is_none) => {
                self.running[index].kill();
            }
            _ => {}
        }
        let deadline = Instant::now() + NOTICED_WITHIN;
        while self.ended.iter().any(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            let (index, status) = self.ends.recv_timeout(left).map_err(|_| {
                format!("a process runs {NOTICED_WITHIN:?} after another one was killed ({how})")
            })?;
            self.ended[index] = Some(status);
        }
        for status in self.ended.iter().flatten() {
            let lost = status.code() == Some(timely_kafka::PEER_LOST_STATUS);
            if !killed_itself(status) && !lost {
                return Err(format!("a process ended by itself: {status}"));
            }
        }
        Ok(Death {
            how,
            workers: life.processes * life.workers,
            processes: life.processes,
            milliseconds: lived.as_millis().try_into().unwrap_or(u64::MAX),
        })
    }

    fn kill_all(&self) {
        for running in &self.running {
            running.kill();
        }
    }

    /// Asks the source to end.
    fn stop(mut self) -> Result<(), String> {
        if let Some(commands) = &mut self.running[0].commands {
            writeln!(commands, "stop").map_err(|error| format!("asking for the end: {error}"))?;
        }
        let deadline = Instant::now() + NOTICED_WITHIN;
        while self.ended.iter().any(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            let (index, status) = (self.ends)
                .recv_timeout(left)
                .map_err(|_| "a process runs on that was asked to end".to_owned())?;
            if !status.success() {
                return Err(format!(
                    "process {index} was asked to end and failed: {status}"
                ));
            }
            self.ended[index] = Some(status);
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (index, running) in self.running.iter().enumerate() {
            if self.ended[index].is_none() {
                running.kill();
            }
        }
    }
}

impl Running {
    /// Kills the process, which may have ended meanwhile: its number is kept by its waiting thread
    /// until that has told its end.
    fn kill(&self) {
        let pid = i32::try_from(self.pid).ok();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
    }
}

fn start(
    part: &Part,
    end: End,
    said: &Path,
    send: &Sender<(usize, ExitStatus)>,
) -> std::io::Result<Running> {
    let mut command = part.command();
    if let End::Point(process, point, count) = end
        && process == part.process
    {
        command.env(kill_point::VARIABLE, format!("{point}:{count}"));
    }
    let out = File::create(said)?;
    let mut child: Child = command
        .stdin(Stdio::piped())
        .stdout(out.try_clone()?)
        .stderr(out)
        .spawn()?;
    let running = Running {
        pid: child.id(),
        commands: child.stdin.take(),
    };
    let (send, index) = (send.clone(), part.process);
    thread::spawn(move || {
        let status = child.wait().expect("it is our child");
        // Nobody may want to know.
        send.send((index, status)).ok();
    });
    Ok(running)
}

/// Removes what a round wrote.
pub(crate) fn clean(folder: &Path) {
    fs::remove_dir_all(folder).expect("the folder is ours");
}
