//! Answers of the metadata service that are held back, and a service that does not answer.

use std::time::Duration;

use timely_splits::coordinator::{FailureThreshold, GivingUp, ShrinkGuard};
use timely_splits::discovery::DiscoveryEvent;
use timely_splits::event::SourceEvent;
use timely_splits::health::{FailureKind, HealthStatus};
use timely_splits::protocol::Command;

use crate::model::Settings;
use crate::rig::{Rig, leaf, settings};

const AFTER: Duration = Duration::from_secs(1);

fn guarded() -> Settings {
    let mut settings = settings(1);
    settings.coordinator.shrink_guard = Some(ShrinkGuard {
        loss_percent_max: 50,
        confirmed_after: AFTER,
    });
    settings
}

/// One reader of four trees.
fn reading(settings: Settings) -> Rig {
    let mut rig = Rig::closed(settings);
    for tree in "abcdef".chars() {
        rig.ends.insert(leaf(tree, 0), 10);
    }
    rig.open();
    rig.list("abcd");
    rig.tick();
    rig
}

/// The trees that are in force.
fn in_force(rig: &Rig) -> String {
    let (_, forest) = rig
        .model
        .watch
        .adopted()
        .expect("some metadata is in force");
    forest.0.keys().collect()
}

/// What was said about a subject, oldest first.
fn said(rig: &Rig, subject: &str) -> Vec<(HealthStatus, String)> {
    let said = rig.said.iter().chain(&rig.model.told);
    let said = said.filter_map(|event| match event {
        SourceEvent::Health(health) if health.subject == subject => {
            Some((health.status, health.message.clone()))
        }
        _ => None,
    });
    said.collect()
}

fn repeat(rig: &mut Rig) {
    rig.model.discovered(DiscoveryEvent::MetadataRepeated);
    rig.settle();
}

fn fail(rig: &mut Rig, times: usize) {
    for _ in 0..times {
        rig.model.discovered(DiscoveryEvent::MetadataFailed);
        rig.settle();
    }
}

/// S21. To see it fail, and those that follow, take the guard out of `Coordinator::consider`.
#[test]
fn an_answer_that_lists_nothing_removes_nothing_until_it_is_given_again() {
    let mut rig = reading(guarded());

    rig.list("");

    assert_eq!(in_force(&rig), "abcd");
    assert_eq!(
        said(&rig, "metadata"),
        [(
            HealthStatus::Waiting,
            "an answer that loses 4 of 4 trees (a, b, c, d) is held back; epoch 1 stays in force \
             until the service says the same again after 1s, or it is confirmed"
                .to_owned()
        )]
    );
    rig.assert_all_read();
    rig.pass(AFTER);
    repeat(&mut rig);
    assert_eq!(in_force(&rig), "");
    assert_eq!(rig.counts(), [0]);
    assert_eq!(said(&rig, "metadata")[1].0, HealthStatus::Well);
}

/// S21. A service that is asked often says the same nonsense twice in a row.
#[test]
fn an_answer_that_is_given_again_too_soon_is_not_believed() {
    let mut rig = reading(guarded());
    rig.list("");

    for _ in 0..9 {
        rig.pass(AFTER / 10);
        repeat(&mut rig);
    }

    assert_eq!(in_force(&rig), "abcd");
    rig.pass(AFTER / 10);
    rig.list("");
    assert_eq!(in_force(&rig), "", "an equal answer repeats it, too");
}

/// S21.
#[test]
fn an_answer_is_held_back_only_if_it_loses_more_than_the_share() {
    let mut rig = reading(guarded());

    rig.list("ab");
    assert_eq!(in_force(&rig), "ab", "half is not more than half");
    rig.list("abcde");
    rig.list("ab");
    assert_eq!(in_force(&rig), "abcde", "three of five are more");
}

/// S21. An answer is in force as a whole or not at all.
#[test]
fn what_an_answer_adds_is_held_back_with_what_it_removes() {
    let mut rig = reading(guarded());

    rig.list("ef");
    assert_eq!(in_force(&rig), "abcd");

    rig.pass(AFTER);
    repeat(&mut rig);
    assert_eq!(in_force(&rig), "ef");
    rig.assert_all_read();
}

/// S21.
#[test]
fn a_person_confirms_what_is_held_back() {
    let mut rig = reading(guarded());
    rig.list("");

    rig.ask(Command::ConfirmMetadata);
    assert_eq!(in_force(&rig), "");

    rig.said.clear();
    rig.ask(Command::ConfirmMetadata);
    let definite = HealthStatus::Failing(FailureKind::Definite);
    let why = "nothing is held back or drained that could be confirmed";
    assert_eq!(said(&rig, "metadata"), [(definite, why.to_owned())]);
}

