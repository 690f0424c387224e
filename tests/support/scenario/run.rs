//! A source that runs, on whatever it runs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use timely_kafka::SourceControl;
use timely_kafka::timely::Config;

use super::observed::{Observed, Seen, State};
use super::plan::{Backend, Plan};
use super::process::{self, Process};
use super::watched::{Gate, Sink};
use super::worker::read_all;

/// Guards against hangs only.
const END_MAX: Duration = Duration::from_secs(30);

/// A source that runs until it is told to stop.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) observed: Arc<Observed>,
    backend: Running,
}

#[derive(Debug)]
enum Running {
    Threads {
        control: SourceControl,
        gate: Gate,
        ended: Receiver<()>,
    },
    Processes(Vec<Process>),
}

impl Run {
    pub(crate) fn start(plan: &Plan, backend: Backend) -> Self {
        let observed = Arc::new(Observed::new(backend.workers()));
        let running = match backend {
            Backend::Threads(workers) => start_threads(plan, workers, &observed),
            Backend::TwoProcesses(workers) => {
                let processes = process::start_two(plan, workers, &observed);
                observed.with(|state| {
                    assert_ne!(state.pids[0], state.pids[1], "they are two processes");
                });
                Running::Processes(processes)
            }
        };
        Self {
            observed,
            backend: running,
        }
    }

    /// Waits until `ready`; `what` is what it waits for.
    pub(crate) fn wait(&self, what: &str, ready: impl FnMut(&State) -> bool) {
        self.observed.wait(what, ready);
    }

    /// Waits until so many records came and all frontiers have passed their ticks.
    pub(crate) fn settle(&self, count: usize) {
        let what = format!("{count} records came and the frontiers have passed them");
        self.wait(&what, |state| state.settled(count));
    }

    /// Waits until the least frontier has passed so many milliseconds from where it is.
    pub(crate) fn let_ticks_pass(&self, millis: u64) {
        self.wait("the frontier is there", |state| state.frontier() > 0);
        let from = self.observed.with(State::frontier);
        self.wait("the frontier goes on", |state| {
            state.frontier() >= from.saturating_add(millis)
        });
    }

    /// Waits until the metadata has changed so often that `epoch` is in force.
    pub(crate) fn await_epoch(&self, epoch: u64) {
        let adopted = format!("metadata epoch {epoch}:");
        self.wait(&format!("metadata epoch {epoch} is adopted"), |state| {
            let mut told = state.told.iter();
            told.any(|(_, line)| line.starts_with(&adopted))
        });
    }

    /// Lets the log append what it holds back.
    pub(crate) fn open_gate(&mut self) {
        match &mut self.backend {
            Running::Threads { gate, .. } => gate.open(),
            Running::Processes(processes) => processes[0].say("open"),
        }
    }

    /// Says a command to the first process.
    pub(crate) fn say(&mut self, command: &str) {
        match &mut self.backend {
            Running::Threads { .. } => panic!("only processes take commands"),
            Running::Processes(processes) => processes[0].say(command),
        }
    }

    /// What the source can be asked for, in this process.
    pub(crate) fn control(&self) -> &SourceControl {
        match &self.backend {
            Running::Threads { control, .. } => control,
            Running::Processes(_) => panic!("it runs in other processes"),
        }
    }

    /// The processes of this run.
    pub(crate) fn processes(&self) -> &[Process] {
        match &self.backend {
            Running::Threads { .. } => &[],
            Running::Processes(processes) => processes,
        }
    }

    /// Ends the processes of a source that cannot end in order.
    pub(crate) fn abandon(self) {
        for process in self.processes() {
            process.kill();
            process.await_end(END_MAX);
        }
    }

    /// Stops the source, in the last process if there are several, and waits until all has ended.
    pub(crate) fn end(mut self) -> Arc<Observed> {
        match &mut self.backend {
            Running::Threads { control, .. } => control.stop(),
            Running::Processes(processes) => {
                // Not the one with the enumerator: it has to hear of it.
                processes.last_mut().expect("there are two").say("stop");
            }
        }
        self.await_end()
    }

    /// Waits until all has ended by itself: both outputs of all workers have no time left.
    pub(crate) fn await_end(self) -> Arc<Observed> {
        let ends = self.processes().len().max(1);
        self.wait("the source has ended", |state| state.ended == ends);
        self.observed.expect("all frontiers are empty", |state| {
            state.frontier() == u64::MAX
        });
        match &self.backend {
            Running::Threads { ended, .. } => {
                ended.recv_timeout(END_MAX).expect("the threads have ended");
            }
            Running::Processes(processes) => {
                for process in processes {
                    let (status, said) = process.await_end(END_MAX);
                    assert!(status.success(), "{status}: {said}");
                    assert_eq!(said, "", "nothing is said on standard error");
                }
            }
        }
        Arc::clone(&self.observed)
    }
}

fn start_threads(plan: &Plan, workers: usize, observed: &Arc<Observed>) -> Running {
    let seen = Arc::clone(observed);
    let sink: Sink = Arc::new(move |what| seen.see(what));
    let gate = Gate::default();
    let source = plan.build(&sink, &gate).expect("the plan is right");
    let control = source.control();
    let (end, ended) = channel();
    let (late, opened) = (plan.late_readers, gate.clone());
    thread::spawn(move || {
        let told = Arc::clone(&sink);
        let guards = timely_kafka::execute(Config::process(workers), move |worker| {
            if late && worker.index() > 0 {
                opened.await_answer();
            }
            read_all(worker, &source, &sink);
        });
        let joined: Result<(), String> =
            guards.and_then(|guards| guards.join().into_iter().collect());
        told(Seen::Ended {
            well: joined.is_ok(),
            words: joined.err().unwrap_or_default(),
        });
        // Fails when nobody waits.
        end.send(()).ok();
    });
    Running::Threads {
        control,
        gate,
        ended,
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // A failed test must not leave workers that use its clusters.
        if let Running::Threads { control, gate, .. } = &self.backend {
            gate.open();
            control.stop();
        }
    }
}
