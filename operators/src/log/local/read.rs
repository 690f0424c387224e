//! Reading records of a log that is open.

use super::LocalLog;
use super::open::{Open, missing};
use super::segment::{Frames, SegmentError, damaged};
use crate::epoch::LogSequence;
use crate::log::{LogError, LogRecord, Stored, record};
use crate::split::Split;

impl<S> LocalLog<S>
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    pub(super) fn read_some(
        &mut self,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<S>>, LogError> {
        let Some(mut open) = self.open.take() else {
            return Err(self.error("it is not open"));
        };
        let read = self.read_open(&mut open, from, records_max);
        self.open = Some(open);
        read
    }

    fn read_open(
        &self,
        open: &mut Open,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<S>>, LogError> {
        let mut records = Vec::new();
        if from < open.extent.first {
            let name = self.folder.display().to_string();
            return Err(LogError::dropped(&name, from, open.extent.first));
        }
        if from >= open.extent.next {
            return Ok(records);
        }
        let mut index = (open.segments).partition_point(|segment| segment.first <= from) - 1;
        let mut frames = match open.reading.take() {
            Some(frames)
                if frames.segment.first == open.segments[index].first
                    && frames.sequence <= from =>
            {
                frames
            }
            _ => self.frames(open, index)?,
        };
        while records.len() < records_max.max(1) {
            frames.end = self.end(open, index)?;
            let more = self.read_frame(&mut frames, from);
            let path = self.path(&open.segments[index]);
            if let Some(more) = more.map_err(|error| self.broken(&path, &error))? {
                records.extend(more);
                continue;
            }
            index += 1;
            let Some(next) = open.segments.get(index) else {
                break;
            };
            if next.first != frames.sequence {
                return Err(self.broken(&self.path(next), &missing()));
            }
            frames = self.frames(open, index)?;
        }
        open.reading = Some(frames);
        Ok(records)
    }

    fn frames(&self, open: &Open, index: usize) -> Result<Frames, LogError> {
        let segment = open.segments[index];
        let end = self.end(open, index)?;
        Ok(Frames::of(segment, &self.path(&segment), end))
    }

    /// Where a segment ends; what a failed append left in the last one is not looked at.
    fn end(&self, open: &Open, index: usize) -> Result<u64, LogError> {
        if let Some(last) = &open.writing
            && index + 1 == open.segments.len()
        {
            return Ok(last.length);
        }
        let length = self.files.length(&self.path(&open.segments[index]));
        length.map_err(self.failed("reading"))
    }

    /// The records of the next frame that are not before `from`, which may be none; `None` at the end
    /// of the segment.
    fn read_frame(
        &self,
        frames: &mut Frames,
        from: LogSequence,
    ) -> Result<Option<Vec<LogRecord<S>>>, SegmentError> {
        let files = &*self.files;
        let Some(header) = frames.peek(files, false)? else {
            return Ok(None);
        };
        if frames.sequence.0 + header.records <= from.0 {
            frames.skip(header);
            return Ok(Some(Vec::new()));
        }
        let Some(frame) = frames.next(files, false)? else {
            return Ok(None);
        };
        let mut records = record::decode(frame.payload)?;
        if records.len() as u64 != frame.records {
            return damaged(frame.at, "a frame does not hold as many records as it says");
        }
        let before = from.0.saturating_sub(frame.sequence.0);
        records.drain(..usize::try_from(before).unwrap_or(0).min(records.len()));
        Ok(Some(records))
    }
}
