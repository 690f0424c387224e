//! What a log in a folder costs: to open one of many ticks, and to append a tick to it.
//!
//! `cargo bench -p timely-splits --bench log [-- ticks splits]`, by default 10,000,000 ticks and 10,000
//! splits. One JSON line a figure on the standard output, a table on the other. The folder is made in
//! the directory that `TMPDIR` names; it should be on the disk that is asked about.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark measures time, and says what it found"
)]

use std::error::Error;
use std::fmt::{self, Display};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use timely_splits::binding::{Binding, SplitRange};
use timely_splits::coordinator::{SNAPSHOT_VERSION, Snapshot, SplitSnapshot};
use timely_splits::epoch::{Incarnation, LogSequence, SplitEpoch};
use timely_splits::log::{BindingLog, LocalLog, LogRecord, Stored, StoredError};
use timely_splits::split::{Metadata, Split};
use timely_splits::tick::Tick;

/// How many ticks are between two snapshots, as by default.
const SNAPSHOT_EVERY: u64 = 6_000;

const RUN: Incarnation = Incarnation(1);

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
struct Number(u64);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Nothing;

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl Stored for Number {
    /// As long as a name of a cluster and a topic are, so that figures are of real splits.
    fn store(&self) -> Vec<u8> {
        format!("cluster-east/orders/{:08}", self.0).into_bytes()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        let number = bytes
            .get(20..)
            .and_then(|digits| str::from_utf8(digits).ok());
        let number = number.and_then(|digits| digits.parse().ok());
        number
            .map(Self)
            .ok_or_else(|| StoredError::new("number", "no number"))
    }
}

impl Stored for Nothing {
    fn store(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(_: &[u8]) -> Result<Self, StoredError> {
        Ok(Self)
    }
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
struct Offset(u64);

impl Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl Stored for Offset {
    fn store(&self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }

    fn restore(bytes: &[u8]) -> Result<Self, StoredError> {
        let bytes = bytes.try_into();
        let bytes = bytes.map_err(|_| StoredError::new("offset", "not eight bytes"))?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }
}

impl Split for Number {
    type Position = Offset;
    type Identity = ();
    type Metadata = Nothing;
}

impl Metadata<Number> for Nothing {
    type Group = ();

    fn group_of(_: &Number) {}

    fn lists_group(&self, (): &()) -> bool {
        true
    }

    fn changed_groups(&self, _: &Self) -> Vec<()> {
        Vec::new()
    }
}

fn binding(tick: u64, moving: u64) -> LogRecord<Number> {
    let ranges = (0..moving).map(|split| SplitRange {
        split: Number(split),
        from: Offset(tick),
        to: Offset(tick + 1),
    });
    LogRecord::Binding(Binding {
        tick: Tick(tick),
        ranges: ranges.collect(),
        errors: Vec::new(),
    })
}

fn snapshot(tick: u64, splits: u64) -> LogRecord<Number> {
    let all = (0..splits).map(|split| SplitSnapshot {
        split: Number(split),
        position: Offset(tick),
        quarantined: false,
        paused: false,
        identity: None,
        unlisted_since: None,
        stop: None,
        end: None,
    });
    LogRecord::Snapshot(Snapshot {
        version: SNAPSHOT_VERSION,
        incarnation: RUN,
        reserved: Tick(tick),
        bound: Some(Tick(tick)),
        metadata: None,
        target: None,
        first: None,
        count: splits,
        splits: all.collect(),
        split_epochs: SplitEpoch(1_000),
        rewound: false,
        all_found: false,
    })
}

fn bytes(folder: &Path) -> Result<u64, Box<dyn Error>> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

fn say(name: &str, value: f64, unit: &str) {
    println!("{{\"name\": \"{name}\", \"value\": {value:.3}, \"unit\": \"{unit}\"}}");
    eprintln!("{name:<52} {value:>14.3} {unit}");
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Ticks that come one at a time, each synced.
fn append(moving: u64) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut log = LocalLog::<Number>::at(folder.path());
    log.open()?;
    let ticks = 200;
    let before = bytes(folder.path())?;
    let mut times = Vec::new();
    for tick in 0..ticks {
        let record = binding(tick + 1, moving);
        let begun = Instant::now();
        log.append(RUN, LogSequence(tick), &[record])?;
        times.push(begun.elapsed());
    }
    times.sort();
    let written = bytes(folder.path())? - before;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let per_tick = written as f64 / ticks as f64;
    say(
        &format!("append, {moving} splits move: median"),
        millis(times[100]),
        "ms",
    );
    say(
        &format!("append, {moving} splits move: 95 of 100"),
        millis(times[190]),
        "ms",
    );
    say(
        &format!("append, {moving} splits move: size"),
        per_tick,
        "bytes",
    );
    Ok(())
}

/// A log of so many ticks, as a source leaves it whose ticks find three splits moving.
fn open(ticks: u64, splits: u64) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut log = LocalLog::<Number>::at(folder.path()).keep_for(Duration::MAX);
    log.open()?;
    let (mut next, begun) = (LogSequence(0), Instant::now());
    let mut tick = 0;
    let last = ticks.saturating_sub(1) / SNAPSHOT_EVERY * SNAPSHOT_EVERY;
    while tick < ticks {
        // Many in one append, so that making the log takes minutes; but not those that opening reads.
        let many = if tick >= last { 1 } else { SNAPSHOT_EVERY };
        let records: Vec<_> = (tick..tick + many)
            .map(|tick| binding(tick + 1, 3))
            .collect();
        log.append(RUN, next, &records)?;
        next.0 += many;
        tick += many;
        if tick <= last {
            log.append(RUN, next, &[snapshot(tick, splits)])?;
            next.0 += 1;
        }
    }
    eprintln!("made in {:?}", begun.elapsed());
    drop(log);
    let size = bytes(folder.path())?;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    say("log: size", size as f64 / 1e6, "MB");
    for name in ["first", "second", "third"] {
        let start = Instant::now();
        let mut again = LocalLog::<Number>::at(folder.path()).keep_for(Duration::MAX);
        let extent = again.open()?;
        let opened = start.elapsed();
        let mut from = extent.last_state();
        loop {
            let read: Vec<LogRecord<Number>> = again.read(from, 4_096)?;
            if read.is_empty() {
                break;
            }
            from.0 += read.len() as u64;
        }
        say(
            &format!("open, {ticks} ticks, {splits} splits: {name}"),
            millis(opened),
            "ms",
        );
        say(
            &format!("open and read the last state: {name}"),
            millis(start.elapsed()),
            "ms",
        );
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u64> = std::env::args()
        .filter_map(|one| one.parse().ok())
        .collect();
    let ticks = numbers.first().copied().unwrap_or(10_000_000);
    let splits = numbers.get(1).copied().unwrap_or(10_000);
    for moving in [10, 1_000, 10_000] {
        append(moving)?;
    }
    open(ticks, splits)
}
