//! Keeps the processes of a dataflow running.
//!
//! The set of processes of a timely dataflow is fixed: none can be lost, and none can come back. When
//! one ends badly, all of them have to end and start again, from what is durable. [`supervise`] does that
//! on one machine; systemd and Kubernetes do it as well (see the [manual](crate::manual)).

mod processes;
mod signals;
mod watch;

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use self::processes::Processes;
use self::signals::{Asked, SignalWatch};
pub(crate) use self::watch::end_with_supervisor;
use crate::execute::RUN_VARIABLE;

/// The name of the environment variable by which a process knows that it is supervised.
const SUPERVISED_VARIABLE: &str = "TIMELY_KAFKA_SUPERVISED";

/// The exit status of a process whose supervisor is gone.
pub const SUPERVISOR_LOST_STATUS: i32 = 71;

/// Which processes are started, and with how much patience.
///
/// # Examples
///
/// Two processes of a program of one's own, on this machine:
///
/// ```no_run
/// use timely_kafka::supervise::{Supervision, supervise};
///
/// let supervision = Supervision::new("target/release/orders")
///     .arguments(["--metadata", "streams.yaml", "-w", "2"])
///     .processes(2);
/// supervise(&supervision)?;
/// # Ok::<(), timely_kafka::supervise::SuperviseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Supervision {
    program: PathBuf,
    arguments: Vec<String>,
    processes: usize,
    hosts: Option<PathBuf>,
    pause: Duration,
    pause_max: Duration,
    calm: Duration,
    grace: Duration,
}

/// Why somebody does not supervise any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuperviseError {
    /// There is nothing to supervise.
    #[error("program {program}: zero processes of it; expected at least one")]
    NoProcesses {
        /// The program.
        program: String,
    },
    /// The program cannot be started.
    #[error("program {program}: process {index} cannot be started")]
    Start {
        /// The program.
        program: String,
        /// Which of the processes.
        index: usize,
        /// What the system reported.
        source: io::Error,
    },
    /// The system does not give what is needed.
    #[error("supervisor: {doing} failed")]
    System {
        /// What was done.
        doing: &'static str,
        /// What the system reported.
        source: io::Error,
    },
    /// A process was asked to end, and did not do it well.
    #[error("process {index}: was asked to end and ended with {status}")]
    Ended {
        /// Which of the processes.
        index: usize,
        /// How it ended.
        status: ExitStatus,
    },
}

impl Supervision {
    /// One process of a program.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            processes: 1,
            hosts: None,
            pause: Duration::from_millis(200),
            pause_max: Duration::from_secs(30),
            calm: Duration::from_secs(60),
            grace: Duration::from_secs(10),
        }
    }

    /// The arguments that all processes have in common.
    #[must_use]
    pub fn arguments<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// How many processes there are. With more than one, `-n` and `-p` are added to the arguments of
    /// each, as timely takes them.
    #[must_use]
    pub fn processes(mut self, count: usize) -> Self {
        self.processes = count;
        self
    }

    /// The file with the `host:port` of each process, which is added as `-h`. All of them are of this
    /// machine. Without it timely's own ports are used.
    #[must_use]
    pub fn hosts(mut self, file: impl Into<PathBuf>) -> Self {
        self.hosts = Some(file.into());
        self
    }

    /// The pause before all processes are started again: `first`, twice as long each time, and `most`
    /// at most. 0.2 s and 30 s by default.
    #[must_use]
    pub fn pauses(mut self, first: Duration, most: Duration) -> Self {
        (self.pause, self.pause_max) = (first, most);
        self
    }

    /// After how long a run the pause is the first one again; a minute by default.
    #[must_use]
    pub fn calm(mut self, time: Duration) -> Self {
        self.calm = time;
        self
    }

    /// How long a process that was asked to end by SIGTERM or SIGINT has for it before it gets
    /// SIGKILL; 10 s by default.
    #[must_use]
    pub fn grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }
}

