//! What reading costs, for the benchmarks that include this file.
#![expect(
    unsafe_code,
    reason = "the system tells CPU time by a call that has no safe face which runs under valgrind"
)]

use std::mem::MaybeUninit;
use std::path::Path;
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
    /// CPU a record, of all threads.
    pub(crate) cpu_ns_per_record: f64,
    /// The part of it that was spent in the system.
    pub(crate) system_ns_per_record: f64,
    /// The part of it that was spent by the threads of librdkafka.
    pub(crate) client_ns_per_record: f64,
    /// From the first record to the last.
    pub(crate) records_per_second: f64,
}

/// What was counted, and what it took.
#[derive(Debug)]
pub(crate) struct Meter {
    expected: u64,
    cpu_before: Duration,
    system_before: Duration,
    client_before: Duration,
    pub(crate) first: Option<Instant>,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Meter {
    /// Starts to measure the reading of `expected` records.
    pub(crate) fn start(expected: u64) -> Self {
        Self {
            expected,
            cpu_before: cpu(),
            system_before: system(),
            client_before: client(),
            first: None,
            records: 0,
            bytes: 0,
        }
    }

    /// Counts records and the bytes of their values.
    #[inline]
    pub(crate) fn records(&mut self, records: u64, bytes: usize) {
        if self.first.is_none() {
            self.first = Some(Instant::now());
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
        let cpu = cpu() - self.cpu_before;
        let system = system() - self.system_before;
        let client = client() - self.client_before;
        let wall = self.first.map_or(Duration::ZERO, |first| first.elapsed());
        let records = self.records as f64;
        Measurement {
            mode: mode.to_owned(),
            records: self.records,
            bytes: self.bytes,
            cpu_ns_per_record: cpu.as_secs_f64() * 1e9 / records,
            system_ns_per_record: system.as_secs_f64() * 1e9 / records,
            client_ns_per_record: client.as_secs_f64() * 1e9 / records,
            records_per_second: records / wall.as_secs_f64(),
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
