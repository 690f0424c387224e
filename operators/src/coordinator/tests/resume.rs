//! Where a run goes on that has a log.

use super::*;

/// A log of ticks in which `a` was read from 10 on, three records a tick, and `b` since the second.
pub(super) fn log_of_three_ticks() -> (Vec<LogRecord<Letter>>, Vec<Tick>) {
    let mut driven = Driven::start(1);
    driven.metadata("a");
    driven.tick(vec![range('a', 1, 10, 13)]);
    driven.metadata("ab");
    driven.tick(vec![range('a', 1, 13, 16), range('b', 1, 10, 11)]);
    driven.tick(vec![range('a', 1, 16, 19)]);
    let ticks = driven.published.iter().map(|(binding, _)| binding.tick);
    (driven.log.clone(), ticks.collect())
}

/// A run that goes on after `log`, at a later time, with all readers and metadata there.
pub(super) fn resumed(log: &[LogRecord<Letter>], resume: Resume) -> Driven {
    let mut driven = Driven::resuming(1, resume);
    driven.now += Duration::from_secs(60);
    driven.coordinator.handle_opened(log, driven.now);
    driven.carry_out();
    driven.report(hello(0, 7));
    driven.metadata("ab");
    driven
}

fn complaint(driven: &Driven) -> String {
    let health = driven.told.iter().find_map(|event| match event {
        SourceEvent::Health(health) => Some(health.to_string()),
        _ => None,
    });
    health.expect("something is wrong")
}

#[test]
fn at_a_tick_reading_goes_on_after_it_and_what_was_bound_later_is_void() {
    let (log, ticks) = log_of_three_ticks();

    let mut driven = resumed(&log, Resume::At(ticks[0]));

    assert_eq!(
        driven.moves(),
        ["0: assign a#1001 at 13", "0: assign b#1001 at 10"]
    );
    driven.tick(vec![range('a', 1, 13, 14)]);
    assert!(driven.published[0].0.tick > ticks[2]);
    let all = [log, driven.log].concat();
    let mut after = resumed(&all, Resume::Continue);
    assert_eq!(
        after.moves(),
        ["0: assign a#2001 at 14", "0: assign b#2001 at 10"]
    );
}

/// The first tick was opened when it was reserved, and the frontier passed the ticks that were void. A
/// sink that said it had them, and a crash before the log said that they were void, lost their records.
#[test]
fn no_tick_is_opened_before_the_log_says_what_is_void() {
    let (log, ticks) = log_of_three_ticks();
    let mut driven = Driven::resuming(1, Resume::At(ticks[0]));
    driven.log_answers = false;
    driven.now += Duration::from_secs(60);
    driven.coordinator.handle_opened(&log, driven.now);
    driven.report(hello(0, 7));
    let mut durable = 0;

    for _ in 0..5 {
        if driven.coordinator.open_tick().is_none() {
            durable = driven.log.len();
            driven.coordinator.handle_appended(driven.now);
            driven.carry_out();
        }
    }

    assert!(driven.coordinator.open_tick().is_some());
    let says_so =
        |record: &LogRecord<_>| matches!(record, LogRecord::Snapshot(snapshot) if snapshot.rewound);
    assert!(driven.log[..durable].iter().any(says_so));
}

/// A tick that several sources share need not be one of this one's.
#[test]
fn at_a_tick_between_two_is_at_the_one_before() {
    let (log, ticks) = log_of_three_ticks();

    let mut driven = resumed(&log, Resume::At(Tick(ticks[1].0 + 1)));

    assert_eq!(
        driven.moves(),
        ["0: assign a#1001 at 16", "0: assign b#1001 at 11"]
    );
}

#[test]
fn at_a_tick_before_all_is_at_the_recorded_starts() {
    let (log, _) = log_of_three_ticks();

    let mut driven = resumed(&log, Resume::At(Tick(0)));

    assert_eq!(
        driven.moves(),
        ["0: assign a#1001 at 10", "0: assign b#1001 at 10"]
    );
    let asked = |request: &DiscoveryRequest<_>| matches!(request, DiscoveryRequest::Resolve { .. });
    assert!(!driven.asked.iter().any(asked));
}

/// A run that went back, and went on: what was void stays void.
#[test]
fn a_run_can_go_back_behind_one_that_went_back() {
    let (log, ticks) = log_of_three_ticks();
    let mut back = resumed(&log, Resume::At(ticks[1]));
    back.take_sent();
    back.tick(vec![range('a', 1, 16, 17)]);
    let all = [log, back.log].concat();

    let mut driven = resumed(&all, Resume::At(ticks[0]));

    assert_eq!(
        driven.moves(),
        ["0: assign a#2001 at 13", "0: assign b#2001 at 10"]
    );
}

