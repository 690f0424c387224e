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

/// For a thousand seconds: what is reserved ahead is written, and nothing else.
#[test]
fn a_source_that_reads_nothing_writes_reservations_only() {
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
    let reserved = |record: &&LogRecord<_>| matches!(record, LogRecord::Reserved(_));
    assert_eq!(written.iter().filter(reserved).count(), written.len());
    assert!(
        (100..=300).contains(&written.len()),
        "{} reservations",
        written.len()
    );
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
