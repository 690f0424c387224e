//! What this process takes of the machine.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Outcome;

/// The system counts CPU time in these.
const JIFFY: Duration = Duration::from_millis(10);

/// What a process took over some time, and what it has at the end of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_mib: f64,
    pub(crate) threads: usize,
    pub(crate) files: usize,
    /// The CPU seconds of the threads that are alive at the end, by what they are for.
    pub(crate) cpu_by_thread: BTreeMap<String, f64>,
}

/// Measures what this process takes from here on.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    since: Instant,
    cpu: f64,
    threads: BTreeMap<u32, Thread>,
}

impl Stopwatch {
    pub(crate) fn start() -> Outcome<Self> {
        Ok(Self {
            since: Instant::now(),
            cpu: cpu()?,
            threads: threads()?,
        })
    }

    pub(crate) fn stop(&self) -> Outcome<Usage> {
        let seconds = self.since.elapsed().as_secs_f64();
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| -> Outcome<usize> {
            let line = status.lines().find(|line| line.starts_with(name));
            let number = line.and_then(|line| line.split_whitespace().nth(1));
            Ok(number.ok_or("no such field")?.parse()?)
        };
        let mut cpu_by_thread = BTreeMap::new();
        for (number, Thread { kind, cpu }) in threads()? {
            let before = self.threads.get(&number);
            let kind = match before {
                Some(_) => kind.to_owned(),
                None => format!("{kind}, new"),
            };
            let more = cpu.saturating_sub(before.map_or(Duration::ZERO, |before| before.cpu));
            *cpu_by_thread.entry(kind).or_insert(0.0) += more.as_secs_f64();
        }
        Ok(Usage {
            seconds,
            cpu_seconds: cpu()? - self.cpu,
            resident_mib: field("VmRSS:")? as f64 / 1024.0,
            threads: field("Threads:")?,
            files: fs::read_dir("/proc/self/fd")?.count(),
            cpu_by_thread,
        })
    }
}

/// The CPU seconds of this process, user and system.
fn cpu() -> Outcome<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name, in parentheses, may have anything in it.
    let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let jiffies = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(jiffies * JIFFY.as_secs_f64())
}

/// A thread of this process.
#[derive(Clone, Copy, Debug)]
struct Thread {
    /// What it is for.
    kind: &'static str,
    cpu: Duration,
}

/// How the names of threads begin, as far as the system keeps them, and what they are for.
const KINDS: [(&str, &str); 7] = [
    ("timely:", "workers"),
    ("binding-log", "log"),
    ("metadata", "metadata"),
    ("kafka-wake", "wakes"),
    ("kafka-control", "control"),
    ("kafka-", "clients"),
    ("rdk:", "librdkafka"),
];

/// All threads, by their numbers.
fn threads() -> Outcome<BTreeMap<u32, Thread>> {
    let mut all = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        let read = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
        // One that has ended meanwhile counts for the process only.
        let (name, times) = (read("comm"), read("schedstat"));
        let Some(nanoseconds) = times.split(' ').next().filter(|time| !time.is_empty()) else {
            continue;
        };
        let number = path.file_name().and_then(|number| number.to_str());
        let kind = KINDS.iter().find(|(start, _)| name.starts_with(start));
        let thread = Thread {
            kind: kind.map_or("benchmark", |(_, kind)| kind),
            cpu: Duration::from_nanos(nanoseconds.parse()?),
        };
        all.insert(number.ok_or("no number")?.parse()?, thread);
    }
    Ok(all)
}
