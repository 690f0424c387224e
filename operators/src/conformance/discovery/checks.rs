//! One check an obligation.

use std::time::Duration;

use super::DiscoveryRig;
use super::driver::Driver;
use crate::conformance::report::{Checked, Done, ensure};
use crate::conformance::run::Context;
use crate::epoch::RequestId;

pub(super) fn never_blocks<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    let mut quickest = [Duration::MAX; 3];
    for number in 1..=5 {
        let discover = driver.discover(&splits).1;
        let resolve = driver.resolve(RequestId(number), &splits[0]);
        // The last poll finds nothing.
        let mut poll = driver.poll()?;
        while poll.0 {
            poll = driver.poll()?;
        }
        let times = [discover, resolve, poll.1];
        quickest = std::array::from_fn(|call| quickest[call].min(times[call]));
    }
    let most = driver.context.kit.quick;
    for (call, took) in ["a request to discover", "a request to resolve", "a poll"]
        .iter()
        .zip(quickest)
    {
        ensure("D1", took <= most, || {
            format!("the quickest of five times {call} took {took:?}, expected {most:?} at most")
        })?;
    }
    Ok(Done::Kept)
}

pub(super) fn wakes<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    for _ in 0..5 {
        driver.discover(&[]);
        driver.listen()?;
        let (epoch, _) = driver.discover(&splits);
        driver.woken("the splits that a newer epoch lists")?;
        driver.until_found("D4", epoch, &splits)?;
    }
    driver.listen()?;
    driver.resolve(RequestId(1), &splits[0]);
    driver.woken("where a split starts")?;
    driver.until("D7", "where a split starts", |driver| {
        !driver.resolved.is_empty()
    })?;
    Ok(Done::Kept)
}

pub(super) fn tells_the_metadata<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let [zero, one] = driver.splits([0, 1]);
    for splits in [vec![zero.clone()], vec![zero, one.clone()], vec![one]] {
        driver.rig.announce(&splits);
        let expected = Some(driver.rig.metadata(&splits));
        driver.until("D3", "metadata that has changed", |driver| {
            driver.told == expected
        })?;
    }
    Ok(Done::Kept)
}

pub(super) fn finds<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    let (epoch, _) = driver.discover(&splits);
    driver.until_found("D4", epoch, &splits)?;
    driver.listen()?;
    ensure("D4", driver.gone.is_empty(), || {
        format!("splits that exist are gone: {:?}", driver.gone)
    })?;
    Ok(Done::Kept)
}

pub(super) fn keeps_looking<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let [zero, later] = driver.splits([0, 2]);
    let (epoch, _) = driver.discover(&[zero.clone(), later.clone()]);
    driver.until_found("D4", epoch, &[zero])?;
    driver.listen()?;
    if driver.found.contains(&(epoch, later.clone())) {
        if driver.rig.create(&later) {
            let how = || format!("{later} is found before it exists");
            ensure("D4", false, how)?;
        }
        return Ok(Done::Unchecked("whatever is listed exists"));
    }
    if !driver.rig.create(&later) {
        return Ok(Done::Unchecked("the rig cannot create a split"));
    }
    driver.until_found("D5", epoch, &[later])?;
    Ok(Done::Kept)
}

pub(super) fn looks_for_the_latest<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let [zero, one] = driver.splits([0, 1]);
    for splits in [vec![zero.clone()], vec![one.clone()], vec![zero, one]] {
        let (epoch, _) = driver.discover(&splits);
        driver.until_found("D6", epoch, &splits)?;
        driver.listen()?;
    }
    // Without waiting for an answer in between.
    let both = driver.splits([0, 1]);
    driver.discover(&both[..1]);
    let (latest, _) = driver.discover(&both[1..]);
    driver.until_found("D6", latest, &both[1..])?;
    driver.listen()?;
    // Again, so that it may never have seen that one of them was not listed for a while.
    driver.discover(&both[..1]);
    let (last, _) = driver.discover(&both);
    driver.until_found("D6", last, &both)?;
    driver.listen()?;
    Ok(Done::Kept)
}

