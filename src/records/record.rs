//! A record as an owned row.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::RecordTime;
use crate::model::{KafkaSplit, Offset};

/// A record as a row of its own, ordered by split and offset.
///
/// Its bytes are shared with the [`RecordBatch`](super::RecordBatch) that it was made of, and keep
/// all of that in memory. Whoever keeps a few records for long keeps a
/// [`detached`](Self::detached) copy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Record {
    /// The split that it was read from.
    pub split: KafkaSplit,
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub record_time: RecordTime,
    /// Its key; null is `None`, which differs from an empty key.
    pub key: Option<Bytes>,
    /// Its value; null is `None`, which differs from an empty value.
    pub value: Option<Bytes>,
    /// Its headers, in the order in which they were written; a key may occur more than once.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

impl Record {
    /// The same record in memory of its own.
    #[must_use]
    pub fn detached(&self) -> Self {
        let copy = |part: &Bytes| Bytes::copy_from_slice(part);
        Self {
            split: self.split.clone(),
            offset: self.offset,
            record_time: self.record_time,
            key: self.key.as_ref().map(copy),
            value: self.value.as_ref().map(copy),
            headers: self
                .headers
                .iter()
                .map(|(key, value)| (copy(key), value.as_ref().map(copy)))
                .collect(),
        }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Record");
        shown
            .field("split", &tracing::field::display(&self.split))
            .field("offset", &self.offset.get())
            .field("record_time", &self.record_time)
            .field("key", &Shown(self.key.as_deref()))
            .field("value", &Shown(self.value.as_deref()));
        if !self.headers.is_empty() {
            let headers: Vec<_> = self
                .headers
                .iter()
                .map(|(key, value)| (Shown(Some(key)), Shown(value.as_deref())))
                .collect();
            shown.field("headers", &headers);
        }
        shown.finish()
    }
}

/// How many bytes of a key or value are shown.
const SHOWN_BYTES_MAX: usize = 256;

/// Bytes as a person wants to see them: text as text, the rest escaped, a long one cut.
pub(super) struct Shown<'a>(pub(super) Option<&'a [u8]>);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bytes) = self.0 else {
            return f.write_str("null");
        };
        if bytes.len() > SHOWN_BYTES_MAX {
            let start = bytes[..SHOWN_BYTES_MAX].escape_ascii();
            return write!(f, "\"{start}\"... ({} bytes)", bytes.len());
        }
        match str::from_utf8(bytes) {
            Ok(text) => write!(f, "{text:?}"),
            Err(_) => write!(f, "b\"{}\"", bytes.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::*;
    use crate::records::BatchBuilder;
    use crate::records::testing::{parts, rows, split};

    #[test]
    fn debug_shows_text_as_text_and_null_as_null() {
        let mut builder = BatchBuilder::new();
        builder.push(&parts(5, None, Some("größe \"1\"".as_bytes())));
        builder.push_header(b"trace", Some(b"\xff\x00a"));
        builder.push_header(b"trace", None);
        let batch = builder.finish(&split("east", 2));

        let shown = format!("{:?}", batch.iter().next().unwrap());

        let expected = "Record { split: east/orders/2, offset: 5, record_time: RecordTime \
            { millis: 1000, kind: Create }, key: null, value: \"größe \\\"1\\\"\", \
            headers: [(\"trace\", b\"\\xff\\x00a\"), (\"trace\", null)] }";
        assert_eq!(shown, expected);
    }

    #[test]
    fn debug_cuts_a_long_value_and_says_how_long_it_is() {
        let long = vec![b'x'; 10_000];

        let shown = format!("{:?}", Shown(Some(&long)));

        assert!(shown.ends_with("x\"... (10000 bytes)"), "{shown}");
        assert!(shown.len() < 300);
    }

    proptest! {
        #[test]
        fn rows_are_stored_and_sent_as_they_are(rows in rows()) {
            let stored = serde_json::to_string(&rows).unwrap();

            let read: Vec<Record> = serde_json::from_str(&stored).unwrap();

            assert_eq!(read, rows);
        }
    }
}
