//! Ticks in which nothing was read.

use super::*;

fn bindings(driven: &Driven) -> Vec<Tick> {
    let binding = |record: &LogRecord<Letter>| match record {
        LogRecord::Binding(binding) => Some(binding.tick),
        _ => None,
    };
    driven.log.iter().filter_map(binding).collect()
}

fn published(driven: &Driven) -> Vec<Tick> {
    let published = driven.published.iter();
    published.map(|(binding, _)| binding.tick).collect()
}

/// For a thousand seconds: what is reserved ahead is written, and a snapshot, as often as by any source.
#[test]
fn a_source_that_reads_nothing_writes_no_bindings() {
    let mut driven = Driven::start(2);
    driven.metadata("a");
    let before = driven.log.len();
    driven.take_sent();
    let first = driven.coordinator.open_tick();

    let mut durable = 0;
    for _ in 0..10_000 {
        driven.tick(Vec::new());
        let sent = driven.take_sent().into_iter();
        durable += sent
            .filter(|(_, directive)| matches!(directive, Directive::Durable(_)))
            .count();
    }

    assert_eq!(durable, 10_000, "the keeper lets go of each");
    assert_eq!(driven.published.len(), 10_000);
    assert_eq!(driven.published.first().map(|(one, _)| one.tick), first);
    let next = driven.published.last().and_then(|(_, next)| *next);
    assert_eq!(next, driven.coordinator.open_tick());
    let written = driven.log.split_off(before);
    let count = |is: fn(&LogRecord<Letter>) -> bool| written.iter().filter(|one| is(one)).count();
    let reserved = count(|record| matches!(record, LogRecord::Reserved(_)));
    let snapshots = count(|record| matches!(record, LogRecord::Snapshot(_)));
    let bindings = count(|record| matches!(record, LogRecord::Binding(_)));
    assert!((100..=300).contains(&reserved), "{reserved} reservations");
    // What is old is dropped as of a snapshot.
    assert_eq!(snapshots, 1);
    assert_eq!(reserved + snapshots + bindings, written.len());
    assert!(bindings <= 1, "{bindings} bindings");
}

#[test]
fn a_tick_without_records_passes_after_those_before_it() {
    let mut driven = Driven::start(1);
    driven.metadata("a");
    driven.log_answers = false;

    driven.tick(vec![range('a', 1, 10, 13)]);
    driven.tick(Vec::new());
    driven.tick(Vec::new());
    assert_eq!(driven.published, []);
    driven.log_answers = true;
    driven.coordinator.handle_appended(driven.now);
    driven.carry_out();
    driven.tick(Vec::new());
    driven.tick(vec![range('a', 1, 13, 14)]);

    // Those that waited behind one in the log are there, as it is they that are next.
    let passed = published(&driven);
    assert_eq!(passed.len(), 5);
    assert!(passed.is_sorted(), "{passed:?}");
    let without: Vec<_> = (passed[..3].iter().chain(&passed[4..])).copied().collect();
    assert_eq!(bindings(&driven), without);
}

/// A log that hangs is not needed for what is reserved, and is for anything else.
#[test]
fn a_source_that_reads_nothing_goes_no_further_than_what_is_reserved() {
    let mut driven = Driven::start(1);
    driven.metadata("a");
    driven.log_answers = false;

    for _ in 0..1_000 {
        driven.tick(Vec::new());
    }

    let reserved = driven.log.iter().filter_map(|record| match record {
        LogRecord::Reserved(tick) => Some(*tick),
        _ => None,
    });
    let reserved: Vec<_> = reserved.collect();
    let durable = reserved[reserved.len() - 2];
    let last = driven.published.last().and_then(|(_, next)| *next);
    assert!(last <= Some(durable), "{last:?} of {durable:?}");
    let waits = |event: &&SourceEvent<_>| matches!(event, SourceEvent::Health(health) if health.status == HealthStatus::Waiting);
    assert_eq!(driven.told.iter().filter(waits).count(), 1);
}