pub(super) fn resolves<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    let (epoch, _) = driver.discover(&splits);
    driver.until_found("D4", epoch, &splits)?;
    // Two close together each time, and never two about one split: the later would supersede the
    // earlier.
    for round in 0..10 {
        for (number, split) in (0..).zip(&splits) {
            driver.resolve(RequestId(100 + 2 * round + number), split);
        }
        let expected = 2 * usize::try_from(round).unwrap_or(usize::MAX) + 2;
        driver.until("D7", "where splits start", |driver| {
            driver.resolved.len() == expected
        })?;
    }
    driver.listen()?;
    Ok(Done::Kept)
}

pub(super) fn knows_that_it_does_not_know<R: DiscoveryRig>(
    rig: R,
    context: Context,
) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    // What was found before may be told again from what is known; what was not cannot be.
    let known = &splits[..1];
    let (epoch, _) = driver.discover(known);
    driver.until_found("D4", epoch, known)?;
    driver.listen()?;
    let before = driver.health;
    if !driver.rig.reach(false) {
        return Ok(Done::Unchecked("the rig cannot make splits unreachable"));
    }
    let (unreachable, _) = driver.discover(&splits);
    driver.resolve(RequestId(1), &splits[0]);
    driver.until("D8", "health that says what cannot be asked", |driver| {
        driver.health > before || !driver.resolved.is_empty()
    })?;
    driver.listen()?;
    ensure("D8", driver.gone.is_empty(), || {
        format!(
            "what could not be asked for was taken for gone: {:?}",
            driver.gone
        )
    })?;
    let (resolved, found) = (&driver.resolved, &driver.found);
    let answered = resolved.len()
        + found
            .iter()
            .filter(|(under, split)| *under == unreachable && !known.contains(split))
            .count();
    ensure("D8", answered == 0, || {
        format!("answers came while nothing could be asked: {found:?} {resolved:?}")
    })?;
    driver.rig.reach(true);
    driver.until_found("D8", unreachable, &splits)?;
    driver.until("D8", "where a split starts, at last", |driver| {
        driver.resolved.len() == 1
    })?;
    ensure("D8", driver.gone.is_empty(), || {
        format!("splits that exist are gone: {:?}", driver.gone)
    })?;
    Ok(Done::Kept)
}

pub(super) fn notices_what_is_gone<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    let (epoch, _) = driver.discover(&splits);
    driver.until_found("D4", epoch, &splits)?;
    if !driver.rig.remove(&splits[0]) {
        return Ok(Done::Unchecked(
            "the rig cannot end the existence of a split",
        ));
    }
    let gone = (epoch, splits[0].clone());
    driver.until("D9", "that a split is gone", |driver| {
        driver.gone.contains(&gone)
    })?;
    ensure("D9", driver.gone.len() == 1, || {
        format!("one split is gone, and it says {:?}", driver.gone)
    })?;
    Ok(Done::Kept)
}

/// How often the metadata changes while nobody polls.
const CHANGES: usize = 10;

pub(super) fn bounded<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    let most = driver.rig.unpolled_max();
    driver.discover(&splits);
    for change in 0..most.max(CHANGES) {
        driver.rig.announce(&splits[change % 2..]);
    }
    driver.rig.announce(&splits);
    // Bells are rung, and nobody polls.
    for _ in 0..2 {
        driver.idle();
    }
    let waited = driver.drain()?;
    ensure("D10", waited <= most, || {
        format!("{waited} answers waited, expected {most} at most")
    })?;
    let expected = Some(driver.rig.metadata(&splits));
    driver.until("D3", "the latest metadata", |driver| {
        driver.told == expected
    })?;
    Ok(Done::Kept)
}

