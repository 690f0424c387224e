//! Writes log files while they are followed, and checks that every line came once.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use timely_splits::control::SourceControl;

use super::fetcher::Line;

/// A guard against hangs alone.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was read: how often each line came, and at which tick the last time.
struct Seen {
    lines: Receiver<(u64, Line)>,
    counts: BTreeMap<(String, String), usize>,
    ticks: Vec<u64>,
}

impl Seen {
    fn take(&mut self, (tick, (file, _, line)): (u64, Line)) {
        *self.counts.entry((file.to_string(), line)).or_default() += 1;
        self.ticks.push(tick);
    }

    /// Waits until this many different lines were read.
    fn until(&mut self, lines: usize) -> Result<(), Box<dyn Error>> {
        while self.counts.len() < lines {
            let line = self.lines.recv_timeout(PATIENCE);
            self.take(line.map_err(|_| format!("expected {lines} lines: {:?}", self.counts))?);
        }
        Ok(())
    }
}

pub(super) fn run() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (sender, lines) = unbounded();
    let control = SourceControl::new();
    let mut a = Log::create(folder.path(), "a.log")?;
    let mut b = Log::create(folder.path(), "b.log")?;
    a.write(500)?;
    let workers = super::follow(folder.path().into(), control.clone(), move |tick, line| {
        // Nobody listens any more once the demonstration has failed.
        sender.send((tick, line.clone())).ok();
    })?;
    let mut seen = Seen {
        lines,
        counts: BTreeMap::new(),
        ticks: Vec::new(),
    };

    println!("two files grow");
    b.write(300)?;
    seen.until(800)?;
    println!("a line comes in two parts, and is one");
    a.file.write_all(b"a.log line")?;
    b.write(1)?;
    seen.until(801)?;
    a.file.write_all(b" 500\n")?;
    seen.until(802)?;
    println!("a file appears");
    let mut c = Log::create(folder.path(), "c.log")?;
    c.write(200)?;
    seen.until(1_002)?;
    println!("a file vanishes");
    fs::remove_file(folder.path().join("a.log"))?;
    for _ in 0..10 {
        b.write(10)?;
        c.write(10)?;
        let before = seen.counts.len();
        seen.until(before + 20)?;
    }
    control.stop();
    for worker in workers.join() {
        worker?;
    }
    while let Ok(line) = seen.lines.try_recv() {
        seen.take(line);
    }

    let twice: Vec<_> = seen
        .counts
        .iter()
        .filter(|(_, count)| **count > 1)
        .collect();
    if !twice.is_empty() || seen.counts.len() != 1_202 {
        let count = seen.counts.len();
        return Err(format!("FAILED: {count} lines, expected 1202; twice came {twice:?}").into());
    }
    seen.ticks.sort_unstable();
    seen.ticks.dedup();
    let ticks = seen.ticks.len();
    println!("PASSED: 1202 lines of 3 files, each once, at {ticks} ticks");
    Ok(())
}

struct Log {
    name: &'static str,
    file: File,
    lines: usize,
}

impl Log {
    fn create(folder: &Path, name: &'static str) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            name,
            file: File::create(folder.join(name))?,
            lines: 0,
        })
    }

    fn write(&mut self, lines: usize) -> Result<(), Box<dyn Error>> {
        for number in self.lines..self.lines + lines {
            writeln!(self.file, "{} line {number}", self.name)?;
        }
        self.lines += lines;
        Ok(())
    }
}
