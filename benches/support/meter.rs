//! What reading costs, for the benchmarks that include this file.
#![expect(
    unsafe_code,
    reason = "the system tells CPU time by a call that has no safe face which runs under valgrind"
)]

use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What one way to read came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// The way.
    pub(crate) mode: String,
    /// How many records were read.
    pub(crate) records: u64,
    /// The bytes of their values.
    pub(crate) bytes: u64,
    /// CPU until the first record was there, of all threads.
    pub(crate) start_cpu_ms: f64,
    /// CPU a record since then.
    pub(crate) cpu_ns_per_record: f64,
    /// The part of it that was spent in the system.
    pub(crate) system_ns_per_record: f64,
    /// The part of it that was spent by the threads of librdkafka.
    pub(crate) client_ns_per_record: f64,
    /// From the first record to the last.
    pub(crate) records_per_second: f64,
}

/// What the process had taken when its first record was there, whoever counted it.
static FIRST: OnceLock<Taken> = OnceLock::new();

#[derive(Debug)]
struct Taken {
    at: Instant,
    cpu: Duration,
    system: Duration,
    client: Duration,
}

impl Taken {
    fn now() -> Self {
        Self {
            client: client(),
            system: system(),
            cpu: cpu(),
            at: Instant::now(),
        }
    }
}

/// What was counted, and what it took. A process measures one way to read.
#[derive(Debug)]
pub(crate) struct Meter {
    expected: u64,
    cpu_before: Duration,
    /// The records that were counted with the first one, and so dealt with before it was noted.
    pub(crate) before: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Meter {
    /// Starts to measure the reading of `expected` records.
    pub(crate) fn start(expected: u64) -> Self {
        Self {
            expected,
            cpu_before: cpu(),
            before: 0,
            records: 0,
            bytes: 0,
        }
    }

    /// Counts records and the bytes of their values.
    #[inline]
    pub(crate) fn records(&mut self, records: u64, bytes: usize) {
        if self.records == 0 && FIRST.set(Taken::now()).is_ok() {
            self.before = records;
        }
        self.records += records;
        self.bytes += bytes as u64;
    }

    /// Whether all were counted.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.records >= self.expected
    }

    /// What it came to, up to this moment.
    pub(crate) fn stop(&self, mode: &str) -> Measurement {
        let last = Taken::now();
        let first = FIRST.get_or_init(Taken::now);
        let records = (self.records - self.before) as f64;
        let ns_per_record =
            |from: Duration, to: Duration| (to - from).as_secs_f64() * 1e9 / records;
        Measurement {
            mode: mode.to_owned(),
            records: self.records,
            bytes: self.bytes,
            start_cpu_ms: (first.cpu - self.cpu_before).as_secs_f64() * 1e3,
            cpu_ns_per_record: ns_per_record(first.cpu, last.cpu),
            system_ns_per_record: ns_per_record(first.system, last.system),
            client_ns_per_record: ns_per_record(first.client, last.client),
            records_per_second: records / (last.at - first.at).as_secs_f64(),
        }
    }
}

/// The CPU time of this process, all threads, user and system.
fn cpu() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the system writes to the place that is given to it; zeroes are a valid value too.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::from_secs(time.tv_sec.unsigned_abs())
        + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

/// The CPU time of this process in the system.
fn system() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the system writes to the place that is given to it; zeroes are a valid value too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    Duration::from_secs(usage.ru_stime.tv_sec.unsigned_abs())
        + Duration::from_micros(usage.ru_stime.tv_usec.unsigned_abs())
}

/// The CPU time of those threads of this process that are librdkafka's, and run.
fn client() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task");
    let of_thread = |folder: &Path| {
        let name = std::fs::read_to_string(folder.join("comm")).ok()?;
        let times = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        let nanos = times.split_whitespace().next()?.parse().ok()?;
        name.starts_with("rdk:")
            .then(|| Duration::from_nanos(nanos))
    };
    let folders = threads.into_iter().flatten().flatten();
    folders.filter_map(|one| of_thread(&one.path())).sum()
}

/// How figures lie.
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.collect();
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        Self {
            median: at(figures.len() / 2),
            least: at(0),
            most: at(figures.len().saturating_sub(1)),
        }
    }
}
