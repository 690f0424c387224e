//! The cost of reading.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::native::cpu;
use crate::{Arguments, Mode};

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
    /// From the first record to the last.
    pub(crate) records_per_second: f64,
}

/// What was counted, and what it took.
#[derive(Debug)]
pub(crate) struct Meter {
    expected: u64,
    cpu_before: Duration,
    first: Option<Instant>,
    records: u64,
    bytes: u64,
}

impl Meter {
    /// Starts to measure.
    pub(crate) fn start(arguments: &Arguments) -> Self {
        Self {
            expected: arguments.records,
            cpu_before: cpu(),
            first: None,
            records: 0,
            bytes: 0,
        }
    }

    /// Counts one record.
    #[inline]
    pub(crate) fn record(&mut self, bytes: usize) {
        self.records(1, bytes);
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
    pub(crate) fn stop(&self, mode: Mode) -> Measurement {
        let cpu = cpu() - self.cpu_before;
        let wall = self.first.map_or(Duration::ZERO, |first| first.elapsed());
        let records = self.records as f64;
        Measurement {
            mode: mode.name().to_owned(),
            records: self.records,
            bytes: self.bytes,
            cpu_ns_per_record: cpu.as_secs_f64() * 1e9 / records,
            records_per_second: records / wall.as_secs_f64(),
        }
    }
}
