//! One object of a log: a header, and what one append wrote.
//!
//! ```text
//! object:  "SPLITOBJ" | version u32 | kind u32 | number u64 | sequence of its next record u64
//!          | incarnation u64 | writer 16 bytes | CRC32C | zero u32 | frame, if the kind has one
//! ```
//!
//! All numbers are little endian. The kind is 1 for the records of an append, and 0 for a claim: by it
//! a writer takes the log over, and it holds no record. The writer is a random number that each opening
//! of the log draws, so that it is certain whose object it is. A store shows an object as a whole or not
//! at all, so one that is cut off is damaged.

use crate::epoch::{Incarnation, LogSequence};
use crate::log::frame::{self, FrameHeader, long_number, number};

const MAGIC: &[u8; 8] = b"SPLITOBJ";

/// The version of the format that is written here.
pub(super) const VERSION: u32 = 1;

/// How long a claim is; no other object is as short.
pub(super) const HEADER_BYTES: usize = 64;

/// Who wrote an object: drawn when a log is opened.
pub(super) type Writer = [u8; 16];

/// What the header of an object says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u64,
    /// The sequence that the next record has, which may be in this object.
    pub(super) sequence: LogSequence,
    pub(super) incarnation: Incarnation,
    pub(super) writer: Writer,
}

/// What is wrong with an object.
#[derive(Debug, thiserror::Error)]
pub(super) enum ObjectError {
    #[error(
        "it is of version {found}; expected at most {VERSION}: use the version that wrote it, or a newer one"
    )]
    Newer { found: u32 },
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

impl Header {
    fn encode(&self, kind: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.0.to_le_bytes());
        bytes.extend_from_slice(&self.incarnation.0.to_le_bytes());
        bytes.extend_from_slice(&self.writer);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes
    }

    /// The bytes of a claim.
    pub(super) fn claim(&self) -> Vec<u8> {
        self.encode(0)
    }

    /// The bytes of an append; `None` if it has four billion records or bytes, or more.
    pub(super) fn append(&self, records: usize, payload: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = self.encode(1);
        bytes.extend(frame::encode(self.sequence, records, payload)?);
        Some(bytes)
    }
}

/// An object that was read.
#[derive(Debug)]
pub(super) struct Object<'a> {
    pub(super) header: Header,
    /// The records of an append, and how many there are.
    pub(super) records: Option<(u64, &'a [u8])>,
}

/// The object with the number `expected`.
pub(super) fn decode(bytes: &[u8], expected: u64) -> Result<Object<'_>, ObjectError> {
    let damaged = |what| Err(ObjectError::Damaged(what));
    let Some(header) = bytes.get(..HEADER_BYTES) else {
        return damaged("its header is cut off");
    };
    if &header[..8] != MAGIC {
        return damaged("it does not begin as an object of a log does");
    }
    // A newer version keeps the checksum where it is, or it is taken for damage.
    if number(header, 56) != crc32c::crc32c(&header[..56]) || header[60..64] != [0; 4] {
        return damaged("the checksum of its header is wrong");
    }
    let version = number(header, 8);
    if version != VERSION {
        return Err(ObjectError::Newer { found: version });
    }
    let mut writer = Writer::default();
    writer.copy_from_slice(&header[40..56]);
    let header_read = Header {
        number: long_number(header, 16),
        sequence: LogSequence(long_number(header, 24)),
        incarnation: Incarnation(long_number(header, 32)),
        writer,
    };
    if header_read.number != expected {
        return damaged("it is not the object that its name says");
    }
    let rest = &bytes[HEADER_BYTES..];
    let records = match (number(header, 12), rest.is_empty()) {
        (0, true) => None,
        (1, false) => Some(records(rest, header_read.sequence).map_err(ObjectError::Damaged)?),
        _ => {
            return damaged(
                "it is of a kind that is not known, or does not hold what its kind has",
            );
        }
    };
    Ok(Object {
        header: header_read,
        records,
    })
}

fn records(frame: &[u8], sequence: LogSequence) -> Result<(u64, &[u8]), &'static str> {
    let Some(header) = frame.get(..frame::HEADER_BYTES) else {
        return Err("its frame is cut off");
    };
    let header = FrameHeader::decode(header, sequence)?;
    let payload = &frame[frame::HEADER_BYTES..];
    if payload.len() != header.length {
        return Err("its frame is not as long as it says");
    }
    header.check(payload)?;
    Ok((header.records, payload))
}
