//! A record and its headers where they lie in a batch.

use std::borrow::Cow;
use std::fmt;
use std::iter::FusedIterator;

use super::batch::BatchContent;
use super::entry::Entry;
use super::{Record, RecordTime, varint};
use crate::model::{KafkaSplit, Offset};

/// A record in a [`RecordBatch`](super::RecordBatch).
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    content: &'a BatchContent,
    entry: Entry,
}

impl<'a> RecordRef<'a> {
    #[inline]
    pub(super) fn new(content: &'a BatchContent, entry: Entry) -> Self {
        Self { content, entry }
    }

    /// The split that the record was read from.
    #[must_use]
    #[inline]
    pub fn split(&self) -> &'a KafkaSplit {
        &self.content.split
    }

    /// Its offset.
    #[must_use]
    #[inline]
    pub fn offset(&self) -> Offset {
        Offset::new(self.entry.offset)
    }

    /// Its timestamp.
    #[must_use]
    #[inline]
    pub fn record_time(&self) -> RecordTime {
        self.entry.time()
    }

    /// Its key; null is `None`, which differs from an empty key.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        let range = self.entry.key()?;
        Some(&self.content.payload[range])
    }

    /// Its value; null is `None`, which differs from an empty value.
    #[must_use]
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        let range = self.entry.value()?;
        Some(&self.content.payload[range])
    }

    /// Its headers, in the order in which they were written; a key may occur more than once.
    #[must_use]
    #[inline]
    pub fn headers(&self) -> Headers<'a> {
        Headers {
            rest: &self.content.payload[self.entry.headers()],
        }
    }

    /// The record as a row of its own, which shares the memory of the batch.
    #[must_use]
    pub fn to_record(&self) -> Record {
        let payload = &self.content.payload;
        let share = |part: &[u8]| payload.slice_ref(part);
        Record {
            split: self.content.split.clone(),
            offset: self.offset(),
            record_time: self.record_time(),
            key: self.entry.key().map(|range| payload.slice(range)),
            value: self.entry.value().map(|range| payload.slice(range)),
            headers: self
                .headers()
                .map(|header| (share(header.key), header.value.map(share)))
                .collect(),
        }
    }
}

/// Equal if all that a record has is.
impl PartialEq for RecordRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.offset(), self.record_time()) == (other.offset(), other.record_time())
            && (self.key(), self.value()) == (other.key(), other.value())
            && self.split() == other.split()
            && self.headers().eq(other.headers())
    }
}

impl Eq for RecordRef<'_> {}

impl fmt::Debug for RecordRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_record().fmt(f)
    }
}

/// The length that Kafka writes for what is null.
const NULL_LENGTH: i64 = -1;

/// The headers of a record, in the order in which they were written.
///
/// They lie in the payload as Kafka writes them.
#[derive(Clone)]
pub struct Headers<'a> {
    rest: &'a [u8],
}

impl<'a> Headers<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many headers there are, `None` if what is left does not consist of whole ones.
    pub(super) fn whole(mut self) -> Option<usize> {
        let mut count = 0;
        while !self.rest.is_empty() {
            self.next()?;
            count += 1;
        }
        Some(count)
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = HeaderRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<HeaderRef<'a>> {
        let mut rest = self.rest;
        let key_length = usize::try_from(varint::take(&mut rest)?).ok()?;
        let (key, mut rest) = rest.split_at_checked(key_length)?;
        let value_length = varint::take(&mut rest)?;
        let (value, rest) = if value_length == NULL_LENGTH {
            (None, rest)
        } else {
            let (value, rest) = rest.split_at_checked(usize::try_from(value_length).ok()?)?;
            (Some(value), rest)
        };
        self.rest = rest;
        Some(HeaderRef { key, value })
    }
}

impl FusedIterator for Headers<'_> {}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// A header of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HeaderRef<'a> {
    key: &'a [u8],
    value: Option<&'a [u8]>,
}

impl<'a> HeaderRef<'a> {
    /// Its key as it was written.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// Its key as text, which Kafka says it is; what is not UTF-8 is replaced.
    #[must_use]
    pub fn key_text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.key)
    }

    /// Its value; null is `None`, which differs from an empty value.
    #[must_use]
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.value
    }
}

impl fmt::Debug for HeaderRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Header")
            .field(&super::record::Shown(Some(self.key)))
            .field(&super::record::Shown(self.value))
            .finish()
    }
}
