//! Another process of a benchmark: the same program in another role.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// Guards against hangs only.
const DEADLINE: Duration = Duration::from_secs(120);

/// A process that is told lines, and says some. It ends with this value: its input does.
#[derive(Debug)]
pub(crate) struct Role {
    process: Child,
    /// Also closed when this process crashes.
    pub(crate) input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Role {
    /// Starts this program with other arguments.
    pub(crate) fn start(arguments: &[String]) -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().ok_or("the process has no output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            input: process.stdin.take(),
            process,
            lines,
        })
    }

    /// The next line that it says.
    pub(crate) fn hear(&self) -> Result<String, Box<dyn Error>> {
        let heard = self.lines.recv_timeout(DEADLINE);
        heard.map_err(|error| format!("a process of the benchmark says nothing: {error}").into())
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        drop(self.input.take());
        // However it ended, it is over.
        self.process.wait().ok();
    }
}
