//! The source of the example `follow_logs` keeps the contracts.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use timely_splits::conformance::{DiscoveryRig, FetcherRig, Kit};
use timely_splits::wake::Waker;

#[path = "../../examples/follow_logs/discovery.rs"]
mod discovery;
#[path = "../../examples/follow_logs/fetcher.rs"]
mod fetcher;
#[path = "../../examples/follow_logs/split.rs"]
mod split;

use discovery::FolderDiscovery;
use fetcher::{Line, LogFetcher};
use split::{Folder, LogFile};

struct Rig(TempDir);

impl Rig {
    fn new() -> Self {
        Self(TempDir::new().expect("a folder can be made"))
    }

    fn file(&self, file: &LogFile) -> File {
        let path = self.0.path().join(&*file.0);
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).open(path);
        opened.expect("a file can be made")
    }

    fn log(index: usize) -> LogFile {
        LogFile(Arc::from(["a.log", "b.log", "c.log"][index]))
    }
}

impl FetcherRig for Rig {
    type Split = LogFile;
    type Fetcher = LogFetcher;

    fn fetcher(&mut self, waker: Waker) -> LogFetcher {
        for index in 0..3 {
            self.file(&Self::log(index));
        }
        LogFetcher::start(self.0.path().to_owned(), waker)
    }

    fn split(&self, index: usize) -> LogFile {
        Self::log(index)
    }

    fn metadata(&self, splits: &[LogFile]) -> Folder {
        Folder(splits.iter().cloned().collect())
    }

    fn start(&self, _split: &LogFile) -> u64 {
        0
    }

    fn write(&mut self, split: &LogFile, records: usize) {
        let path = self.0.path().join(&*split.0);
        let text = std::fs::read_to_string(path).expect("the file can be read");
        let first = text.lines().count();
        let lines = first..first + records;
        let lines: String = lines.map(|number| format!("{number:06}\n")).collect();
        let written = self.file(split).write_all(lines.as_bytes());
        written.expect("the file can be written");
    }

    fn numbers(&self, batch: &Vec<Line>) -> Vec<u64> {
        let numbers = batch.iter().map(|(_, _, line)| line.parse());
        numbers
            .map(|number| number.expect("every line is a number"))
            .collect()
    }

    fn unreadable(&self, _split: &LogFile) -> Option<u64> {
        Some(1_000_000)
    }

    fn cut_off(&mut self) -> Option<usize> {
        for index in 0..3 {
            let path = self.0.path().join(&*Self::log(index).0);
            std::fs::remove_file(path).expect("the file can be removed");
        }
        // Sixteen pieces of 64 KiB and two more under way, of lines of seven bytes.
        Some(18 * (64 << 10) / 7 + 18)
    }

    fn flood(&self) -> usize {
        500_000
    }
}

impl DiscoveryRig for Rig {
    type Split = LogFile;
    type Discovery = FolderDiscovery;

    fn discovery(&mut self, waker: Waker) -> FolderDiscovery {
        FolderDiscovery::start(self.0.path().to_owned(), waker)
    }

    fn split(&self, index: usize) -> LogFile {
        Self::log(index)
    }

    fn metadata(&self, splits: &[LogFile]) -> Folder {
        Folder(splits.iter().cloned().collect())
    }

    fn announce(&mut self, splits: &[LogFile]) {
        for index in 0..3 {
            let log = Self::log(index);
            if splits.contains(&log) {
                self.file(&log);
            } else {
                // It may not be there.
                std::fs::remove_file(self.0.path().join(&*log.0)).ok();
            }
        }
    }

    fn start(&self, _split: &LogFile) -> u64 {
        0
    }
}

/// The disk of a busy machine can be slow.
fn kit() -> Kit {
    Kit::new().patience(Duration::from_secs(4))
}

#[test]
fn the_fetcher_keeps_its_contract() {
    kit().fetcher(Rig::new).assert_kept_but(&[]);
}

#[test]
fn the_discovery_keeps_its_contract() {
    kit()
        .discovery(Rig::new)
        .assert_kept_but(&["D5", "D8", "D9", "D11"]);
}