pub(super) fn checks_ranges<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    let (epoch, _) = driver.discover(&splits);
    driver.until_found("D4", epoch, &splits)?;
    let ranges = driver.rig.ranges();
    let (asked, lost) = match &ranges {
        Some([readable, lost]) => (vec![readable.clone(), lost.clone()], vec![lost.clone()]),
        None => (Vec::new(), Vec::new()),
    };
    driver.check(RequestId(1), asked);
    driver.until("D11", "what cannot be read", |driver| {
        driver.checked.contains_key(&RequestId(1))
    })?;
    driver.listen()?;
    let said = &driver.checked[&RequestId(1)];
    ensure("D11", *said == lost, || {
        format!("{lost:?} cannot be read, and it says {said:?}")
    })?;
    Ok(match ranges {
        Some(_) => Done::Kept,
        None => Done::Unchecked("the rig has no range that cannot be read"),
    })
}

pub(super) fn identifies<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    let (epoch, _) = driver.discover(&splits);
    driver.until_found("D4", epoch, &splits)?;
    for number in 1..=3 {
        driver.identify(RequestId(number), splits.to_vec());
        let all = splits.iter().cloned().collect();
        driver.until("D12", "what splits are", |driver| {
            driver.identified.get(&RequestId(number)) == Some(&all)
        })?;
    }
    // What was asked before it is not listed any more, and what was asked after that.
    for (listed, number) in [(&splits[..1], 4), (&[], 6)] {
        driver.identify(RequestId(number), splits.to_vec());
        driver.discover(listed);
        driver.identify(RequestId(number + 1), splits.to_vec());
        driver.until("D12", "what splits are that are not listed", |driver| {
            [number, number + 1].iter().all(|number| {
                let answered = driver.identified.get(&RequestId(*number));
                answered.is_some_and(|answered| answered.len() == splits.len())
            })
        })?;
    }
    driver.listen()?;
    ensure("D12", driver.identified.len() == 7, || {
        format!("seven requests were answered as {:?}", driver.identified)
    })?;
    Ok(Done::Kept)
}

pub(super) fn judges<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    let (epoch, _) = driver.discover(&splits);
    driver.until_found("D4", epoch, &splits)?;
    for (number, split) in (1..).zip(&splits) {
        driver.judge(RequestId(number), split);
    }
    driver.until("D13", "what there is of splits", |driver| {
        driver.judged.len() == 2
    })?;
    driver.listen()?;
    ensure(
        "D13",
        driver.judged.values().all(|times| *times == 1),
        || format!("each is answered once, and it was {:?}", driver.judged),
    )?;
    Ok(Done::Kept)
}

pub(super) fn says_where_splits_end<R: DiscoveryRig>(rig: R, context: Context) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    let (epoch, _) = driver.discover(&splits);
    driver.until_found("D4", epoch, &splits)?;
    for (number, split) in (1..).zip(&splits) {
        driver.end(RequestId(number), split);
    }
    driver.until("D15", "where splits end", |driver| driver.ended.len() == 2)?;
    driver.listen()?;
    ensure(
        "D15",
        driver.ended.values().all(|times| *times == 1),
        || format!("each is answered once, and it was {:?}", driver.ended),
    )?;
    Ok(Done::Kept)
}

pub(super) fn knows_when_it_has_found_all<R: DiscoveryRig>(
    rig: R,
    context: Context,
) -> Checked<Done> {
    let mut driver = Driver::new(rig, context);
    let splits = driver.splits([0, 1]);
    for listed in [&splits[..], &[], &splits[..1]] {
        let (epoch, _) = driver.discover(listed);
        driver.until("D14", "that all is found", |driver| {
            driver.all_found.contains_key(&epoch)
        })?;
        let found = &driver.all_found[&epoch];
        let expected = listed.iter().cloned().collect();
        ensure("D14", *found == expected, || {
            format!("all is said to be found when {found:?} was, and {listed:?} exists")
        })?;
    }
    if !driver.rig.reach(false) {
        return Ok(Done::Kept);
    }
    // The first of them is known; the other one cannot be asked for.
    let (epoch, _) = driver.discover(&splits);
    driver.listen()?;
    let said = driver.all_found.contains_key(&epoch);
    ensure("D14", !said, || {
        "all is said to be found while nothing could be asked".to_owned()
    })?;
    driver.rig.reach(true);
    driver.until("D14", "that all is found, at last", |driver| {
        driver.all_found.contains_key(&epoch)
    })?;
    Ok(Done::Kept)
}
