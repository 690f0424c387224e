//! What it costs to send a batch of records to another process, in the ways that there are.
//!
//! ```text
//! cargo bench --bench encode
//! ```
//!
//! Four ways, in turn: the container of this crate; rows by bincode, as timely sends what has `serde`;
//! columns by the crate `columnar`; and rows by `abomonation`, which timely used up to 2024. Encoding begins with the batch in
//! the form of that way, and ends with its bytes; decoding begins with bytes that may be kept, and ends when each value
//! was looked at. Prints nanoseconds a record, the median and the least of all rounds, and bytes a record.
//!
//! `abomonation` is here for the record only. Its decoding is unsound: it makes references into bytes that need not be
//! aligned, and believes all that they say. Nobody maintains it.
#![expect(
    clippy::print_stdout,
    unsafe_code,
    reason = "what a benchmark is for, and that `abomonation` cannot be had without"
)]

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use columnar::bytes::indexed;
use columnar::{Borrow, BorrowedOf, Columnar, FromBytes, Index, Len, Push};
use timely::bytes::arc::BytesMut;
use timely::dataflow::channels::ContainerBytes;
use timely_kafka::model::{ClusterId, KafkaSplit, Offset, Partition, TopicName};
use timely_kafka::records::{BatchBuilder, RecordBatch, RecordParts, RecordTime, RecordTimeType};

const RECORDS: u64 = 2_000;
const KEY: &[u8; 8] = b"customer";
const VALUE: &[u8; 100] = &[7; 100];
const ROUNDS: usize = 301;

/// Offset, time, key and value.
type Row = (u64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

type Columns = <Row as Columnar>::Container;

/// How long one batch took.
#[derive(Default)]
struct Taken {
    encoding: Vec<f64>,
    decoding: Vec<f64>,
    bytes: usize,
}

impl Taken {
    /// Measures both directions once.
    fn round<T>(&mut self, encode: impl FnOnce() -> Vec<T>, decode: impl FnOnce(Vec<T>) -> u64) {
        let start = Instant::now();
        let encoded = black_box(encode());
        self.encoding.push(nanos_a_record(start));
        self.bytes = encoded.len() * size_of::<T>();
        let start_again = Instant::now();
        let sum = decode(encoded);
        self.decoding.push(nanos_a_record(start_again));
        assert_eq!(sum, RECORDS * 107, "every record was looked at");
    }

    fn print(mut self, way: &str) {
        let words = |figures: &mut Vec<f64>| {
            figures.sort_by(f64::total_cmp);
            format!(
                "{:7.2} (least {:6.2})",
                figures[figures.len() / 2],
                figures[0]
            )
        };
        let (encoding, decoding) = (words(&mut self.encoding), words(&mut self.decoding));
        let bytes = self.bytes as f64 / RECORDS as f64;
        println!("{way:<12} {encoding}   {decoding}   {bytes:6.1}");
    }
}

fn nanos_a_record(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / RECORDS as f64
}

/// The length of a value and its first byte.
fn look(value: &[u8]) -> u64 {
    value.len() as u64 + u64::from(value[0])
}

fn look_at_rows(rows: &[Row]) -> u64 {
    let values = rows.iter().filter_map(|row| row.3.as_deref());
    values.map(look).sum()
}

fn batch() -> Result<RecordBatch, Box<dyn Error>> {
    let mut builder = BatchBuilder::new();
    for offset in 0..RECORDS {
        builder.push(&RecordParts {
            offset: Offset::new(offset),
            record_time: RecordTime {
                millis: 1_700_000_000_000,
                kind: RecordTimeType::Create,
            },
            key: Some(KEY),
            value: Some(VALUE),
        });
    }
    let (cluster, topic) = (ClusterId::new("east")?, TopicName::new("orders")?);
    Ok(builder.finish(&KafkaSplit::new(cluster, topic, Partition(0))))
}

fn rows() -> Vec<Row> {
    let row = |offset| {
        (
            offset,
            1_700_000_000_000,
            Some(KEY.to_vec()),
            Some(VALUE.to_vec()),
        )
    };
    (0..RECORDS).map(row).collect()
}

#[expect(clippy::too_many_lines, reason = "four ways, one after the other")]
fn main() -> Result<(), Box<dyn Error>> {
    let (batch, rows) = (batch()?, rows());
    let mut columns = Columns::default();
    for row in &rows {
        columns.push(row);
    }
    let [mut container, mut bincoded, mut columned, mut abomonated] = [const {
        Taken {
            encoding: Vec::new(),
            decoding: Vec::new(),
            bytes: 0,
        }
    }; 4];
    for _ in 0..ROUNDS {
        container.round(
            || {
                let mut frame = Vec::with_capacity(batch.length_in_bytes());
                batch.into_bytes(&mut frame);
                frame
            },
            |frame| {
                let frame = BytesMut::from(frame).freeze();
                RecordBatch::from_bytes(frame)
                    .values()
                    .flatten()
                    .map(look)
                    .sum()
            },
        );
        bincoded.round(
            || bincode::serialize(&rows).unwrap_or_default(),
            |bytes| {
                let decoded: Vec<Row> = bincode::deserialize(&bytes).unwrap_or_default();
                look_at_rows(&decoded)
            },
        );
        columned.round(
            || {
                let columns = columns.borrow();
                let mut words = Vec::with_capacity(indexed::length_in_words(&columns));
                indexed::encode(&mut words, &columns);
                words
            },
            |words| {
                let decoded = BorrowedOf::<'_, Row>::from_bytes(&mut indexed::decode(&words));
                let values = (0..decoded.len()).map(|at| decoded.get(at).3);
                values
                    .map(|value| value.map_or(0, |value| look(value.as_slice())))
                    .sum()
            },
        );
        abomonated.round(
            || {
                let mut bytes = Vec::with_capacity(abomonation::measure(&rows));
                // SAFETY: none is to be had: it writes memory as it is, with what lies between the fields.
                if let Err(error) = unsafe { abomonation::encode(&rows, &mut bytes) } {
                    panic!("writing to memory failed: {error}");
                }
                bytes
            },
            |mut bytes| {
                // SAFETY: none is to be had: see above. The bytes are those that were written by this process.
                let decoded = unsafe { abomonation::decode::<Vec<Row>>(&mut bytes) };
                decoded.map_or(0, |(decoded, _)| look_at_rows(decoded))
            },
        );
    }
    println!(
        "{RECORDS} records with keys of {} and values of {} bytes; nanoseconds a record",
        KEY.len(),
        VALUE.len()
    );
    println!(
        "{:<12} {:<24}   {:<24}   bytes",
        "", "encode", "decode, look at values"
    );
    container.print("container");
    bincoded.print("bincode");
    columned.print("columnar");
    abomonated.print("abomonation");
    Ok(())
}
