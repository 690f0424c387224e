//! One file of a log: a header and frames, each with its checksums.
//!
//! ```text
//! segment:  header | frames
//! header:   "SPLITLOG" | version u32 | kind u32 | sequence of its first record u64
//!           | last tick that is bound in the snapshot it begins with u64
//!           | sequence of the first record of the segment before u64 | CRC32C | zero u32
//! version 1 is "SPLITLOG" | version u32 | zero u32 | sequence of its first record u64 | CRC32C | zero u32
//! ```
//!
//! All numbers are little endian. The kind says whether the segment begins with a snapshot. The
//! headers alone say whether a segment is missing and where the snapshots are.
//!
//! A frame is written by one append and is whole or not there: what an interrupted append left at the
//! end of the last segment is cut off. Anything else that is not as it was written is refused.

use std::io;
use std::path::{Path, PathBuf};

use super::files::{Files, OpenFile};
use crate::epoch::LogSequence;
use crate::kill_point::{self, KillPoint};
use crate::log::extent::SnapshotAt;
use crate::log::frame::{self, FrameHeader, long_number, number};
use crate::log::outline::Outline;
use crate::log::{StoredError, outline};
use crate::tick::Tick;

const MAGIC: &[u8; 8] = b"SPLITLOG";

/// The version of the format that is written here.
pub(super) const VERSION: u32 = 2;

pub(super) const HEADER_BYTES: usize = 48;
const HEADER_BYTES_1: usize = 32;

/// How much of a segment is read at once, unless a frame is longer.
const READ_BYTES: usize = 256 << 10;

/// Kinds of segments.
const GOES_ON: u32 = 0;
const SNAPSHOT: u32 = 1;
const SNAPSHOT_OF_NOTHING: u32 = 2;

/// What is wrong with a segment.
#[derive(Debug, thiserror::Error)]
pub(super) enum SegmentError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Stored(#[from] StoredError),
    #[error(
        "it is of version {found}; expected at most {VERSION}: use the version that wrote it, or a newer one"
    )]
    Newer { found: u32 },
    #[error("it is damaged at byte {at}: {what}")]
    Damaged { at: u64, what: &'static str },
}

pub(super) fn damaged<T>(at: u64, what: &'static str) -> Result<T, SegmentError> {
    Err(SegmentError::Damaged { at, what })
}

/// A segment, as its header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The sequence of its first record.
    pub(super) first: LogSequence,
    /// The snapshot that it begins with, if it does.
    pub(super) snapshot: Option<SnapshotAt>,
    /// The first record of the segment before; version 1 does not say.
    pub(super) previous: Option<LogSequence>,
    /// Where its frames begin.
    pub(super) frames_at: u64,
}

/// The name of the segment that begins with the record `first`.
pub(super) fn name(first: LogSequence) -> String {
    format!("{:020}.log", first.0)
}

