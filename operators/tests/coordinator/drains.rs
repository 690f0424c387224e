//! S29, S30: what is removed is read to its end first.

use std::time::Duration;

use timely_splits::coordinator::ShrinkGuard;
use timely_splits::discovery::DiscoveryEvent;
use timely_splits::event::SourceEvent;
use timely_splits::fetcher::DownCause;
use timely_splits::health::FailureKind;
use timely_splits::log::LogRecord;
use timely_splits::protocol::Command;

use crate::forest::{Forest, Leaf};
use crate::rig::{Rig, TICK, leaf, settings};

/// The path to trees that are drained.
const DRAINED: u8 = 2;

/// The path to trees that are drained before others that are added.
const DRAINED_FIRST: u8 = 4;

fn forest(trees: &str, path: u8) -> Forest {
    Forest(trees.chars().map(|tree| (tree, path)).collect())
}

fn list(rig: &mut Rig, trees: &str, path: u8) {
    rig.model.metadata(forest(trees, path));
    rig.settle();
}

/// Readers of `a` and `b`, each of which has 10 records of which 3 are read; there is a `c` as well.
fn reading(readers: usize, path: u8) -> Rig {
    let mut rig = Rig::closed(settings(readers));
    for tree in "abc".chars() {
        rig.ends.insert(leaf(tree, 0), 10);
    }
    rig.open();
    list(&mut rig, "ab", path);
    rig.tick();
    rig.read_some(leaf('a', 0), 3);
    rig.read_some(leaf('b', 0), 3);
    rig.settle();
    rig
}

/// The trees that are in force.
fn in_force(rig: &Rig) -> String {
    let adopted = rig.model.watch.adopted();
    let (_, forest) = adopted.expect("some metadata is in force");
    forest.0.keys().collect()
}

fn write(rig: &mut Rig, leaf: Leaf) {
    *rig.ends.get_mut(&leaf).expect("it exists") += 5;
}

fn next(rig: &Rig, tree: char) -> Option<u64> {
    rig.model.history.next(&leaf(tree, 0))
}

/// The ends that the log has, oldest first.
fn ends(rig: &Rig) -> Vec<(Leaf, Option<u64>)> {
    let records = rig.model.log.iter();
    let ends = records.filter_map(|record| match record {
        LogRecord::End { split, end } => Some((*split, *end)),
        _ => None,
    });
    ends.collect()
}

fn waits(rig: &Rig) -> Vec<String> {
    let told = rig.said.iter().chain(&rig.model.told);
    let told = told.filter_map(|event| match event {
        SourceEvent::Health(health) if health.subject == "metadata" => Some(health.message.clone()),
        _ => None,
    });
    told.collect()
}

/// Reads what there is, and closes ticks, until nothing more comes of it.
fn go_on(rig: &mut Rig) {
    for _ in 0..3 {
        rig.read();
        rig.tick();
    }
}

/// S29.
#[test]
fn what_is_removed_is_read_up_to_where_it_ended_and_no_further() {
    for readers in [1, 2] {
        let mut rig = reading(readers, DRAINED);
        let a = leaf('a', 0);

        list(&mut rig, "bc", DRAINED);
        write(&mut rig, a);
        assert_eq!(in_force(&rig), "abc", "what is added need not wait");
        go_on(&mut rig);

        assert_eq!(in_force(&rig), "bc");
        assert_eq!(next(&rig, 'a'), Some(10));
        assert_eq!(rig.owner(a), None);
        assert_eq!(ends(&rig), [(a, Some(10)), (a, None)]);
        rig.assert_all_read();
    }
}

/// Without a rule what is removed is cut.
#[test]
fn what_is_not_to_be_drained_is_not() {
    let mut rig = reading(1, 0);

    list(&mut rig, "b", 0);

    assert_eq!(in_force(&rig), "b");
    assert_eq!(next(&rig, 'a'), Some(3));
}

