//! A plan over everything.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use timely_splits::assignor::{
    Assignor, NAMES, ReaderProfile, Situation, SplitLoad, SplitProfile, StickyBalanced, by_name,
};
use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::epoch::ReaderId;
use timely_splits::protocol::{Command, Report};

use crate::topics::{Driven, Part, Topics};
use crate::{Figure, percentile, timed};

const SPLITS: u32 = 100_000;
const READERS: usize = 1_000;
const RACKS: [&str; 3] = ["east", "north", "west"];
const ROUNDS: usize = 21;
/// What a plan over all splits may take, by whichever assignor.
const PLAN_MAX: Duration = Duration::from_millis(10);

pub(crate) fn measure(report: &mut impl FnMut(Figure)) {
    for name in NAMES {
        let assignor = by_name(name).expect("a known name");
        assignor_alone(name, &*assignor, report);
    }
    coordinator(report);
}

/// The assignor alone: from nothing, and after a reader is lost.
fn assignor_alone(
    name: &'static str,
    assignor: &dyn Assignor<Part>,
    report: &mut impl FnMut(Figure),
) {
    let parts = Topics::of([(0, SPLITS)]).parts();
    let racks: Vec<_> = RACKS.iter().map(|rack| (*rack).to_owned()).collect();
    let profile = |(index, split)| SplitProfile {
        split,
        owner: None,
        load: SplitLoad {
            bytes_per_second: 1_000 * (index as u64 % 100),
            lag: 0,
        },
        racks: &racks[index % 3..],
    };
    let mut splits: Vec<_> = parts.iter().enumerate().map(profile).collect();
    let readers: Vec<_> = (0..READERS)
        .map(|id| ReaderProfile {
            id: ReaderId(id),
            capacity: NonZeroU32::MIN,
            rack: Some(RACKS[id % 3].to_owned()),
        })
        .collect();
    let (planned, from_nothing) = rounds(assignor, &readers, &splits);
    let (mut lost, last) = (0, READERS - 1);
    for (split, reader) in splits.iter_mut().zip(&planned) {
        split.owner = (*reader != last).then_some(*reader);
        lost += u64::from(split.owner.is_none());
    }
    let (again, after_loss) = rounds(assignor, &readers[..last], &splits);
    let both = splits.iter().zip(again);
    let others = both.filter(|(split, reader)| split.owner.is_some_and(|owner| owner != *reader));
    report(Figure {
        what: match name {
            "sticky-balanced" => "plan, sticky-balanced",
            "load-aware" => "plan, load-aware",
            "rack-aware" => "plan, rack-aware",
            _ => "plan, static",
        },
        of: vec![
            ("splits", u64::from(SPLITS)),
            ("readers", READERS as u64),
            ("lost", lost),
            ("moved_besides", others.count() as u64),
        ],
        micros: vec![("from_nothing", from_nothing), ("after_a_loss", after_loss)],
        bound: Some(PLAN_MAX),
    });
}

/// The plan, and how many microseconds it takes.
fn rounds(
    assignor: &dyn Assignor<Part>,
    readers: &[ReaderProfile],
    splits: &[SplitProfile<'_, Part>],
) -> (Vec<usize>, f64) {
    let situation = Situation {
        readers,
        splits,
        moved_lately: 0,
    };
    let plan = assignor.plan(&situation);
    let round = |_| timed(|| black_box(assignor.plan(black_box(&situation)))).1;
    let mut times: Vec<_> = (0..ROUNDS).map(round).collect();
    (plan.readers, percentile(&mut times, 50))
}

/// The whole coordinator, with the states of all splits and the messages to all readers.
fn coordinator(report: &mut impl FnMut(Figure)) {
    let (mut starts, mut drains) = (Vec::new(), Vec::new());
    let (mut lost, mut besides) = (0, 0);
    for _ in 0..5 {
        let mut options = CoordinatorOptions::new(READERS);
        options.calm_for = Duration::ZERO;
        let mut driven = Driven::start(options, StickyBalanced);
        let topics = Topics::of([(0, SPLITS)]);
        let finds = topics.parts();
        let ((), start) = timed(|| driven.metadata(topics, finds));
        starts.push(start);
        let mut assigned = std::mem::take(&mut driven.assigned);
        assigned.retain(|(_, reader, _)| *reader == ReaderId(0));
        let drain = Report::Command(Command::Drain(ReaderId(0)));
        let ((), drain) = timed(|| driven.report(drain));
        drains.push(drain);
        let (its, others): (Vec<_>, Vec<_>) = std::mem::take(&mut driven.revoked)
            .into_iter()
            .partition(|(_, reader, _)| *reader == ReaderId(0));
        assert_eq!(
            its.len(),
            assigned.len(),
            "all of its splits, and no others"
        );
        (lost, besides) = (its.len() as u64, others.len() as u64);
    }
    report(Figure {
        what: "coordinator: found, recorded, assigned",
        of: vec![("splits", u64::from(SPLITS)), ("readers", READERS as u64)],
        micros: vec![("all", percentile(&mut starts, 50))],
        bound: None,
    });
    report(Figure {
        what: "coordinator: one reader is drained",
        of: vec![
            ("splits", u64::from(SPLITS)),
            ("readers", READERS as u64),
            ("lost", lost),
            ("moved_besides", besides),
        ],
        micros: vec![("revoked", percentile(&mut drains, 50))],
        bound: None,
    });
}
