//! The process that writes.

use std::io::Read;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread;

use crate::cluster::Topic;
use crate::writer::{Pace, Writer};
use crate::{Arguments, NAME, Outcome};

/// From how many records a second on all partitions are written to at once, as everybody does who writes
/// many: sent one by one they are what keeps the machine busy.
const MANY: u64 = 10_000;

/// How often a second that is.
const TURNS: u64 = 200;

/// The records of a batch of what is written as fast as it is taken.
const FILLED: usize = 500;

/// The bytes of a value.
const SIZE: usize = 100;

/// Writes until the input ends.
pub(crate) fn write(arguments: &Arguments, servers: &str) -> Outcome<()> {
    let partitions = usize::try_from(arguments.partitions)?;
    let (records, partitions) = if arguments.rate < MANY {
        (1, 1)
    } else {
        let records = usize::try_from(arguments.rate / TURNS)? / partitions;
        (records.max(1), partitions)
    };
    let mut writer = Writer::connect(servers, NAME, arguments.partitions, (records, SIZE))?;
    let (alive, ended) = mpsc::channel();
    thread::spawn(move || {
        // However it ends, this is over.
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        drop(alive);
    });
    let pace = Pace {
        rate: arguments.rate,
        partitions,
    };
    writer.run(pace, &ended, &AtomicU64::new(0))
}

/// Writes so many records to a topic as fast as they are taken.
pub(crate) fn fill(topic: &Topic, records: usize) -> Outcome<()> {
    let size = (FILLED, SIZE);
    Writer::connect(&topic.servers, topic.name, topic.partitions, size)?.fill(records)
}