impl Segment {
    /// The header of this segment, in the version that is written.
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let bound = self.snapshot.map(|snapshot| snapshot.bound);
        let kind = match bound {
            None => GOES_ON,
            Some(None) => SNAPSHOT_OF_NOTHING,
            Some(Some(_)) => SNAPSHOT,
        };
        let bound = bound.flatten().unwrap_or_default();
        let previous = self.previous.unwrap_or(self.first);
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&kind.to_le_bytes());
        header[16..24].copy_from_slice(&self.first.0.to_le_bytes());
        header[24..32].copy_from_slice(&bound.0.to_le_bytes());
        header[32..40].copy_from_slice(&previous.0.to_le_bytes());
        let checksum = crc32c::crc32c(&header[..40]);
        header[40..44].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    /// The segment in the file `path`. `None` if its header was never written, which only an
    /// interrupted making of the last one can leave.
    pub(super) fn read(
        files: &dyn Files,
        path: &Path,
        last: bool,
    ) -> Result<Option<Self>, SegmentError> {
        let header = files.read(path, 0, HEADER_BYTES)?;
        // The header was durable before anything was written after it.
        let short = files.length(path)? <= HEADER_BYTES as u64;
        let zero = header.iter().all(|byte| *byte == 0);
        if last && (header.len() < HEADER_BYTES_1 || short && zero) {
            return Ok(None);
        }
        if header.len() < HEADER_BYTES_1 {
            return damaged(header.len() as u64, "its header is cut off");
        }
        if &header[..8] != MAGIC {
            return damaged(0, "it does not begin as a log does");
        }
        let segment = match number(&header, 8) {
            // The two checksums are apart, so that a version that is damaged is not taken for another.
            1 => Self::decode_1(files, path, &header, last)?,
            _ if last && header.len() < HEADER_BYTES => return Ok(None),
            version => Self::decode(&header, version)?,
        };
        if path
            .file_name()
            .is_none_or(|file| *file != *name(segment.first))
        {
            return damaged(16, "its first record is not the one that its name says");
        }
        Ok(Some(segment))
    }

    fn decode(header: &[u8], version: u32) -> Result<Self, SegmentError> {
        if header.len() < HEADER_BYTES {
            return damaged(header.len() as u64, "its header is cut off");
        }
        // A newer version keeps the checksum where it is, or it is taken for damage.
        if number(header, 40) != crc32c::crc32c(&header[..40]) {
            return damaged(8, "the checksum of its header is wrong");
        }
        if version != VERSION {
            return Err(SegmentError::Newer { found: version });
        }
        if header[44..48] != [0; 4] {
            return damaged(44, "bytes of its header that are zero are not");
        }
        let at = LogSequence(long_number(header, 16));
        let bound = Some(Tick(long_number(header, 24)));
        let snapshot = match number(header, 12) {
            GOES_ON => None,
            SNAPSHOT => Some(SnapshotAt { at, bound }),
            SNAPSHOT_OF_NOTHING => Some(SnapshotAt { at, bound: None }),
            _ => return damaged(12, "it is of a kind that is not known"),
        };
        Ok(Self {
            first: at,
            snapshot,
            previous: Some(LogSequence(long_number(header, 32))),
            frames_at: HEADER_BYTES as u64,
        })
    }

    fn decode_1(
        files: &dyn Files,
        path: &Path,
        header: &[u8],
        last: bool,
    ) -> Result<Self, SegmentError> {
        if number(header, 24) != crc32c::crc32c(&header[..24]) {
            return damaged(8, "the checksum of its header is wrong");
        }
        if header[12..16] != [0; 4] || header[28..32] != [0; 4] {
            return damaged(12, "bytes of its header that are zero are not");
        }
        let mut segment = Self {
            first: LogSequence(long_number(header, 16)),
            snapshot: None,
            previous: None,
            frames_at: HEADER_BYTES_1 as u64,
        };
        // Its first frame has to be read to know whether it begins with a snapshot.
        let mut frames = Frames::of(segment, path, files.length(path)?);
        if let Some(frame) = frames.next(files, last)?
            && let Some(Outline::Snapshot { bound, .. }) = outline::decode(frame.payload)?.first()
        {
            let (at, bound) = (segment.first, *bound);
            segment.snapshot = Some(SnapshotAt { at, bound });
        }
        Ok(segment)
    }
}

/// A frame as it was found.
pub(super) struct Frame<'a> {
    /// The byte at which it begins.
    pub(super) at: u64,
    /// The sequence of its first record.
    pub(super) sequence: LogSequence,
    /// How many records are in it.
    pub(super) records: u64,
    pub(super) payload: &'a [u8],
}

/// Goes through the frames of a segment.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) segment: Segment,
    path: PathBuf,
    /// The next frame, and its first record.
    pub(super) at: u64,
    pub(super) sequence: LogSequence,
    /// Where the segment ends, as far as it is known to be good.
    pub(super) end: u64,
    /// Bytes of the file, and where they are in it.
    window: (u64, Vec<u8>),
}

impl Frames {
    pub(super) fn of(segment: Segment, path: &Path, end: u64) -> Self {
        Self {
            segment,
            path: path.to_owned(),
            at: segment.frames_at,
            sequence: segment.first,
            end,
            window: (0, Vec::new()),
        }
    }

    /// How many of the `length` bytes at `at` there are; they are in the window then.
    fn load(&mut self, files: &dyn Files, at: u64, length: usize) -> io::Result<usize> {
        let rest = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
        let length = length.min(rest);
        let (begin, window) = &self.window;
        let within = at >= *begin && at + length as u64 <= *begin + window.len() as u64;
        if !within {
            let bytes = files.read(&self.path, at, length.max(READ_BYTES).min(rest))?;
            self.window = (at, bytes);
        }
        Ok(length.min(self.window.1.len()))
    }

    fn loaded(&self, at: u64, length: usize) -> &[u8] {
        // The window holds it, so it is no farther than the window is long.
        let begin = usize::try_from(at - self.window.0).unwrap_or(usize::MAX);
        &self.window.1[begin..begin + length]
    }