/// Its reader may have emitted more by the time that the answer comes.
#[test]
fn what_was_emitted_meanwhile_is_not_past_the_end() {
    let mut rig = reading(1, DRAINED);
    rig.ends_answered = false;
    list(&mut rig, "b", DRAINED);
    let asked = rig.ends_asked;
    write(&mut rig, leaf('a', 0));
    rig.read();

    rig.model.discovered(DiscoveryEvent::End {
        request: asked.expect("the end is asked for"),
        split: leaf('a', 0),
        end: 10,
    });
    rig.settle();
    go_on(&mut rig);

    assert_eq!(ends(&rig)[0], (leaf('a', 0), Some(15)));
    assert_eq!(in_force(&rig), "b");
    assert_eq!(next(&rig, 'a'), Some(15));
}

/// S30.
#[test]
fn what_comes_is_read_at_a_later_tick_than_the_last_of_what_went() {
    for readers in [1, 2] {
        let mut rig = reading(readers, DRAINED_FIRST);

        list(&mut rig, "bc", DRAINED_FIRST);
        rig.read();
        assert_eq!(next(&rig, 'a'), Some(10));
        assert_eq!(in_force(&rig), "ab", "the tick of its last record is open");
        rig.tick();
        // That no record of the one has the tick of one of the other, the model looks at.
        go_on(&mut rig);

        assert_eq!(in_force(&rig), "bc");
        assert_eq!(next(&rig, 'c'), Some(10));
    }
}

/// S29. The end that is recorded stands, whatever was written meanwhile, and is not asked for again.
#[test]
fn a_restart_in_the_middle_goes_on_to_the_same_end() {
    for service_answers in [true, false] {
        let mut rig = reading(2, DRAINED_FIRST);
        list(&mut rig, "bc", DRAINED_FIRST);
        rig.tick();
        write(&mut rig, leaf('a', 0));

        rig.end(2);
        rig.open();
        rig.ends_asked = None;
        if service_answers {
            list(&mut rig, "bc", DRAINED_FIRST);
        } else {
            rig.model.discovered(DiscoveryEvent::MetadataFailed);
            rig.settle();
        }
        assert_eq!(in_force(&rig), "ab");
        go_on(&mut rig);

        assert_eq!(rig.ends_asked, None);
        assert_eq!(in_force(&rig), "bc");
        assert_eq!(next(&rig, 'a'), Some(10));
        rig.assert_all_read();
    }
}

/// The log has the metadata, and maybe not yet that splits are not drained any more.
#[test]
fn what_was_drained_goes_on_there_when_it_comes_back_after_a_restart() {
    let mut rig = reading(1, DRAINED);
    list(&mut rig, "b", DRAINED);
    go_on(&mut rig);
    rig.model.log.retain(|record| {
        let lifted = |end: &Option<u64>| end.is_none();
        !matches!(record, LogRecord::End { end, .. } if lifted(end))
    });
    write(&mut rig, leaf('a', 0));

    rig.end(1);
    rig.open();
    list(&mut rig, "ab", DRAINED);

    rig.assert_all_read();
    assert_eq!(next(&rig, 'a'), Some(15));
}

/// The reading of what is listed again goes on as if nothing had been.
#[test]
fn an_answer_that_goes_back_ends_the_drain() {
    for answered in [true, false] {
        let mut rig = reading(2, DRAINED);
        rig.ends_answered = answered;
        list(&mut rig, "b", DRAINED);
        write(&mut rig, leaf('a', 0));

        list(&mut rig, "ab", DRAINED);
        go_on(&mut rig);

        assert_eq!(in_force(&rig), "ab");
        rig.assert_all_read();
        // And what is removed again is drained to where it ends by then.
        rig.ends_answered = true;
        write(&mut rig, leaf('a', 0));
        list(&mut rig, "b", DRAINED);
        go_on(&mut rig);
        assert_eq!(next(&rig, 'a'), Some(20));
        assert_eq!(in_force(&rig), "b");
    }
}

