//! A metadata epoch that changes one topic, among others that it leaves alone.

use timely_splits::assignor::StickyBalanced;
use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::epoch::ReaderId;
use timely_splits::protocol::ReleaseReason;

use crate::topics::{Driven, Part, Topics};
use crate::{Figure, percentile, timed};

const READERS: usize = 16;
/// The parts of each topic that stays.
const PARTS: u32 = 100;
const ROUNDS: u32 = 21;

pub(crate) fn measure(report: &mut impl FnMut(Figure)) {
    for splits in [100, 1_000, 10_000, 100_000] {
        one_topic("one topic comes and goes: more splits", splits, 100, report);
    }
    for parts in [1, 10, 100, 1_000, 10_000] {
        one_topic(
            "one topic comes and goes: a larger topic",
            10_000,
            parts,
            report,
        );
    }
    for splits in [100, 1_000, 10_000, 100_000] {
        skewed(splits, report);
    }
}

fn settled(splits: u32) -> (Driven<StickyBalanced>, Topics) {
    let mut driven = Driven::start(CoordinatorOptions::new(READERS), StickyBalanced);
    let topics = Topics::of((0..splits / PARTS).map(|topic| (topic, PARTS)));
    driven.metadata(topics.clone(), topics.parts());
    driven.now += CoordinatorOptions::new(READERS).calm_for;
    driven.coordinator.handle_time(driven.now);
    driven.carry_out();
    driven.revoked.clear();
    driven.assigned.clear();
    (driven, topics)
}

/// Everything that adding a topic makes the coordinator do, until its parts are assigned, and
/// everything that removing it does, until they are released.
fn one_topic(what: &'static str, splits: u32, parts: u32, report: &mut impl FnMut(Figure)) {
    let (mut driven, topics) = settled(splits);
    let (mut came, mut went) = (Vec::new(), Vec::new());
    let mut others = 0;
    for round in 0..ROUNDS {
        let topic = splits + round;
        let finds: Vec<_> = (0..parts).map(|part| Part { topic, part }).collect();
        let with = topics.with(topic, parts);
        came.push(timed(|| driven.metadata(with, finds)).1);
        let assigned = std::mem::take(&mut driven.assigned);
        others += assigned
            .iter()
            .filter(|(split, ..)| split.topic != topic)
            .count();
        assert!(assigned.len() >= parts as usize, "all of it is assigned");
        let without = topics.clone();
        let ((), took) = timed(|| {
            driven.metadata(without, Vec::new());
            driven.release(assigned, ReleaseReason::NotListed);
        });
        went.push(took);
        others += driven.assigned.len() + driven.revoked.len();
    }
    report(Figure {
        what,
        of: vec![
            ("splits", u64::from(splits)),
            ("parts", u64::from(parts)),
            ("others_touched", others as u64),
        ],
        micros: vec![
            ("comes", percentile(&mut came, 50)),
            ("goes", percentile(&mut went, 50)),
        ],
        bound: None,
    });
}

/// What comes a while after an epoch that left counts unequal: a plan over everything.
fn skewed(splits: u32, report: &mut impl FnMut(Figure)) {
    let mut driven = Driven::start(CoordinatorOptions::new(READERS), StickyBalanced);
    let mut topics = Topics::of((0..splits).map(|topic| (topic, 1)));
    driven.metadata(topics.clone(), topics.parts());
    let mut held = std::mem::take(&mut driven.assigned);
    held.retain(|(_, reader, _)| *reader == ReaderId(0));
    let mut times = Vec::new();
    for _ in 0..3 {
        // Two more that one reader has are not listed any more.
        let gone = held.split_off(held.len() - 2);
        for (split, ..) in &gone {
            topics = topics.without(split.topic);
        }
        driven.metadata(topics.clone(), Vec::new());
        driven.release(gone, ReleaseReason::NotListed);
        driven.now += CoordinatorOptions::new(READERS).calm_for;
        let ((), time) = timed(|| {
            driven.coordinator.handle_time(driven.now);
            driven.carry_out();
        });
        times.push(time);
        let revoked = std::mem::take(&mut driven.revoked);
        driven.release(revoked, ReleaseReason::Revoked);
        let mut came = std::mem::take(&mut driven.assigned);
        came.retain(|(_, reader, _)| *reader == ReaderId(0));
        held.splice(0..0, came);
    }
    report(Figure {
        what: "counts are made equal a while later",
        of: vec![("splits", u64::from(splits))],
        micros: vec![("plan", percentile(&mut times, 50))],
        bound: None,
    });
}
