//! Opening a log of objects: finding what it holds, and taking it over.

use std::collections::BTreeMap;

use super::ObjectLog;
use super::format::{self, Header, Object, Writer};
use super::store::{FOLDER, Objects, PARALLEL, Start, StoreError};
use crate::epoch::{Incarnation, LogSequence};
use crate::log::outline::{self, Outline};
use crate::log::{LogError, LogExtent};

/// How often taking over is tried while others append.
const CLAIMS_MAX: usize = 1_000;

/// A log that is open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) objects: Objects,
    /// Where reading can start, oldest first. The log begins with the first.
    pub(super) starts: Vec<Start>,
    /// The number that the next object will have.
    pub(super) number: u64,
    pub(super) extent: LogExtent,
    /// The newest run that appended.
    pub(super) incarnation: Incarnation,
    /// What tells the objects of this opening from all others.
    pub(super) writer: Writer,
    /// Whether somebody else has taken over.
    pub(super) fenced: bool,
    /// An append of which it is not known whether it was written.
    pub(super) pending: Option<Vec<u8>>,
    /// Starts that could not be noted yet.
    pub(super) unnoted: Vec<Start>,
    /// Objects that opening looked at, which will be read next.
    pub(super) seen: BTreeMap<u64, Vec<u8>>,
    /// An object, and the sequence of its first record: where reading stopped.
    pub(super) reading: (u64, LogSequence),
    /// The folder before which there is nothing to delete.
    pub(super) swept: u64,
}

impl<S> ObjectLog<S> {
    pub(super) fn look(&self, objects: Objects) -> Result<Open, LogError> {
        let mut writer = Writer::default();
        getrandom::fill(&mut writer)
            .map_err(|error| self.error(format!("no random number can be had: {error}")))?;
        let mut open = Open {
            objects,
            starts: Vec::new(),
            number: 0,
            extent: LogExtent::default(),
            incarnation: Incarnation::default(),
            writer,
            fenced: false,
            pending: None,
            unnoted: Vec::new(),
            seen: BTreeMap::new(),
            reading: (0, LogSequence::default()),
            swept: 0,
        };
        loop {
            self.find(&mut open)?;
            if self.read_only || self.claim(&mut open)? {
                return Ok(open);
            }
        }
    }

    /// Finds out what the log holds: where reading can start, and all that follows the last snapshot.
    fn find(&self, open: &mut Open) -> Result<(), LogError> {
        let beginning = Start {
            number: 0,
            sequence: LogSequence::default(),
            snapshot: None,
        };
        let mut starts = open.objects.starts().map_err(self.failed("listing"))?;
        // A compaction that was interrupted, or a writer that was late, left those whose object is gone.
        while let [oldest, _, ..] = starts[..] {
            let there = open.objects.is_there(oldest.number);
            if there.map_err(self.failed("looking"))? {
                break;
            }
            starts.remove(0);
            if !self.read_only {
                let deleted = open.objects.delete_start(&oldest);
                deleted.map_err(self.failed("deleting what names an object that is gone"))?;
            }
        }
        if starts.is_empty() {
            starts.push(beginning);
            open.unnoted.push(beginning);
        }
        let last = starts[starts.len() - 1];
        open.extent = LogExtent {
            first: starts[0].sequence,
            next: last.sequence,
            incarnation: Incarnation::default(),
            // The last one is found again as its object is read.
            snapshots: starts[..starts.len() - 1]
                .iter()
                .filter_map(|start| start.snapshot)
                .collect(),
        };
        open.number = last.number;
        open.reading = (last.number, last.sequence);
        let known = last.snapshot.is_some();
        if known {
            starts.pop();
        }
        open.starts = starts;
        let numbers = self.numbers(&open.objects, last.number)?;
        if known && numbers == 0 {
            return Err(self.error(format!(
                "object {} is missing; expected the snapshot that is noted in it",
                open.objects.path(last.number)
            )));
        }
        let end = last.number + numbers;
        while open.number < end {
            let count = PARALLEL.min(usize::try_from(end - open.number).unwrap_or(PARALLEL));
            let some =
                (open.objects.get_some(open.number, count)).map_err(self.failed("reading"))?;
            if some.len() < count {
                return Err(self.missing(open, open.number + some.len() as u64));
            }
            for bytes in some {
                let number = open.number;
                self.take_in(open, &bytes)?;
                open.seen.insert(number, bytes);
            }
        }
        if known {
            // It was noted before, and has been found once more.
            open.unnoted.retain(|start| start.number != last.number);
        }
        Ok(())
    }

