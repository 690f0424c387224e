//! What a source says that it does, and why.

use std::time::Duration;

use timely_splits::coordinator::{CoordinatorOptions, ShrinkGuard};
use timely_splits::epoch::ReaderId;
use timely_splits::explain::{OriginKind, SplitExplanation, SplitLife};
use timely_splits::fetcher::DownCause;
use timely_splits::health::FailureKind;
use timely_splits::protocol::{Command, Directive};

use crate::forest::Leaf;
use crate::rig::{Rig, TICK, leaf, settings};

/// What is said of the first leaf of `a`.
fn said(rig: &Rig) -> SplitExplanation<Leaf> {
    let explanation = rig.model.coordinator.explain(rig.model.now);
    let mut splits = explanation.splits.into_iter();
    let found = splits.find(|said| said.split == leaf('a', 0));
    found.expect("it is known")
}

/// How far its life has come, where it went on last, and why there.
fn story(rig: &Rig) -> (SplitLife, Option<(u64, OriginKind)>) {
    let said = said(rig);
    let origin = said.origin.map(|origin| (origin.position, origin.why));
    (said.life, origin)
}

#[test]
fn a_split_is_followed_from_its_rule_to_a_reader() {
    let mut rig = Rig::closed(settings(1));
    rig.ends.insert(leaf('a', 0), 10);
    rig.starts_answered = false;
    rig.open();
    rig.list("a");
    assert_eq!(story(&rig), (SplitLife::Known, None));
    assert_eq!((said(&rig).reader, said(&rig).position), (None, None));

    // It is asked again, and answered.
    rig.starts_answered = true;
    rig.pass(CoordinatorOptions::new(1).start_deadline);
    let rule = Some((0, OriginKind::Rule("earliest".to_owned())));
    assert_eq!(story(&rig), (SplitLife::Assigned, rule.clone()));

    rig.read_some(leaf('a', 0), 4);
    rig.tick();
    assert_eq!(story(&rig), (SplitLife::Reading, rule));
    let said = said(&rig);
    assert_eq!((said.reader, said.position), (Some(ReaderId(0)), Some(4)));
    assert_eq!(
        said.to_string(),
        format!(
            "split {}: reading by reader 0, at 4, 0 behind; went on at 0, by the rule: earliest, at {}",
            said.split,
            said.origin.expect("it has a start").at
        )
    );
}

#[test]
fn a_split_that_moves_goes_on_where_its_reader_handed_it_back() {
    let mut rig = Rig::reading(2, "ab");
    let owner = rig.owner(leaf('a', 0)).expect("it is read");
    rig.read_some(leaf('a', 0), 4);
    rig.deaf.insert(owner);

    rig.move_to(leaf('a', 0), 1 - owner);
    assert_eq!(story(&rig).0, SplitLife::Moving);
    rig.deaf.clear();
    rig.settle();

    let released = Some((4, OriginKind::Released(ReaderId(owner))));
    assert_eq!(story(&rig), (SplitLife::Assigned, released));
}

#[test]
fn a_split_that_goes_and_comes_is_kept_meanwhile() {
    let mut rig = Rig::reading(1, "ab");
    rig.read_some(leaf('a', 0), 4);
    rig.deaf.insert(0);
    rig.list("b");
    assert_eq!(story(&rig).0, SplitLife::Removed);

    rig.deaf.clear();
    rig.settle();
    let released = Some((4, OriginKind::Released(ReaderId(0))));
    assert_eq!(story(&rig), (SplitLife::Kept, released));

    rig.list("ab");
    let kept = Some((4, OriginKind::Kept));
    assert_eq!(story(&rig), (SplitLife::Assigned, kept));
}

#[test]
fn a_split_goes_on_from_the_log_after_a_restart() {
    let mut rig = Rig::reading(1, "a");
    rig.read_some(leaf('a', 0), 4);
    rig.tick();
    let bound = rig.model.history.bound();
    rig.read_some(leaf('a', 0), 4);

    rig.crash(1, "a");

    let from_log = Some((4, OriginKind::Log));
    assert_eq!(story(&rig), (SplitLife::Assigned, from_log));
    assert_eq!(said(&rig).origin.map(|origin| origin.at), bound);
}

#[test]
fn a_split_that_is_paused_or_failed_says_so() {
    let mut rig = Rig::reading(1, "a");
    rig.read_some(leaf('a', 0), 4);
    rig.ask(Command::Pause(leaf('a', 0)));
    assert_eq!(story(&rig).0, SplitLife::Paused);
    rig.ask(Command::Resume(leaf('a', 0)));
    rig.read_some(leaf('a', 0), 2);

    let definite = DownCause::Failed(FailureKind::Definite);
    rig.break_down(leaf('a', 0), definite);
    let failed = Some((6, OriginKind::Failed(ReaderId(0))));
    assert_eq!(story(&rig), (SplitLife::Quarantined, failed.clone()));

    rig.ask(Command::Readmit(leaf('a', 0)));
    assert_eq!(story(&rig), (SplitLife::Assigned, failed));
}

#[test]
fn what_is_held_back_and_what_is_in_force_is_explained() {
    let mut settings = settings(1);
    settings.coordinator.shrink_guard = Some(ShrinkGuard {
        loss_percent_max: 50,
        confirmed_after: TICK,
    });
    let mut rig = Rig::closed(settings);
    rig.open();
    rig.list("ab");
    rig.pass(Duration::from_secs(3));
    rig.list("");

    let explanation = rig.model.coordinator.explain(rig.model.now);

    assert_eq!(explanation.metadata_epoch.0, 1);
    assert_eq!(explanation.metadata_age, Some(Duration::ZERO));
    assert_eq!(explanation.held_back, ["2 of 2 trees (a, b)"]);
    assert_eq!(
        explanation.options["kept_for"].to_string(),
        "604800s (default)"
    );
    assert!(!explanation.options["shrink_guard"].is_default);
    let words = explanation.to_string();
    assert!(
        words.contains("an answer is held back that loses 2 of 2 trees"),
        "{words}"
    );
}

#[test]
fn who_asks_near_a_reader_is_answered_there() {
    let mut rig = Rig::reading(2, "a");
    rig.deaf.extend([0, 1]);

    let answer_to = ReaderId(1);
    rig.model.command(0, Command::Explain { answer_to });
    rig.settle();

    let queues = rig.model.readers.iter().map(|reader| &reader.directives);
    let answers = queues.map(|directives| {
        let explained = |one: &&Directive<_>| matches!(one, Directive::Explained(_));
        directives.iter().filter(explained).count()
    });
    assert_eq!(answers.collect::<Vec<_>>(), [0, 1]);
}
