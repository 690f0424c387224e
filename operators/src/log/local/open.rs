//! A log that is open: which segments there are, and the one that is written to.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::LocalLog;
use super::files::Files;
use super::segment::{self, Frames, OpenSegment, Segment, SegmentError, damaged};
use crate::epoch::Incarnation;
use crate::log::extent::SnapshotAt;
use crate::log::outline::{self, Outline};
use crate::log::{LogError, LogExtent};

#[derive(Debug)]
pub(super) struct Open {
    /// The segments, oldest first. All but the last are whole.
    pub(super) segments: Vec<Segment>,
    /// The last of them, unless it is to be made first.
    pub(super) writing: Option<OpenSegment>,
    pub(super) extent: LogExtent,
    /// The newest run that appended.
    pub(super) writer: Incarnation,
    /// Where reading stopped.
    pub(super) reading: Option<Frames>,
    /// Held for as long as the log is open.
    _lock: File,
}

impl<S> LocalLog<S> {
    /// Finds out what the log holds: from the headers of the segments, and from all that follows the
    /// last snapshot.
    pub(super) fn look(&self, lock: File) -> Result<Open, LogError> {
        let mut segments = self.headers()?;
        let Some(whole) = self.drop_empty(&mut segments)? else {
            return Ok(Open {
                segments,
                writing: None,
                extent: LogExtent::default(),
                writer: Incarnation::default(),
                reading: None,
                _lock: lock,
            });
        };
        // Others are left by a compaction that was interrupted: it deletes the oldest first.
        let begin = segments
            .iter()
            .position(|segment| segment.first.0 == 0 || segment.snapshot.is_some());
        let Some(begin) = begin else {
            return Err(
                self.error("its first file is missing; expected one that a snapshot begins")
            );
        };
        for old in segments.drain(..begin) {
            let path = self.path(&old);
            (self.files.remove(&path)).map_err(self.failed("deleting an old file"))?;
        }
        self.check_links(&segments)?;
        let last_snapshot = segments.iter().rposition(|one| one.snapshot.is_some());
        let start = last_snapshot.unwrap_or(0);
        let mut extent = LogExtent {
            first: segments[0].first,
            next: segments[start].first,
            incarnation: Incarnation::default(),
            snapshots: segments[..start]
                .iter()
                .filter_map(|one| one.snapshot)
                .collect(),
        };
        for (index, one) in segments.iter().enumerate().skip(start) {
            let last = index + 1 == segments.len();
            self.scan(one, last.then_some(whole), &mut extent)
                .map_err(|error| self.broken(&self.path(one), &error))?;
        }
        let path = self.path(&segments[segments.len() - 1]);
        let writing = OpenSegment::open(&*self.files, &path, whole);
        Ok(Open {
            segments,
            writing: Some(writing.map_err(self.failed("opening the last file"))?),
            writer: extent.incarnation,
            extent,
            reading: None,
            _lock: lock,
        })
    }

    pub(super) fn path(&self, segment: &Segment) -> PathBuf {
        self.folder.join(segment::name(segment.first))
    }

    /// What the headers of the segments say. One that was never finished is removed.
    fn headers(&self) -> Result<Vec<Segment>, LogError> {
        let mut paths = self
            .files
            .list(&self.folder)
            .map_err(self.failed("listing the folder"))?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        paths.sort();
        let mut segments = Vec::new();
        for (index, path) in paths.iter().enumerate() {
            let last = index + 1 == paths.len();
            let segment = Segment::read(&*self.files, path, last);
            match segment.map_err(|error| self.broken(path, &error))? {
                Some(segment) => segments.push(segment),
                None => {
                    let removed = self.files.remove(path);
                    removed.map_err(self.failed("removing an unfinished file"))?;
                }
            }
        }
        Ok(segments)
    }

    /// Removes the last segment if there is no whole frame in it, and says how long the one that is
    /// the last then is, up to its last whole frame. `None` if there is none.
    fn drop_empty(&self, segments: &mut Vec<Segment>) -> Result<Option<u64>, LogError> {
        while let Some(last) = segments.last() {
            let path = self.path(last);
            let found = || -> Result<u64, SegmentError> {
                let mut frames = Frames::of(*last, &path, self.files.length(&path)?);
                while frames.next(&*self.files, true)?.is_some() {}
                Ok(frames.at)
            };
            let whole = found().map_err(|error| self.broken(&path, &error))?;
            if whole > last.frames_at {
                return Ok(Some(whole));
            }
            if segments.len() == 1 && last.first.0 > 0 {
                return Err(self.error(
                    "nothing is left of it; expected the snapshot that its only file begins with",
                ));
            }
            let removed = self.files.remove(&path);
            removed.map_err(self.failed("removing an unfinished file"))?;
            segments.pop();
        }
        Ok(None)
    }

