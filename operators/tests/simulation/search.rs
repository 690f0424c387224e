//! Runs seeds, and makes what fails small enough to read.

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::quiet::quietly;
use crate::run::{Case, Simulation};
use crate::script::script;
use crate::swarm::Swarm;

/// How often a failing case is run to make it smaller, at most.
const ATTEMPTS_MAX: usize = 600;

/// How many lines of a story are told, at most: its end is what matters.
const LINES_MAX: usize = 300;

/// Seeds to be run, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Seeds {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// For how long, at most.
    pub(crate) time: Option<Duration>,
}

/// What became of seeds.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) seeds: u64,
    pub(crate) steps: u64,
    pub(crate) time: Duration,
    pub(crate) failure: Option<Failure>,
}

/// A case in which something that must hold does not.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) case: Case,
    pub(crate) message: String,
    shrunk: bool,
}

impl Seeds {
    /// `SEED`; or from `FIRST_SEED` on as many as `SEEDS` says, or for as many `MINUTES`; or a default.
    pub(crate) fn asked_for(count: u64, in_ci: u64) -> Self {
        let number = |name| {
            let value = std::env::var(name).ok()?;
            let number = value.parse::<u64>();
            Some(number.unwrap_or_else(|_| panic!("{name}={value}: expected a number")))
        };
        if let Some(first) = number("SEED") {
            return Self {
                first,
                count: 1,
                time: None,
            };
        }
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        let time = number("MINUTES").map(|minutes| Duration::from_secs(60 * minutes));
        let count = if ci { in_ci } else { count };
        let count = if time.is_some() { u64::MAX / 4 } else { count };
        Self {
            first: number("FIRST_SEED").unwrap_or(0),
            count: number("SEEDS").unwrap_or(count),
            time,
        }
    }

    /// Runs the seeds on all cores, until one fails.
    pub(crate) fn search(&self) -> Found {
        let begin = started();
        let next = AtomicU64::new(0);
        let steps = AtomicU64::new(0);
        let run = AtomicU64::new(0);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let one_thread = || {
            let mut failure: Option<Failure> = None;
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let late = self.time.is_some_and(|time| begin.elapsed() >= time);
                if index >= self.count || late {
                    return failure;
                }
                match attempt(&Case::of(self.first + index), false) {
                    Ok(taken) => steps.fetch_add(taken, Ordering::Relaxed),
                    Err((message, ..)) => {
                        next.store(self.count, Ordering::Relaxed);
                        failure = Some(Failure {
                            case: Case::of(self.first + index),
                            message,
                            shrunk: false,
                        });
                        0
                    }
                };
                run.fetch_add(1, Ordering::Relaxed);
            }
        };
        let failures: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..cores).map(|_| scope.spawn(one_thread)).collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined
                .filter_map(|failure| failure.expect("it catches panics"))
                .collect()
        });
        Found {
            seeds: run.into_inner(),
            steps: steps.into_inner(),
            time: begin.elapsed(),
            failure: failures.into_iter().min_by_key(|failure| failure.case.seed),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "steps per second are reported")]
fn started() -> Instant {
    Instant::now()
}

impl Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.time {
            Some(time) => write!(f, "seeds from {} for {time:?}", self.first),
            None => write!(f, "{} seeds from {}", self.count, self.first),
        }
    }
}

impl Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = self.steps as f64 / seconds;
        write!(
            f,
            "{} ran, {} steps in {seconds:.1} s, {rate:.0} steps/s",
            self.seeds, self.steps
        )
    }
}

impl Case {
    /// The case that a seed stands for.
    pub(crate) fn of(seed: u64) -> Self {
        let swarm = Swarm::of(seed);
        let script = script(seed, &swarm);
        Self {
            seed,
            swarm,
            script,
        }
    }
}

/// What went wrong, after how many steps, and the story if it was to be told.
pub(crate) type Failed = (String, u64, Vec<String>);

/// Runs a case, and says in how many steps it ended well. It has failed also when the code under test
/// panicked.
pub(crate) fn attempt(case: &Case, story: bool) -> Result<u64, Failed> {
    let mut simulation = None;
    let ran = quietly(|| {
        let simulation = simulation.insert(Simulation::new(case.clone(), story));
        simulation.run()
    });
    ran.map_err(|message| {
        let (steps, lines) = simulation.map(Simulation::into_story).unwrap_or_default();
        (message, steps, lines)
    })
}

impl Failure {
    /// A smaller case that fails too, found by leaving out faults and options.
    pub(crate) fn shrunk(mut self) -> Self {
        let mut attempts = 0;
        self.shrunk = true;
        loop {
            let before = (self.case.script.len(), attempts);
            let mut size = self.case.script.len().div_ceil(2).max(1);
            loop {
                let mut at = 0;
                while at < self.case.script.len() && attempts < ATTEMPTS_MAX {
                    let mut smaller = self.case.clone();
                    let end = (at + size).min(smaller.script.len());
                    smaller.script.drain(at..end);
                    attempts += 1;
                    if !self.take(smaller) {
                        at += size;
                    }
                }
                if size == 1 {
                    break;
                }
                size = size.div_ceil(2);
            }
            for swarm in self.case.swarm.simpler() {
                let case = Case {
                    swarm,
                    ..self.case.clone()
                };
                attempts += 1;
                self.take(case);
            }
            if self.case.script.len() == before.0 || attempts >= ATTEMPTS_MAX {
                return self;
            }
        }
    }

    /// Goes on with a smaller case if that fails in the same way.
    fn take(&mut self, case: Case) -> bool {
        let kind = |message: &str| message.split(':').next().map(str::to_owned);
        match attempt(&case, false) {
            Err((message, ..)) if kind(&message) == kind(&self.message) => {
                self.case = case;
                self.message = message;
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// What happened, for a person.
    pub(crate) fn story(&self) -> String {
        let (message, lines) = match attempt(&self.case, true) {
            Err((message, _, lines)) => (message, lines),
            Ok(_) => ("it does not fail again".to_owned(), Vec::new()),
        };
        let left_out = lines.len().saturating_sub(LINES_MAX);
        let mut story = String::new();
        for line in &lines[left_out..] {
            story += line;
            story.push('\n');
        }
        let Case {
            seed,
            swarm,
            script,
        } = &self.case;
        let shrunk = if self.shrunk { " (shrunk)" } else { "" };
        let mut faults = String::new();
        for (at, fault) in script {
            faults += &format!("  after {at:?}: {fault:?}\n");
        }
        format!(
            "SEED={seed} cargo test -p timely-splits --test simulation\n\n({left_out} lines left out)\n{story}\n\
             seed {seed}{shrunk}: {message}\n{swarm:?}\n{faults}"
        )
    }
}
