//! Runs that follow each other, and what has to hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use timely_splits::log::LogRecord;
use timely_splits::resume::Resume;
use timely_splits::tick::Tick;

use crate::disk::{Crash, Disk, Mistake, Rows};
use crate::life::{self, Life, Outside};
use crate::random::Random;
use crate::support::Letter;

/// What rounds counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(BTreeMap<String, u64>);

impl Told {
    fn count(&mut self, what: impl Into<String>, count: u64) {
        *self.0.entry(what.into()).or_default() += count;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            self.count(what, *count);
        }
    }
}

impl Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.0.iter().map(|(what, count)| format!("{what} {count}"));
        f.write_str(&each.collect::<Vec<_>>().join(", "))
    }
}

/// Runs a round: what it counted, or what was wrong.
pub(crate) fn run(seed: u64, mistake: Option<Mistake>) -> Result<Told, String> {
    let mut random = Random::of(seed, 0);
    let mut round = Round {
        disk: Disk::new(seed, mistake),
        outside: Outside::default(),
        told: Told::default(),
    };
    let lives = 2 + random.below(3);
    let mut workers = 0;
    for number in 0..=lives {
        // Never as many as before.
        workers = (workers + random.index(3)) % 4 + 1;
        let resume = round.resume(&mut random);
        let last = number == lives;
        let mut life = round.life(&mut random, workers, resume, last);
        let before = round.begin(&mut life)?;
        life::live(&round.disk, &round.outside, &life)
            .and_then(|()| round.check(&life, &before))
            .map_err(|why| format!("run {number}, {life:?}: {why}"))?;
        round.count(&life);
    }
    round.check_end()?;
    for (fate, count) in &round.disk.lock().fates {
        round.told.count(format!("{fate}:"), *count);
    }
    Ok(round.told)
}

struct Round {
    disk: Disk,
    outside: Outside,
    told: Told,
}

