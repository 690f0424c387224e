//! Compares what is stored with what was written and with the log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use rusqlite::Connection;
use timely_kafka::model::KafkaSplit;
use timely_kafka::{BindingLog, LocalLog, LogRecord};

use crate::store::Row;

/// What all shards hold: by split and offset, the tick and the value.
pub(crate) type Stored = BTreeMap<(String, u64), (u64, u64)>;

/// What a log binds: by split and offset, the tick.
pub(crate) type Bound = BTreeMap<(String, u64), u64>;

/// What was found in a store that is as it has to be.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) stored: Stored,
    /// All shards have all rows of ticks up to this one.
    pub(crate) tick: u64,
}

/// How many rows the shards have.
pub(crate) fn count(folder: &Path, shards: u64) -> u64 {
    let counts = (0..shards).map(|number| {
        let connection = Connection::open(shard(folder, number)).ok()?;
        connection
            .query_row("SELECT count(*) FROM rows", [], |row| row.get::<_, u64>(0))
            .ok()
    });
    // A shard that is not made yet, or is busy, is asked again.
    counts.sum::<Option<u64>>().unwrap_or_default()
}

fn shard(folder: &Path, number: u64) -> std::path::PathBuf {
    folder.join(format!("shard-{number}.db"))
}

/// Reads a store and compares it with itself: each record once, in its shard, in the order of its
/// split.
pub(crate) fn read(folder: &Path, shards: u64) -> Result<Found, String> {
    let mut stored = Stored::new();
    let mut least = u64::MAX;
    for number in 0..shards {
        let path = shard(folder, number);
        if !path.exists() {
            return Ok(Found {
                stored: Stored::new(),
                tick: 0,
            });
        }
        let tick = read_shard(&path, number, shards, &mut stored)
            .map_err(|error| format!("shard {number}: {error}"))?;
        least = least.min(tick);
    }
    Ok(Found {
        stored,
        tick: least,
    })
}

fn read_shard(path: &Path, number: u64, shards: u64, stored: &mut Stored) -> Result<u64, String> {
    let words = |error: rusqlite::Error| error.to_string();
    let connection = Connection::open(path).map_err(words)?;
    let state = connection.query_row("SELECT tick FROM state", [], |row| row.get(0));
    let up_to: u64 = match state {
        Ok(tick) => tick,
        // It was killed while it made the file.
        Err(_) => return Ok(0),
    };
    let mut rows = connection
        .prepare("SELECT tick, split, offset, key, value FROM rows ORDER BY number")
        .map_err(words)?;
    let rows = rows.query_map([], |row| {
        let value: Vec<u8> = row.get(4)?;
        let key = row.get(3)?;
        let (split, offset) = (row.get(1)?, row.get(2)?);
        let row_of = Row {
            split,
            offset,
            key,
            value: None,
        };
        Ok((row.get::<_, u64>(0)?, row_of, value))
    });
    let mut last_tick = 0;
    let mut last_offsets: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows.map_err(words)? {
        let (tick, row, value) = row.map_err(words)?;
        let at = format!("split {} offset {} tick {tick}", row.split, row.offset);
        let value = String::from_utf8_lossy(&value)
            .parse()
            .map_err(|_| format!("{at}: the value {value:?} is not what was written"))?;
        if tick < last_tick || tick > up_to {
            return Err(format!(
                "{at}: after tick {last_tick}, in a shard up to {up_to}"
            ));
        }
        last_tick = tick;
        if row.shard(shards) != number {
            return Err(format!("{at}: belongs to shard {}", row.shard(shards)));
        }
        if let Some(last) = last_offsets.insert(row.split.clone(), row.offset)
            && last >= row.offset
        {
            return Err(format!("{at}: after offset {last}"));
        }
        if let Some((other, _)) = stored.insert((row.split, row.offset), (tick, value)) {
            return Err(format!("{at}: is stored at tick {other} as well"));
        }
    }
    Ok(up_to)
}

