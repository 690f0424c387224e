//! One check an obligation.

use super::LogRig;
use crate::binding::{Binding, SplitError, SplitRange};
use crate::conformance::report::{Breach, Checked, Done, ensure};
use crate::conformance::run::Context;
use crate::coordinator::{SNAPSHOT_VERSION, Snapshot, SplitSnapshot};
use crate::epoch::{Incarnation, LogSequence, MetadataEpoch, SplitEpoch};
use crate::log::{Appended, BindingLog, LogError, LogRecord, SnapshotAt};
use crate::loss::Aftermath;
use crate::split::Split;
use crate::tick::Tick;

/// A log under test, and what it should hold.
struct Driver<R: LogRig> {
    context: Context,
    rig: R,
    log: Option<R::Log>,
    written: Vec<LogRecord<R::Split>>,
    /// The number of the next binding, so that all differ.
    next: u64,
    /// Where snapshots were written, and the last tick in each.
    snapshots: Vec<(usize, Tick)>,
}

impl<R: LogRig> Driver<R> {
    /// A log that is open and that incarnation 1 has begun.
    fn begun(rig: R, context: Context) -> Checked<Self> {
        let mut driver = Self {
            context,
            rig,
            log: None,
            written: Vec::new(),
            next: 0,
            snapshots: Vec::new(),
        };
        driver.open();
        driver.same("L3", "a log that was not written")?;
        driver.durable(1, vec![LogRecord::Incarnation(Incarnation(1))])?;
        Ok(driver)
    }

    /// Opens the log once more, and leaves the one before to the caller.
    fn open(&mut self) -> Option<R::Log> {
        if self.rig.exclusive() {
            self.log = None;
        }
        let rig = &mut self.rig;
        let mut opened = self.context.call("open", || rig.open()).0;
        // As the writer does before it appends; what it holds is looked at where that matters.
        self.context.call("open", || opened.open()).0.ok();
        self.log.replace(opened)
    }

    /// Records of every kind, none like those before.
    fn records(&mut self) -> Vec<LogRecord<R::Split>> {
        let (from, to) = (self.next, self.next + 1);
        self.next = to;
        let split = self.rig.split();
        let (from, to) = (self.rig.position(from), self.rig.position(to));
        let error = SplitError {
            split: split.clone(),
            position: to.clone(),
            then: Aftermath::Stays,
            message: format!("\"{to}\"\n\0 is no position"),
        };
        let binding = Binding {
            tick: Tick(1_000 + self.next),
            ranges: vec![SplitRange {
                split: split.clone(),
                from: from.clone(),
                to,
            }],
            errors: vec![error],
        };
        vec![
            LogRecord::Metadata {
                epoch: MetadataEpoch(self.next),
                at: Tick(1),
                metadata: self.rig.metadata(self.next),
                target: Some(self.rig.metadata(self.next + 1)),
            },
            LogRecord::End {
                split: split.clone(),
                end: Some(self.rig.position(self.next + 1)),
            },
            LogRecord::End {
                split: split.clone(),
                end: None,
            },
            LogRecord::Start {
                split: split.clone(),
                start: from,
                stop: Some(self.rig.position(self.next + 1)),
            },
            LogRecord::AllFound,
            LogRecord::Reserved(Tick(u64::MAX - 1_000 + self.next)),
            LogRecord::ReservedEpochs(SplitEpoch(u64::MAX - 1_000 + self.next)),
            LogRecord::Binding(binding),
            LogRecord::Readmitted(split.clone()),
            LogRecord::Paused(split.clone()),
            LogRecord::Resumed(split.clone()),
            LogRecord::Forgotten(split),
        ]
    }

    fn append(
        &mut self,
        incarnation: u64,
        expected: usize,
        records: &[LogRecord<R::Split>],
    ) -> Result<Appended, LogError> {
        let log = self.log.as_mut().expect("the driver opens a log first");
        append(&self.context, log, incarnation, expected, records)
    }

    /// Appends where the log ends.
    fn durable(&mut self, incarnation: u64, records: Vec<LogRecord<R::Split>>) -> Checked {
        let appended = self.append(incarnation, self.written.len(), &records);
        ensure("L1", matches!(appended, Ok(Appended::Durable)), || {
            format!("an append after the records it expects came to {appended:?}")
        })?;
        self.written.extend(records);
        self.same("L2", "a log after an append")
    }

    /// Appends where the log ends, which may have dropped what it begins with.
    fn durable_alone(&mut self, records: Vec<LogRecord<R::Split>>) -> Checked {
        let appended = self.append(1, self.written.len(), &records);
        ensure("L7", matches!(appended, Ok(Appended::Durable)), || {
            format!("an append to a log with snapshots came to {appended:?}")
        })?;
        self.written.extend(records);
        Ok(())
    }

