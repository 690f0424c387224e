//! The processes of one life of a source, and how they end.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use timely_splits::kill_point;

use crate::check;
use crate::child::{Begin, Part};
use crate::plan::{End, Life};
use crate::ports::host_file;
use crate::results::Death;
use crate::world::Split;

/// How many shards a store has: fewer and more than there are workers.
pub(crate) const SHARDS: u64 = 3;

/// How soon a process has to notice that another one is gone.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// How long everything may take to be stored once all is well.
const STORED_WITHIN: Duration = Duration::from_secs(60);

/// How often the store is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(40);

const SIGKILL: i32 = 9;

/// What the lives of one source share.
pub(crate) struct Place {
    /// Where its log, its store and what its processes say are.
    pub(crate) folder: PathBuf,
    pub(crate) metadata: PathBuf,
    pub(crate) splits: Vec<Split>,
    pub(crate) seed: u64,
}

impl Place {
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

/// The processes of one life. They end with this value.
pub(crate) struct Processes {
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
    /// Starts the processes of a life, the one with this index of its source.
    pub(crate) fn start(
        place: &Place,
        index: usize,
        life: &Life,
        begin: Begin,
    ) -> Result<Self, String> {
        let hosts = (life.processes > 1)
            .then(|| host_file(&place.folder.join(format!("hosts-{index}")), life.processes));
        let (send, ends) = channel();
        let mut processes = Self {
            running: Vec::new(),
            ends,
            ended: vec![None; life.processes],
            began: Instant::now(),
        };
        for process in 0..life.processes {
            let part = Part {
                metadata: place.metadata.clone(),
                log: place.log(),
                store: place.store(),
                shards: SHARDS,
                processes: life.processes,
                process,
                workers: life.workers,
                hosts: hosts.clone(),
                splits: place.splits.clone(),
                seed: place.seed ^ index as u64,
                begin,
            };
            let said = place.folder.join(format!("said-{index}-{process}"));
            let running = start(&part, life.end, &said, &send)
                .map_err(|error| format!("starting a process: {error}"))?;
            processes.running.push(running);
        }
        Ok(processes)
    }

    /// Waits, and is true as soon as one process has ended.
    pub(crate) fn one_ends_within(&mut self, time: Duration) -> bool {
        if self.ended.iter().any(Option::is_some) {
            return true;
        }
        let end = self.ends.recv_timeout(time);
        if let Ok((index, status)) = end {
            self.ended[index] = Some(status);
        }
        end.is_ok()
    }

    /// Waits until a store has so many rows, or more: how many it has.
    pub(crate) fn await_stored(&self, store: &Path, total: u64) -> Result<u64, String> {
        let deadline = Instant::now() + STORED_WITHIN;
        loop {
            let stored = check::count(store, SHARDS);
            if stored >= total {
                return Ok(stored);
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{stored} rows of {total} are stored {STORED_WITHIN:?} after all was well"
                ));
            }
            if let Ok((index, status)) = self.ends.recv_timeout(LOOK_EVERY) {
                return Err(format!("process {index} of the last life ended: {status}"));
            }
        }
    }

    /// Has the life end as is planned, or, if the point was not reached, from outside.
    pub(crate) fn die(mut self, life: &Life) -> Result<Death, String> {
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
    pub(crate) fn stop(mut self) -> Result<(), String> {
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
