//! What is written to clusters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::writer::{Pace, Writer};
use crate::{NAME, Outcome};

/// The bytes of a value.
const SIZE: usize = 100;

/// Writes to all partitions in turn until it is dropped.
#[derive(Debug)]
pub(crate) struct Load {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    late: Arc<AtomicU64>,
}

impl Load {
    /// Starts to write by batches of so many records.
    pub(crate) fn start(
        servers: &str,
        partitions: i32,
        records: usize,
        pace: Pace,
    ) -> Outcome<Self> {
        let mut writer = Writer::connect(servers, NAME, partitions, (records, SIZE))?;
        let (stop, stopped) = mpsc::channel();
        let late = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&late);
        let thread = thread::spawn(move || {
            if let Err(error) = writer.run(pace, &stopped, &shared) {
                panic!("nothing is written any more: {error}");
            }
        });
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            late,
        })
    }

    /// How far behind it was at most since this was asked.
    pub(crate) fn late(&self) -> Duration {
        Duration::from_micros(self.late.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It says itself why it panicked.
            thread.join().ok();
        }
    }
}

/// Writes so many records to each partition.
pub(crate) fn fill(servers: &str, partitions: i32, records: usize) -> Outcome<()> {
    Writer::connect(servers, NAME, partitions, (records, SIZE))?.fill(records)
}
