//! A record batch as Kafka's protocol has it, for the benchmarks that include this file.

use std::error::Error;

/// The bytes before the first record.
const HEAD_BYTES: usize = 61;

/// What lies where in them.
const LENGTH: usize = 8;
const FORMAT: usize = 16;
const CHECKSUM: usize = 17;
const CHECKED: usize = 21;
const LAST: usize = 23;
const FIRST_TIME: usize = 27;
const LAST_TIME: usize = 35;
const PRODUCER: usize = 43;
const COUNT: usize = 57;

/// The bytes of the time in a value.
const TIME_BYTES: usize = 8;

/// Records with values of one size and no keys, in format 2.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Where values begin.
    values: Vec<usize>,
}

impl Batch {
    /// So many records with values of `size` bytes, at least as many as a time has. It is stamped before use.
    pub(crate) fn new(records: usize, size: usize) -> Result<Self, Box<dyn Error>> {
        let mut bytes = vec![0; HEAD_BYTES];
        let mut values = Vec::new();
        for number in 0..records {
            let mut head = vec![0];
            push_number(&mut head, 0); // the time since the first
            push_number(&mut head, i64::try_from(number)?);
            push_number(&mut head, -1); // no key
            push_number(&mut head, i64::try_from(size)?);
            // After the value there is one byte: no headers.
            push_number(&mut bytes, i64::try_from(head.len() + size + 1)?);
            bytes.extend_from_slice(&head);
            values.push(bytes.len());
            bytes.resize(bytes.len() + size, b'v');
            push_number(&mut bytes, 0);
        }
        let after_length = u32::try_from(bytes.len() - LENGTH - 4)?;
        bytes[LENGTH..][..4].copy_from_slice(&after_length.to_be_bytes());
        bytes[FORMAT] = 2;
        let last = u32::try_from(records.saturating_sub(1))?;
        bytes[LAST..][..4].copy_from_slice(&last.to_be_bytes());
        bytes[PRODUCER..COUNT].fill(0xff); // none that is idempotent
        bytes[COUNT..][..4].copy_from_slice(&u32::try_from(records)?.to_be_bytes());
        Ok(Self { bytes, values })
    }

    /// Says that it was written at `nanoseconds` since 1970: in its head, and at the beginning of each value.
    pub(crate) fn stamp(&mut self, nanoseconds: u64) {
        for at in &self.values {
            self.bytes[*at..][..TIME_BYTES].copy_from_slice(&nanoseconds.to_le_bytes());
        }
        let millis = (nanoseconds / 1_000_000).to_be_bytes();
        self.bytes[FIRST_TIME..LAST_TIME].copy_from_slice(&millis);
        self.bytes[LAST_TIME..PRODUCER].copy_from_slice(&millis);
        let checksum = crc32c::crc32c(&self.bytes[CHECKED..]);
        self.bytes[CHECKSUM..CHECKED].copy_from_slice(&checksum.to_be_bytes());
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn push_number(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = (number << 1 ^ number >> 63).cast_unsigned();
    while rest >= 0x80 {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push((rest & 0x7f) as u8);
}