    fn snapshot(&self, bound: Tick) -> Snapshot<R::Split> {
        Snapshot {
            version: SNAPSHOT_VERSION,
            incarnation: Incarnation(1),
            reserved: bound,
            bound: Some(bound),
            metadata: None,
            target: None,
            first: None,
            count: 1,
            splits: vec![SplitSnapshot {
                split: self.rig.split(),
                position: self.rig.position(self.next),
                quarantined: false,
                paused: false,
                identity: None,
                unlisted_since: None,
                stop: Some(self.rig.position(self.next + 1)),
                end: Some(self.rig.position(self.next + 1)),
            }],
            split_epochs: SplitEpoch(self.next),
            rewound: false,
            all_found: false,
        }
    }

    /// The log has to hold, unbroken up to the last record, what is needed to begin after `since`.
    fn holds_since(&mut self, since: Tick) -> Checked {
        let log = self.log.as_mut().expect("the driver opens a log first");
        let extent = self.context.call("open", || log.open()).0;
        let read = self.context.call("read", || log.read_all()).0;
        let (written, snapshots) = (&self.written, &self.snapshots);
        let rig = &self.rig;
        let right = match (&extent, &read) {
            (Ok(extent), Ok(read)) => {
                let first = usize::try_from(extent.first.0).unwrap_or(usize::MAX);
                let needed = snapshots.iter().rev().find(|(_, bound)| *bound <= since);
                let needed = needed.map_or(0, |(at, _)| *at);
                let kept = snapshots.iter().filter(|(at, _)| *at >= first);
                let kept: Vec<_> = kept
                    .map(|(at, bound)| SnapshotAt {
                        at: LogSequence(*at as u64),
                        bound: Some(*bound),
                    })
                    .collect();
                (first <= needed || rig.keeps_little())
                    && written.get(first..) == Some(read)
                    && extent.next.0 == written.len() as u64
                    && extent.snapshots == kept
                    && (first == 0 || kept.first().is_some_and(|kept| kept.at == extent.first))
            }
            _ => false,
        };
        ensure("L7", right, || {
            format!("compacted up to {since}, it holds {extent:?}: {read:#?}, of {written:#?}")
        })
    }

    /// Reads the log, which has to hold what was written.
    fn same(&mut self, number: &'static str, what: &str) -> Checked {
        let log = self.log.as_mut().expect("the driver opens a log first");
        let read = self.context.call("read", || log.read_all()).0;
        let read = read.map_err(|error| Breach {
            number: "L3",
            how: format!("{what} cannot be read: {error}"),
        })?;
        ensure(number, read == self.written, || {
            format!("{what} holds {read:#?}, expected {:#?}", self.written)
        })
    }
}

fn append<S: Split>(
    context: &Context,
    log: &mut impl BindingLog<S>,
    incarnation: u64,
    expected: usize,
    records: &[LogRecord<S>],
) -> Result<Appended, LogError> {
    let (incarnation, expected) = (Incarnation(incarnation), LogSequence(expected as u64));
    let append = || log.append(incarnation, expected, records);
    context.call("append", append).0
}

pub(super) fn compares<R: LogRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::begun(rig, context)?;
    for _ in 0..3 {
        let (records, end) = (driver.records(), driver.written.len());
        for expected in [0, end - 1, end + 1] {
            let appended = driver.append(1, expected, &records);
            ensure("L1", !matches!(appended, Ok(Appended::Durable)), || {
                format!("after {end} records, an append that expects {expected} is durable")
            })?;
            driver.same("L1", "a log that refused an append")?;
        }
        // The refused ones are in nobody's way.
        let renewed = driver.open();
        drop(renewed);
        driver.durable(1, records)?;
    }
    Ok(Done::Kept)
}

pub(super) fn all_or_none<R: LogRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::begun(rig, context)?;
    for appends in [1, 2, 40] {
        let mut records = Vec::new();
        for _ in 0..appends {
            records.extend(driver.records());
        }
        driver.durable(1, records)?;
    }
    Ok(Done::Kept)
}

pub(super) fn durable<R: LogRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::begun(rig, context)?;
    for incarnation in 2..=4 {
        let records = driver.records();
        driver.durable(incarnation - 1, records)?;
        drop(driver.open());
        driver.same("L3", "a log that was opened again")?;
        let begins = vec![LogRecord::Incarnation(Incarnation(incarnation))];
        driver.durable(incarnation, begins)?;
    }
    Ok(Done::Kept)
}

