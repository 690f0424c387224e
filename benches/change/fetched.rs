//! Which records answers to fetches bring, and which of them came before.

use std::collections::BTreeMap;

/// The version of fetches that is read here: the one by which librdkafka asks embedded clusters.
pub(crate) const VERSION: i16 = 16;

/// The bytes of a topic's id, and of an aborted transaction.
const TOPIC_BYTES: usize = 16;
const ABORTED_BYTES: usize = 16;

/// What is in a record batch between its length and by how much its last offset is above its first.
const CHECKED_BYTES: usize = 11;

/// What was fetched of the partitions of one topic, by whatever client and over whatever connection.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    partitions: BTreeMap<i32, Partition>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Partition {
    /// The offset after the last one that came.
    next: i64,
    /// How many records came.
    records: u64,
    /// How many of them had come before.
    twice: u64,
}

impl Partition {
    fn note(&mut self, first: i64, last: i64) {
        let end = last + 1;
        let before = self.next.min(end) - first;
        self.records += (end - first).unsigned_abs();
        self.twice += before.max(0).unsigned_abs();
        self.next = self.next.max(end);
    }
}

impl Fetched {
    /// Notes what an answer brings, which is without its length here; `None` if it cannot be read.
    pub(crate) fn note(&mut self, answer: &[u8]) -> Option<()> {
        let mut rest = Bytes(answer);
        rest.number::<4>()?; // the number of the request
        rest.skip_tags()?;
        rest.take(4 + 2 + 4)?; // how long to wait, an error, a session
        for _ in 0..rest.length()? {
            rest.take(TOPIC_BYTES)?;
            for _ in 0..rest.length()? {
                self.note_partition(&mut rest)?;
            }
            rest.skip_tags()?;
        }
        Some(())
    }

    fn note_partition(&mut self, rest: &mut Bytes<'_>) -> Option<()> {
        let number = i32::try_from(rest.number::<4>()?).ok()?;
        rest.take(2 + 3 * 8)?; // an error, where it ends, is stable up to, and begins
        for _ in 0..rest.length()? {
            rest.take(ABORTED_BYTES)?;
            rest.skip_tags()?;
        }
        rest.take(4)?; // a replica that is preferred
        let bytes = rest.length()?;
        let mut batches = Bytes(rest.take(bytes)?);
        rest.skip_tags()?;
        while !batches.0.is_empty() {
            let first = batches.number::<8>()?;
            let length = usize::try_from(batches.number::<4>()?).ok()?;
            let mut batch = Bytes(batches.take(length)?);
            batch.take(CHECKED_BYTES)?;
            let last = first + batch.number::<4>()?;
            self.partitions.entry(number).or_default().note(first, last);
        }
        Some(())
    }

    /// How many records came.
    pub(crate) fn records(&self) -> u64 {
        self.partitions.values().map(|one| one.records).sum()
    }

    /// How many came that had come before, of each partition that has such.
    pub(crate) fn twice(&self) -> BTreeMap<i32, u64> {
        let twice = self.partitions.iter().filter(|(_, one)| one.twice > 0);
        twice.map(|(number, one)| (*number, one.twice)).collect()
    }

    /// Counts from here on what comes that came before.
    pub(crate) fn track(&mut self) {
        for partition in self.partitions.values_mut() {
            partition.twice = 0;
        }
    }
}

/// What is left to be read of an answer.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        self.0.split_off(..count)
    }

    /// A number of `N` bytes, at most 8.
    fn number<const N: usize>(&mut self) -> Option<i64> {
        let bytes = self.take(N)?;
        let sign = if bytes[0] < 0x80 { 0 } else { -1 };
        Some(
            bytes
                .iter()
                .fold(sign, |all, byte| all << 8 | i64::from(*byte)),
        )
    }

    fn varint(&mut self) -> Option<usize> {
        let mut all = 0;
        for shift in (0..u32::BITS).step_by(7) {
            let byte = self.0.split_off_first()?;
            all |= usize::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(all);
            }
        }
        None
    }

    /// How long something is; nothing is as long as what is empty.
    fn length(&mut self) -> Option<usize> {
        Some(self.varint()?.saturating_sub(1))
    }

    fn skip_tags(&mut self) -> Option<()> {
        for _ in 0..self.varint()? {
            self.varint()?;
            let length = self.varint()?;
            self.take(length)?;
        }
        Some(())
    }
}