#[test]
fn a_tick_that_no_run_can_have_opened_is_refused() {
    let (log, _) = log_of_three_ticks();

    for resume in [
        Resume::At(Tick(u64::MAX)),
        Resume::Replay {
            from: Tick(u64::MAX),
        },
    ] {
        let mut driven = resumed(&log, resume);

        assert!(complaint(&driven).contains("is beyond the log"));
        assert_eq!(driven.moves(), [""; 0]);
    }
}

#[test]
fn a_tick_before_a_log_that_was_compacted_is_refused() {
    let mut driven = Driven::start(1);
    driven.metadata("a");
    driven.tick(vec![range('a', 1, 10, 13)]);
    let snapshot = LogRecord::Snapshot(driven.coordinator.snapshot());
    let bound = driven.published[0].0.tick;

    let mut early = resumed(
        std::slice::from_ref(&snapshot),
        Resume::At(Tick(bound.0 - 1)),
    );
    let mut at = resumed(&[snapshot], Resume::At(bound));

    assert!(complaint(&early).contains("older than the log"));
    assert_eq!(early.moves(), [""; 0]);
    assert_eq!(at.moves()[0], "0: assign a#1001 at 13");
}

#[test]
fn a_fresh_source_asks_again_where_splits_start_and_opens_later_ticks_only() {
    let (log, ticks) = log_of_three_ticks();

    let mut driven = resumed(&log, Resume::Fresh);

    assert_eq!(
        driven.moves(),
        ["0: assign a#1001 at 10", "0: assign b#1001 at 10"]
    );
    let asked =
        |request: &&DiscoveryRequest<_>| matches!(request, DiscoveryRequest::Resolve { .. });
    assert_eq!(driven.asked.iter().filter(asked).count(), 2);
    driven.tick(vec![range('a', 1, 10, 11)]);
    assert!(driven.published[0].0.tick > ticks[2]);
    let all = [log, driven.log].concat();
    let mut after = resumed(&all, Resume::Continue);
    assert_eq!(after.moves()[0], "0: assign a#2001 at 11");
}

/// A log that answers the incarnation and dies right after it.
#[test]
fn a_run_that_went_back_and_ended_before_it_said_so_changed_nothing() {
    let (log, ticks) = log_of_three_ticks();
    let back = resumed(&log, Resume::At(ticks[0]));
    let is_snapshot = |record: &LogRecord<_>| matches!(record, LogRecord::Snapshot(_));
    let said = back.log.iter().position(is_snapshot).expect("it says so");
    let is_binding = |record: &LogRecord<_>| matches!(record, LogRecord::Binding(_));
    assert!(!back.log[..said].iter().any(is_binding));

    let all = [&log[..], &back.log[..said]].concat();
    let mut after = resumed(&all, Resume::Continue);

    assert_eq!(
        after.moves(),
        ["0: assign a#1001 at 19", "0: assign b#1001 at 11"]
    );
}

/// What starts anew was recorded before the log said that what it had is void, if the discovery was faster
/// than the last reader. A crash in between left a log in which splits start twice, which no run took.
#[test]
fn a_fresh_run_that_ends_at_any_record_leaves_a_log_that_is_read() {
    let (log, _) = log_of_three_ticks();
    let mut driven = Driven::resuming(1, Resume::Fresh);
    driven.now += Duration::from_secs(60);
    driven.coordinator.handle_opened(&log, driven.now);
    driven.carry_out();
    driven.metadata("ab");
    driven.report(hello(0, 7));
    assert_eq!(driven.moves().len(), 2);

    for written in 0..=driven.log.len() {
        let all = [&log[..], &driven.log[..written]].concat();

        for resume in [Resume::Continue, Resume::Fresh, Resume::At(Tick(0))] {
            let restored = Restored::of(&all, resume);
            assert!(
                restored.is_ok(),
                "{resume}, {written} records: {restored:?}"
            );
        }
    }
}

