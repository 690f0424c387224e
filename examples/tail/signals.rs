//! Ends, or says what is read, when a signal says so.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use timely_kafka::SourceControl;

use crate::complain;

/// Every end is within 5 s of the signal, also if nobody takes what is printed.
const END_WITHIN: Duration = Duration::from_millis(4_500);

/// How long a source may take to say what it does.
const EXPLAIN_WITHIN: Duration = Duration::from_secs(5);

/// What a signal has to end.
enum Running {
    /// Nothing was read yet, so nothing is left to be printed.
    Nothing,
    /// A source, which prints what it has read when it is asked to end.
    Source(SourceControl),
}

/// What a signal has to end, for whoever starts and ends it.
#[derive(Clone)]
pub(crate) struct Ending {
    running: Arc<Mutex<Running>>,
    done: Sender<()>,
}

impl Ending {
    /// From here on a signal stops a source.
    pub(crate) fn stops(&self, control: &SourceControl) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Running::Source(control.clone());
    }

    /// From here on a signal has nothing to end.
    pub(crate) fn ended(&self) {
        // Nobody waits for it if no signal came.
        self.done.send(()).ok();
    }
}

/// Ends the process when a signal comes: at once while nothing is read, otherwise when all is
/// printed or that takes too long.
pub(crate) fn await_signals() -> Result<Ending, io::Error> {
    let twice = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal arms what the second one sets off.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&twice))?;
        signal_hook::flag::register(signal, Arc::clone(&twice))?;
    }
    let signals = Signals::new([SIGINT, SIGTERM])?;
    let running = Arc::new(Mutex::new(Running::Nothing));
    let (done, ended) = mpsc::channel();
    let ending = Ending {
        running: Arc::clone(&running),
        done,
    };
    let explaining = (Signals::new([SIGUSR1])?, Arc::clone(&running));
    thread::spawn(move || explain_on_signal(explaining.0, &explaining.1));
    thread::spawn(move || end_on_signal(signals, &running, &ended));
    Ok(ending)
}

/// Says what is read and why, each time it is asked to.
fn explain_on_signal(mut signals: Signals, running: &Mutex<Running>) {
    for _ in signals.forever() {
        let control = match &*running.lock().unwrap_or_else(PoisonError::into_inner) {
            Running::Nothing => None,
            Running::Source(control) => Some(control.clone()),
        };
        let answer = control.map(|control| control.explain().recv_timeout(EXPLAIN_WITHIN));
        match answer {
            Some(Ok(explanation)) => explanation.to_string().lines().for_each(complain),
            Some(Err(_)) | None => complain("nothing is read that could be explained"),
        }
    }
}

fn end_on_signal(mut signals: Signals, running: &Mutex<Running>, ended: &Receiver<()>) {
    if signals.forever().next().is_none() {
        return;
    }
    // Held while it is decided, so that nothing is started that would not be stopped.
    let running = running.lock().unwrap_or_else(PoisonError::into_inner);
    match &*running {
        Running::Nothing => std::process::exit(0),
        Running::Source(control) => control.stop(),
    }
    drop(running);
    if let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(END_WITHIN) {
        complain("not all that was read could be printed in time");
        std::process::exit(1);
    }
}
