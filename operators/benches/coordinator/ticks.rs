//! A tick in which few of many splits move.

use std::time::Duration;

use timely_splits::assignor::{ReaderProfile, StickyBalanced};
use timely_splits::binding::SplitRange;
use timely_splits::coordinator::{CoordinatorOptions, Intention};
use timely_splits::epoch::{Incarnation, MetadataEpoch, ReaderId, SplitEpoch};
use timely_splits::fetcher::Piece;
use timely_splits::protocol::{Assignment, Configuration, Directive, Moved, Report};
use timely_splits::reader::{ReaderOptions, ReaderState};
use timely_splits::tick::Tick;

use crate::topics::{Driven, Part, Topics};
use crate::{Figure, percentile, timed};

/// The parts of each topic.
const PARTS: u32 = 100;
/// How many splits move in a tick.
const MOVE: usize = 10;
const ROUNDS: u64 = 1_001;
/// After how many ticks lags are told.
const TICKS_A_LAG: u64 = 10;

pub(crate) fn measure(report: &mut impl FnMut(Figure)) {
    for splits in [100, 1_000, 10_000, 100_000] {
        let topics = Topics::of((0..splits / PARTS).map(|topic| (topic, PARTS)));
        let mut of_coordinator = coordinator(topics.clone());
        let (mut of_reader, mut lags) = reader(&topics);
        report(Figure {
            what: "a tick in which ten splits move",
            of: vec![("splits", u64::from(splits))],
            micros: vec![
                ("coordinator", percentile(&mut of_coordinator, 50)),
                ("reader", percentile(&mut of_reader, 50)),
                ("lags", percentile(&mut lags, 50)),
            ],
            bound: None,
        });
    }
}

/// What a coordinator takes from the end of a tick until it is durable.
fn coordinator(topics: Topics) -> Vec<Duration> {
    let options = CoordinatorOptions::new(1);
    let mut driven = Driven::start(options, StickyBalanced);
    let parts = topics.parts();
    driven.metadata(topics, parts);
    let moving: Vec<_> = driven.assigned.iter().take(MOVE).copied().collect();
    let mut ticks = Vec::new();
    for round in 0..ROUNDS {
        driven.now += options.tick_interval;
        let moved = moving.iter().map(|(split, _, split_epoch)| Moved {
            split_epoch: *split_epoch,
            range: SplitRange {
                split: *split,
                from: round,
                to: round + 1,
            },
            bytes: 100,
        });
        let moved: Vec<_> = moved.collect();
        ticks.push(timed(|| close(&mut driven, moved)).1);
    }
    ticks
}

/// Closes the open tick, in which so much moved.
fn close(driven: &mut Driven<StickyBalanced>, mut moved: Vec<Moved<Part>>) {
    driven.coordinator.handle_time(driven.now);
    let mut durable = false;
    while let Some(intention) = driven.coordinator.poll() {
        match intention {
            Intention::Send(reader, Directive::Tick { close, .. }) => {
                let closed = Report::Closed {
                    reader,
                    tick: close.expect("a tick was open"),
                    moved: std::mem::take(&mut moved),
                    errors: Vec::new(),
                };
                driven.coordinator.handle_report(closed, driven.now);
            }
            Intention::Append(..) => driven.coordinator.handle_appended(driven.now),
            Intention::Publish { .. } => durable = true,
            _ => {}
        }
    }
    assert!(durable, "the tick became durable");
}

/// What a reader takes for a tick, and to tell lags.
fn reader(topics: &Topics) -> (Vec<Duration>, Vec<Duration>) {
    let now = Duration::from_secs(1_000);
    let mut state = ReaderState::<Part, ()>::new(
        ReaderProfile::new(ReaderId(0)),
        ReaderOptions::default(),
        Configuration::new(),
    );
    state.handle_directive(
        Directive::Metadata {
            incarnation: Incarnation(1),
            epoch: MetadataEpoch(1),
            metadata: topics.clone(),
        },
        now,
    );
    let open = |close, open| Directive::Tick {
        close,
        open: Tick(open),
        last: false,
    };
    state.handle_directive(open(None, 0), now);
    let parts = topics.parts();
    for split in &parts {
        let assignment = Assignment {
            split: *split,
            split_epoch: SplitEpoch(1),
            metadata_epoch: MetadataEpoch(1),
            start: 0,
            stop: None,
        };
        state.handle_directive(Directive::Assign(assignment), now);
    }
    while state.poll().is_some() {}
    let (mut ticks, mut lags) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let ((), took) = timed(|| {
            for split in &parts[..MOVE] {
                let piece = Piece {
                    split: *split,
                    split_epoch: SplitEpoch(1),
                    start: round,
                    end: round + 1,
                    bytes: 100,
                    batch: None,
                };
                state.handle_piece(&piece, now);
            }
            state.handle_directive(open(Some(Tick(round)), round + 1), now);
            state.handle_directive(Directive::Durable(Tick(round)), now);
            while state.poll().is_some() {}
        });
        ticks.push(took);
        if round % TICKS_A_LAG == 0 {
            let ((), told) = timed(|| {
                let due = state.due_for_lag().into_iter();
                let at_end = due.map(|(split, split_epoch, _)| (split, split_epoch, 0));
                state.handle_lags(at_end.collect(), now);
                while state.poll().is_some() {}
            });
            lags.push(told);
        }
    }
    (ticks, lags)
}
