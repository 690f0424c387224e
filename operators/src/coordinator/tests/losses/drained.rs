//! Splits of which others take the place while they are drained.

use super::field::{Field, plot};
use super::policies;
use crate::loss::{Aftermath, LossPolicy};
use crate::split::Split;

/// Reads `names`, and five records of `D`, which are bound and which it is said to `end` after.
fn reading(policy: LossPolicy, names: &str, end: u64) -> Field {
    let mut field = Field::reading(policies(policy));
    field.planted.extend([('D', 1), ('E', 1)]);
    field.list(names);
    field.read(plot('D'), 5);
    field.tick();
    field.ends = [('D', end)].into();
    field
}

fn in_force(field: &Field) -> String {
    let metadata = field.coordinator.metadata.as_ref();
    let metadata = metadata.expect("some metadata is in force");
    metadata.names().collect()
}

/// It was at the end that it was drained to, and was nobody's from then on.
#[test]
fn what_was_drained_and_replaced_does_what_its_policy_says_when_it_is_listed_again() {
    let mut field = reading(LossPolicy::Restart, "abDE", 5);
    field.list("ab");
    assert_eq!(field.next(plot('D')), None);
    assert_eq!(in_force(&field), "DEab", "the end of E is not known");
    field.planted.insert('D', 2);
    field.find();

    field.list("abDE");
    field.judged(0, 3);
    field.tick();

    let other = plot('D').started_over().unwrap();
    assert_eq!(field.next(other), Some(0));
    let over = Aftermath::StartedOver {
        split: other,
        start: 0,
        stop: None,
    };
    assert_eq!(field.bound_errors(), [(plot('D'), 5, over)]);
    assert_eq!(field.published.len(), 2, "the frontier moves");
}

/// The end of the other one was taken for its own, and what was left of it was lost without a word.
#[test]
fn a_split_that_is_replaced_before_its_end_is_known_is_not_drained_to_the_end_of_the_other() {
    for policy in [LossPolicy::Restart, LossPolicy::Fail] {
        let mut field = reading(policy, "abD", 3);
        field.planted.insert('D', 2);
        field.found_answered = false;

        field.list("ab");
        assert_eq!(field.next(plot('D')), None);
        field.judged(0, 3);
        field.tick();

        let (errors, other) = (field.bound_errors(), plot('D').started_over().unwrap());
        let [(split, position, then)] = &errors[..] else {
            panic!("one error is bound: {errors:?}");
        };
        assert_eq!((*split, *position), (plot('D'), 5));
        assert_eq!(in_force(&field), "Dab", "something is left");
        if policy == LossPolicy::Fail {
            assert_eq!(*then, Aftermath::Stays);
            continue;
        }
        assert_eq!(field.next(other), Some(0));
        field.read(other, 3);
        field.finish(other);
        field.tick();
        assert_eq!(in_force(&field), "ab");
    }
}

/// Its end was asked for, and it was read on before the answer came.
#[test]
fn a_split_that_was_read_past_the_end_that_was_found_is_asked_about_once() {
    let mut field = reading(LossPolicy::Fail, "abDE", 3);

    field.list("abE");
    field.judged(0, 5);
    field.tick();

    assert_eq!(field.bound_errors(), []);
    assert_eq!(in_force(&field), "Eab");
    assert_eq!(field.published.len(), 2, "the frontier moves");
}
