//! What is drained, and a log that is slow, ends early, or has ticks to be given again.

use super::resume::resumed;
use super::*;

/// `N` is drained before `c` is read, and read three records from where it starts; its end is 13.
fn draining() -> Driven {
    let mut driven = Driven::start(1);
    driven.ends.insert(Letter('N'), 13);
    driven.metadata("Nb");
    driven.metadata("bc");
    driven
}

/// How often it was asked where splits end.
fn ends_asked(driven: &Driven) -> usize {
    let end = |request: &&DiscoveryRequest<_>| matches!(request, DiscoveryRequest::End { .. });
    driven.asked.iter().filter(end).count()
}

/// The record of the answer that was drained for was dropped, since another answer came before it was in
/// the log, and the record stayed that nothing is drained to that end any more.
#[test]
fn a_log_that_ends_anywhere_has_the_end_of_what_is_drained() {
    let mut driven = draining();
    driven.release(0, 'N', 1, 10);
    let end = LogRecord::End {
        split: Letter('N'),
        end: Some(13),
    };
    let recorded = driven.log.iter().position(|record| *record == end);
    let recorded = recorded.expect("its end is recorded");
    driven.log_answers = false;
    driven.report(Report::Released {
        reader: ReaderId(0),
        split: Letter('N'),
        split_epoch: SplitEpoch(2),
        next: 13,
        why: ReleaseReason::Finished,
    });
    driven.tick(vec![range('N', 2, 10, 13)]);
    driven.tick(Vec::new());
    assert_eq!(driven.coordinator.metadata, Some(Letters::of("bc")));
    driven.report(Report::Command(Command::Snapshot));
    driven.metadata("bd");
    driven.log_answers = true;
    for _ in 0..5 {
        driven.coordinator.handle_appended(driven.now);
        driven.carry_out();
    }
    assert_eq!(driven.published.len(), 2, "the frontier moves");

    for len in recorded + 1..=driven.log.len() {
        let mut after = Driven::resuming(1, Resume::Continue);
        after.now += Duration::from_secs(60);
        (after.coordinator).handle_opened(&driven.log[..len], after.now);
        let failed = DiscoveryEvent::MetadataFailed;
        after.coordinator.handle_discovery(failed, after.now);
        after.report(hello(0, 7));
        assert_eq!(ends_asked(&after), 0, "{:?}", &driven.log[..len]);
        after.metadata("bd");
        assert_eq!(ends_asked(&after), 0, "{:?}", &driven.log[..len]);
    }
}

/// A log of a run that drained `N`, which then gives its ticks again, while the metadata is as it was.
fn replaying() -> (Driven, Binding<Letter>) {
    let mut before = Driven::start(1);
    before.metadata("Nb");
    before.tick(vec![range('N', 1, 10, 12), range('b', 1, 10, 11)]);
    before.metadata("bc");
    let (binding, _) = before.published.remove(0);
    let from = binding.tick;
    let mut driven = resumed(&before.log, Resume::Replay { from });
    assert_eq!(driven.coordinator.phase, Phase::Replaying);
    driven.moves();
    (driven, binding)
}

/// Nobody had what was cut, and the replay waited for that for ever.
#[test]
fn nothing_is_cut_while_ticks_are_given_again() {
    let (mut driven, binding) = replaying();

    driven.report(Report::Command(Command::ConfirmMetadata));

    assert_eq!(driven.moves(), [""; 0]);
    let refused = driven.told.iter().any(|event| match event {
        SourceEvent::Health(health) => health.message.contains("only while the source reads"),
        _ => false,
    });
    assert!(refused, "{:?}", driven.told);
    driven
        .coordinator
        .handle_past(vec![binding.clone()], driven.now);
    driven.coordinator.handle_past(Vec::new(), driven.now);
    driven.report(Report::Replayed {
        reader: ReaderId(0),
        before: Tick(binding.tick.0 + 1),
    });
    assert_eq!(driven.published[0].0, binding);
    assert_eq!(driven.coordinator.phase, Phase::Running);
}

/// The operator was woken all the time for it.
#[test]
fn what_a_drain_waits_for_is_not_due_while_ticks_are_given_again() {
    let (mut driven, _) = replaying();
    driven.now += Duration::from_secs(11);

    driven.coordinator.handle_time(driven.now);
    driven.carry_out();

    let due = driven.coordinator.poll_timeout();
    assert!(due.is_none_or(|due| due > driven.now), "{due:?}");
}