/// The rows that the bindings in force say.
fn in_force(records: &[LogRecord<Letter>]) -> Result<Rows, String> {
    let mut bound = Rows::new();
    for record in records {
        match record {
            LogRecord::Snapshot(snapshot) if snapshot.rewound => {
                let last = snapshot.bound.unwrap_or_default();
                bound.retain(|_, tick| *tick <= last);
            }
            LogRecord::Binding(binding) => {
                for range in &binding.ranges {
                    for offset in range.from..range.to {
                        let row = (range.split.0, offset);
                        if let Some(other) = bound.insert(row, binding.tick) {
                            return Err(format!(
                                "{row:?} is bound at {other} and {}",
                                binding.tick
                            ));
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Ok(bound)
}

/// Up to where ticks are reserved in the log.
fn reserved(records: &[LogRecord<Letter>]) -> Tick {
    let reserved = records.iter().filter_map(|record| match record {
        LogRecord::Reserved(tick) => Some(*tick),
        LogRecord::Snapshot(snapshot) => Some(snapshot.reserved),
        _ => None,
    });
    reserved.max().unwrap_or_default()
}

impl Round {
    /// What the sink has of all its workers.
    fn stored(&self) -> Tick {
        let state = self.disk.lock();
        state.up_to.iter().min().copied().unwrap_or_default()
    }

    /// Where the next run goes on, of what is possible.
    fn resume(&self, random: &mut Random) -> Resume {
        let records = self.disk.records();
        if records.is_empty() {
            return Resume::Continue;
        }
        let (stored, since) = (self.stored(), self.disk.lock().since);
        match random.below(8) {
            0 | 1 => Resume::Continue,
            2 => Resume::Fresh,
            // A store that begins anew has nothing, and the log may not go back so far.
            _ if stored < since => Resume::Continue,
            3 | 4 => Resume::At(stored),
            _ => {
                let bound = in_force(&records).unwrap_or_default();
                let mut ticks: BTreeSet<Tick> = bound.into_values().collect();
                ticks.retain(|tick| since < *tick && *tick <= stored);
                // What the sink does not have is given again as well, unless a crash came before the log
                // knew any tick: there is nothing to be given again, and a run that asks for it is refused.
                let after = Tick(stored.0 + 1);
                if after > reserved(&records) {
                    return Resume::Continue;
                }
                ticks.insert(after);
                let index = random.index(ticks.len());
                let from = ticks.into_iter().nth(index);
                Resume::Replay {
                    from: from.expect("it is below the length"),
                }
            }
        }
    }

    fn life(&self, random: &mut Random, workers: usize, resume: Resume, last: bool) -> Life {
        let crash = match random.below(6) {
            _ if last => Crash::Never,
            0 => Crash::AppendBegun(1 + random.below(12)),
            1 => Crash::AppendWritten(1 + random.below(12)),
            2 => Crash::Emitted(1 + random.below(60)),
            3 => Crash::Committed(1 + random.below(30)),
            4 => Crash::Stepped(random.below(60)),
            _ => Crash::Never,
        };
        let replays = matches!(resume, Resume::Replay { .. });
        Life {
            workers,
            resume,
            stored: Tick::default(),
            crash,
            faults: random.pick(&[0, 5, 25]),
            seed: random.draw(),
            snapshot_every: random.pick(&[2, 7, 1_000]),
            writes: random.below(60),
            // What a replay needs has to be listed; and in the end everything is read.
            changes: !replays && !last && crash != Crash::Never,
            compacts: random.chance(40),
        }
    }

    /// Has the store be as its user would have it for where the next run goes on. What is bound then,
    /// and stays so.
    fn begin(&self, life: &mut Life) -> Result<Rows, String> {
        let mut bound = in_force(&self.disk.records())?;
        let stored = self.stored();
        let mut state = self.disk.lock();
        // Some workers were ahead of others.
        state.rows.retain(|_, tick| *tick <= stored);
        life.stored = stored;
        match life.resume {
            Resume::At(tick) => bound.retain(|_, at| *at <= tick),
            Resume::Replay { from } => {
                life.stored = Tick(from.0 - 1);
                state.rows.retain(|_, tick| *tick < from);
            }
            Resume::Fresh => {
                bound.clear();
                state.rows.clear();
                life.stored = Tick::default();
            }
            // What is bound and not stored is lost to this user.
            _ => {
                state.rows.clone_from(&bound);
                life.stored = bound
                    .values()
                    .max()
                    .copied()
                    .unwrap_or_default()
                    .max(stored);
            }
        }
        Ok(bound)
    }

    /// Compares the store with the log, and the log with how it was before.
    fn check(&self, life: &Life, before: &Rows) -> Result<(), String> {
        let bound = in_force(&self.disk.records())?;
        let stored = self.stored();
        let state = self.disk.lock();
        if let Some(wrong) = state.wrong.first() {
            return Err(wrong.clone());
        }
        for (row, tick) in before {
            if bound.get(row) != Some(tick) {
                return Err(format!(
                    "{row:?} was bound at {tick}, and is at {:?}",
                    bound.get(row)
                ));
            }
        }
        for (row, tick) in &state.rows {
            if bound.get(row) != Some(tick) {
                return Err(format!(
                    "{row:?} is final at {tick}, and bound at {:?}",
                    bound.get(row)
                ));
            }
        }
        let lacks = |(row, tick): &(_, &Tick)| **tick <= stored && !state.rows.contains_key(*row);
        if let Some((row, tick)) = bound.iter().find(lacks) {
            return Err(format!(
                "{row:?} is bound at {tick}, and not final, though all is up to {stored}"
            ));
        }
        // In the order of its split, and without a gap.
        let mut last: Option<((char, u64), Tick)> = None;
        for (row, tick) in bound {
            let (next, least) = match last {
                Some(((letter, offset), at)) if letter == row.0 => (offset + 1, at),
                _ => (0, Tick::default()),
            };
            if row.1 != next || tick < least {
                return Err(format!("{row:?} is bound at {tick}, after {last:?}"));
            }
            last = Some((row, tick));
        }
        if life.crash == Crash::Never {
            let (rows, total) = (state.rows.len() as u64, self.outside.total());
            if rows != total {
                return Err(format!("it has ended with {rows} rows of {total}"));
            }
        }
        Ok(())
    }

    fn count(&mut self, life: &Life) {
        self.told.count("runs", 1);
        let resume = match life.resume {
            Resume::At(_) => "at",
            Resume::Replay { .. } => "replay",
            Resume::Fresh => "fresh",
            _ => "continue",
        };
        self.told.count(format!("{resume}:"), 1);
        let crash = format!("{:?}", life.crash);
        let kind = crash.split('(').next().unwrap_or_default();
        self.told.count(format!("crash {kind}:"), 1);
    }

    /// In the end every record that was written is final.
    fn check_end(&mut self) -> Result<(), String> {
        let state = self.disk.lock();
        let written = self.outside.written.lock().unwrap();
        let all = written
            .iter()
            .flat_map(|(letter, count)| (0..*count).map(|offset| (*letter, offset)));
        let all: BTreeSet<_> = all.collect();
        let stored: BTreeSet<_> = state.rows.keys().copied().collect();
        if stored != all {
            let lost: Vec<_> = all.difference(&stored).take(3).collect();
            return Err(format!("in the end {lost:?} and perhaps others are lost"));
        }
        self.told.count("rows", all.len() as u64);
        Ok(())
    }
}