/// Compares a store with the log: a row is in it if and only if the binding of its tick says so.
/// How many ticks were compared.
pub(crate) fn compare_with_log(found: &Found, bound: &Bound) -> Result<usize, String> {
    for (record, (tick, _)) in &found.stored {
        if bound.get(record) != Some(tick) {
            return Err(format!(
                "split {} offset {}: is stored at tick {tick}, and bound at {:?}",
                record.0,
                record.1,
                bound.get(record)
            ));
        }
    }
    let mut ticks = BTreeSet::new();
    for (record, tick) in bound.iter().filter(|(_, tick)| **tick <= found.tick) {
        ticks.insert(*tick);
        if !found.stored.contains_key(record) {
            return Err(format!(
                "split {} offset {}: is bound at tick {tick}, and not stored, though all rows up to \
                 {} are",
                record.0, record.1, found.tick
            ));
        }
    }
    Ok(ticks.len())
}

/// Copies a log that nobody uses, if there is one, into a folder that is there.
pub(crate) fn copy_log(log: &Path, to: &Path) -> io::Result<()> {
    if log.exists() {
        for entry in fs::read_dir(log)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let name = path.file_name().expect("an entry has a name");
                fs::copy(&path, to.join(name))?;
            }
        }
    }
    Ok(())
}

/// The tick of each offset that a log binds. The offsets of the campaign are dense.
///
/// The log is read from a copy, as a restart would read it.
pub(crate) fn bound(log: &Path) -> Result<Bound, String> {
    let copy = tempfile::tempdir().map_err(|error| error.to_string())?;
    copy_log(log, copy.path()).map_err(|error| format!("copying the log: {error}"))?;
    let mut opened = LocalLog::at(copy.path());
    let records = BindingLog::<KafkaSplit>::read_all(&mut opened);
    let mut bound = Bound::new();
    for record in records.map_err(|error| error.to_string())? {
        if let LogRecord::Snapshot(snapshot) = &record
            && snapshot.rewound
        {
            let last = snapshot.bound.map_or(0, |tick| tick.0);
            bound.retain(|_, tick| *tick <= last);
        }
        if let LogRecord::Binding(binding) = record {
            for range in binding.ranges {
                for offset in range.from.next.get()..range.to.next.get() {
                    let at = (range.split.to_string(), offset);
                    if let Some(other) = bound.insert(at, binding.tick.0) {
                        return Err(format!(
                            "split {} offset {offset}: is bound at ticks {other} and {}",
                            range.split, binding.tick
                        ));
                    }
                }
            }
        }
    }
    Ok(bound)
}

/// Compares a store with how it was before: what all shards had then is there, as it was.
pub(crate) fn compare_with_before(found: &Found, before: &Found) -> Result<(), String> {
    let complete = |(_, (tick, _)): &(_, &(u64, u64))| *tick <= before.tick;
    for (record, stored) in before.stored.iter().filter(complete) {
        if found.stored.get(record) != Some(stored) {
            return Err(format!(
                "split {} offset {}: was stored at tick {}, for good, and is {:?}",
                record.0,
                record.1,
                stored.0,
                found.stored.get(record)
            ));
        }
    }
    Ok(())
}

/// Compares a store with what was written: all of it, and in its order.
pub(crate) fn compare_with_written(
    found: &Found,
    written: &BTreeMap<String, u64>,
) -> Result<(), String> {
    let mut next: BTreeMap<&str, u64> = BTreeMap::new();
    for ((split, offset), (_, value)) in &found.stored {
        let expected = next.entry(split).or_default();
        if value != expected {
            return Err(format!(
                "split {split} offset {offset}: the record {value} is there; expected {expected}"
            ));
        }
        *expected += 1;
    }
    for (split, count) in written {
        let stored = next.get(split.as_str()).copied().unwrap_or_default();
        if stored != *count {
            return Err(format!(
                "split {split}: {stored} records are stored; {count} were written"
            ));
        }
    }
    Ok(())
}
