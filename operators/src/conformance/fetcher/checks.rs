//! One check an obligation.

use std::time::Duration;

use super::FetcherRig;
use super::driver::{Driver, Mark};
use crate::conformance::report::{Checked, Done, ensure};
use crate::conformance::run::Context;
use crate::fetcher::{Polled, SplitFetcher};

/// How often something is done of which once proves little.
const ROUNDS: u64 = 10;

pub(super) fn never_blocks<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let (split, other) = (driver.rig.split(0), driver.rig.split(1));
    driver.rig.write(&other, 1);
    let calls = ["adopt", "assign", "unassign", "poll"];
    let mut quickest = [Duration::MAX; 4];
    for epoch in 1..=5 {
        let first = driver.first(&split);
        let assigned = driver.assign(&split, epoch, first);
        // Most of these find nothing: no record was written to the split.
        let (_, polled) = driver.poll(1 << 20)?;
        let adopted = driver.adopt();
        driver.unassign(&split)?;
        let unassigned = driver.unassign_epoch(&split, epoch);
        let times = [adopted, assigned, unassigned, polled];
        quickest = std::array::from_fn(|call| quickest[call].min(times[call]));
    }
    for (call, took) in calls.iter().zip(quickest) {
        let most = driver.context.kit.quick;
        ensure("F1", took <= most, || {
            format!(
                "the quickest of five calls of `{call}` took {took:?}, expected {most:?} at most"
            )
        })?;
    }
    Ok(Done::Kept)
}

pub(super) fn chained<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = [0, 1, 2].map(|index| driver.rig.split(index));
    for (split, records) in splits.iter().zip([300, 1, 40]) {
        driver.rig.write(split, records);
        driver.begin(split, 1);
    }
    driver.until_polled_by(100, "three splits with records", |driver| {
        let counts = splits.iter().map(|split| driver.count(split));
        counts.eq([300, 1, 40])
    })?;
    Ok(Done::Kept)
}

pub(super) fn whole<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let split = driver.rig.split(0);
    driver.rig.write(&split, 100);
    let mut next = driver.first(&split);
    for epoch in 1..=ROUNDS {
        driver.assign(&split, epoch, next.clone());
        let enough = next.number + 1;
        driver.until_polled_by(1, "one record more", |driver| {
            driver.count(&split) >= enough
        })?;
        next = driver.unassign(&split)?;
        driver.rig.write(&split, 10);
        driver = driver.successor();
    }
    driver.assign(&split, ROUNDS + 1, next);
    driver.until("all records, the last ones by another fetcher", |driver| {
        driver.count(&split) == 100 + 10 * ROUNDS
    })?;
    Ok(Done::Kept)
}

pub(super) fn stamped<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let split = driver.rig.split(0);
    driver.rig.write(&split, 100);
    let first = driver.first(&split);
    for epoch in 1..=ROUNDS {
        driver.assign(&split, epoch, first.clone());
        driver.until_polled_by(1, "a record of a split that was assigned again", |driver| {
            driver.count(&split) >= 1
        })?;
        if epoch % 2 == 0 {
            // Every other time the assignment is replaced without having been asked back.
            driver.unassign(&split)?;
        }
    }
    let latest = ROUNDS + 1;
    driver.missing = "F4";
    driver.assign(&split, latest, first);
    driver.unassign_epoch(&split, latest - 1);
    driver.until(
        "all records after an older assignment was unassigned",
        |driver| driver.count(&split) == 100,
    )?;
    // A reader that tries again does so under the same split epoch.
    let next = driver.unassign(&split)?;
    driver.assign(&split, latest, next);
    driver.rig.write(&split, 100);
    driver.until(
        "records of a split assigned again under its split epoch",
        |driver| driver.count(&split) == 200,
    )?;
    Ok(Done::Kept)
}

pub(super) fn stops<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let (stopped, other) = (driver.rig.split(0), driver.rig.split(1));
    for split in [&stopped, &other] {
        driver.rig.write(split, 1);
        driver.begin(split, 1);
    }
    driver.until("the first records", |driver| {
        driver.count(&stopped) + driver.count(&other) == 2
    })?;
    driver.unassign(&stopped)?;
    for round in 1..=ROUNDS {
        driver.rig.write(&stopped, 1);
        driver.rig.write(&other, 1);
        driver.until("a record of the other split", |driver| {
            driver.count(&other) == round + 1
        })?;
        // The records of a split count from zero, and one was written before.
        if !driver.late.contains(&(stopped.clone(), round)) {
            return Ok(Done::Kept);
        }
    }
    let how = || format!("records of {stopped} came {ROUNDS} times after it was unassigned");
    ensure("F5", false, how)?;
    Ok(Done::Kept)
}

