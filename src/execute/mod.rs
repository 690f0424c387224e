//! Runs workers, and ends the process when one of them is lost.
//!
//! Two things that timely leaves to whoever uses it are done here. The first is how processes [meet](meeting):
//! timely takes whoever connects for one of them.
//!
//! The second is how they end. When a worker of timely panics, its siblings in the process wait for it for ever; when a process
//! is lost, the others find out one by one and panic in threads that nobody watches. A source
//! cannot go on without any of its workers. So here a panic of a worker aborts the process, and the
//! loss of another process ends this one with a sentence.

mod handshake;
mod meeting;

use std::cell::Cell;
use std::env;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use timely::CommunicationConfig;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};
use timely::communication::{Hooks, WorkerGuards};
use timely::worker::Worker;

use self::handshake::RunToken;
use self::meeting::Meeting;
use crate::supervise::end_with_supervisor;

/// The name of the environment variable with what only the processes of one run have in common: 32
/// hexadecimal digits.
///
/// [`supervise`](crate::supervise::supervise) sets it. Where it is set, a process in which it differs
/// is no process of this run and cannot take part in it, and neither can whoever does not know it.
pub const RUN_VARIABLE: &str = "TIMELY_KAFKA_RUN";

/// How long processes wait for each other when they start.
const MEET_WITHIN: Duration = Duration::from_secs(10 * 60);

/// The exit status of a process that lost another one of its dataflow.
pub const PEER_LOST_STATUS: i32 = 70;

/// The exit status of a process whose source [goes no further](crate::OnFailure).
pub const SOURCE_FAILED_STATUS: i32 = 72;

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Runs `func` on each worker that the command line asks for, with timely's own arguments.
///
/// `-w` is the number of workers a process, `-n` of processes, `-p` the index of this process, `-h`
/// a file with one `host:port` a line. Arguments that are no options are left alone; `func` finds them in
/// [`std::env::args`].
///
/// Processes that start wait ten minutes for each other. They say to each other what they were started
/// as before they go on: a stranger that connects to the port of one of them is put out, and a process
/// that was started with other numbers, or [for another run](RUN_VARIABLE), is refused. What goes between
/// them is not encrypted; the ports belong into a network of their own.
///
/// A worker that panics aborts the process. When another process is lost, this one says so and exits
/// with [`PEER_LOST_STATUS`]: all of them have to be started again. A source that goes no further ends its
/// process with [`SOURCE_FAILED_STATUS`] unless it is [told otherwise](crate::OnFailure).
///
/// # Errors
///
/// If the arguments are not timely's, or another process cannot be reached.
///
/// # Examples
///
/// ```
/// use timely::dataflow::operators::{Inspect, ToStream};
///
/// let arguments = ["program", "-w", "2"].map(String::from).into_iter();
/// timely_kafka::execute_from_args(arguments, |worker| {
///     worker.dataflow::<u64, _, _>(|scope| {
///         (0..3).to_stream(scope).container::<Vec<_>>().inspect(|number| println!("{number}"));
///     });
/// })?;
/// # Ok::<(), String>(())
/// ```
pub fn execute_from_args<T, F>(
    args: impl Iterator<Item = String>,
    func: F,
) -> Result<WorkerGuards<T>, String>
where
    T: Send + 'static,
    F: Fn(&mut Worker) -> T + Send + Sync + 'static,
{
    execute(timely::Config::from_args(args)?, func)
}

