//! Gives ticks again that a source has bound, and compares them with the first time.
//!
//! A run that replays goes on after that, so it has a copy of the log. Its store is empty: what of the
//! first store belongs to earlier ticks is what its user has kept, and both together have to be what
//! the first store is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::check::{self, Bound, Found};
use crate::child::Begin;
use crate::plan::{Life, Replay};
use crate::processes::{Place, Processes, SHARDS};
use crate::results::Replayed;

/// Gives ticks of a log again at a place; nothing comes of it if none is bound.
///
/// # Errors
///
/// What was not as the first time.
pub(crate) fn run(
    replay: &Replay,
    place: &Place,
    log: &Path,
    found: &Found,
    written: Option<&BTreeMap<String, u64>>,
) -> Result<Option<Replayed>, String> {
    let copied = fs::create_dir(place.log()).and_then(|()| check::copy_log(log, &place.log()));
    copied.map_err(|error| format!("copying the log: {error}"))?;
    let bound = check::bound(&place.log())?;
    let Some(from) = first_tick(replay, &bound, found) else {
        return Ok(None);
    };
    let mut kept = found.stored.clone();
    kept.retain(|_, (tick, _)| *tick < from);
    let mut again = Again {
        place,
        from,
        kept: Found {
            stored: kept,
            tick: from - 1,
        },
        first: found,
        bound,
        same_to: u64::MAX,
    };
    let mut replayed = Replayed {
        ticks: 0,
        records: 0,
        workers: 0,
        deaths: Vec::new(),
        anew: false,
    };
    for (number, life) in replay.lives.iter().enumerate() {
        let stored = again.stored()?.tick;
        let begin = if replay.at && number > 0 && stored >= from {
            again.same_to = again.same_to.min(stored);
            replayed.anew = true;
            Begin::AfterStored
        } else {
            Begin::Replay(from)
        };
        let last = number + 1 == replay.lives.len();
        let mut processes = Processes::start(place, number, life, begin)?;
        if last {
            let total = written.map(|counts| counts.values().sum());
            processes.await_stored(&place.store(), again.missing(total))?;
            processes.stop()?;
        } else {
            processes.one_ends_within(life.most());
            replayed.deaths.push(processes.die(life)?);
        }
        (replayed.ticks, replayed.records) = again
            .check(written.filter(|_| last))
            .map_err(|error| format!("from tick {from}, run {number}: {error}"))?;
        replayed.workers = workers(life);
    }
    Ok(Some(replayed))
}

fn workers(life: &Life) -> usize {
    life.processes * life.workers
}

/// The first tick to give again: one whose rows are all in the first store, as are those before it.
fn first_tick(replay: &Replay, bound: &Bound, found: &Found) -> Option<u64> {
    let ticks: BTreeSet<u64> = bound.values().copied().collect();
    let stored = ticks.range(..=found.tick).count() as u64;
    let before = replay.from * stored / 1_000;
    ticks.into_iter().nth(usize::try_from(before).ok()?)
}

/// What is given again.
struct Again<'a> {
    place: &'a Place,
    from: u64,
    /// What the first store has of the ticks before.
    kept: Found,
    first: &'a Found,
    /// What the log bound the first time.
    bound: Bound,
    /// Ticks after this one were read anew.
    same_to: u64,
}

impl Again<'_> {
    fn stored(&self) -> Result<Found, String> {
        check::read(&self.place.store(), SHARDS)
    }

    /// How many rows there have to be in the end, of so many altogether, if that is known.
    fn missing(&self, total: Option<u64>) -> u64 {
        match total {
            Some(total) => total.saturating_sub(self.kept.stored.len() as u64),
            None => (self.bound.values())
                .filter(|tick| **tick >= self.from)
                .count() as u64,
        }
    }

    /// Compares what is stored: how many ticks and records are there again as they were.
    fn check(&self, written: Option<&BTreeMap<String, u64>>) -> Result<(usize, usize), String> {
        let stored = self.stored()?;
        if let Some((record, (tick, _))) = (stored.stored.iter()).find(|(_, at)| at.0 < self.from) {
            let (split, offset) = record;
            return Err(format!(
                "split {split} offset {offset}: tick {tick} is given again"
            ));
        }
        let mut all = Found {
            stored: self.kept.stored.clone(),
            tick: stored.tick.max(self.kept.tick),
        };
        for (record, at) in &stored.stored {
            if let Some((tick, _)) = all.stored.insert(record.clone(), *at) {
                let (split, offset) = record;
                return Err(format!(
                    "split {split} offset {offset}: comes at tick {}, and was at tick {tick}",
                    at.0
                ));
            }
        }
        // A run that replays changes nothing of what is bound, one that goes back only what is later.
        let bound = check::bound(&self.place.log())?;
        for (record, tick) in self.bound.iter().filter(|(_, at)| **at <= self.same_to) {
            if bound.get(record) != Some(tick) {
                return Err(format!(
                    "split {} offset {}: was bound at tick {tick}, and is at {:?}",
                    record.0,
                    record.1,
                    bound.get(record)
                ));
            }
        }
        check::compare_with_log(&all, &bound)?;
        let same_to = self.first.tick.min(self.same_to).min(all.tick);
        let first = Found {
            stored: self.first.stored.clone(),
            tick: same_to,
        };
        check::compare_with_before(&all, &first)?;
        if let Some(written) = written {
            check::compare_with_written(&all, written)?;
        }
        let bound_to = self.bound.values().max().copied().unwrap_or_default();
        let again = |at: &&(u64, u64)| at.0 <= bound_to.min(self.same_to);
        let ticks: Vec<u64> = (stored.stored.values().filter(again))
            .map(|at| at.0)
            .collect();
        let different: BTreeSet<&u64> = ticks.iter().collect();
        Ok((different.len(), ticks.len()))
    }
}
