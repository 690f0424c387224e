//! Reading, appending to and compacting a log of objects that is open.

use super::open::Open;
use super::store::{FOLDER, PARALLEL, Start};
use super::{ObjectLog, format};
use crate::epoch::{Incarnation, LogSequence};
use crate::log::{Appended, LogError, LogRecord, Stored, record};
use crate::split::Split;

impl<S> ObjectLog<S>
where
    S: Split<Position: Stored, Identity: Stored, Metadata: Stored> + Stored,
{
    pub(super) fn read_some(
        &self,
        open: &mut Open,
        from: LogSequence,
        records_max: usize,
    ) -> Result<Vec<LogRecord<S>>, LogError> {
        if from < open.extent.first {
            return Err(LogError::dropped(&self.name, from, open.extent.first));
        }
        let records_max = records_max.max(1);
        let (mut number, mut sequence) = begin(open, from);
        let mut records = Vec::new();
        while records.len() < records_max {
            let count = PARALLEL.min(records_max - records.len());
            let some = match open.seen.remove(&number) {
                Some(bytes) => vec![bytes],
                None => (open.objects.get_some(number, count)).map_err(self.failed("reading"))?,
            };
            if some.is_empty() {
                if number < open.number {
                    return Err(self.missing(open, number));
                }
                break;
            }
            for bytes in some {
                if number == open.number {
                    self.recognize(open, &bytes)?;
                    // What the run wrote that took over is not this one's, however alike it is.
                    if open.fenced && !self.read_only {
                        return Ok(records);
                    }
                }
                let more: Vec<_> = self.records(open, &bytes, (number, sequence))?;
                let before = from.0.saturating_sub(sequence.0);
                let before = usize::try_from(before).unwrap_or(usize::MAX);
                number += 1;
                sequence.0 += more.len() as u64;
                records.extend(more.into_iter().skip(before));
            }
        }
        open.reading = (number, sequence);
        Ok(records)
    }

    /// The records of an object that should begin with `sequence`.
    fn records(
        &self,
        open: &Open,
        bytes: &[u8],
        (number, sequence): (u64, LogSequence),
    ) -> Result<Vec<LogRecord<S>>, LogError> {
        let object = self.decode(open, bytes, number)?;
        let damaged = |what: String| {
            let path = open.objects.path(number);
            self.error(format!("object {path}: it is damaged: {what}"))
        };
        if object.header.sequence != sequence {
            return Err(damaged(
                "its records do not follow those before it".to_owned(),
            ));
        }
        let Some((count, payload)) = object.records else {
            return Ok(Vec::new());
        };
        let records = record::decode(payload).map_err(|error| damaged(error.to_string()))?;
        if records.len() as u64 != count {
            return Err(damaged(
                "it does not hold as many records as it says".to_owned(),
            ));
        }
        Ok(records)
    }

    pub(super) fn append_to(
        &self,
        open: &mut Open,
        incarnation: Incarnation,
        expected: LogSequence,
        records: &[LogRecord<S>],
    ) -> Result<Appended, LogError> {
        if open.fenced || incarnation < open.incarnation || expected != open.extent.next {
            return Ok(Appended::Fenced);
        }
        let mut header = self.header(open);
        header.incarnation = incarnation;
        let object = header.append(records.len(), &record::encode(records));
        let too_long = || self.error("an append is of four billion records or bytes, or more");
        let object = object.ok_or_else(too_long)?;
        match open.objects.put(open.number, object.clone()) {
            Ok(()) => {}
            Err(error) if error.exists() => return self.who_did(open, &object),
            Err(error) if error.refused() => return Err(self.failed("writing")(error)),
            // Whether it got there, or will, is not known. If this append is asked for again, it
            // is the same object, and the one that got there is found to be it.
            Err(error) => {
                tracing::warn!(log = self.name, %error, "an append's outcome is not known");
                open.pending = Some(object);
                return Ok(Appended::Unknown);
            }
        }
        self.written(open, &object)?;
        Ok(Appended::Durable)
    }

    /// Finds out whose object it is that was there when `object` was to be put.
    fn who_did(&self, open: &mut Open, object: &[u8]) -> Result<Appended, LogError> {
        let Ok(Some(found)) = open.objects.get(open.number) else {
            // It is there, and cannot be seen: its writer may be this one.
            open.pending = Some(object.to_vec());
            return Ok(Appended::Unknown);
        };
        self.recognize(open, &found)?;
        Ok(if found == object {
            Appended::Durable
        } else if open.fenced {
            Appended::Fenced
        } else {
            // An earlier append of this writer, which nobody asked for again: it has to be read.
            Appended::Unknown
        })
    }

    /// Takes note of whose the object is that follows the last one known.
    fn recognize(&self, open: &mut Open, bytes: &[u8]) -> Result<(), LogError> {
        let object = self.decode(open, bytes, open.number)?;
        if object.header.writer == open.writer {
            self.written(open, bytes)
        } else {
            open.fenced = true;
            Ok(())
        }
    }

    fn written(&self, open: &mut Open, object: &[u8]) -> Result<(), LogError> {
        open.pending = None;
        // What opening has seen was read, or will not be.
        open.seen.clear();
        self.take_in(open, object)
    }
}

