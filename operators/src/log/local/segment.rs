//! One file of a log: a header and frames, each with its checksums.
//!
//! ```text
//! segment:  "SPLITLOG" | version u32 | zero u32 | sequence of its first record u64 | CRC32C | zero u32
//! frame:    length u32 | records u32 | CRC32C of these and of the sequence | CRC32C of the payload
//!           payload: the records of one append
//! ```
//!
//! All numbers are little endian. A frame is written by one append and is whole or not there: what
//! an interrupted append left at the end of the last segment is cut off. Anything else that is not as
//! it was written is refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::epoch::LogSequence;
use crate::kill_point::{self, KillPoint};

const MAGIC: &[u8; 8] = b"SPLITLOG";

/// The version of the format that is written here.
pub(super) const VERSION: u32 = 1;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 16;

/// What is wrong with a segment.
#[derive(Debug, thiserror::Error)]
pub(super) enum SegmentError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(
        "it is of version {found}; expected at most {VERSION}: use the version that wrote it, or a newer one"
    )]
    Newer { found: u32 },
    #[error("it is damaged at byte {at}: {what}")]
    Damaged { at: usize, what: &'static str },
}

/// A frame as it was found.
pub(super) struct Frame<'a> {
    /// The byte at which it begins.
    pub(super) at: usize,
    /// How many records are in it.
    pub(super) records: u64,
    pub(super) payload: &'a [u8],
}

/// What a segment holds.
pub(super) struct Contents<'a> {
    pub(super) first: LogSequence,
    pub(super) frames: Vec<Frame<'a>>,
    /// Where the last whole frame ends.
    pub(super) whole: usize,
}

/// The segment that is written to.
#[derive(Debug)]
pub(super) struct OpenSegment {
    file: File,
    pub(super) path: PathBuf,
    /// The bytes that are there for good.
    length: u64,
    /// Whether the file may be longer than that, by what a failed append left.
    dirty: bool,
}

/// The name of the segment that begins with the record `first`.
pub(super) fn name(first: LogSequence) -> String {
    format!("{:020}.log", first.0)
}

fn header(first: LogSequence) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&first.0.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..24]);
    header[24..28].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

/// The checksum of a frame's header, which also says where in the log the frame belongs.
fn frame_checksum(length_and_records: &[u8], sequence: LogSequence) -> u32 {
    crc32c::crc32c_append(
        crc32c::crc32c(length_and_records),
        &sequence.0.to_le_bytes(),
    )
}

/// Takes a segment apart. `last` says whether an interrupted append may have left something at its
/// end; `None` if not even the header of such a segment is whole.
pub(super) fn read(bytes: &[u8], last: bool) -> Result<Option<Contents<'_>>, SegmentError> {
    let damaged = |at, what| Err(SegmentError::Damaged { at, what });
    let Some(start) = bytes.get(..HEADER_BYTES) else {
        if last {
            return Ok(None);
        }
        return damaged(bytes.len(), "its header is cut off");
    };
    if last && bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    if &start[..8] != MAGIC {
        return damaged(0, "it does not begin as a log does");
    }
    let version = number(start, 8);
    if number(start, 24) != crc32c::crc32c(&start[..24]) {
        return damaged(8, "the checksum of its header is wrong");
    }
    if version > VERSION {
        return Err(SegmentError::Newer { found: version });
    }
    if start[12..16] != [0; 4] || start[28..] != [0; 4] {
        return damaged(12, "bytes of its header that are zero are not");
    }
    let mut first = [0; 8];
    first.copy_from_slice(&start[16..24]);
    let first = LogSequence(u64::from_le_bytes(first));
    let mut contents = Contents {
        first,
        frames: Vec::new(),
        whole: HEADER_BYTES,
    };
    let mut sequence = first;
    while contents.whole < bytes.len() {
        let at = contents.whole;
        let rest = &bytes[at..];
        let Some(frame) = frame(rest, at, sequence, last)? else {
            return Ok(Some(contents));
        };
        sequence.0 += frame.records;
        contents.whole += FRAME_HEADER_BYTES + frame.payload.len();
        contents.frames.push(frame);
    }
    Ok(Some(contents))
}

/// The frame that `rest` begins with; `None` if an interrupted append left it.
fn frame(
    rest: &[u8],
    at: usize,
    sequence: LogSequence,
    last: bool,
) -> Result<Option<Frame<'_>>, SegmentError> {
    let damaged = |what| Err(SegmentError::Damaged { at, what });
    let Some(header) = rest.get(..FRAME_HEADER_BYTES) else {
        if last {
            return Ok(None);
        }
        return damaged("a frame is cut off");
    };
    // A file can have been made longer before its bytes were written.
    if last && rest.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    if number(header, 8) != frame_checksum(&header[..8], sequence) {
        return damaged("the checksum of a frame's header is wrong");
    }
    let (length, records) = (number(header, 0) as usize, u64::from(number(header, 4)));
    let Some(payload) = rest.get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + length) else {
        if last {
            return Ok(None);
        }
        return damaged("a frame is cut off");
    };
    if number(header, 12) != crc32c::crc32c(payload) {
        return damaged("the checksum of a frame is wrong");
    }
    Ok(Some(Frame {
        at,
        records,
        payload,
    }))
}

impl OpenSegment {
    /// Makes the segment that begins with the record `first`, durably.
    pub(super) fn create(folder: &Path, first: LogSequence) -> io::Result<Self> {
        let path = folder.join(name(first));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        file.write_all(&header(first))?;
        file.sync_all()?;
        File::open(folder)?.sync_all()?;
        Ok(Self {
            file,
            path,
            length: HEADER_BYTES as u64,
            dirty: false,
        })
    }

    /// Opens a segment whose first `whole` bytes are good, and cuts off the rest, durably.
    pub(super) fn open(path: &Path, whole: usize) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(path)?;
        let mut segment = Self {
            file,
            path: path.to_owned(),
            length: whole as u64,
            dirty: true,
        };
        segment.clean()?;
        Ok(segment)
    }

    /// Appends a frame, durably. After an error the segment is as it was before.
    pub(super) fn append(
        &mut self,
        sequence: LogSequence,
        records: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        self.clean()?;
        let length = u32::try_from(payload.len())
            .map_err(|_| io::Error::other("an append of four gigabytes or more"))?;
        let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + payload.len());
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&records.to_le_bytes());
        frame.extend_from_slice(&frame_checksum(&frame, sequence).to_le_bytes());
        frame.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        frame.extend_from_slice(payload);
        self.dirty = true;
        kill_point::pass(KillPoint::AppendBegun);
        if kill_point::is(KillPoint::AppendTorn) {
            self.file.write_all(&frame[..frame.len() / 2])?;
            kill_point::die();
        }
        self.file.write_all(&frame)?;
        kill_point::pass(KillPoint::AppendWritten);
        self.file.sync_data()?;
        kill_point::pass(KillPoint::AppendSynced);
        self.dirty = false;
        self.length += frame.len() as u64;
        Ok(())
    }

    /// Cuts off what a failed append left.
    ///
    /// After a failed sync the bytes can read as written and yet never reach the disk, so they are
    /// not looked at: the append is repeated.
    fn clean(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::Start(self.length))?;
            self.file.sync_all()?;
            self.dirty = false;
        }
        Ok(())
    }
}

/// The bytes of a file.
pub(super) fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}
