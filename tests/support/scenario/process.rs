//! Two operating-system processes that run a source together.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::ops::Range;
use std::process::{self, Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use super::child::{MARK, PART, Part};
use super::observed::{Observed, Seen};
use super::plan::Plan;

/// Where timely's processes meet.
const PORTS: Range<u32> = 10_000..20_000;

/// A process of a source. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Arc<Mutex<Child>>,
    commands: Option<ChildStdin>,
    /// Sends once the process has closed its standard output, with what it said on the other one.
    closed: Receiver<String>,
}

/// Starts two processes of so many workers.
pub(crate) fn start_two(plan: &Plan, workers: usize, observed: &Arc<Observed>) -> Vec<Process> {
    let hosts = host_file();
    let path = hosts.path().to_str().expect("its name is ASCII").to_owned();
    let start = |index: usize| {
        let arguments = ["scenario", "-n", "2", "-w"].map(str::to_owned).into_iter();
        let arguments = arguments
            .chain([workers.to_string(), "-p".to_owned(), index.to_string()])
            .chain(["-h".to_owned(), path.clone()]);
        let part = Part {
            plan: plan.clone(),
            arguments: arguments.collect(),
        };
        let process = Process::start(&part, Arc::clone(observed));
        // The second one waits a second whenever the first does not listen yet.
        observed.wait("the process runs", |state| state.pids.len() > index);
        process
    };
    let processes = (0..2).map(start).collect();
    observed.wait("all workers have a frontier", |state| {
        state.frontiers.len() == 2 * state.workers
    });
    processes
}

/// A file with two addresses that nobody listens on.
fn host_file() -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("the folder for temporary files is writable");
    // Both at once, so that they differ.
    for listener in [free_port(), free_port()] {
        let address = listener.local_addr().expect("it is bound");
        writeln!(file, "{address}").expect("the folder for temporary files is writable");
    }
    file
}

/// A port below those that the system gives to whoever asks for any: one of those could be given away
/// before the process that it is meant for listens on it.
fn free_port() -> TcpListener {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    (0..PORTS.end - PORTS.start)
        .find_map(|_| {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            // Test programs that run side by side start far from each other.
            let offset =
                process::id().wrapping_mul(97).wrapping_add(step) % (PORTS.end - PORTS.start);
            TcpListener::bind(format!("127.0.0.1:{}", PORTS.start + offset)).ok()
        })
        .expect("a port is free")
}

impl Process {
    fn start(part: &Part, observed: Arc<Observed>) -> Self {
        let program = env::current_exe().expect("this process has a program");
        let part = serde_json::to_string(part).expect("its maps have strings as keys");
        let mut child = Command::new(program)
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program of this process can be started again");
        let commands = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut complaints = child.stderr.take().expect("it is piped");
        let (close, closed) = channel();
        let errors = thread::spawn(move || {
            let mut text = Vec::new();
            complaints
                .read_to_end(&mut text)
                .expect("a pipe is readable");
            String::from_utf8_lossy(&text).into_owned()
        });
        let child = Arc::new(Mutex::new(child));
        let waited = Arc::clone(&child);
        thread::spawn(move || {
            let mut ended = false;
            for line in lines.lines().map_while(Result::ok) {
                if let Some(json) = line.strip_prefix(MARK) {
                    let seen: Seen = serde_json::from_str(json).expect("a process tells the truth");
                    ended |= matches!(seen, Seen::Ended { .. });
                    observed.see(seen);
                }
            }
            let said = errors.join().expect("reading does not panic");
            if !ended {
                let status = waited.lock().unwrap().wait();
                let words = format!("a process ended, {status:?}: {said}");
                observed.see(Seen::Ended { well: false, words });
            }
            // Fails when nobody wants to know.
            close.send(said).ok();
        });
        Self {
            child,
            commands,
            closed,
        }
    }

    /// Sends a line to the process.
    pub(crate) fn say(&mut self, command: &str) {
        let commands = self.commands.as_mut().expect("it is piped");
        writeln!(commands, "{command}").expect("the process reads");
    }

    /// Ends the process by SIGKILL.
    pub(crate) fn kill(&self) {
        self.child.lock().unwrap().kill().expect("it is our child");
    }

    /// Waits for the end of the process: its status, and what it said on standard error.
    pub(crate) fn await_end(&self, most: Duration) -> (ExitStatus, String) {
        let began = Instant::now();
        let said = self.closed.recv_timeout(most);
        let said = said.unwrap_or_else(|_| panic!("the process runs after {:?}", began.elapsed()));
        let status = self.child.lock().unwrap().wait();
        (status.expect("it is our child"), said)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self
            .child
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // Both fail when it has ended already.
        child.kill().ok();
        child.wait().ok();
    }
}
