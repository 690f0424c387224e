//! Split epochs over the runs of a source.

use super::resume::{log_of_three_ticks, resumed};
use super::*;

/// The epochs that were assigned.
fn assigned(driven: &Driven) -> Vec<u64> {
    let epochs = driven.sent.iter().filter_map(|(_, directive)| {
        let Directive::Assign(Assignment { split_epoch, .. }) = directive else {
            return None;
        };
        Some(split_epoch.0)
    });
    epochs.collect()
}

fn is_reservation(record: &LogRecord<Letter>) -> bool {
    matches!(record, LogRecord::ReservedEpochs(_))
}

#[test]
fn every_split_epoch_of_a_run_is_above_those_of_all_runs_before_it() {
    for compacted in [false, true] {
        let (mut log, ticks) = log_of_three_ticks();
        let mut greatest = 1;
        let again = [
            Resume::Continue,
            Resume::At(ticks[2]),
            Resume::Fresh,
            Resume::Continue,
        ];

        for resume in again {
            let driven = resumed(&log, resume);

            let epochs = assigned(&driven);
            assert!(!epochs.is_empty(), "{resume}");
            for epoch in epochs {
                assert!(epoch > greatest, "{resume}: {epoch} after {greatest}");
            }
            log.extend(driven.log);
            if compacted {
                let snapshot = driven.coordinator.snapshot();
                log = vec![LogRecord::Snapshot(snapshot)];
            }
            greatest = assigned_max(&driven.sent);
        }
    }
}

fn assigned_max(sent: &[(ReaderId, Directive<Letter>)]) -> u64 {
    let epochs = sent.iter().map(|(_, directive)| match directive {
        Directive::Assign(assignment) => assignment.split_epoch.0,
        _ => 0,
    });
    epochs.max().unwrap_or_default()
}

/// A crash between the record and the assignment, again and again, is no reason to use an epoch twice;
/// nor is one before the record.
#[test]
fn a_run_that_ended_before_it_wrote_anything_reserves_nothing() {
    let (log, _) = log_of_three_ticks();
    let mut driven = Driven::closed(1);
    driven.log_answers = false;
    driven.coordinator.handle_opened(&log, driven.now);
    driven.report(hello(0, 7));
    driven.metadata("ab");

    assert_eq!(driven.moves(), [""; 0], "nothing is durable");
    let first = |of: &[LogRecord<Letter>]| assigned(&resumed(of, Resume::Continue));
    assert_eq!(first(&log), [1_001; 2]);
    let reserved = [log, driven.log].concat();
    assert_eq!(first(&reserved), [2_001; 2]);
}

#[test]
fn a_split_is_not_assigned_before_its_epoch_is_durably_reserved() {
    let mut driven = Driven::closed(1);
    driven.coordinator.options.epochs_ahead = 1;
    driven.coordinator.handle_opened(&[], driven.now);
    driven.report(hello(0, 7));
    driven.metadata("a");
    driven.metadata("");
    driven.release(0, 'a', 1, 13);
    driven.metadata("a");
    assert_eq!(
        driven.moves(),
        ["0: assign a#1 at 10", "0: assign a#2 at 13"]
    );
    driven.metadata("");
    driven.release(0, 'a', 2, 14);
    driven.log_answers = false;
    driven.metadata("a");
    // The split is found while the metadata is being recorded.
    driven.coordinator.handle_appended(driven.now);
    driven.carry_out();

    assert_eq!(driven.moves(), [""; 0]);
    assert!(driven.log.last().is_some_and(is_reservation));
    driven.coordinator.handle_appended(driven.now);
    driven.carry_out();

    assert_eq!(driven.moves(), ["0: assign a#3 at 14"]);
}

/// Its runs each counted from one, and did not say how far.
#[test]
fn a_log_of_an_older_version_is_counted_on_from_one() {
    let (mut records, _) = log_of_three_ticks();
    records.retain(|record| !is_reservation(record));
    let older = |all: &[LogRecord<Letter>]| {
        let mut snapshot = Restored::of(all, Resume::Continue).unwrap().snapshot();
        snapshot.version = 2;
        vec![LogRecord::Snapshot(snapshot)]
    };

    for log in [older(&records), records] {
        let driven = resumed(&log, Resume::Continue);

        assert_eq!(assigned(&driven), [1; 2]);
        let again = resumed(&[log, driven.log].concat(), Resume::Continue);
        assert_eq!(assigned(&again), [1_001; 2]);
    }
}

#[test]
fn many_moves_append_little() {
    let mut driven = Driven::start(2);
    driven.metadata("ab");
    for round in 1..=2_000_u64 {
        let split = Letter('a');
        let to = ReaderId(usize::from(round % 2 == 0) ^ 1);
        driven.take_sent();
        driven.report(Report::Command(Command::Move { split, to }));
        let revoked = driven
            .take_sent()
            .into_iter()
            .find_map(|(from, directive)| {
                let Directive::Revoke { split_epoch, .. } = directive else {
                    return None;
                };
                Some((from.0, split_epoch.0))
            });
        if let Some((from, epoch)) = revoked {
            driven.release(from, 'a', epoch, 10);
        }
    }

    let epoch = driven.coordinator.splits[&Letter('a')].split_epoch;
    assert!(epoch > SplitEpoch(1_900), "{epoch}");
    assert_eq!(
        driven.log.iter().filter(|one| is_reservation(one)).count(),
        4
    );
}
