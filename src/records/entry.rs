//! What the index of a batch keeps for a record.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{RecordTime, RecordTimeType};

/// The size of an [`Entry`] in bytes.
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();

/// The size in bytes of what stands before each header: the lengths of its key and of its value.
pub(super) const HEADER_LENGTHS_BYTES: usize = 2 * size_of::<u32>();

/// Kafka's own length of a value that is null, -1 in 32 bits. A real length has 31.
pub(super) const NULL_LENGTH: u32 = u32::MAX;

const KEY_NULL: u32 = 1;
const VALUE_NULL: u32 = 1 << 1;
const TIME_CREATE: u32 = 1 << 2;
const TIME_LOG_APPEND: u32 = 1 << 3;
const FLAGS: u32 = KEY_NULL | VALUE_NULL | TIME_CREATE | TIME_LOG_APPEND;

/// Where one record lies in the payload of its batch, and what is not in the payload.
///
/// Key, value and headers of a record lie one behind the other from `start` on, so that one position
/// and three lengths are enough. A record without headers has an entry as long as any other, and
/// nothing in the payload.
///
/// # Invariants
///
/// Once [`is_valid`](Self::is_valid) for a payload length, the three ranges lie within the payload.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) offset: u64,
    millis: i64,
    start: u64,
    key_length: u32,
    value_length: u32,
    headers_length: u32,
    flags: u32,
}

impl Entry {
    /// The entry of a record, without headers, whose key and value lie at `start`.
    #[inline]
    pub(super) fn new(
        offset: u64,
        time: RecordTime,
        start: usize,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Self {
        let null = |part: Option<&[u8]>, flag| if part.is_none() { flag } else { 0 };
        let kind = match time.kind {
            RecordTimeType::NotAvailable => 0,
            RecordTimeType::Create => TIME_CREATE,
            RecordTimeType::LogAppend => TIME_LOG_APPEND,
        };
        Self {
            offset,
            millis: time.millis,
            start: start as u64,
            key_length: length(key.unwrap_or_default()),
            value_length: length(value.unwrap_or_default()),
            headers_length: 0,
            flags: null(key, KEY_NULL) | null(value, VALUE_NULL) | kind,
        }
    }

    /// Counts `bytes` more as headers of this record.
    pub(super) fn extend_headers(&mut self, bytes: usize) {
        // A record has less than 2 GiB in Kafka, where each header takes two bytes or more; here it
        // takes eight. Only half a billion of them in one record could get here, and librdkafka
        // needs tens of gigabytes for those.
        self.headers_length = u32::try_from(bytes)
            .ok()
            .and_then(|bytes| self.headers_length.checked_add(bytes))
            .expect("the headers of a record fit in 4 GiB");
    }

    #[inline]
    pub(super) fn time(&self) -> RecordTime {
        let kind = if self.flags & TIME_CREATE != 0 {
            RecordTimeType::Create
        } else if self.flags & TIME_LOG_APPEND != 0 {
            RecordTimeType::LogAppend
        } else {
            RecordTimeType::NotAvailable
        };
        RecordTime {
            millis: self.millis,
            kind,
        }
    }

    #[inline]
    pub(super) fn key(&self) -> Option<Range<usize>> {
        let start = self.start();
        (self.flags & KEY_NULL == 0).then(|| start..start + self.key_length as usize)
    }

    #[inline]
    pub(super) fn value(&self) -> Option<Range<usize>> {
        let start = self.start() + self.key_length as usize;
        (self.flags & VALUE_NULL == 0).then(|| start..start + self.value_length as usize)
    }

    #[inline]
    pub(super) fn headers(&self) -> Range<usize> {
        let start = self.start() + self.key_length as usize + self.value_length as usize;
        start..start + self.headers_length as usize
    }

    /// Whether the entry says nothing that contradicts itself or a payload of `payload` bytes.
    #[inline]
    pub(super) fn is_valid(&self, payload: usize) -> bool {
        let lengths = u64::from(self.key_length)
            + u64::from(self.value_length)
            + u64::from(self.headers_length);
        let end = self.start.checked_add(lengths);
        let both = |flags| self.flags & flags == flags;
        end.is_some_and(|end| end <= payload as u64)
            && self.flags & !FLAGS == 0
            && !both(TIME_CREATE | TIME_LOG_APPEND)
            && (!both(KEY_NULL) || self.key_length == 0)
            && (!both(VALUE_NULL) || self.value_length == 0)
    }

    #[inline]
    fn start(&self) -> usize {
        usize::try_from(self.start).expect("a position in a payload in memory is a usize")
    }
}

/// The length of a part of a record or of a header.
#[inline]
pub(super) fn length(part: &[u8]) -> u32 {
    u32::try_from(part.len())
        .ok()
        .filter(|length| *length != NULL_LENGTH)
        .expect("Kafka's lengths have 31 bits")
}