    /// How many objects there are from `first` on.
    fn numbers(&self, objects: &Objects, first: u64) -> Result<u64, LogError> {
        let mut next = first;
        loop {
            let listed = objects.list(next).map_err(self.failed("listing"))?;
            let before = next;
            for (number, _) in listed {
                if number < next {
                    continue;
                }
                // A hole is found where it is read.
                next = number + 1;
            }
            if next == before || !next.is_multiple_of(FOLDER) {
                return Ok(next - first);
            }
        }
    }

    pub(super) fn missing(&self, open: &Open, number: u64) -> LogError {
        self.error(format!(
            "object {} is missing; expected every one up to the last",
            open.objects.path(number)
        ))
    }

    pub(super) fn decode<'a>(
        &self,
        open: &Open,
        bytes: &'a [u8],
        number: u64,
    ) -> Result<Object<'a>, LogError> {
        format::decode(bytes, number).map_err(|error| {
            let path = open.objects.path(number);
            self.error(format!("object {path}: {error}"))
        })
    }

    /// Takes note of the next object.
    pub(super) fn take_in(&self, open: &mut Open, bytes: &[u8]) -> Result<(), LogError> {
        let number = open.number;
        let damaged = |what: &str| {
            let path = open.objects.path(number);
            self.error(format!("object {path}: it is damaged: {what}"))
        };
        let Object { header, records } = self.decode(open, bytes, number)?;
        if header.sequence != open.extent.next {
            return Err(damaged("its records do not follow those before it"));
        }
        let outlines = match records {
            None => Vec::new(),
            Some((count, payload)) => {
                let outlines =
                    outline::decode(payload).map_err(|error| damaged(&error.to_string()))?;
                if outlines.len() as u64 != count {
                    return Err(damaged("it does not hold as many records as it says"));
                }
                outlines
            }
        };
        open.incarnation = open.incarnation.max(header.incarnation);
        let snapshot = matches!(outlines[..], [Outline::Snapshot { .. }, ..]);
        open.extent.extend(outlines);
        open.incarnation = open.incarnation.max(open.extent.incarnation);
        open.number += 1;
        if snapshot {
            let start = Start {
                number,
                sequence: header.sequence,
                snapshot: open.extent.snapshots.last().copied(),
            };
            open.starts.push(start);
            open.unnoted.push(start);
        }
        Ok(())
    }

    /// Takes the log over: by an object without records, so that whoever writes to it finds the next
    /// number taken. False if so much happened meanwhile that one has to look again.
    ///
    /// A claim is never deleted. So the number that a writer would use next when another one takes
    /// over stays taken for ever, and however late it wakes up it cannot write.
    fn claim(&self, open: &mut Open) -> Result<bool, LogError> {
        for _ in 0..CLAIMS_MAX {
            let number = open.number;
            let claim = self.header(open).claim();
            match open.objects.put(number, claim.clone()) {
                Ok(()) => {}
                Err(error) if error.exists() => {
                    let found = open.objects.get(number).map_err(self.failed("reading"))?;
                    let Some(bytes) = found else {
                        // It was there and is not: it was compacted, so much happened.
                        return Ok(false);
                    };
                    self.take_in(open, &bytes)?;
                    let own = bytes == claim;
                    open.seen.insert(number, bytes);
                    if !own {
                        continue;
                    }
                    return self.check_claim(open, number);
                }
                Err(error) if error.unsupported() => return Err(self.no_conditions(Some(error))),
                Err(error) => return Err(self.failed("taking it over")(error)),
            }
            self.take_in(open, &claim)?;
            open.seen.insert(number, claim.clone());
            match open.objects.put(number, claim) {
                Err(error) if error.exists() => {}
                Err(error) => return Err(self.failed("taking it over")(error)),
                Ok(()) => return Err(self.no_conditions(None)),
            }
            return self.check_claim(open, number);
        }
        Err(self.error("it cannot be taken over: others do so all the time; expected one run"))
    }

    /// Whether a claim is where the log ends. It is not if the log went on, and was compacted, past
    /// the number that was the next one when it was looked at.
    fn check_claim(&self, open: &Open, number: u64) -> Result<bool, LogError> {
        let starts = open.objects.starts().map_err(self.failed("listing"))?;
        Ok(starts.last().is_none_or(|last| last.number < number))
    }

    fn no_conditions(&self, error: Option<StoreError>) -> LogError {
        LogError {
            source: error.map(Into::into),
            ..self.error(
                "the store cannot put an object only if there is none of its name; expected one that \
                 can, or two runs would write over each other: use another store, or allow it \
                 conditional puts",
            )
        }
    }

    pub(super) fn header(&self, open: &Open) -> Header {
        Header {
            number: open.number,
            sequence: open.extent.next,
            incarnation: open.incarnation,
            writer: open.writer,
        }
    }
}