pub(super) fn wakes<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let (split, other) = (driver.rig.split(0), driver.rig.split(1));
    driver.begin(&split, 1);
    for round in 1..=ROUNDS {
        drain(&mut driver)?;
        driver.rig.write(&split, 1);
        driver.until_woken("a record that was written while nobody polled", |driver| {
            driver.count(&split) == round
        })?;
    }
    driver.rig.write(&other, 1);
    drain(&mut driver)?;
    driver.begin(&other, 1);
    driver.until_woken("the record of a split that was just assigned", |driver| {
        driver.count(&other) == 1
    })?;
    Ok(Done::Kept)
}

/// Polls until there is nothing.
fn drain<R: FetcherRig>(driver: &mut Driver<R>) -> Checked {
    let until = driver.context.now() + driver.patience();
    while driver.context.now() < until {
        let (moved, _) = driver.poll(1 << 20)?;
        if moved.polled == Polled::Drained {
            return Ok(());
        }
    }
    let how = "`poll` says `More` on and on although nothing is there";
    ensure("F7", false, || how.to_owned())
}

pub(super) fn measured<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = [0, 1, 2].map(|index| driver.rig.split(index));
    for split in &splits {
        driver.rig.write(split, 200);
        driver.begin(split, 1);
    }
    let read = |it: &Driver<R>| splits.iter().map(|split| it.count(split)).sum::<u64>();
    let mut moved_at = driver.context.now();
    for bytes_max in [1, 3, 50].into_iter().cycle() {
        if read(&driver) == 600 {
            break;
        }
        let (moved, _) = driver.poll(bytes_max)?;
        let now = driver.context.now();
        let sum: usize = moved.bytes.iter().sum();
        let last = moved.bytes.last().copied().unwrap_or(0);
        ensure("F7", sum - last <= bytes_max, || {
            format!("`poll({bytes_max})` moved {:?} bytes", moved.bytes)
        })?;
        if moved.bytes.is_empty() {
            if moved.polled == Polled::Drained {
                // Waits, or says whose fault it is that there is nothing.
                let count = read(&driver);
                driver.until_polled_by(bytes_max, "the rest", |driver| read(driver) > count)?;
            }
            let moving = now < moved_at + driver.patience();
            ensure("F7", moving, || "`poll` moves no piece".to_owned())?;
        } else {
            moved_at = now;
        }
    }
    drain(&mut driver)?;
    Ok(Done::Kept)
}

pub(super) fn bounded<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let split = driver.rig.split(0);
    let flood = driver.rig.flood();
    driver.rig.write(&split, flood);
    driver.begin(&split, 1);
    // One poll, since a fetcher may begin at the first one; then nobody polls for a while.
    driver.until_polled_by(1, "the first record", |driver| driver.count(&split) > 0)?;
    driver.let_fetch();
    let before = driver.count(&split);
    let Some(most) = driver.rig.cut_off() else {
        return Ok(Done::Unchecked("the rig cannot cut the fetcher off"));
    };
    driver.drain_quietly()?;
    // The assignment may have gone down since.
    let fetched = driver.marks.last().map_or(before, |mark| mark.number) - before;
    ensure("F8", fetched <= most as u64, || {
        format!("{fetched} of {flood} records were fetched and not polled, expected {most} at most")
    })?;
    Ok(Done::Kept)
}

pub(super) fn says_what_failed<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let (split, other) = (driver.rig.split(0), driver.rig.split(1));
    let Some(position) = driver.rig.unreadable(&split) else {
        return Ok(Done::Unchecked(
            "the rig knows no position that cannot be read",
        ));
    };
    driver.begin(&other, 1);
    driver.missing = "F9";
    for round in 1..=3 {
        let at = Mark {
            position: position.clone(),
            number: 0,
        };
        driver.assign(&split, round, at);
        let enough = usize::try_from(round).unwrap_or(usize::MAX);
        driver.until("the failure of a split", |driver| {
            driver.downs.len() >= enough
        })?;
        driver.unassign_epoch(&split, round);
        driver.rig.write(&other, 1);
        driver.until("a record of a split that did not fail", |driver| {
            driver.count(&other) == round
        })?;
    }
    let mut said = driver
        .downs
        .iter()
        .map(|down| (&down.split, down.split_epoch.0));
    ensure(
        "F9",
        said.by_ref().eq([1, 2, 3].map(|epoch| (&split, epoch))),
        || format!("three assignments failed, and it said {:?}", driver.downs),
    )?;
    driver.begin(&split, 3);
    driver.rig.write(&split, 10);
    driver.until("records of a split that had failed", |driver| {
        driver.count(&split) == 10
    })?;
    Ok(Done::Kept)
}

