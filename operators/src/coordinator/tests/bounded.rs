//! Sources that end by themselves, event by event.

use super::*;
use crate::discovery::DiscoveryEvent;
use crate::epoch::MetadataEpoch;

/// A coordinator of a bounded source, with its log open.
fn bounded(log: &[LogRecord<Letter>]) -> Driven {
    let mut driven = Driven::closed(1);
    let mut options = CoordinatorOptions::new(1);
    options.bounded = true;
    driven.coordinator = Coordinator::new(options, StickyBalanced);
    driven.stop = Some(20);
    driven.coordinator.handle_opened(log, driven.now);
    driven.report(hello(0, 7));
    driven
}

impl Driven {
    /// All is found that the metadata of the epoch lists.
    fn all_found(&mut self, epoch: u64) {
        let epoch = MetadataEpoch(epoch);
        let event = DiscoveryEvent::AllFound { epoch };
        self.coordinator.handle_discovery(event, self.now);
        self.carry_out();
    }

    /// A reader was told the last tick.
    fn is_ending(&mut self) -> bool {
        self.tick(Vec::new());
        self.coordinator.ended()
    }

    fn finish(&mut self, split: char, split_epoch: u64, next: u64) {
        self.report(Report::Released {
            reader: ReaderId(0),
            split: Letter(split),
            split_epoch: SplitEpoch(split_epoch),
            next,
            why: ReleaseReason::Finished,
        });
    }

    fn told_of_source(&self) -> Vec<&str> {
        let told = self.told.iter().filter_map(|event| match event {
            SourceEvent::Health(health) if health.subject == "source" => {
                Some(health.message.as_str())
            }
            _ => None,
        });
        told.collect()
    }
}

#[test]
fn it_ends_when_all_is_found_and_finished_and_not_before() {
    let mut driven = bounded(&[]);
    driven.metadata("ab");
    assert_eq!(
        driven.moves(),
        ["0: assign a#1 at 10", "0: assign b#1 at 10"]
    );
    driven.finish('a', 1, 20);
    driven.finish('b', 1, 20);
    driven.tick(vec![range('a', 1, 10, 20), range('b', 1, 10, 20)]);
    assert!(!driven.is_ending(), "there may be more");

    driven.all_found(1);

    driven.now += INTERVAL;
    assert!(driven.is_ending());
    assert_eq!(driven.told.last(), Some(&SourceEvent::Ended));
    assert!(driven.log.contains(&LogRecord::AllFound));
}

/// C4: the split was revoked, and the reader had finished it before it heard of that.
#[test]
fn what_finishes_while_it_is_asked_back_is_finished_and_not_assigned_again() {
    let mut driven = Driven::closed(2);
    driven.stop = Some(20);
    driven.coordinator.handle_opened(&[], driven.now);
    driven.report(hello(0, 7));
    driven.report(hello(1, 7));
    driven.metadata("a");
    let given = driven.moves();
    assert_eq!(given, ["0: assign a#1 at 10"]);
    driven.report(Report::Command(Command::Move {
        split: Letter('a'),
        to: ReaderId(1),
    }));
    assert_eq!(driven.moves(), ["0: revoke a#1"]);

    driven.finish('a', 1, 20);
    // It says so twice, and is asked once more.
    driven.finish('a', 1, 20);
    driven.tick(vec![range('a', 1, 10, 20)]);

    assert_eq!(driven.moves(), [""; 0]);
    let finished = SourceEvent::SplitFinished {
        split: Letter('a'),
        position: 20,
    };
    let told = driven.told.iter().filter(|event| **event == finished);
    assert_eq!(told.count(), 1);
    assert_eq!(driven.coordinator.ignored(), 1);
}

#[test]
fn a_split_that_starts_at_its_stop_is_never_assigned() {
    let mut driven = bounded(&[]);
    driven.stop = Some(10);
    driven.metadata("a");
    driven.all_found(1);

    assert!(driven.is_ending());
    let assigned = |event: &SourceEvent<_>| matches!(event, SourceEvent::Assigned { .. });
    assert!(!driven.told.iter().any(assigned));
}

/// The set of splits is settled once, and a restart does not look for more.
#[test]
fn what_is_found_after_all_was_found_is_not_read() {
    let mut driven = bounded(&[]);
    driven.metadata("a");
    driven.all_found(1);
    driven.moves();

    driven.metadata("ab");
    assert_eq!(driven.moves(), [""; 0]);
    let mut again = bounded(&driven.log);
    again.metadata("ab");

    assert_eq!(again.moves(), ["0: assign a#1001 at 10"]);
}

/// Its topic was deleted while nothing ran, so that nobody can say that it is gone.
#[test]
fn what_an_earlier_run_knew_and_is_not_there_any_more_is_not_waited_for() {
    let mut driven = bounded(&[]);
    driven.metadata("ab");
    driven.all_found(1);
    let mut again = bounded(&driven.log);
    again.exists = Letters::of("a");
    again.metadata("ab");
    assert_eq!(again.moves(), ["0: assign a#1001 at 10"]);
    again.finish('a', 1_001, 20);
    again.tick(vec![range('a', 1_001, 10, 20)]);
    assert!(
        !again.is_ending(),
        "it is not known whether the other one is there"
    );

    // Its epochs go on after those of the log.
    again.all_found(2);

    again.now += INTERVAL;
    assert!(again.is_ending());
}

/// Without metadata nothing is listed, and everything would seem to be over.
#[test]
fn a_restart_waits_for_the_metadata_before_it_ends() {
    let mut driven = bounded(&[]);
    driven.metadata("a");
    driven.all_found(1);

    let mut again = bounded(&driven.log);

    assert!(!again.is_ending());
    again.metadata("a");
    assert_eq!(again.moves(), ["0: assign a#1001 at 10"]);
}

/// It would never end, and nobody would know why.
#[test]
fn a_log_without_stops_is_refused_by_a_bounded_source() {
    let mut driven = Driven::start(1);
    driven.metadata("a");

    let again = bounded(&driven.log);

    let told = again.told_of_source();
    assert!(
        told[0].starts_with("the log is of a source that was not bounded: split a has no stop"),
        "{told:?}"
    );
}

/// A stop is not asked for again, also by a source that is not bounded.
#[test]
fn a_restored_split_has_the_stop_that_the_log_says() {
    let mut driven = bounded(&[]);
    driven.metadata("a");
    let mut log = driven.log.clone();
    let snapshot = driven.coordinator.snapshot();

    for snapshotted in [false, true] {
        if snapshotted {
            log = vec![LogRecord::Snapshot(snapshot.clone())];
        }
        let mut again = Driven::closed(1);
        again.coordinator.handle_opened(&log, again.now);
        again.report(hello(0, 7));
        again.metadata("a");
        let stops = again
            .sent
            .iter()
            .filter_map(|(_, directive)| match directive {
                Directive::Assign(assignment) => assignment.stop,
                _ => None,
            });
        assert_eq!(stops.collect::<Vec<_>>(), [20], "{snapshotted}");
    }
}

#[test]
fn a_split_is_explained_with_its_stop() {
    let mut driven = bounded(&[]);
    driven.metadata("a");

    let explanation = driven.coordinator.explain(driven.now);

    let said = explanation.splits[0].to_string();
    assert!(said.contains(", at 10 up to 20, 0 behind"), "{said}");
}
