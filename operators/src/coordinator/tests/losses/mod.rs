//! What is no longer there: splits that lost records, and splits that are others by now.

mod drained;
mod field;
mod replaced;

use std::time::Duration;

use self::field::{Field, plot};
use super::super::restore::Restored;
use super::super::snapshot::RestoreError;
use crate::binding::SplitRange;
use crate::log::LogRecord;
use crate::loss::{Aftermath, LossCause, LossPolicies, LossPolicy};
use crate::protocol::{Command, Report};
use crate::resume::Resume;
use crate::split::Split;

fn policies(policy: LossPolicy) -> LossPolicies {
    LossPolicies {
        records: policy,
        recreated: policy,
    }
}

/// Without [`Coordinator::proven_records`] the binding goes to the log at once.
#[test]
fn a_tick_becomes_durable_only_when_it_is_known_that_its_splits_are_what_they_were() {
    let mut field = Field::reading(policies(LossPolicy::Fail));
    field.identified_at_once = false;
    field.read(plot('a'), 5);
    field.tick();
    field.read(plot('a'), 1);
    field.read(plot('b'), 1);
    field.tick();
    let before = field.bindings().len();

    field.identified();
    let after_first = field.bindings().len();
    let asked: Vec<_> = field
        .identify
        .iter()
        .map(|(_, splits)| splits.clone())
        .collect();
    field.identified();

    assert_eq!((before, after_first), (0, 1));
    assert_eq!(
        asked,
        [vec![plot('a'), plot('b')]],
        "one question for what waits"
    );
    assert_eq!(field.bindings().len(), 2);
}

/// S31, C22: without a bound on the wait, a cluster that died after its records were read would hold the
/// frontier.
#[test]
fn an_answer_that_does_not_come_holds_nothing_up_for_ever() {
    let mut field = Field::reading(policies(LossPolicy::Fail));
    field.identified_at_once = false;
    field.read(plot('a'), 5);
    field.tick();
    let due = field.coordinator.poll_timeout().unwrap();
    assert!(due <= field.now + field.options.identify_within);

    field.pass(field.options.identify_within);
    let first = field.bindings().len();
    // It is not asked, and not waited for, while the answer is late.
    field.read(plot('a'), 5);
    field.tick();
    let second = field
        .bindings()
        .iter()
        .filter(|one| !one.ranges.is_empty())
        .count();
    let asked = field.identify.len();
    field.identified();
    field.read(plot('a'), 5);
    field.tick();

    assert!(first >= 1 && second == 2, "{first} {second}");
    assert!(field.said("no answer within 2s"));
    assert_eq!(asked, 1);
    assert!(field.said("it still is what it was"));
    assert_eq!(field.identify.len(), 1, "it is asked again");
}

/// Without `verified` the split is read as soon as the metadata lists it, whatever is there by now.
#[test]
fn what_is_in_the_log_is_read_only_when_it_was_found() {
    let mut field = Field::reading(policies(LossPolicy::Fail));
    field.read(plot('a'), 5);
    field.tick();
    field.found_answered = false;
    field.crash();
    field.tick();
    assert!(field.held.is_empty());

    field.find();

    assert_eq!(field.next(plot('a')), Some(5));
}

/// K3, C5. The error is durable before the split is read on, so that whoever crashes in between says the
/// same again, or goes on.
#[test]
fn a_range_that_is_lost_is_skipped_when_that_is_durable() {
    let mut field = Field::reading(policies(LossPolicy::Skip));
    field.read(plot('a'), 5);
    field.lose(plot('a'), LossCause::OutOfRange);
    field.judged(12, 20);
    assert_eq!(field.next(plot('a')), None, "it is not durable");
    field.log_answers = false;
    field.tick();
    assert_eq!(field.next(plot('a')), None, "it is not durable");
    let mut crashed = field.log.clone();
    field.coordinator.handle_appended(field.now);
    field.carry_out();
    assert_eq!(field.next(plot('a')), Some(12));

    let binding = field.bindings().pop().unwrap().clone();
    let range = SplitRange {
        split: plot('a'),
        from: 0,
        to: 12,
    };
    assert_eq!(binding.ranges, [range]);
    let skipped = (plot('a'), 5, Aftermath::Skipped(12));
    assert_eq!(field.bound_errors(), [skipped]);
    assert!(field.said("5..12 is lost"));

    // A crash before the append: it is found out again.
    crashed.retain(|record| !matches!(record, LogRecord::Binding(_)));
    field.log = crashed;
    field.log_answers = true;
    field.crash();
    assert_eq!(field.next(plot('a')), Some(0));
}