pub(super) fn undisturbed<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let split = driver.rig.split(0);
    let first = driver.first(&split);
    driver.assign(&split, 1, first.clone());
    for round in 1..=ROUNDS {
        driver.rig.write(&split, 10);
        driver.missing = "F10";
        driver.adopt();
        driver.until("records after an epoch that lists their split", |driver| {
            driver.count(&split) == 10 * round || !driver.downs.is_empty()
        })?;
        if driver.downs.pop().is_some() {
            let next = driver.marks.last().unwrap_or(&first).clone();
            driver.assign(&split, 1, next);
        }
        driver.until("records after an epoch that lists their split", |driver| {
            driver.count(&split) == 10 * round
        })?;
    }
    Ok(Done::Kept)
}

pub(super) fn honest_about_lag<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let split = driver.rig.split(0);
    driver.rig.write(&split, 50);
    driver.begin(&split, 1);
    driver.until("all records", |driver| driver.count(&split) == 50)?;
    drain(&mut driver)?;
    let next = driver.unassign(&split)?;
    driver.assign(&split, 1, next.clone());
    let lag = driver.fetcher().lag(&split, &next.position);
    ensure("F11", lag.unwrap_or(0) == 0, || {
        format!("the lag at the end of {split} is {lag:?}")
    })?;
    Ok(Done::Kept)
}

pub(super) fn prepares<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = [0, 1, 2].map(|index| driver.rig.split(index));
    driver.missing = "F13";
    // Once when the fetcher is new, once when it reads: it may have to connect or not.
    for round in 1..=2 {
        for split in &splits {
            driver.prepare(split);
        }
        driver.until("what it prepares for", |driver| driver.preparing.is_empty())?;
        for split in &splits {
            driver.rig.write(split, 1);
            driver.begin(split, round);
        }
        driver.until("the records of splits that it prepared for", |driver| {
            let mut counts = splits.iter().map(|split| driver.count(split));
            counts.all(|count| count == round)
        })?;
        for split in &splits {
            driver.unassign(split)?;
        }
    }
    // Its answer may come although nobody waits any more.
    driver.prepare(&splits[0]);
    driver.adopt();
    driver.until("what it prepares for", |driver| driver.preparing.is_empty())?;
    drain(&mut driver)?;
    Ok(Done::Kept)
}

pub(super) fn speaks_without_room<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let (read, other) = (driver.rig.split(0), driver.rig.split(1));
    driver.rig.write(&read, 50);
    driver.begin(&read, 1);
    driver.missing = "F15";
    driver.let_fetch();
    for round in 1..=ROUNDS {
        driver.prepare(&other);
        driver.until_heard("what it prepares for", |driver| driver.preparing.is_empty())?;
        // What it left is there when there is room, and the end of it as well.
        driver.until_polled_by(1, "records after a poll without room", |driver| {
            driver.count(&read) >= 5 * round
        })?;
    }
    driver.until("all records", |driver| driver.count(&read) == 50)?;
    Ok(Done::Kept)
}

pub(super) fn honest_about_memory<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let split = driver.rig.split(0);
    driver.rig.write(&split, 50);
    driver.begin(&split, 1);
    driver.until("all records", |driver| driver.count(&split) == 50)?;
    driver.batches.clear();
    let left = driver.fetcher().unreleased_bytes();
    ensure("F12", left == 0, || format!("{left} bytes are unreleased"))?;
    Ok(Done::Kept)
}

pub(super) fn cuts<R: FetcherRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let split = driver.rig.split(0);
    driver.rig.write(&split, 100);
    // Small pieces first, so that positions are known; then what is to be cut.
    let first = driver.first(&split);
    driver.assign(&split, 1, first.clone());
    driver.until_polled_by(1, "all records", |driver| driver.count(&split) == 100)?;
    let mut marks = std::mem::take(&mut driver.marks);
    marks.insert(0, first.clone());
    driver.unassign(&split)?;
    driver.batches.clear();
    driver.assign(&split, 2, first);
    driver.until("all records", |driver| driver.count(&split) == 100)?;
    for batch in std::mem::take(&mut driver.batches) {
        let numbers = driver.rig.numbers(&batch);
        let (Some(least), Some(most)) = (numbers.first(), numbers.last()) else {
            continue;
        };
        let inner = marks
            .iter()
            .filter(|mark| mark.number >= *least && mark.number <= most + 1);
        let inner: Vec<_> = inner.cloned().collect();
        let at: Vec<_> = inner.iter().map(|mark| mark.position.clone()).collect();
        let mut bounds = vec![*least];
        bounds.extend(inner.iter().map(|mark| mark.number));
        bounds.push(most + 1);
        let expected: Vec<Vec<u64>> = (bounds.windows(2))
            .map(|bounds| (bounds[0]..bounds[1]).collect())
            .collect();
        let parts = driver.cut(batch, &at);
        ensure("F14", parts == expected, || {
            format!("a batch was cut to {parts:?}, expected {expected:?}")
        })?;
    }
    Ok(Done::Kept)
}