#[test]
fn a_third_answer_takes_the_place_of_the_second() {
    let mut rig = reading(1, DRAINED_FIRST);
    list(&mut rig, "bc", DRAINED_FIRST);

    list(&mut rig, "c", DRAINED_FIRST);
    assert_eq!(in_force(&rig), "ab");
    go_on(&mut rig);

    assert_eq!(in_force(&rig), "c");
    assert_eq!((next(&rig, 'a'), next(&rig, 'b')), (Some(10), Some(10)));
    rig.assert_all_read();
}

/// What was read between two removals was bound past the first end before the log said that it is none,
/// so that a restart took the split for drained.
#[test]
fn an_end_that_is_taken_back_is_so_in_the_log_before_more_is_bound() {
    let mut rig = reading(1, DRAINED);
    let a = leaf('a', 0);
    list(&mut rig, "b", DRAINED);
    write(&mut rig, a);

    rig.log_answers = false;
    list(&mut rig, "ab", DRAINED);
    rig.read();
    rig.pass(TICK);
    list(&mut rig, "b", DRAINED);
    rig.log_answers = true;
    go_on(&mut rig);

    let ends_of_a = [(a, Some(10)), (a, None), (a, Some(15)), (a, None)];
    assert_eq!(ends(&rig), ends_of_a);
    assert_eq!(next(&rig, 'a'), Some(15));
}

/// Nobody can say where it ends: it stays, and a person learns why and has it cut.
#[test]
fn a_split_whose_end_is_not_known_stays_until_it_is_cut() {
    let mut rig = reading(1, DRAINED_FIRST);
    rig.ends_answered = false;
    list(&mut rig, "bc", DRAINED_FIRST);
    go_on(&mut rig);
    assert_eq!(in_force(&rig), "ab");

    rig.pass(Duration::from_secs(10));
    let waits = waits(&rig);
    assert!(
        waits[0].ends_with("left are split a0, of which it is not known where it ends"),
        "{waits:?}"
    );
    rig.ask(Command::ConfirmMetadata);
    rig.tick();

    assert_eq!(in_force(&rig), "bc");
    rig.assert_all_read();
}

#[test]
fn a_split_that_is_paused_or_failed_is_drained_when_it_is_read_again() {
    let a = leaf('a', 0);
    for paused in [true, false] {
        let mut rig = reading(2, DRAINED);
        if paused {
            rig.ask(Command::Pause(a));
        } else {
            rig.break_down(a, DownCause::Failed(FailureKind::Definite));
        }
        list(&mut rig, "b", DRAINED);
        write(&mut rig, a);
        go_on(&mut rig);
        assert_eq!(in_force(&rig), "ab");
        assert_eq!(next(&rig, 'a'), Some(3));

        rig.ask(match paused {
            true => Command::Resume(a),
            false => Command::Readmit(a),
        });
        go_on(&mut rig);

        assert_eq!(in_force(&rig), "b");
        assert_eq!(next(&rig, 'a'), Some(10));
    }
}

#[test]
fn a_split_that_is_gone_is_not_waited_for() {
    let mut rig = reading(1, DRAINED);
    rig.ends_answered = false;
    list(&mut rig, "b", DRAINED);

    let (epoch, _) = rig.model.watch.adopted().expect("it is adopted").clone();
    let splits = vec![leaf('a', 0)];
    rig.model.discovered(DiscoveryEvent::Gone { epoch, splits });
    rig.settle();
    rig.tick();

    assert_eq!(in_force(&rig), "b");
}

/// After a restart nobody says that something is gone that was not there since.
#[test]
fn a_split_that_a_restart_does_not_find_is_not_waited_for() {
    let mut rig = reading(1, DRAINED);
    list(&mut rig, "b", DRAINED);
    rig.tick();
    rig.end(1);
    rig.ends.remove(&leaf('a', 0));
    rig.open();
    list(&mut rig, "b", DRAINED);
    go_on(&mut rig);
    assert_eq!(in_force(&rig), "ab");

    let (epoch, _) = rig.model.watch.adopted().expect("it is adopted").clone();
    rig.model.discovered(DiscoveryEvent::AllFound { epoch });
    rig.settle();
    rig.tick();

    assert_eq!(in_force(&rig), "b");
}