#[test]
fn a_crash_after_a_skip_goes_on_behind_it() {
    let mut field = Field::reading(policies(LossPolicy::Skip));
    field.lose(plot('a'), LossCause::OutOfRange);
    field.judged(12, 20);
    field.tick();

    field.crash();

    assert_eq!(field.next(plot('a')), Some(12));
}

/// A split of which what there is was not found out yet is not quarantined by that.
#[test]
fn a_crash_before_it_is_known_what_there_is_forgets_that_a_split_was_lost() {
    let mut field = Field::reading(policies(LossPolicy::Fail));
    field.lose(plot('a'), LossCause::OutOfRange);
    field.tick();

    field.crash();

    assert_eq!(field.next(plot('a')), Some(0));
}

#[test]
fn what_fails_stays_where_it_is_until_it_is_readmitted() {
    let mut field = Field::reading(policies(LossPolicy::Fail));
    field.read(plot('a'), 5);
    field.lose(plot('a'), LossCause::OutOfRange);
    field.judged(12, 20);
    field.tick();
    assert_eq!(field.bound_errors(), [(plot('a'), 5, Aftermath::Stays)]);
    field.crash();
    assert_eq!(field.next(plot('a')), None);

    let readmit = Report::Command(Command::Readmit(plot('a')));
    field.coordinator.handle_report(readmit, field.now);
    field.carry_out();

    assert_eq!(field.next(plot('a')), Some(5));
}

#[test]
fn what_is_waited_for_goes_on_when_it_is_there() {
    let mut field = Field::reading(policies(LossPolicy::Wait));
    field.read(plot('a'), 5);
    field.lose(plot('a'), LossCause::OutOfRange);
    field.judged(0, 3);
    field.pass(Duration::from_secs(10));
    assert_eq!(field.next(plot('a')), None);

    field.judged(0, 5);

    assert_eq!(field.next(plot('a')), Some(5));
    field.tick();
    assert_eq!(field.bound_errors(), []);
    assert!(field.said("waiting until that is over"));
}

/// K5: its offsets are used again, so it is another split.
#[test]
fn what_was_cut_off_starts_over_where_it_was_cut_off() {
    let mut field = Field::reading(policies(LossPolicy::Skip));
    field.read(plot('a'), 9);
    field.lose(plot('a'), LossCause::Truncated(Some(4)));
    field.judged(0, 30);
    field.tick();

    let other = plot('a').started_over().unwrap();
    let after = Aftermath::StartedOver {
        split: other,
        start: 4,
        stop: None,
    };
    assert_eq!(field.bound_errors(), [(plot('a'), 9, after)]);
    assert_eq!(field.next(other), Some(4));
    field.read(other, 2);
    field.tick();
    field.crash();
    assert_eq!((field.next(other), field.next(plot('a'))), (Some(6), None));
    field.find();
    assert_eq!(
        field.held.len(),
        2,
        "what is found as the first is the second"
    );
}

/// What was written since the cut would be lost.
#[test]
fn what_was_cut_off_nobody_knows_where_is_not_skipped() {
    let mut field = Field::reading(policies(LossPolicy::Skip));
    field.read(plot('a'), 9);
    field.lose(plot('a'), LossCause::Truncated(None));
    field.judged(0, 7);
    field.read(plot('b'), 9);
    field.lose(plot('b'), LossCause::OutOfRange);
    field.judged(0, 7);
    field.tick();

    let stays = |name| (plot(name), 9, Aftermath::Stays);
    assert_eq!(field.bound_errors(), [stays('a'), stays('b')]);
}

/// K8: no policy makes another place the same.
#[test]
fn what_is_not_in_its_place_is_never_started_over() {
    let mut field = Field::reading(policies(LossPolicy::Restart));
    field.read(plot('a'), 5);
    field.tick();
    field.planted.insert('a', 1_001);

    field.find();
    field.judged(0, 9);
    field.tick();

    assert_eq!(field.bound_errors(), [(plot('a'), 5, Aftermath::Stays)]);
    assert!(field.said("it was 1 and is 1001"));
}