    /// The header of the next frame. `None` at the end, or, if an interrupted append may have left
    /// something there, where that begins.
    pub(super) fn peek(
        &mut self,
        files: &dyn Files,
        last: bool,
    ) -> Result<Option<FrameHeader>, SegmentError> {
        let at = self.at;
        if at >= self.end {
            return Ok(None);
        }
        if self.load(files, at, frame::HEADER_BYTES)? < frame::HEADER_BYTES {
            return if last {
                Ok(None)
            } else {
                damaged(at, "a frame is cut off")
            };
        }
        let zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        // A file can have been made longer before its bytes were written.
        if last && zero(self.loaded(at, frame::HEADER_BYTES)) && self.is_zero(files)? {
            return Ok(None);
        }
        match FrameHeader::decode(self.loaded(at, frame::HEADER_BYTES), self.sequence) {
            Ok(header) => Ok(Some(header)),
            Err(what) => damaged(at, what),
        }
    }

    /// Whether there are only zeros from here on.
    fn is_zero(&mut self, files: &dyn Files) -> io::Result<bool> {
        let mut at = self.at;
        while at < self.end {
            let length = self.load(files, at, READ_BYTES)?;
            if length == 0 {
                break;
            }
            if self.loaded(at, length).iter().any(|byte| *byte != 0) {
                // What was looked at before is to be found again.
                self.window = (0, Vec::new());
                self.load(files, self.at, frame::HEADER_BYTES)?;
                return Ok(false);
            }
            at += length as u64;
        }
        Ok(true)
    }

    /// Goes past the next frame without looking at what it holds.
    pub(super) fn skip(&mut self, header: FrameHeader) {
        self.at += (frame::HEADER_BYTES + header.length) as u64;
        self.sequence.0 += header.records;
    }

    /// The next frame; see [`peek`](Self::peek).
    pub(super) fn next(
        &mut self,
        files: &dyn Files,
        last: bool,
    ) -> Result<Option<Frame<'_>>, SegmentError> {
        let Some(header) = self.peek(files, last)? else {
            return Ok(None);
        };
        let (at, sequence) = (self.at, self.sequence);
        let payload_at = at + frame::HEADER_BYTES as u64;
        if self.load(files, payload_at, header.length)? < header.length {
            return if last {
                Ok(None)
            } else {
                damaged(at, "a frame is cut off")
            };
        }
        self.skip(header);
        let payload = self.loaded(payload_at, header.length);
        if let Err(what) = header.check(payload) {
            return damaged(at, what);
        }
        Ok(Some(Frame {
            at,
            sequence,
            records: header.records,
            payload,
        }))
    }
}

/// The segment that is written to.
#[derive(Debug)]
pub(super) struct OpenSegment {
    file: Box<dyn OpenFile>,
    /// The bytes that are there for good.
    pub(super) length: u64,
    /// Whether the file may be longer than that, by what a failed append left.
    dirty: bool,
}

impl OpenSegment {
    /// Makes a segment, durably.
    pub(super) fn create(files: &dyn Files, folder: &Path, segment: &Segment) -> io::Result<Self> {
        let mut file = files.create(&folder.join(name(segment.first)))?;
        file.write(0, &segment.encode())?;
        file.sync()?;
        files.sync_folder(folder)?;
        Ok(Self {
            file,
            length: HEADER_BYTES as u64,
            dirty: false,
        })
    }

    /// Opens a segment whose first `whole` bytes are good, and cuts off the rest, durably.
    pub(super) fn open(files: &dyn Files, path: &Path, whole: u64) -> io::Result<Self> {
        let mut segment = Self {
            file: files.open(path)?,
            length: whole,
            dirty: true,
        };
        segment.clean()?;
        Ok(segment)
    }

    /// Appends a frame, durably. After an error the next append writes over what this one left.
    pub(super) fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        self.clean()?;
        self.dirty = true;
        kill_point::pass(KillPoint::AppendBegun);
        if kill_point::is(KillPoint::AppendTorn) {
            self.file.write(self.length, &frame[..frame.len() / 2])?;
            kill_point::die();
        }
        self.file.write(self.length, frame)?;
        kill_point::pass(KillPoint::AppendWritten);
        self.file.sync()?;
        kill_point::pass(KillPoint::AppendSynced);
        self.dirty = false;
        self.length += frame.len() as u64;
        Ok(())
    }

    /// Cuts off what a failed append left.
    ///
    /// After a failed sync the bytes can read as written and yet never reach the disk, and a second
    /// sync that succeeds says nothing about them: the system has forgotten that they are to be
    /// written. So they are not kept but cut off and written again, all of them.
    pub(super) fn clean(&mut self) -> io::Result<()> {
        if self.dirty {
            self.file.truncate(self.length)?;
            self.file.sync()?;
            self.dirty = false;
        }
        Ok(())
    }
}
