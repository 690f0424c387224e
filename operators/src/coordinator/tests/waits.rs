//! Waiting: for what is needed to start, for a clock, for a split that fails.

use super::*;

#[test]
fn a_step_back_of_the_clock_names_ticks_by_one_more_and_holds_none_up() {
    let mut driven = Driven::start(1);
    let before = driven.coordinator.open_tick().expect("one is open");
    let back = driven.now - Duration::from_secs(500);
    driven.coordinator.handle_clock(back, driven.now);

    driven.tick(Vec::new());
    driven.tick(Vec::new());

    let after = driven.coordinator.open_tick().expect("one is open");
    assert_eq!(after, Tick(before.0 + 2));
    assert_eq!(driven.published.len(), 2);
}

#[test]
fn a_source_that_waits_to_start_says_for_what_and_can_be_ended() {
    let mut driven = Driven::gathering(2);
    driven.report(hello(0, 7));
    let told = driven.coordinator.poll_timeout().expect("a person is told");
    driven.coordinator.handle_time(told);
    driven.carry_out();
    let waits = |event: &SourceEvent<_>| matches!(event, SourceEvent::Health(health) if health.message == "waits for workers 1; nothing is read until then");
    assert_eq!(driven.told.iter().filter(|event| waits(event)).count(), 1);

    driven.report(Report::Command(Command::Stop));

    assert!(driven.coordinator.ended());
    let ends = |directive: &Directive<_>| {
        matches!(
            directive,
            Directive::Tick {
                close: None,
                last: true,
                ..
            }
        )
    };
    let sent = driven.take_sent();
    assert_eq!(sent.iter().filter(|(_, sent)| ends(sent)).count(), 2);
}

/// Its log was taken up all the same: what was found meanwhile was put aside, and was awaited for ever.
#[test]
fn a_source_that_was_ended_before_its_log_was_open_takes_nothing_up() {
    let mut first = Driven::start(1);
    first.metadata("ab");
    let mut driven = Driven::closed(1);
    driven.report(Report::Command(Command::Stop));
    driven.metadata("ab");
    let before = format!("{:?}", driven.coordinator);

    driven.coordinator.handle_opened(&first.log, driven.now);
    driven.carry_out();

    assert_eq!(format!("{:?}", driven.coordinator), before);
    assert!(driven.coordinator.ended());
    assert_eq!(driven.coordinator.open_tick(), None);
    assert_eq!(driven.log, []);
}

#[test]
fn a_split_that_fails_is_told_once_and_that_it_is_read_again() {
    let mut driven = Driven::start(1);
    driven.metadata("a");
    for _ in 0..3 {
        driven.report(Report::FetcherDown {
            reader: ReaderId(0),
            split: Letter('a'),
            split_epoch: SplitEpoch(1),
            kind: FailureKind::Transient,
            next: 10,
            message: "away".to_owned(),
        });
    }
    driven.tick(vec![range('a', 1, 10, 12)]);

    let health = driven.told.iter().filter_map(|event| match event {
        SourceEvent::Health(health) => Some(health.to_string()),
        _ => None,
    });
    assert_eq!(
        health.collect::<Vec<_>>(),
        ["split a: away; trying again", "split a: it is read again"]
    );
}

impl Driven {
    /// The last question what splits are is answered: nobody can tell what `split` is.
    fn nobody_can_tell(&mut self, split: char) {
        let Some(DiscoveryRequest::Identify { request, .. }) = self.asked.last() else {
            panic!("it was not asked last");
        };
        let (request, splits) = (*request, vec![(Letter(split), None)]);
        let event = DiscoveryEvent::Identified { request, splits };
        self.coordinator.handle_discovery(event, self.now);
        self.carry_out();
    }
}

/// Of a split that is not listed any more nobody can tell what it is: its wait was told and never ended.
#[test]
fn a_split_that_nobody_can_identify_holds_no_tick_up_and_is_not_waited_for_after_that() {
    let mut driven = Driven::start(1);
    driven.coordinator.options.identify_every = Some(Duration::ZERO);
    driven.metadata("a");
    driven.tick(vec![range('a', 1, 10, 12)]);
    assert_eq!(driven.published.len(), 0);
    driven.now += driven.coordinator.options.identify_within;
    driven.coordinator.handle_time(driven.now);
    driven.carry_out();
    assert_eq!(driven.published.len(), 1);

    driven.nobody_can_tell('a');
    driven.tick(vec![range('a', 1, 12, 13)]);
    let before = driven.published.len();
    driven.nobody_can_tell('a');

    let health = driven.told.iter().filter_map(|event| match event {
        SourceEvent::Health(health) => Some((health.subject.as_str(), health.status)),
        _ => None,
    });
    let expected = [HealthStatus::Waiting, HealthStatus::Well].map(|status| ("split a", status));
    assert_eq!(health.collect::<Vec<_>>(), expected);
    assert_eq!(driven.published.len(), before + 1);
}