/// S21. It is held back first, and drained when it is believed.
#[test]
fn an_answer_that_loses_much_is_drained_only_once_it_is_confirmed() {
    let mut settings = settings(1);
    settings.coordinator.shrink_guard = Some(ShrinkGuard {
        loss_percent_max: 40,
        confirmed_after: Duration::from_secs(1),
    });
    let mut rig = Rig::closed(settings);
    for tree in "ab".chars() {
        rig.ends.insert(leaf(tree, 0), 10);
    }
    rig.open();
    list(&mut rig, "ab", DRAINED);
    rig.tick();

    list(&mut rig, "b", DRAINED);
    assert_eq!(ends(&rig), []);
    rig.ask(Command::ConfirmMetadata);
    assert_eq!(ends(&rig), [(leaf('a', 0), Some(10))]);
    // The same answer again is no other one.
    list(&mut rig, "b", DRAINED);
    go_on(&mut rig);

    assert_eq!(in_force(&rig), "b");
    assert_eq!(next(&rig, 'a'), Some(10));
}

/// The question where it ends took the place of the one where it starts, which nobody answered any more.
#[test]
fn the_end_is_not_asked_for_of_a_split_whose_start_is_not_known() {
    let mut rig = reading(1, DRAINED_FIRST);
    rig.starts_answered = false;
    rig.ends.insert(leaf('a', 1), 10);
    rig.find();
    list(&mut rig, "bc", DRAINED_FIRST);
    go_on(&mut rig);
    rig.ends_asked = None;

    rig.pass(Duration::from_secs(10));
    assert_eq!(rig.ends_asked, None);
    assert_eq!(in_force(&rig), "ab");
    rig.starts_answered = true;
    rig.pass(Duration::from_secs(60));
    go_on(&mut rig);

    assert_eq!(rig.model.history.next(&leaf('a', 1)), Some(10));
    assert_eq!(in_force(&rig), "bc");
    rig.assert_all_read();
}

/// It was read again, and held up the answer that was confirmed.
#[test]
fn a_cut_reaches_what_was_over_and_comes_back() {
    let mut rig = reading(1, DRAINED_FIRST);
    rig.ends_answered = false;
    list(&mut rig, "bc", DRAINED_FIRST);
    let (epoch, _) = rig.model.watch.adopted().expect("it is adopted").clone();
    rig.read_some(leaf('a', 0), 1);
    let splits = vec![leaf('a', 0)];
    rig.model.discovered(DiscoveryEvent::Gone { epoch, splits });
    rig.settle();

    rig.ask(Command::ConfirmMetadata);
    rig.find();
    assert_eq!(in_force(&rig), "ab", "the tick of its last record is open");
    rig.tick();

    assert_eq!(in_force(&rig), "bc");
    rig.assert_all_read();
}

/// Nothing of it was left, and it held up the answer for ever.
#[test]
fn a_split_that_failed_at_its_end_is_not_waited_for() {
    let mut rig = reading(1, DRAINED);
    rig.read();
    rig.break_down(leaf('a', 0), DownCause::Failed(FailureKind::Definite));

    list(&mut rig, "b", DRAINED);
    rig.tick();

    assert_eq!(in_force(&rig), "b");
    assert_eq!(next(&rig, 'a'), Some(10));
    rig.assert_all_read();
}

/// Nobody can say where it ends.
#[test]
fn the_end_is_not_asked_for_of_a_split_that_is_gone() {
    let mut rig = reading(1, DRAINED);
    let (epoch, _) = rig.model.watch.adopted().expect("it is adopted").clone();
    let splits = vec![leaf('a', 0)];
    rig.model.discovered(DiscoveryEvent::Gone { epoch, splits });
    rig.settle();
    rig.ends.remove(&leaf('a', 0));

    list(&mut rig, "b", DRAINED);
    rig.tick();

    assert_eq!((rig.ends_asked, ends(&rig)), (None, vec![]));
    assert_eq!(in_force(&rig), "b");
}
