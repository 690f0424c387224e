//! Runs checks where they can hang without harm.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use super::Kit;
use super::report::{Breach, Checked, ConformanceReport, Done, Finding, Obligation, Outcome};
use crate::clock;
use crate::wake::Waker;

/// What the checks of one trait are.
pub(super) struct Suite<R> {
    pub(super) checks: Vec<(Obligation, Check<R>)>,
    /// The obligation that a call breaks which does not return; `None` if each check answers for
    /// itself.
    pub(super) blocking: Option<&'static str>,
}

/// Looks at one obligation.
pub(super) type Check<R> = fn(R, Context) -> Checked<Done>;

/// What a check runs in.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) kit: Kit,
    pulse: Arc<Mutex<Pulse>>,
}

/// How far a check has come.
#[derive(Debug, Default)]
struct Pulse {
    calls: u64,
    call: &'static str,
}

impl Context {
    /// Makes a call of what is tested, and says how long it took.
    pub(super) fn call<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> (T, Duration) {
        {
            let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
            pulse.calls += 1;
            pulse.call = name;
        }
        let before = clock::now();
        let returned = call();
        (returned, clock::now().saturating_sub(before))
    }

    /// The time, to say how long something lasts.
    pub(super) fn now(&self) -> Duration {
        clock::now()
    }

    fn pulse(&self) -> (u64, &'static str) {
        let pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        (pulse.calls, pulse.call)
    }
}

/// Runs all checks, each with a rig and on a thread of its own.
///
/// A check whose calls do not return is left behind with its thread: there is no way to end it.
pub(super) fn run<R: 'static>(
    kit: Kit,
    make: impl Fn() -> R + Send + Sync + 'static,
    suite: Suite<R>,
) -> ConformanceReport {
    let make = Arc::new(make);
    let mut findings = Vec::new();
    let mut breaches: Vec<Breach> = Vec::new();
    for (obligation, check) in suite.checks {
        let blocks = |breach: &&Breach| Some(breach.number) == suite.blocking;
        if let Some(breach) = breaches.iter().find(blocks) {
            let outcome = Outcome::Unchecked(format!("{} is broken already", breach.number));
            findings.push(Finding {
                obligation,
                outcome,
            });
            continue;
        }
        let context = Context {
            kit,
            pulse: Arc::default(),
        };
        let (of_thread, rig) = (context.clone(), Arc::clone(&make));
        let outcome = match guarded(&context, move || check(rig(), of_thread)) {
            Ended::Well(Ok(Done::Kept)) => Outcome::Kept,
            Ended::Well(Ok(Done::Unchecked(why))) => Outcome::Unchecked(why.to_owned()),
            Ended::Well(Err(breach)) => {
                let number = breach.number;
                breaches.push(breach);
                Outcome::Unchecked(format!("{number} is broken already"))
            }
            Ended::Hung(call) => {
                let number = suite.blocking.unwrap_or(obligation.number);
                let how = format!("`{call}` did not return");
                breaches.push(Breach { number, how });
                Outcome::Unchecked(format!("{number} is broken already"))
            }
            Ended::Panicked(words) => Outcome::Broken(format!("it panicked: {words}")),
        };
        findings.push(Finding {
            obligation,
            outcome,
        });
    }
    for breach in breaches {
        let broken = |finding: &&mut Finding| finding.obligation.number == breach.number;
        if let Some(finding) = findings.iter_mut().find(broken)
            && !matches!(finding.outcome, Outcome::Broken(_))
        {
            finding.outcome = Outcome::Broken(breach.how);
        }
    }
    ConformanceReport::new(findings)
}

enum Ended {
    Well(Checked<Done>),
    Hung(&'static str),
    Panicked(String),
}

fn guarded(context: &Context, check: impl FnOnce() -> Checked<Done> + Send + 'static) -> Ended {
    let (send, receive) = bounded(1);
    let started = thread::Builder::new()
        .name("conformance".to_owned())
        .spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(check));
            // Nobody listens any more to a check that was given up.
            send.send(ended).ok();
        });
    if let Err(error) = started {
        return Ended::Panicked(format!("no thread could be started: {error}"));
    }
    let mut seen = context.pulse();
    loop {
        match receive.recv_timeout(context.kit.patience * 3) {
            Ok(Ok(checked)) => return Ended::Well(checked),
            Ok(Err(panic)) => return Ended::Panicked(words(&*panic)),
            Err(RecvTimeoutError::Disconnected) => return Ended::Panicked(String::new()),
            Err(RecvTimeoutError::Timeout) if context.pulse() == seen => {
                return Ended::Hung(seen.1);
            }
            Err(RecvTimeoutError::Timeout) => seen = context.pulse(),
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

/// A waker, and whether it was used.
pub(super) struct Bell {
    pub(super) waker: Waker,
    rung: Receiver<()>,
}

impl Bell {
    pub(super) fn new() -> Self {
        let (ring, rung) = bounded(1);
        let waker = Waker::calling(move || {
            // A bell that rings already need not be rung.
            ring.try_send(()).ok();
        });
        Self { waker, rung }
    }

    /// Says, as the operator does, that it begins to look.
    pub(super) fn begin(&self) {
        self.rung.try_recv().ok();
        self.waker.clear();
    }

    /// Waits to be woken, and says whether it was.
    pub(super) fn wait(&self, patience: Duration) -> bool {
        self.rung.recv_timeout(patience).is_ok()
    }
}