/// S21.
#[test]
fn an_answer_that_is_held_back_is_forgotten_when_another_one_comes() {
    let mut rig = reading(guarded());
    rig.list("");

    rig.list("abcd");
    rig.pass(AFTER);
    repeat(&mut rig);

    assert_eq!(in_force(&rig), "abcd");
    let last = said(&rig, "metadata").pop().expect("something was said");
    assert_eq!(last.0, HealthStatus::Well);
    rig.list("");
    assert_eq!(in_force(&rig), "abcd", "it has to be given twice from here");
}

/// S21, S12. The first answer of a run was believed whatever it said.
#[test]
fn the_first_answer_after_a_restart_is_compared_with_the_stored_one() {
    for before_the_log_is_open in [false, true] {
        let mut rig = reading(guarded());
        rig.read_some(leaf('a', 0), 4);
        rig.tick();
        rig.end(1);
        if before_the_log_is_open {
            rig.list("");
        }
        rig.open();
        if !before_the_log_is_open {
            rig.list("");
        }

        assert_eq!(in_force(&rig), "abcd", "the stored answer is read on");
        rig.assert_all_read();
        rig.pass(AFTER);
        repeat(&mut rig);
        assert_eq!(in_force(&rig), "");
    }
}

/// A program whose metadata is written into it would wait for a second answer for ever.
#[test]
fn a_service_that_has_one_answer_for_ever_is_believed() {
    let mut rig = reading(guarded());
    rig.end(1);
    rig.open();

    rig.list("a");
    rig.model.discovered(DiscoveryEvent::MetadataSettled);
    rig.settle();

    assert_eq!(in_force(&rig), "a");
}

/// S18.
#[test]
fn the_same_answer_a_thousand_times_costs_no_message() {
    let mut rig = reading(guarded());
    rig.said.clear();

    for _ in 0..1_000 {
        rig.list("abcd");
        repeat(&mut rig);
    }

    assert_eq!((&rig.said, &rig.model.told), (&vec![], &vec![]));
    let queues = &rig.model.readers[0];
    assert!(queues.directives.is_empty() && queues.metadata.is_empty());
}

fn bearing(failures_max: u32, then: GivingUp) -> Settings {
    let mut settings = settings(1);
    settings.coordinator.failure_threshold = Some(FailureThreshold { failures_max, then });
    settings
}

/// S11.
#[test]
fn failures_are_counted_anew_after_an_answer() {
    let mut rig = reading(bearing(3, GivingUp::Fail));

    for _ in 0..10 {
        fail(&mut rig, 3);
        repeat(&mut rig);
    }

    assert_eq!(said(&rig, "metadata service"), []);
    rig.assert_all_read();
}

/// C20.
#[test]
fn one_failure_more_than_is_borne_fails_the_source() {
    let mut rig = reading(bearing(3, GivingUp::Fail));
    let open = rig.model.coordinator.open_tick();

    fail(&mut rig, 5);

    let why = "it failed 4 times in a row; expected an answer after 3 failures at most: the source \
               fails";
    let definite = HealthStatus::Failing(FailureKind::Definite);
    assert_eq!(said(&rig, "metadata service"), [(definite, why.to_owned())]);
    rig.pass(AFTER);
    assert_eq!(
        rig.model.coordinator.open_tick(),
        open,
        "the frontier stays"
    );
    assert!(!rig.model.coordinator.ended());
}

/// C20.
#[test]
fn one_failure_more_than_is_borne_ends_the_source_in_order() {
    let mut rig = reading(bearing(0, GivingUp::Stop));
    rig.read();

    fail(&mut rig, 1);
    rig.pass(AFTER);

    assert!(rig.model.coordinator.ended());
    assert_eq!(rig.model.history.next(&leaf('a', 0)), Some(10));
    assert!(rig.model.history.is_all_bound());
}

/// S11.
#[test]
fn a_service_that_fails_has_it_said_how_old_is_what_is_in_force() {
    let mut settings = settings(1);
    settings.coordinator.stale_after = Some(Duration::from_secs(60));
    let mut rig = reading(settings);
    rig.pass(Duration::from_secs(3_600));
    assert_eq!(said(&rig, "metadata"), [], "nobody says that it failed");
    repeat(&mut rig);

    fail(&mut rig, 1);
    for _ in 0..300 {
        rig.pass(Duration::from_secs(1));
    }

    let waits = |old| {
        let words = format!("epoch 1 stays in force; its service confirmed it {old} s ago");
        (HealthStatus::Waiting, words)
    };
    assert_eq!(said(&rig, "metadata"), [waits(60), waits(120), waits(240)]);
    repeat(&mut rig);
    let well = (HealthStatus::Well, "its service answers again".to_owned());
    assert_eq!(said(&rig, "metadata").pop(), Some(well));
}