#[test]
fn the_run_after_one_that_read_nothing_opens_no_tick_again() {
    let mut driven = Driven::start(1);
    driven.metadata("a");
    driven.tick(vec![range('a', 1, 10, 13)]);
    for _ in 0..25 {
        driven.tick(Vec::new());
    }
    let passed = *published(&driven).last().expect("ticks pass");
    let bound = bindings(&driven);

    for resume in [Resume::Continue, Resume::Fresh, Resume::At(passed)] {
        let mut next = Driven::resuming(1, resume);
        // No time passed meanwhile, for the clock that people set.
        next.now = driven.now - INTERVAL * 20;
        next.coordinator.handle_opened(&driven.log, next.now);
        next.carry_out();
        next.report(hello(0, 7));
        next.metadata("a");

        assert!(next.coordinator.open_tick() > Some(passed), "{resume}");
        let start = if resume == Resume::Fresh { 10 } else { 13 };
        let moves = next.moves();
        assert!(
            moves.len() == 1 && moves[0].ends_with(&format!("at {start}")),
            "{resume}: {moves:?}"
        );
        next.tick(vec![]);
        assert!(published(&next).iter().all(|tick| *tick > passed));
    }
    assert_eq!(bound.len(), 1);
}

#[test]
fn a_last_tick_without_records_is_the_end() {
    let mut driven = Driven::start(2);
    driven.metadata("a");
    driven.tick(Vec::new());
    driven.take_sent();
    driven.report(Report::Command(Command::Stop));

    driven.tick(Vec::new());

    assert!(driven.coordinator.ended());
    assert_eq!(driven.published.last().map(|(_, next)| *next), Some(None));
    let sent = driven.take_sent().into_iter();
    let durable = sent.filter(|(_, one)| matches!(one, Directive::Durable(_)));
    assert_eq!(durable.count(), 2, "all let go of what they hold");
    assert_eq!(bindings(&driven), []);
}

/// Has something be learnt or asked for.
type Happens = fn(&mut Driven);

/// Who sees a tick pass may take it that what was asked for before is known to the next run.
#[test]
fn a_tick_without_records_does_not_overtake_what_waits_for_the_log() {
    let facts: [(&str, Happens); 4] = [
        ("a pause", |driven| {
            driven.report(Report::Command(Command::Pause(Letter('a'))));
        }),
        ("a snapshot", |driven| {
            driven.report(Report::Command(Command::Snapshot));
        }),
        ("a start and metadata", |driven| driven.metadata("ab")),
        ("a split that is gone", |driven| driven.metadata("b")),
    ];
    for last in [false, true] {
        for (what, happens) in &facts {
            let mut driven = Driven::start(1);
            driven.metadata("a");
            driven.tick(Vec::new());
            let before = driven.published.len();
            driven.log_answers = false;
            happens(&mut driven);
            if what.starts_with("a split") {
                driven.release(0, 'a', 1, 10);
            }
            if last {
                driven.report(Report::Command(Command::Stop));
            }

            driven.tick(Vec::new());
            assert_eq!(driven.published.len(), before, "{what}, {last}");
            assert!(!driven.coordinator.ended(), "{what}");

            driven.log_answers = true;
            driven.coordinator.handle_appended(driven.now);
            driven.carry_out();
            assert_eq!(driven.published.len(), before + 1, "{what}, {last}");
            assert_eq!(driven.coordinator.ended(), last, "{what}");
        }
    }
}

/// The log has what it read, and then that there is nothing more.
#[test]
fn a_bounded_source_that_reads_nothing_ends_when_the_log_says_what_was_found() {
    let mut options = CoordinatorOptions::new(1);
    options.bounded = true;
    let mut driven = Driven::resuming(1, Resume::Continue);
    driven.coordinator = Coordinator::new(options, StickyBalanced);
    driven.coordinator.handle_opened(&[], driven.now);
    driven.carry_out();
    driven.report(hello(0, 7));
    driven.metadata("");
    driven.log_answers = false;
    let event = DiscoveryEvent::AllFound {
        epoch: driven.coordinator.metadata_epoch,
    };
    driven.coordinator.handle_discovery(event, driven.now);
    driven.carry_out();

    driven.tick(Vec::new());

    assert!(!driven.coordinator.ended(), "{:?}", driven.log);
    driven.log_answers = true;
    driven.coordinator.handle_appended(driven.now);
    driven.carry_out();
    driven.tick(Vec::new());
    assert!(driven.log.contains(&LogRecord::AllFound));
    assert!(driven.coordinator.ended());
}