pub(super) fn one_writer<R: LogRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::begun(rig, context)?;
    let first = driver.records();
    driver.durable(1, first)?;
    let older = driver.open();
    driver.durable(2, vec![LogRecord::Incarnation(Incarnation(2))])?;
    let (records, end) = (driver.records(), driver.written.len());
    // By the log that the older one has open, if it can be, and by whatever log it opens.
    let mut appended = Vec::new();
    if let Some(mut older) = older {
        let expected = end - 1;
        appended.push(append(&driver.context, &mut older, 1, expected, &records));
        appended.push(append(&driver.context, &mut older, 1, end, &records));
    }
    appended.push(driver.append(1, end, &records));
    let fenced = appended
        .iter()
        .all(|appended| matches!(appended, Ok(Appended::Fenced)));
    ensure("L4", fenced, || {
        format!("appends of incarnation 1 after one of incarnation 2 came to {appended:?}")
    })?;
    driver.same("L4", "a log after appends of an older incarnation")?;
    drop(driver.open());
    driver.durable(2, records)?;
    Ok(Done::Kept)
}

pub(super) fn fails_in_words<R: LogRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::begun(rig, context)?;
    for _ in 0..5 {
        if !driver.rig.fail_next() {
            return Ok(Done::Unchecked("the rig cannot make the storage fail"));
        }
        let records = driver.records();
        match driver.append(1, driver.written.len(), &records) {
            Ok(Appended::Durable) => driver.written.extend(records),
            Ok(Appended::Unknown) => {
                let log = driver.log.as_mut().expect("the driver opens a log first");
                let read = driver.context.call("read", || log.read_all()).0;
                if read.is_ok_and(|read| read.len() > driver.written.len()) {
                    driver.written.extend(records);
                }
            }
            Ok(Appended::Fenced) => {
                let how = || "a failure of the storage was taken for another incarnation";
                ensure("L5", false, || how().to_owned())?;
            }
            Err(error) => {
                let named = !error.name.is_empty() && !error.message.is_empty();
                ensure("L5", named, || {
                    format!("{error:?} does not say what failed")
                })?;
            }
        }
        driver.same("L5", "a log after a failure")?;
        let more = driver.records();
        driver.durable(1, more)?;
    }
    drop(driver.open());
    driver.same("L5", "a log that was opened again after failures")?;
    Ok(Done::Kept)
}

pub(super) fn reads_from_anywhere<R: LogRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::begun(rig, context)?;
    for _ in 0..4 {
        let records = driver.records();
        driver.durable(1, records)?;
    }
    let log = driver.log.as_mut().expect("the driver opens a log first");
    let written = &driver.written;
    let extent = driver.context.call("open", || log.open()).0;
    let holds = extent.as_ref().is_ok_and(|extent| {
        extent.first.0 == 0
            && extent.next.0 == written.len() as u64
            && extent.incarnation == Incarnation(1)
            && extent.snapshots.is_empty()
    });
    ensure("L6", holds, || {
        format!(
            "a log of {} records says that it holds {extent:?}",
            written.len()
        )
    })?;
    for records_max in [1, 3, usize::MAX] {
        for from in 0..=written.len() {
            let read = read_on(&driver.context, log, from, records_max);
            let right = matches!(&read, Ok(read) if *read == written[from..]);
            ensure("L6", right, || {
                format!(
                    "from {from} on, {records_max} at a time, it gives {read:#?}, expected {:#?}",
                    &written[from..]
                )
            })?;
        }
    }
    Ok(Done::Kept)
}

/// All records from `from` on, `records_max` at a time.
fn read_on<S: Split>(
    context: &Context,
    log: &mut impl BindingLog<S>,
    from: usize,
    records_max: usize,
) -> Result<Vec<LogRecord<S>>, LogError> {
    let mut records = Vec::new();
    loop {
        let next = LogSequence((from + records.len()) as u64);
        let more = context.call("read", || log.read(next, records_max)).0?;
        if more.is_empty() {
            return Ok(records);
        }
        records.extend(more);
    }
}

pub(super) fn compacts<R: LogRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::begun(rig, context)?;
    // Snapshots at ticks 1,000, 2,000 and so on, each with records after it.
    for thousand in 1..=4 {
        let records = driver.records();
        driver.durable_alone(records)?;
        let snapshot = driver.snapshot(Tick(thousand * 1_000));
        driver
            .snapshots
            .push((driver.written.len(), Tick(thousand * 1_000)));
        driver.durable_alone(vec![LogRecord::Snapshot(snapshot)])?;
    }
    let records = driver.records();
    driver.durable_alone(records)?;
    let mut greatest = Tick::default();
    for since in [500, 1_000, 2_500, 2_500, 1_000, 3_999, 1_000_000] {
        // What was said not to be needed is not needed either when less is said.
        let since = Tick(since);
        greatest = greatest.max(since);
        let log = driver.log.as_mut().expect("the driver opens a log first");
        let compacted = driver.context.call("compact", || log.compact(since)).0;
        ensure("L7", compacted.is_ok(), || {
            format!("it cannot be compacted up to {since}: {compacted:?}")
        })?;
        driver.holds_since(greatest)?;
        drop(driver.open());
        driver.holds_since(greatest)?;
    }
    Ok(Done::Kept)
}
