//! The records of one append, as bytes that tell damage.
//!
//! ```text
//! frame:    length u32 | records u32 | CRC32C of these and of the sequence | CRC32C of the payload
//!           payload: the records
//! ```
//!
//! All numbers are little endian. The checksum of the header says as well where in the log the frame
//! belongs, so that one that is whole but elsewhere is found.

use crate::epoch::LogSequence;

/// The bytes before a payload.
pub(super) const HEADER_BYTES: usize = 16;

/// What the header of a frame says.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHeader {
    /// How many bytes the payload has.
    pub(super) length: usize,
    /// How many records are in it.
    pub(super) records: u64,
    payload_checksum: u32,
}

/// The frame of `records` records from `sequence` on.
///
/// `None` if there are four billion records or bytes, or more.
pub(super) fn encode(sequence: LogSequence, records: usize, payload: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(payload.len()).ok()?;
    let records = u32::try_from(records).ok()?;
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&records.to_le_bytes());
    frame.extend_from_slice(&header_checksum(&frame, sequence).to_le_bytes());
    frame.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    frame.extend_from_slice(payload);
    Some(frame)
}

impl FrameHeader {
    /// What `header` says, of a frame that should begin with the record `sequence`.
    pub(super) fn decode(header: &[u8], sequence: LogSequence) -> Result<Self, &'static str> {
        if number(header, 8) != header_checksum(&header[..8], sequence) {
            return Err("the checksum of a frame's header is wrong");
        }
        Ok(Self {
            length: number(header, 0) as usize,
            records: u64::from(number(header, 4)),
            payload_checksum: number(header, 12),
        })
    }

    /// Whether `payload` is what was written.
    pub(super) fn check(&self, payload: &[u8]) -> Result<(), &'static str> {
        if self.payload_checksum != crc32c::crc32c(payload) {
            return Err("the checksum of a frame is wrong");
        }
        Ok(())
    }
}

fn header_checksum(length_and_records: &[u8], sequence: LogSequence) -> u32 {
    crc32c::crc32c_append(
        crc32c::crc32c(length_and_records),
        &sequence.0.to_le_bytes(),
    )
}

/// The number of four bytes at `at`.
pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

/// The number of eight bytes at `at`.
pub(super) fn long_number(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