/// Runs `func` on each worker of `config`; otherwise as [`execute_from_args`].
///
/// # Errors
///
/// If another process cannot be reached.
pub fn execute<T, F>(config: timely::Config, func: F) -> Result<WorkerGuards<T>, String>
where
    T: Send + 'static,
    F: Fn(&mut Worker) -> T + Send + Sync + 'static,
{
    install();
    end_with_supervisor().map_err(|error| format!("watching the supervisor failed: {error}"))?;
    let CommunicationConfig::Cluster {
        threads,
        process,
        addresses,
        zerocopy,
        report: _,
    } = config.communication
    else {
        return timely::execute(config, move |worker| run(worker, &func));
    };
    let meeting = Meeting {
        run: run_token()?,
        index: process,
        workers: threads,
        addresses,
        within: MEET_WITHIN,
    };
    let sockets = meeting.meet().map_err(|error| error.to_string())?;
    let hooks = Hooks::default();
    let workers = if zerocopy {
        ProcessBuilder::new_bytes_vector(threads, hooks.refill.clone(), hooks.spill.clone())
    } else {
        ProcessBuilder::new_typed_vector(threads, hooks.refill.clone(), hooks.spill.clone())
    };
    let (builders, guard) = initialize_networking_from_sockets(
        workers, sockets, process, threads, hooks,
    )
    .map_err(|error| format!("process {process}: starting to exchange data failed: {error}"))?;
    let builders = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
    timely::execute::execute_from(builders, Box::new(guard), config.worker, move |worker| {
        run(worker, &func)
    })
}

/// What the environment says that only the processes of this run have in common.
fn run_token() -> Result<RunToken, String> {
    let Some(text) = env::var_os(RUN_VARIABLE) else {
        return Ok(RunToken::default());
    };
    let text = text.to_string_lossy();
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(&text, 16).ok().filter(|_| digits);
    // The value is not shown: it is what keeps strangers out.
    number
        .map(|number| RunToken(number.to_be_bytes()))
        .ok_or_else(|| format!("{RUN_VARIABLE}: expected 32 hexadecimal digits"))
}

/// Runs a worker to its end, as timely would do after `func`, so that a panic is noticed wherever in it
/// it happens. A panic that is caught inside is nobody's business.
fn run<T>(worker: &mut Worker, func: &impl Fn(&mut Worker) -> T) -> T {
    IS_WORKER.set(true);
    let whole = AbortOnPanic;
    let result = func(worker);
    while worker.has_dataflows() {
        worker.step_or_park(None);
    }
    drop(whole);
    result
}

/// Aborts the process when it is dropped by a panic.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            say(
                "timely-kafka: a worker panicked; the process aborts, since its other workers would \
                 wait for it for ever",
            );
            signal_hook::low_level::abort();
        }
    }
}

/// Adds to the panic hook, once a process, what ends it when a worker is lost.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let earlier = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            if let Some(sentence) = peer_lost(panicked) {
                say(&sentence);
                signal_hook::low_level::exit(PEER_LOST_STATUS);
            }
            earlier(panicked);
        }));
    });
}

/// The sentence for a panic in the threads that timely exchanges data with other processes on.
///
/// A worker that sends to such a thread after its end panics as well, with words of timely's.
fn peer_lost(panicked: &PanicHookInfo<'_>) -> Option<String> {
    let current = thread::current();
    let name = current.name().unwrap_or_default();
    let payload = panicked.payload();
    let text = (payload.downcast_ref::<String>().map(String::as_str))
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    let exchanging = name.starts_with("timely:recv-") || name.starts_with("timely:send-");
    let poisoned = IS_WORKER.get() && text.contains("MergeQueue poisoned");
    (exchanging || poisoned).then(|| {
        "timely-kafka: the connection to another process of this dataflow was lost; this process \
         ends, and all of them have to be started again"
            .to_owned()
    })
}

/// Ends the process if it is called on a worker: a source goes no further.
pub(crate) fn source_failed(why: &str) {
    if IS_WORKER.get() {
        say(&format!(
            "timely-kafka: the source goes no further: {why}; this process ends"
        ));
        signal_hook::low_level::exit(SOURCE_FAILED_STATUS);
    }
}

#[expect(clippy::print_stderr, reason = "the last words of a process")]
fn say(sentence: &str) {
    eprintln!("{sentence}");
}
