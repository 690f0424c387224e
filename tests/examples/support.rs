//! Runs an example as a person would.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Long enough for a machine that does many other things; a line takes a second at most.
pub(crate) const LINE_WITHIN: Duration = Duration::from_secs(30);

/// A running example; killed when it is dropped.
pub(crate) struct Example {
    child: Child,
    output: Receiver<String>,
    errors: Receiver<String>,
}

/// Where cargo puts examples: beside the folder of this test.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let program = profile.join("examples").join(name);
    assert!(
        program.exists(),
        "{} is not built; run `cargo build --examples` first, with the profile of this test",
        program.display()
    );
    program
}

/// The lines of a pipe, as they come.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            let Ok(line) = line else { return };
            // Nobody wants the rest: the pipe is closed with this thread.
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Example {
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        Self::start_with(name, arguments, &[])
    }

    pub(crate) fn start_with(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(program(name))
            .args(arguments)
            .env_remove("RUST_LOG")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = lines(child.stdout.take().unwrap());
        let errors = lines(child.stderr.take().unwrap());
        Self {
            child,
            output,
            errors,
        }
    }

    /// The same, but nobody takes what it prints; the pipe is returned and stays open.
    pub(crate) fn start_untaken(name: &str, arguments: &[&str]) -> (Self, ChildStdout) {
        let mut child = Command::new(program(name))
            .args(arguments)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = child.stdout.take().unwrap();
        let errors = lines(child.stderr.take().unwrap());
        let (_, output) = mpsc::channel();
        let example = Self {
            child,
            output,
            errors,
        };
        (example, pipe)
    }

    /// The next line of standard output.
    pub(crate) fn line(&self) -> String {
        let line = self.output.recv_timeout(LINE_WITHIN);
        line.unwrap_or_else(|error| {
            let errors: Vec<_> = self.errors.try_iter().collect();
            panic!("no line of output: {error}; on standard error: {errors:#?}")
        })
    }

    /// Waits for a line of standard error with `words` in it.
    pub(crate) fn error_with(&self, words: &str) -> String {
        let deadline = Instant::now() + LINE_WITHIN;
        let mut others = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.errors.recv_timeout(left) else {
                panic!("no '{words}' on standard error: {others:#?}");
            };
            if line.contains(words) {
                return line;
            }
            others.push(line);
        }
    }

    /// What is printed until the output ends.
    pub(crate) fn rest_of_output(&self) -> Vec<String> {
        self.output.iter().collect()
    }

    /// What is said on standard error until it ends.
    pub(crate) fn rest_of_errors(&self) -> Vec<String> {
        self.errors.iter().collect()
    }

    /// Closes the reading end of standard output, after the next line.
    pub(crate) fn close_output(&mut self) {
        let (_, nothing) = mpsc::channel();
        self.output = nothing;
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The exit status, which must come `within` a time; `None` if a signal ended it.
    pub(crate) fn status(&mut self, within: Duration) -> Option<i32> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it runs on after {within:?}");
            // Nobody sends: this is a wait of 10 ms.
            let (_sender, nothing) = mpsc::channel::<()>();
            nothing.recv_timeout(Duration::from_millis(10)).unwrap_err();
        }
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // Most have ended by now, and then there is nothing to kill.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
