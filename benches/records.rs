//! What a record costs in a batch: to push, to look at, to send to another process.
//!
//! `cargo bench --bench records` prints nanoseconds a record, the median and the least of all
//! rounds, for records with values of 100 bytes in batches of about a mebibyte.
#![expect(clippy::print_stdout, reason = "what a benchmark is for")]

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use timely::bytes::arc::BytesMut;
use timely::dataflow::channels::ContainerBytes;
use timely_kafka::model::{ClusterId, KafkaSplit, Offset, Partition, TopicName};
use timely_kafka::records::{BatchBuilder, RecordBatch, RecordParts, RecordTime};

const RECORDS: u64 = 8_192;
const VALUE_BYTES: usize = 100;
/// Batches made, looked at and dropped in one round.
const BATCHES: u32 = 200;
const ROUNDS: usize = 31;

fn build(builder: &mut BatchBuilder, split: &KafkaSplit, value: &[u8]) -> RecordBatch {
    for offset in 0..RECORDS {
        builder.push(&RecordParts {
            offset: Offset::new(offset),
            record_time: RecordTime::NOT_AVAILABLE,
            key: None,
            value: Some(black_box(value)),
        });
    }
    builder.finish(split)
}

/// Reads eight bytes of each value, so that each is in the cache once.
fn look(batch: &RecordBatch) -> u64 {
    batch.values().fold(0, |sum, value| {
        let word = value.and_then(<[u8]>::first_chunk::<8>);
        sum.wrapping_add(word.map_or(0, |word| u64::from_ne_bytes(*word)))
    })
}

fn send(batch: &RecordBatch) -> BytesMut {
    let mut frame = Vec::with_capacity(batch.length_in_bytes());
    batch.into_bytes(&mut frame);
    BytesMut::from(frame)
}

/// Runs `batch` for a round and returns what a record took.
fn measure(mut batch: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..BATCHES {
        batch();
    }
    start.elapsed() / BATCHES
}

fn report(what: &str, mut rounds: Vec<Duration>) {
    rounds.sort();
    let nanos = |batch: Duration| batch.as_secs_f64() * 1e9 / RECORDS as f64;
    let (median, least) = (nanos(rounds[rounds.len() / 2]), nanos(rounds[0]));
    println!("{what:<28} {median:6.2} ns a record (least {least:.2})");
}

fn main() -> Result<(), Box<dyn Error>> {
    let split = KafkaSplit::new(
        ClusterId::new("east")?,
        TopicName::new("orders")?,
        Partition(0),
    );
    let value = [7; VALUE_BYTES];
    let mut builder = BatchBuilder::new();
    let batch = build(&mut builder, &split, &value);
    let mut rounds = [const { Vec::new() }; 5];
    for _ in 0..ROUNDS {
        rounds[0].push(measure(|| {
            black_box(build(&mut builder, &split, &value));
        }));
        rounds[1].push(measure(|| {
            black_box(look(black_box(&batch)));
        }));
        rounds[2].push(measure(|| {
            black_box(look(&build(&mut builder, &split, &value)));
        }));
        rounds[3].push(measure(|| {
            black_box(send(&batch));
        }));
        rounds[4].push(measure(|| {
            black_box(RecordBatch::from_bytes(send(&batch).freeze()));
        }));
    }
    let names = [
        "push",
        "iterate",
        "push, iterate, drop",
        "write a frame",
        "write and read a frame",
    ];
    for (name, of_name) in names.into_iter().zip(rounds) {
        report(name, of_name);
    }
    Ok(())
}
