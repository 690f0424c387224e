//! Splits of which others take the place.

use std::time::Duration;

use super::field::{Field, plot, start_of};
use super::policies;
use crate::event::SourceEvent;
use crate::loss::{Aftermath, LossPolicy};
use crate::split::Split;

#[test]
fn a_tick_in_which_a_split_was_replaced_never_becomes_durable() {
    let mut field = Field::reading(policies(LossPolicy::Restart));
    field.read(plot('a'), 5);
    field.tick();
    field.read(plot('a'), 5);
    field.planted.insert('a', 2);

    field.tick();
    field.tick();

    assert_eq!(field.bindings().len(), 1);
    assert!(field.said("it was 1 and is 2; tick"), "{:?}", field.told);
    field.crash();
    field.judged(0, 3);
    field.tick();
    let other = plot('a').started_over().unwrap();
    assert_eq!(field.next(other), Some(0));
    assert_eq!(
        (field.next(plot('a')), field.next(plot('b'))),
        (None, Some(0))
    );
}

/// Why it goes no further, each time it was told.
fn failed(field: &Field) -> Vec<String> {
    let events = field.told.iter();
    let why = events.filter_map(|event| match event {
        SourceEvent::Failed { why } => Some(why.clone()),
        _ => None,
    });
    why.collect()
}

/// It stood still, and whoever ran it learnt of that from a line of health only.
#[test]
fn that_a_run_goes_no_further_is_told_once_after_health_had_time_to_say_why() {
    let mut field = Field::reading(policies(LossPolicy::Fail));
    field.read(plot('a'), 5);
    field.planted.insert('a', 2);
    field.tick();
    assert!(field.said("it was 1 and is 2"));
    assert_eq!(failed(&field), [] as [String; 0]);

    let due = field.coordinator.poll_timeout().expect("it is to be told");
    field.pass(due - field.now);

    let [why] = &failed(&field)[..] else {
        panic!("it is told once: {:?}", field.told);
    };
    assert!(why.starts_with("source: split a0 was replaced"), "{why}");
    assert_eq!(field.coordinator.poll_timeout(), None);
    field.pass(Duration::from_secs(10));
    assert_eq!(failed(&field).len(), 1);
    assert_eq!(field.bindings().len(), 0);
}

/// What the discovery finds by itself makes the question needless: the answer is known.
#[test]
fn a_replacement_that_is_found_ends_the_run_if_the_split_moved_and_only_then() {
    for moved in [true, false] {
        let mut field = Field::reading(policies(LossPolicy::Fail));
        field.read(plot('a'), 5);
        field.tick();
        if moved {
            field.read(plot('a'), 5);
        }
        field.planted.insert('a', 2);

        field.find();
        if !moved {
            field.judged(0, 9);
        }
        field.tick();

        let ended = field.said("never become durable");
        assert_eq!(ended, moved);
        assert_eq!(field.next(plot('a')), None);
        let expected = match moved {
            true => Vec::new(),
            false => vec![(plot('a'), 5, Aftermath::Stays)],
        };
        assert_eq!(field.bound_errors(), expected);
    }
}

/// It was never read, and nobody was told: that it is another one was kept for when it would be released.
///
/// To see it fail, take it for one that was replaced while it was read.
#[test]
fn a_split_that_is_replaced_while_it_is_asked_where_it_starts_is_read_as_what_it_is() {
    let mut field = Field::finding(policies(LossPolicy::Fail));
    field.planted.insert('a', 2);

    field.find();
    // What is said about the one before is of no interest.
    field.resolved();

    let next = ['a', 'b'].map(|name| field.next(plot(name)));
    assert_eq!(next, [Some(start_of(2)), Some(start_of(1))]);
    field.crash();
    assert_eq!(field.next(plot('a')), Some(start_of(2)));
}

/// As above, when the start of the one before is on the way to the log. To see it fail, do not judge it in
/// `Coordinator::rest`.
#[test]
fn a_split_that_is_replaced_while_its_start_is_recorded_does_what_its_policy_says() {
    let mut field = Field::finding(policies(LossPolicy::Restart));
    field.log_answers = false;
    field.resolved();
    field.planted.insert('a', 2);

    field.find();
    field.log_answers = true;
    field.coordinator.handle_appended(field.now);
    field.carry_out();
    field.judged(3, 9);
    field.tick();

    let other = plot('a').started_over().unwrap();
    assert_eq!((field.next(plot('a')), field.next(other)), (None, Some(3)));
    assert_eq!(field.next(plot('b')), Some(start_of(1)));
}

