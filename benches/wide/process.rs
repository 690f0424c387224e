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
    /// The CPU seconds of the threads that are alive, by what they are for.
    pub(crate) cpu_by_thread: BTreeMap<String, f64>,
}

/// Measures what this process takes from here on.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    since: Instant,
    cpu: f64,
    by_thread: BTreeMap<String, f64>,
}

impl Stopwatch {
    pub(crate) fn start() -> Outcome<Self> {
        Ok(Self {
            since: Instant::now(),
            cpu: cpu()?,
            by_thread: by_thread()?,
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
        let mut cpu_by_thread = by_thread()?;
        for (name, cpu) in &mut cpu_by_thread {
            *cpu = (*cpu - self.by_thread.get(name).copied().unwrap_or(0.0)).max(0.0);
        }
        cpu_by_thread.retain(|_, cpu| *cpu > 0.001);
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

/// The CPU seconds of all threads, by their names without what tells those of one kind apart.
fn by_thread() -> Outcome<BTreeMap<String, f64>> {
    let mut all = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        let read = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
        // One that has ended meanwhile counts for the process only.
        let (name, times) = (read("comm"), read("schedstat"));
        let Some(nanoseconds) = times.split(' ').next().filter(|time| !time.is_empty()) else {
            continue;
        };
        let cpu = Duration::from_nanos(nanoseconds.parse()?).as_secs_f64();
        let kind: String = name
            .trim()
            .chars()
            .take_while(|one| !one.is_ascii_digit())
            .collect();
        *all.entry(kind).or_insert(0.0) += cpu;
    }
    Ok(all)
}