/// What a run came to.
enum RunEnd {
    /// All processes ended well.
    Well,
    /// Somebody asked for the end, and the processes ended.
    Asked,
    /// A process ended badly, and the others were ended.
    Badly,
}

/// Starts processes, and starts all of them again whenever one ends badly, until all end well or this
/// process gets SIGTERM or SIGINT.
///
/// * The signal is passed on, once, to each process. They are in process groups of their own, so that
///   Ctrl-C at a terminal does not reach them twice.
/// * When one process ends badly the others get SIGTERM and, after the grace time, SIGKILL. All of them have
///   ended before any is started again, so that two runs never meet.
/// * Each run has [something in common](crate::RUN_VARIABLE) that no other run has.
/// * The standard input of a process is a pipe that closes when this process ends, however it ends, also
///   by SIGKILL. [`execute`](crate::execute()) ends a supervised process then, with
///   [`SUPERVISOR_LOST_STATUS`]; so a program that is supervised does not read its standard input.
///
/// It occupies the thread that calls it. Other handlers of these signals in this process stay in force.
///
/// # Errors
///
/// If a process cannot be started at all, or does not end well when it was asked to.
pub fn supervise(supervision: &Supervision) -> Result<(), SuperviseError> {
    if supervision.processes == 0 {
        return Err(SuperviseError::NoProcesses {
            program: supervision.program.display().to_string(),
        });
    }
    let mut signals = SignalWatch::start().map_err(system("waiting for signals"))?;
    let mut pause = supervision.pause;
    loop {
        let began = Instant::now();
        match run(supervision, &mut signals)? {
            RunEnd::Well | RunEnd::Asked => return Ok(()),
            RunEnd::Badly => {}
        }
        if began.elapsed() >= supervision.calm {
            pause = supervision.pause;
        }
        tracing::warn!("all processes are started again in {pause:?}");
        let again = Instant::now() + pause;
        while Instant::now() < again {
            signals
                .wait_until(Some(again))
                .map_err(system("waiting for signals"))?;
            if signals.asked().is_some() {
                return Ok(());
            }
        }
        pause = (pause * 2).min(supervision.pause_max);
    }
}

/// One run of all processes, from their start to the end of the last of them.
fn run(supervision: &Supervision, signals: &mut SignalWatch) -> Result<RunEnd, SuperviseError> {
    let mut processes = Processes::start(supervision, &token()?)?;
    let mut asked: Option<Asked> = None;
    let mut kill_at = None;
    let mut killed = false;
    loop {
        processes
            .reap()
            .map_err(system("asking for the end of a process"))?;
        if processes.all_ended() {
            break;
        }
        let signal = signals.asked();
        if let Some(signal) = signal.filter(|_| asked.is_none()) {
            tracing::info!("{signal}: passed on to all processes");
            asked = Some(signal);
            processes.signal(signal);
            kill_at = Some(Instant::now() + supervision.grace);
        } else if kill_at.is_none() && processes.failed().is_some() {
            processes.signal(Asked::Terminate);
            kill_at = Some(Instant::now() + supervision.grace);
        }
        if !killed && kill_at.is_some_and(|at| at <= Instant::now()) {
            killed = true;
            processes.kill();
        }
        // After SIGKILL only the end is waited for.
        let until = kill_at.filter(|_| !killed);
        signals
            .wait_until(until)
            .map_err(system("waiting for signals"))?;
    }
    match (asked, processes.failed()) {
        (None, None) => Ok(RunEnd::Well),
        (Some(_), None) => Ok(RunEnd::Asked),
        (Some(_), Some((index, status))) => Err(SuperviseError::Ended { index, status }),
        (None, Some(_)) => Ok(RunEnd::Badly),
    }
}

/// What only the processes of one run have in common, in hexadecimal digits.
fn token() -> Result<String, SuperviseError> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(system("reading random numbers"))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> SuperviseError {
    move |source| SuperviseError::System { doing, source }
}