/// A run that gives the tick of a skip again begins behind it, and says it at that tick.
#[test]
fn ticks_with_a_skip_can_be_given_again_from_there_on() {
    let mut field = Field::reading(policies(LossPolicy::Skip));
    field.read(plot('a'), 5);
    field.tick();
    field.lose(plot('a'), LossCause::OutOfRange);
    field.judged(12, 20);
    field.tick();
    field.read(plot('a'), 3);
    field.tick();

    let from = field.bindings()[1].tick;
    let restored = Restored::of(&field.log, Resume::Replay { from }).unwrap();
    let before = field.bindings()[0].tick;
    let at = Restored::of(&field.log, Resume::At(before)).unwrap();

    assert_eq!(at.splits[&plot('a')].position, 5, "the skip is void");
    assert_eq!(restored.splits[&plot('a')].position, 12);
    assert_eq!(restored.replay.unwrap().ends[&plot('a')], 15);
}

/// Ticks of before would be given with records of the split that took its place.
#[test]
fn ticks_before_a_split_was_started_over_cannot_be_given_again() {
    let mut field = Field::reading(policies(LossPolicy::Restart));
    field.read(plot('a'), 5);
    field.tick();
    field.planted.insert('a', 2);
    field.find();
    field.judged(0, 9);
    field.tick();

    let from = field.bindings()[0].tick;
    let restored = Restored::of(&field.log, Resume::Replay { from });
    let again = Restored::of(&field.log, Resume::At(from)).unwrap();

    assert!(matches!(restored, Err(RestoreError::StartedAnew { .. })));
    assert_eq!(again.splits[&plot('a')].position, 5);
}

/// What reads of a field where splits stop at 20, and ends by itself if it is bounded.
fn stopping(bounded: bool) -> Field {
    let mut field = Field::reading_to(policies(LossPolicy::Restart), Some(20), bounded);
    field.read(plot('a'), 9);
    field.tick();
    field
}

/// Where the second planting of `a` stops.
fn stop(field: &Field) -> Option<u64> {
    let other = plot('a').started_over().unwrap();
    let splits = field.coordinator.explain(field.now).splits;
    let found = splits.into_iter().find(|one| one.split == other);
    found.expect("it is known").stop
}

/// The same, in this run and after a crash.
fn stops(field: &mut Field) -> Option<u64> {
    let before = stop(field);
    field.crash();
    assert_eq!(stop(field), before);
    before
}

/// The stop was kept, at which the other one may have nothing: a bounded source never ended. And if it had
/// more, what is behind was not read.
#[test]
fn what_was_planted_again_stops_where_it_ends() {
    for (bounded, end) in [(true, 3), (true, 30), (false, 3)] {
        let mut field = stopping(bounded);
        field.planted.insert('a', 2);
        field.find();
        field.judged(0, end);
        field.tick();

        assert_eq!(stops(&mut field), Some(end), "{bounded}");
    }
}

#[test]
fn what_was_cut_off_keeps_its_stop_unless_a_bounded_source_would_wait_for_it() {
    for (bounded, end, stop) in [(true, 7, 7), (true, 30, 20), (false, 7, 20)] {
        let mut field = stopping(bounded);
        field.lose(plot('a'), LossCause::Truncated(Some(4)));
        field.judged(0, end);
        field.tick();

        assert_eq!(stops(&mut field), Some(stop), "{bounded}, {end}");
    }
}

#[test]
fn a_bounded_source_ends_when_what_was_planted_again_is_read() {
    let mut field = stopping(true);
    field.planted.insert('a', 2);
    field.find();
    field.judged(0, 3);
    field.tick();
    field.all_found();
    let other = plot('a').started_over().unwrap();
    field.read(plot('b'), 20);
    field.finish(plot('b'));
    field.tick();
    assert!(!field.coordinator.ended());

    field.read(other, 3);
    field.finish(other);
    field.tick();
    field.tick();

    assert!(field.coordinator.ended());
}

/// Earlier versions left it the stop of the one before, and wrote none.
#[test]
fn what_a_log_has_no_stop_of_keeps_the_one_before() {
    let mut field = stopping(false);
    field.planted.insert('a', 2);
    field.find();
    field.judged(0, 3);
    field.tick();
    for record in &mut field.log {
        let LogRecord::Binding(binding) = record else {
            continue;
        };
        for error in &mut binding.errors {
            if let Aftermath::StartedOver { stop, .. } = &mut error.then {
                *stop = None;
            }
        }
    }

    let restored = Restored::of(&field.log, Resume::Continue).unwrap();

    let other = plot('a').started_over().unwrap();
    assert_eq!(restored.splits[&other].stop, Some(20));
}
