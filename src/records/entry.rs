//! What the index of a batch keeps for a record.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{RecordTime, RecordTimeType};

/// The size of an [`Entry`] in bytes.
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();

const KEY_NULL: u32 = 1;
const VALUE_NULL: u32 = 1 << 1;
const TIME_CREATE: u32 = 1 << 2;
const TIME_LOG_APPEND: u32 = 1 << 3;
/// Where the gaps stand, three bits each.
const VALUE_GAP: u32 = 4;
const HEADERS_GAP: u32 = 7;
const GAP: u32 = 0b111;
const FLAGS: u32 = (1 << 10) - 1;

/// How long a key or a value is, without its content.
///
/// # Invariants
///
/// What is null has length 0, and no length has more than 31 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) length: u32,
    is_null: bool,
}

impl Part {
    pub(super) const NULL: Self = Self {
        length: 0,
        is_null: true,
    };

    /// # Panics
    ///
    /// If it has 2 GiB or more.
    #[inline]
    pub(super) fn of(part: Option<&[u8]>) -> Self {
        Self {
            length: length(part.unwrap_or_default()),
            is_null: part.is_none(),
        }
    }

    /// The part whose length is written as `number`, in whose lowest bit the sign is: -1 is that of null.
    #[inline]
    pub(super) fn of_number(number: u64) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        let is_null = number == 1;
        (is_null || number & 1 == 0).then_some(Self {
            length: number >> 1,
            is_null,
        })
    }
}

/// Where one record lies in the payload of its batch, and what is not in the payload.
///
/// Key, value and headers of a record lie one behind the other from `start` on, as Kafka has them, so
/// that one position, three lengths and two gaps are enough: in a payload that was taken as it came
/// the length of the value stands before it, and before the headers how many there are. A record
/// without headers has an entry as long as any other.
///
/// # Invariants
///
/// Once [`is_valid`](Self::is_valid) for a payload length, the three ranges lie within the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
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
    /// The entry of a record, without headers, whose key and value lie at `start` without a gap.
    #[inline]
    pub(super) fn new(offset: u64, time: RecordTime, start: usize, key: Part, value: Part) -> Self {
        let null = |part: Part, flag| if part.is_null { flag } else { 0 };
        let kind = match time.kind {
            RecordTimeType::NotAvailable => 0,
            RecordTimeType::Create => TIME_CREATE,
            RecordTimeType::LogAppend => TIME_LOG_APPEND,
        };
        Self {
            offset,
            millis: time.millis,
            start: start as u64,
            key_length: key.length,
            value_length: value.length,
            headers_length: 0,
            flags: null(key, KEY_NULL) | null(value, VALUE_NULL) | kind,
        }
    }

    /// The same record with `value` bytes between its key and its value, and `headers` bytes between
    /// that and `length` bytes of headers.
    ///
    /// A gap holds a number of 32 bits as Kafka writes it, five bytes at most.
    #[inline]
    pub(super) fn with_gaps(mut self, value: u32, headers: u32, length: u32) -> Self {
        debug_assert!(value <= GAP && headers <= GAP);
        self.flags |= (value & GAP) << VALUE_GAP | (headers & GAP) << HEADERS_GAP;
        self.headers_length = length;
        self
    }

    /// Counts `bytes` more as headers of this record.
    pub(super) fn extend_headers(&mut self, bytes: usize) {
        // They are written as Kafka writes them, and a record has less than 2 GiB there.
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
        let start = self.value_start();
        (self.flags & VALUE_NULL == 0).then(|| start..start + self.value_length as usize)
    }

    #[inline]
    pub(super) fn headers(&self) -> Range<usize> {
        let start = self.value_start() + self.value_length as usize + self.gap(HEADERS_GAP);
        start..start + self.headers_length as usize
    }

    #[inline]
    fn value_start(&self) -> usize {
        self.start() + self.key_length as usize + self.gap(VALUE_GAP)
    }

    #[inline]
    fn gap(&self, at: u32) -> usize {
        (self.flags >> at & GAP) as usize
    }

    /// Whether the entry says nothing that contradicts itself or a payload of `payload` bytes.
    #[inline]
    pub(super) fn is_valid(&self, payload: usize) -> bool {
        let lengths = u64::from(self.key_length)
            + u64::from(self.value_length)
            + u64::from(self.headers_length)
            + (self.gap(VALUE_GAP) + self.gap(HEADERS_GAP)) as u64;
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
        .filter(|length| *length <= i32::MAX.cast_unsigned())
        .expect("Kafka's lengths have 31 bits")
}