/// How long a position is kept counts from when its split was not listed any more, whatever runs
/// came in between.
#[test]
fn positions_are_not_kept_for_longer_because_of_restarts() {
    let mut driven = Driven::start(1);
    driven.metadata("ab");
    driven.tick(Vec::new());
    driven.metadata("b");
    driven.release(0, 'a', 1, 10);
    driven.tick(Vec::new());
    let mut log = driven.log;
    let kept_for = CoordinatorOptions::new(1).kept_for;

    for restart in 1..=2 {
        let mut again = Driven::closed(1);
        again.now += kept_for / 2 * restart + INTERVAL;
        again.coordinator.handle_opened(&log, again.now);
        again.carry_out();
        again.report(hello(0, 7));
        again.metadata("b");
        again.tick(Vec::new());

        let is_forgotten =
            |event: &SourceEvent<_>| matches!(event, SourceEvent::SplitForgotten { .. });
        assert_eq!(again.told.iter().any(is_forgotten), restart == 2);
        log.extend(again.log);
    }
}

/// What a split is outlives a restart, so that another one of its name is noticed after it.
#[test]
fn what_a_split_is_is_in_the_log() {
    let (log, _) = log_of_three_ticks();

    let restored = Restored::of(&log, Resume::Continue).unwrap();

    assert_eq!(restored.splits[&Letter('a')].identity, Some(()));
    let snapshot = LogRecord::Snapshot(restored.snapshot());
    let of_snapshot = Restored::of(&[snapshot], Resume::Continue).unwrap();
    assert_eq!(of_snapshot, restored);
}

/// A person asks for all that a restart needs, in the middle of anything.
#[test]
fn a_snapshot_that_was_asked_for_says_all_that_the_records_before_it_say() {
    let mut driven = Driven::start(1);
    driven.metadata("ab");
    driven.tick(vec![range('a', 1, 10, 13)]);
    driven.log_answers = false;
    driven.tick(vec![range('a', 1, 13, 15)]);

    driven.report(Report::Command(Command::Snapshot));
    driven.log_answers = true;
    for _ in 0..3 {
        driven.coordinator.handle_appended(driven.now);
        driven.carry_out();
    }

    let is_snapshot = |record: &LogRecord<_>| matches!(record, LogRecord::Snapshot(_));
    let at = driven
        .log
        .iter()
        .position(is_snapshot)
        .expect("it is there");
    let whole = Restored::of(&driven.log[..at], Resume::Continue).unwrap();
    let from_it = Restored::of(&driven.log[at..=at], Resume::Continue).unwrap();
    assert_eq!(from_it.splits, whole.splits);
    assert_eq!(from_it.bound, whole.bound);
    assert!(Restored::of(&driven.log, Resume::Continue).is_ok());
}

/// Opening a log took as long as thousands of ticks of thousands of ranges, however few those were that
/// a restart needs.
#[test]
fn many_ranges_bring_a_snapshot_before_many_ticks_do() {
    let mut driven = Driven::start(1);
    driven.coordinator.options.snapshot_ranges = 40;
    driven.metadata("ab");
    let is_snapshot = |record: &LogRecord<_>| matches!(record, LogRecord::Snapshot(_));

    for tick in 0..19 {
        let (from, to) = (10 + tick, 11 + tick);
        driven.tick(vec![range('a', 1, from, to), range('b', 1, from, to)]);
        assert!(!driven.log.iter().any(is_snapshot), "after tick {tick}");
    }
    driven.tick(vec![range('a', 1, 29, 30), range('b', 1, 29, 30)]);
    driven.tick(Vec::new());

    assert_eq!(driven.log.iter().filter(|one| is_snapshot(one)).count(), 1);
    assert!(Restored::of(&driven.log, Resume::Continue).is_ok());
}

/// Bug: the log said that the split was readmitted first, and then, with the tick, that it had
/// failed, so a restart quarantined it again. Found by the exhaustive check.
#[test]
fn a_split_that_is_readmitted_before_its_failure_is_bound_stays_readmitted() {
    let mut driven = Driven::start(1);
    driven.metadata("a");
    driven.report(Report::FetcherDown {
        reader: ReaderId(0),
        split: Letter('a'),
        split_epoch: SplitEpoch(1),
        kind: FailureKind::Definite,
        next: 10,
        message: "gone".to_owned(),
    });
    driven.report(Report::Command(Command::Readmit(Letter('a'))));
    driven.now += INTERVAL;
    driven.coordinator.handle_time(driven.now);
    driven.carry_out();
    let error = SplitError {
        split: Letter('a'),
        position: 10,
        message: "gone".to_owned(),
        then: Aftermath::Stays,
    };

    driven.report(Report::Closed {
        reader: ReaderId(0),
        tick: driven.coordinator.ticks.closing.as_ref().unwrap().tick,
        moved: Vec::new(),
        errors: vec![error],
    });

    let restored = Restored::of(&driven.log, Resume::Continue).unwrap();
    let one = &restored.splits[&Letter('a')];
    assert_eq!((one.position, one.quarantined), (10, false));
}