/// The object to begin with in order to read from `from` on, and the sequence of its first record.
fn begin(open: &Open, from: LogSequence) -> (u64, LogSequence) {
    let starts = open
        .starts
        .iter()
        .map(|start| (start.number, start.sequence));
    let places = starts.chain([open.reading, (open.number, open.extent.next)]);
    let before = places.filter(|(_, sequence)| *sequence <= from);
    before.max().unwrap_or_default()
}

impl<S> ObjectLog<S> {
    /// Notes where reading can start; what cannot be noted is tried again with the next snapshot.
    pub(super) fn note_starts(&mut self) {
        let Some(open) = &mut self.open else {
            return;
        };
        if self.read_only {
            return;
        }
        while let Some(start) = open.unnoted.first() {
            if let Err(error) = open.objects.put_start(start) {
                tracing::warn!(log = self.name, %error, "a snapshot cannot be noted");
                return;
            }
            open.unnoted.remove(0);
        }
    }

    /// Deletes the objects that are not needed any more.
    pub(super) fn drop_old(&mut self) -> Result<(), LogError> {
        if self.read_only {
            return Err(self.error("it is open to be read only"));
        }
        let failed = self.failed("deleting old objects");
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        if open.fenced {
            return Ok(());
        }
        if let Some(first) = self.retention.keep_from(&open.extent) {
            let noted = |start: &Start| start.sequence != first;
            if open.unnoted.iter().all(noted) {
                open.extent.drop_before(first);
            }
        }
        let mut delete = || {
            // The names go first: what they name is not looked for again, and can be deleted later.
            while let [oldest, _, ..] = open.starts[..]
                && oldest.sequence < open.extent.first
            {
                open.unnoted.retain(|start| start.number != oldest.number);
                open.objects.delete_start(&oldest)?;
                open.starts.remove(0);
            }
            sweep(open)
        };
        delete().map_err(failed)
    }
}

/// Deletes what is before the first start, but claims.
fn sweep(open: &mut Open) -> Result<(), super::StoreError> {
    let first = open.starts.first().map_or(0, |start| start.number);
    if first / FOLDER < open.swept / FOLDER || first == 0 {
        return Ok(());
    }
    for folder in open.objects.folders()? {
        if folder < open.swept || folder > first {
            continue;
        }
        let listed = open.objects.list(folder)?;
        let old = listed
            .iter()
            .filter(|(number, bytes)| *number < first && *bytes > format::HEADER_BYTES as u64);
        let old: Vec<_> = old.map(|(number, _)| *number).collect();
        open.objects.delete(&old)?;
    }
    open.swept = first / FOLDER * FOLDER;
    Ok(())
}
