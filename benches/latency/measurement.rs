//! What is measured, and when.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::cpu::Cpu;
use crate::{Arguments, Outcome};

/// What is written in the nanoseconds after the first record came is not measured: connections are made, and
/// caches are cold.
const WARMING: u64 = 1_000_000_000;

/// By how many nanoseconds the records of one partition may come before those of another.
const OVER: u64 = 200_000_000;

/// The longest that is told apart, in microseconds.
const MOST: u64 = 60_000_000;

/// The time, as all processes of a machine know it, in nanoseconds.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// What there is to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    /// What is to be written a second; zero is what was there before.
    pub(crate) rate: u64,
    /// Where a huge partition is.
    pub(crate) huge: Option<String>,
}

/// What one measurement came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) way: String,
    /// The tick of the source, if it was one.
    pub(crate) tick_ms: Option<u64>,
    pub(crate) load: Load,
    /// What was read, before and after it was measured too.
    pub(crate) records: u64,
    pub(crate) records_per_second: u64,
    pub(crate) reader_cores: f64,
    pub(crate) machine_cores: f64,
    pub(crate) emitted: Delays,
    pub(crate) passed: Option<Delays>,
}

impl Measurement {
    /// The same, under a load.
    pub(crate) fn under(self, load: Load) -> Self {
        Self { load, ..self }
    }

    /// The same, with what another thread has read meanwhile.
    pub(crate) fn with(self, other: &Self) -> Self {
        Self {
            records: self.records + other.records,
            records_per_second: self.records_per_second + other.records_per_second,
            ..self
        }
    }
}

/// How delays lie.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Delays {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) most_ms: f64,
}

impl Delays {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
        Self {
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            most_ms: at(1.0),
        }
    }
}

/// The name of the source by ticks of so many milliseconds, or of the bare loop.
pub(crate) fn name_of(tick: Option<u64>) -> String {
    tick.map_or_else(|| "bare".to_owned(), |tick| format!("source-{tick}"))
}

/// Measures for some seconds.
#[derive(Debug)]
pub(crate) struct Recorder {
    tick: Option<u64>,
    length: u64,
    /// Nanoseconds; known with the first record.
    begin: Option<u64>,
    /// When the youngest record was written that came.
    youngest: u64,
    /// When it was looked last.
    now: u64,
    /// Whether what is there is read as fast as can be, whenever it was written.
    most: bool,
    /// How many records came.
    came: u64,
    /// How many of them came while it is measured.
    read: u64,
    started: (Instant, Cpu),
    emitted: Histogram<u64>,
    passed: Histogram<u64>,
    /// When what the frontier has not passed was written, by ticks.
    waiting: BTreeMap<u64, Vec<u64>>,
}

impl Recorder {
    pub(crate) fn new(arguments: &Arguments) -> Outcome<Self> {
        let length = Duration::from_secs(arguments.seconds);
        Ok(Self {
            tick: arguments.tick,
            length: u64::try_from(length.as_nanos())?,
            begin: None,
            youngest: 0,
            now: 0,
            most: arguments.most,
            came: 0,
            read: 0,
            started: (Instant::now(), Cpu::now()?),
            emitted: Histogram::new_with_max(MOST, 3)?,
            passed: Histogram::new_with_max(MOST, 3)?,
            waiting: BTreeMap::new(),
        })
    }

    /// Counts a record that is there now, by its value.
    #[inline]
    pub(crate) fn emitted(&mut self, value: &[u8], now: u64) -> Option<u64> {
        let head = value.first_chunk::<8>()?;
        let written = u64::from_le_bytes(*head);
        let begin = *self.begin.get_or_insert(now + WARMING);
        self.youngest = self.youngest.max(written);
        let end = begin + self.length;
        self.came += 1;
        self.read += u64::from(now >= begin && now < end);
        if written < begin || written >= end {
            return None;
        }
        let micros = now.saturating_sub(written) / 1_000;
        self.emitted.saturating_record(micros);
        Some(written)
    }

    /// Counts records of a batch at a tick, by their values.
    pub(crate) fn emitted_at<'a>(
        &mut self,
        tick: u64,
        values: impl Iterator<Item = &'a [u8]>,
        now: u64,
    ) {
        let mut written = self.waiting.remove(&tick).unwrap_or_default();
        written.extend(values.filter_map(|value| self.emitted(value, now)));
        if !written.is_empty() {
            self.waiting.insert(tick, written);
        }
    }

    /// Counts what is at ticks before `frontier`.
    pub(crate) fn passed(&mut self, frontier: u64, now: u64) {
        self.now = now;
        while let Some(oldest) = self.waiting.first_entry()
            && *oldest.key() < frontier
        {
            for written in oldest.remove() {
                let micros = now.saturating_sub(written) / 1_000;
                self.passed.saturating_record(micros);
            }
        }
    }

    /// Whether all came that was written in time, and is final if that is measured.
    pub(crate) fn is_done(&self) -> bool {
        let over = self.begin.map(|begin| begin + self.length + OVER);
        let reached = if self.most { self.now } else { self.youngest };
        over.is_some_and(|over| reached >= over) && self.waiting.is_empty()
    }

    /// What it came to.
    pub(crate) fn stop(&self) -> Outcome<Measurement> {
        let (started, before) = self.started;
        let (took, cpu) = (started.elapsed().as_secs_f64(), Cpu::now()?);
        Ok(Measurement {
            way: name_of(self.tick),
            tick_ms: self.tick,
            load: Load::default(),
            records: self.came,
            records_per_second: self.read * 1_000_000_000 / self.length,
            reader_cores: (cpu.process - before.process) / took,
            machine_cores: (cpu.machine - before.machine) / took,
            emitted: Delays::of(&self.emitted),
            passed: (!self.passed.is_empty()).then(|| Delays::of(&self.passed)),
        })
    }
}