/// It was started over within the tick, and then nobody knew what its records were of: they became durable
/// as those of the one before, and came again.
#[test]
fn a_tick_in_which_a_split_was_replaced_and_started_over_never_becomes_durable() {
    let mut field = Field::reading(policies(LossPolicy::Restart));
    field.planted.insert('a', 2);
    field.read(plot('a'), 4);

    field.find();
    field.judged(0, 9);
    field.tick();
    field.tick();

    assert_eq!(field.bindings().len(), 0);
    assert!(field.said("it was 1 and is 2; tick"), "{:?}", field.told);
    field.crash();
    field.judged(0, 9);
    field.tick();
    let other = plot('a').started_over().unwrap();
    assert_eq!(field.next(other), Some(0));
    assert_eq!(field.bound_errors().len(), 1);
}

/// Nobody asked what it was, and what was read of the other one became durable. To see it fail, ask what is
/// known of splits by the time of the answer.
#[test]
fn a_split_that_is_forgotten_before_its_tick_is_proven_is_asked_about_all_the_same() {
    let mut field = Field::reading(policies(LossPolicy::Fail));
    field.identified_at_once = false;
    field.coordinator.options.kept_for = Duration::ZERO;
    field.planted.insert('a', 2);
    field.read(plot('a'), 5);
    field.found_answered = false;
    field.list("b");
    field.finish(plot('a'));
    field.tick();
    let forgotten = |event: &SourceEvent<_>| matches!(event, SourceEvent::SplitForgotten { split, .. } if *split == plot('a'));
    field.pass(Duration::from_millis(1));
    assert!(field.told.iter().any(forgotten));

    field.identified();
    field.tick();

    assert_eq!(field.bindings().len(), 0);
    assert!(field.said("it was 1 and is 2; tick"), "{:?}", field.told);
}

/// It was taken for what was readmitted, and what was read before became durable as the records of that.
/// To see it fail, readmit what was replaced whatever waits.
#[test]
fn what_was_read_before_a_split_was_readmitted_as_another_one_never_becomes_durable() {
    for closed in [false, true] {
        let mut field = Field::reading(policies(LossPolicy::Fail));
        field.identified_at_once = false;
        field.read(plot('a'), 5);
        if closed {
            field.tick();
        }
        field.planted.insert('a', 2);
        field.find();

        field.readmit(plot('a'));
        field.identified();
        field.tick();
        field.identified();

        assert_eq!(field.bindings().len(), 0, "closed: {closed}");
        assert!(field.said("it was 1 and is 2; tick"), "{:?}", field.told);
        // The next run has nothing that waits, and reads on what is there.
        field.identified_at_once = true;
        field.crash();
        field.judged(0, 9);
        field.tick();
        field.readmit(plot('a'));
        field.read(plot('a'), 1);
        field.tick();
        assert_eq!(field.next(plot('a')), Some(1));
        let last = field.bindings().last().map(|last| last.ranges.len());
        assert_eq!(last, Some(1));
    }
}

/// Whatever was found of its group, it was said to be what it was.
#[test]
fn a_split_that_is_found_again_as_another_one_is_not_said_to_be_what_it_was() {
    let mut field = Field::reading(policies(LossPolicy::Fail));
    field.identified_at_once = false;
    field.read(plot('a'), 5);
    field.tick();
    field.pass(field.options.identify_within);
    field.planted.insert('a', 2);

    field.find();
    field.judged(0, 9);

    let same = |event: &SourceEvent<_>| matches!(event, SourceEvent::Health(health) if health.message == "it still is what it was");
    assert!(!field.told.iter().any(same), "{:?}", field.told);
    assert!(field.said("it was 1 and is 2"), "{:?}", field.told);
    assert_eq!(field.next(plot('a')), None);
}

/// An answer that is about metadata of before says nothing about what is there by now. To see it fail, do
/// not compare its epoch.
#[test]
fn what_was_found_before_a_split_came_back_is_not_what_comes_back() {
    let mut field = Field::reading(policies(LossPolicy::Fail));
    field.read(plot('a'), 5);
    field.tick();
    field.found_answered = false;
    field.crash();
    let before = field.coordinator.metadata_epoch;
    field.list("b");
    field.list("ab");

    field.find_under(before);
    let by_the_old_answer = field.next(plot('a'));
    field.find();

    assert_eq!(by_the_old_answer, None);
    assert_eq!(field.next(plot('a')), Some(5));
}
