//! Runs that follow each other over one log and one sink, and what has to hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use timely_kafka::{Resume, Tick};

use super::crash::Crash;
use super::home::{Home, Rows, State};
use super::life::{Life, Outside, Run};
use super::store::Mistake;
use crate::random::Random;
use crate::scenario::Embedded;

/// How many workers runs have, one after the other, from a place that the seed says.
const WORKERS: [usize; 4] = [2, 3, 1, 4];

/// What rounds counted.
pub(super) type Counts = BTreeMap<String, u64>;

/// Runs a round: what it counted, or what was wrong.
pub(super) fn run(
    brokers: &Arc<Embedded>,
    seed: u64,
    mistake: Option<Mistake>,
) -> Result<Counts, String> {
    let mut random = Random::of(seed, 0);
    let home = Home::new(seed, mistake);
    let outside = Outside::new(brokers, seed);
    let lives = 2 + random.index(3);
    let first = random.index(WORKERS.len());
    let mut taken_over: Option<Run> = None;
    let mut drawn = Vec::new();
    for number in 0..=lives {
        outside.list_all();
        let workers = WORKERS[(first + number) % WORKERS.len()];
        let life = draw(&home, &mut random, workers, number == lives);
        drawn.push(life.clone());
        let at = |words: &str| format!("run {} of {drawn:?}: {words}", number + 1);
        let bound = bound_before(&home, life.resume);
        let run = Run::start(&home, &outside, &life);
        run.go_on(&life, taken_over.as_ref().map(|before| before.number));
        if let Some(before) = taken_over.take() {
            before.await_words();
            before.kill();
            before.join().map_err(|words| at(&words))?;
        }
        let is_well = home.lock().wrong.is_empty();
        if is_well && matches!(life.crash, Crash::TakenOver(_)) {
            taken_over = Some(run);
        } else {
            if !is_well {
                run.kill();
            }
            run.join().map_err(|words| at(&words))?;
        }
        check(&home, &life, &bound);
        let mut state = home.lock();
        if let Some(wrong) = state.wrong.first() {
            return Err(at(wrong));
        }
        count(&mut state, &life);
    }
    let mut state = home.lock();
    let (rows, counts) = (state.rows.len() as u64, std::mem::take(&mut state.counts));
    Ok(counts
        .into_iter()
        .chain([("records".to_owned(), rows)])
        .collect())
}

fn count(state: &mut State, life: &Life) {
    let crash = format!("{:?}", life.crash);
    let resume = format!("{:?}", life.resume);
    let first = |words: &str| {
        let end = words.find(|letter: char| !letter.is_alphanumeric());
        words[..end.unwrap_or(words.len())].to_owned()
    };
    state.count("runs");
    state.count(&format!("ended by {}", first(&crash)));
    state.count(&format!("begun by {}", first(&resume)));
}

fn draw(home: &Home, random: &mut Random, workers: usize, last: bool) -> Life {
    let crash = match random.below(16) {
        _ if last => Crash::Never,
        0 | 1 => Crash::AppendBegun(1 + random.below(20)),
        2 | 3 => Crash::AppendWritten(1 + random.below(20)),
        4..7 => Crash::Emitted(1 + random.below(60)),
        7 | 8 => Crash::Passed(1 + random.below(60)),
        9 | 10 => Crash::Released(1 + random.below(4)),
        11 => Crash::Timed(random.below(200)),
        12..15 => Crash::TakenOver(random.below(250)),
        _ => Crash::Stopped(random.below(250)),
    };
    let resume = draw_resume(home, random);
    let replays = matches!(resume, Resume::Replay { .. });
    // One that gives ticks again appends nothing, and so may not hear for long that it is taken over.
    let crash = match crash {
        Crash::TakenOver(at) if replays => Crash::Timed(at),
        crash => crash,
    };
    Life {
        workers,
        resume,
        crash,
        faults: random.pick(&[0, 5, 20]),
        seed: random.draw(),
        writes: random.index(80),
        // What a replay needs has to be listed; and in the end everything is read.
        changes: !replays && !last && random.chance(60),
        compacts: random.chance(40),
    }
}

/// Where the next run goes on, of what is possible.
fn draw_resume(home: &Home, random: &mut Random) -> Resume {
    let mut state = home.lock();
    state.fence_sink();
    if state.bound.is_empty() {
        return Resume::Continue;
    }
    let (stored, since) = (state.stored(), state.since);
    match random.below(8) {
        0 | 1 => Resume::Continue,
        2 => Resume::Fresh,
        // A sink that began anew has nothing, and the log may not go back so far.
        _ if stored < since => Resume::Continue,
        3 | 4 => Resume::At(Tick(stored)),
        _ => {
            let ticks = state.bound.values().copied();
            let mut ticks: BTreeSet<u64> = ticks
                .filter(|tick| since < *tick && *tick <= stored)
                .collect();
            // What the sink does not have is given again as well.
            ticks.insert(stored + 1);
            let index = random.index(ticks.len());
            let from = ticks
                .into_iter()
                .nth(index)
                .expect("it is below the length");
            Resume::Replay { from: Tick(from) }
        }
    }
}

/// What is bound and has to stay as it is, whatever a run does that begins by `resume`.
fn bound_before(home: &Home, resume: Resume) -> Rows {
    let mut state = home.lock();
    state.look();
    let mut bound = state.bound.clone();
    match resume {
        Resume::At(tick) => bound.retain(|_, at| *at <= tick.0),
        Resume::Fresh => bound.clear(),
        _ => {}
    }
    bound
}

/// Compares what is stored with the log, and the log with how it was.
fn check(home: &Home, life: &Life, before: &Rows) {
    let mut guard = home.lock();
    guard.look();
    let state = &mut *guard;
    let mut wrong = Vec::new();
    for (row, tick) in before {
        let now = state.bound.get(row);
        if now != Some(tick) {
            wrong.push(format!("{row:?} was bound at {tick}, and is at {now:?}"));
        }
    }
    for (row, tick) in &state.rows {
        let bound = state.bound.get(row);
        if bound != Some(tick) {
            wrong.push(format!(
                "{row:?} is final at {tick}, and bound at {bound:?}"
            ));
        }
    }
    let stored = state.stored();
    for (row, tick) in &state.bound {
        if *tick <= stored && !state.rows.contains_key(row) {
            wrong.push(format!(
                "{row:?} is bound at {tick}, and not final at {stored}"
            ));
        }
    }
    // In the order of its split, and without a gap.
    let mut last = None;
    for (row, tick) in &state.bound {
        let (next, least) = match last {
            Some(((part, offset), at)) if part == row.0 => (offset + 1, at),
            _ => (0, 0),
        };
        if row.1 != next || *tick < least {
            wrong.push(format!("{row:?} is bound at {tick}, after {last:?}"));
        }
        last = Some((*row, *tick));
    }
    if life.crash == Crash::Never {
        let written = state.written.iter();
        let all =
            written.flat_map(|(part, numbers)| (0..numbers.len() as u64).map(|at| (*part, at)));
        let lost: Vec<_> = all
            .filter(|row| !state.rows.contains_key(row))
            .take(3)
            .collect();
        if !lost.is_empty() {
            wrong.push(format!("in the end {lost:?} and perhaps others are lost"));
        }
    }
    state.wrong.extend(wrong);
}
