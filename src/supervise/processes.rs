//! The processes of one run.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::signals::Asked;
use super::{RUN_VARIABLE, SUPERVISED_VARIABLE, SuperviseError, Supervision};

/// The processes of one run. What still runs is killed and waited for when this is dropped, so that
/// neither an orphan nor a zombie is left.
pub(super) struct Processes {
    running: Vec<Process>,
    /// The signal that they were given.
    given: Option<Asked>,
    /// The first that ended otherwise than well, or by the signal that it was given.
    failed: Option<(usize, ExitStatus)>,
}

struct Process {
    /// Its standard input stays open with it.
    child: Child,
    ended: Option<ExitStatus>,
}

impl Processes {
    pub(super) fn start(supervision: &Supervision, run: &str) -> Result<Self, SuperviseError> {
        let mut processes = Self {
            running: Vec::new(),
            given: None,
            failed: None,
        };
        for index in 0..supervision.processes {
            let mut command = command(supervision, index);
            command.env(RUN_VARIABLE, run);
            let child = command.spawn().map_err(|source| SuperviseError::Start {
                program: supervision.program.display().to_string(),
                index,
                source,
            })?;
            tracing::info!("process {index}: started as {}", child.id());
            processes.running.push(Process { child, ended: None });
        }
        Ok(processes)
    }

    /// Finds out which processes have ended.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        for (index, process) in self.running.iter_mut().enumerate() {
            if process.ended.is_none()
                && let Some(status) = process.child.try_wait()?
            {
                let given = self.given.map(|asked| asked.signal().as_raw());
                let obeyed = given.is_some() && status.signal() == given;
                if !status.success() && !obeyed && self.failed.is_none() {
                    self.failed = Some((index, status));
                }
                if status.success() {
                    tracing::info!("process {index}: ended well");
                } else {
                    tracing::warn!("process {index}: ended with {status}");
                }
                process.ended = Some(status);
            }
        }
        Ok(())
    }

    pub(super) fn all_ended(&self) -> bool {
        self.running.iter().all(|process| process.ended.is_some())
    }

    /// The first process that ended otherwise than well, or by the signal that it was given.
    pub(super) fn failed(&self) -> Option<(usize, ExitStatus)> {
        self.failed
    }

    /// Gives all processes that run a signal.
    pub(super) fn signal(&mut self, asked: Asked) {
        self.given = Some(asked);
        for process in self
            .running
            .iter()
            .filter(|process| process.ended.is_none())
        {
            // It was not waited for, so that its number is its own; at worst it has ended already.
            kill_process(Pid::from_child(&process.child), asked.signal()).ok();
        }
    }

    pub(super) fn kill(&mut self) {
        for (index, process) in self.running.iter_mut().enumerate() {
            if process.ended.is_none() {
                tracing::warn!("process {index}: did not end in time and is killed");
                // At worst it has ended already.
                process.child.kill().ok();
            }
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.running {
            if process.ended.is_none() {
                process.child.kill().ok();
                process.child.wait().ok();
            }
        }
    }
}

fn command(supervision: &Supervision, index: usize) -> Command {
    let mut command = Command::new(&supervision.program);
    command.args(&supervision.arguments);
    if supervision.processes > 1 {
        let (count, own) = (supervision.processes.to_string(), index.to_string());
        command.args(["-n", &count, "-p", &own]);
    }
    if let Some(hosts) = &supervision.hosts {
        command.arg("-h").arg(hosts);
    }
    command
        .env(SUPERVISED_VARIABLE, "1")
        .stdin(Stdio::piped())
        .process_group(0);
    command
}

impl Asked {
    fn signal(self) -> Signal {
        match self {
            Self::Terminate => Signal::TERM,
            Self::Interrupt => Signal::INT,
        }
    }
}