    /// Each segment has to name the one before. Version 1 does not, and is found out when it is read.
    fn check_links(&self, segments: &[Segment]) -> Result<(), LogError> {
        for pair in segments.windows(2) {
            if pair[1].previous.is_some_and(|named| named != pair[0].first) {
                let error = missing();
                return Err(self.broken(&self.path(&pair[1]), &error));
            }
        }
        Ok(())
    }

    /// Takes note of what is in a segment that follows `extent`; `whole` is the length of the last one.
    fn scan(
        &self,
        segment: &Segment,
        whole: Option<u64>,
        extent: &mut LogExtent,
    ) -> Result<(), SegmentError> {
        if segment.first != extent.next {
            return Err(missing());
        }
        let path = self.path(segment);
        let end = match whole {
            Some(whole) => whole,
            None => self.files.length(&path)?,
        };
        let mut frames = Frames::of(*segment, &path, end);
        let mut snapshot = None;
        while let Some(frame) = frames.next(&*self.files, false)? {
            let outlines = outline::decode(frame.payload)?;
            if outlines.len() as u64 != frame.records {
                return damaged(frame.at, "a frame does not hold as many records as it says");
            }
            if frame.sequence == segment.first
                && let Some(Outline::Snapshot { bound, .. }) = outlines.first()
            {
                let (at, bound) = (segment.first, *bound);
                snapshot = Some(SnapshotAt { at, bound });
            }
            extent.extend(outlines);
        }
        if segment.snapshot != snapshot {
            return damaged(12, "its header names another snapshot than it begins with");
        }
        Ok(())
    }

    /// Deletes the segments that are not needed any more.
    pub(super) fn drop_old(&mut self) -> Result<(), LogError> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        if let Some(first) = self.retention.keep_from(&open.extent) {
            open.extent.drop_before(first);
        }
        // Among them those that could not be deleted the time before.
        let first = open.extent.first;
        let old = open
            .segments
            .partition_point(|segment| segment.first < first);
        for _ in 0..old {
            let path = self.folder.join(segment::name(open.segments[0].first));
            if let Err(error) = self.files.remove(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(self.failed("deleting an old file")(error));
            }
            open.segments.remove(0);
        }
        if old > 0 {
            let synced = self.files.sync_folder(&self.folder);
            synced.map_err(self.failed("deleting old files"))?;
        }
        Ok(())
    }
}

pub(super) fn missing() -> SegmentError {
    SegmentError::Damaged {
        at: 16,
        what: "records between it and the file before are missing",
    }
}

impl Open {
    /// Writes a frame of these records to the last segment of `folder`, or to another one if they
    /// begin it or the last one has `segment_bytes` already.
    pub(super) fn write(
        &mut self,
        files: &dyn Files,
        (folder, segment_bytes): (&Path, u64),
        frame: &[u8],
        records: &[Outline],
    ) -> io::Result<()> {
        let first = self.extent.next;
        let snapshot = match records {
            [Outline::Snapshot { bound, .. }, ..] => Some(SnapshotAt {
                at: first,
                bound: *bound,
            }),
            _ => None,
        };
        // One that is empty was begun by an append that failed, perhaps of another kind.
        let empty = self.segments.last().is_some_and(|last| last.first == first);
        let full = (self.writing.as_ref()).is_none_or(|last| last.length >= segment_bytes);
        if snapshot.is_some() || empty || full {
            if let Some(last) = &mut self.writing {
                last.clean()?;
            }
            self.writing = None;
            if empty {
                self.segments.pop();
            }
            let segment = Segment {
                first,
                snapshot,
                previous: Some(self.segments.last().map_or(first, |last| last.first)),
                frames_at: segment::HEADER_BYTES as u64,
            };
            self.writing = Some(OpenSegment::create(files, folder, &segment)?);
            self.segments.push(segment);
        }
        match &mut self.writing {
            Some(last) => last.append(frame),
            None => Err(io::Error::other("there is no file to write to")),
        }
    }
}
