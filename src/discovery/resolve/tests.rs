use super::*;
use crate::model::{Partition, TopicName};

/// Partitions whose records have the record times 1,000, 1,001 ... from the offset 10 on, and which end
/// at 20. If they grow, a record of the time 5,000 is written after each question.
struct Partitions {
    end: u64,
    grows: bool,
    /// What the group `g` has committed, by partition.
    committed: BTreeMap<i32, u64>,
    /// The place, or the group, about which nobody answers.
    silent: Option<&'static str>,
    asked: Vec<String>,
}

impl Partitions {
    fn new() -> Self {
        Self {
            end: 20,
            grows: false,
            committed: BTreeMap::from([(1, 15)]),
            silent: None,
            asked: Vec::new(),
        }
    }

    fn note(&mut self, what: &str, count: usize) -> Result<(), ControlError> {
        self.asked.push(format!("{what} of {count}"));
        match self.silent {
            Some(silent) if silent == what => Err(ControlError::LeftOut),
            _ => Ok(()),
        }
    }
}

impl Ask for Partitions {
    fn offsets(&mut self, questions: &[(TopicPartition, Place)]) -> Vec<OffsetAnswer> {
        let what = match questions[0].1 {
            Place::Beginning => "beginning",
            Place::End => "end",
            Place::Since(_) => "time",
        };
        let silent = self.note(what, questions.len());
        let end = self.end;
        self.end += u64::from(self.grows);
        let answer = |place: &Place| match place {
            Place::Beginning => Some(10),
            Place::End => Some(end),
            Place::Since(time) => (10..end)
                .map(|offset| (offset, if offset < 20 { 990 + offset } else { 5_000 }))
                .find(|(_, record_time)| record_time >= time)
                .map(|(offset, _)| offset),
        };
        let position = |offset| KafkaPosition::at(Offset::new(offset));
        let answers = questions.iter().map(|(_, place)| {
            silent.clone()?;
            Ok(answer(place).map(position))
        });
        answers.collect()
    }

    fn committed(
        &mut self,
        group: &GroupId,
        partitions: &[TopicPartition],
    ) -> Vec<CommittedAnswer> {
        let silent = self.note(group.as_str(), partitions.len());
        let committed = partitions.iter().map(|(_, partition)| {
            silent.clone()?;
            let offset = self.committed.get(&partition.0);
            Ok(offset.map(|offset| KafkaPosition::at(Offset::new(*offset))))
        });
        committed.collect()
    }
}

fn question(partition: i32, rule: StartAt) -> Question {
    asking(partition, Rules::new(rule, StopAt::Never, false))
}

fn asking(partition: i32, rules: Rules) -> Question {
    Question {
        partition: (TopicName::new("orders").unwrap(), Partition(partition)),
        rules,
        wanted: UNIX_EPOCH + Duration::from_millis(2_000),
    }
}

/// Where a partition 0 of `partitions` starts by `rule`.
fn start(partitions: &mut Partitions, rule: StartAt) -> Result<u64, ControlError> {
    let answers = resolve(partitions, vec![question(0, rule)]);
    assert_eq!(answers.len(), 1);
    let answer = answers.into_iter().next().unwrap();
    answer.map(|resolved| resolved.start.next.get())
}

fn time(record_time_ms: u64) -> StartAt {
    StartAt::Time { record_time_ms }
}

fn before_end(records: u64) -> StartAt {
    StartAt::BeforeEnd { records }
}

fn before_now(millis: u64) -> StartAt {
    StartAt::BeforeNow(Duration::from_millis(millis))
}

#[test]
fn each_rule_is_a_number() {
    for (rule, expected) in [
        (StartAt::Earliest, 10),
        (StartAt::Latest, 20),
        (time(0), 10),
        (time(1_003), 13),
        (time(1_010), 20),
        (before_now(996), 14),
        (before_now(9_000), 10),
        (before_end(0), 20),
        (before_end(3), 17),
        (before_end(11), 10),
        (before_end(u64::MAX), 10),
        (StartAt::positions([(0, 3)], StartAt::Latest), 3),
        (StartAt::positions([(1, 3)], StartAt::Latest), 20),
        (StartAt::committed("g", before_end(1)).unwrap(), 19),
    ] {
        let words = rule.to_string();
        assert_eq!(start(&mut Partitions::new(), rule), Ok(expected), "{words}");
    }
}

/// The end was asked for after the time: a record that is late enough, and was written in between, was
/// taken for one before the end.
#[test]
fn a_record_that_is_late_enough_is_not_missed_if_it_is_written_while_the_cluster_is_asked() {
    let mut partitions = Partitions::new();
    partitions.grows = true;

    let first = start(&mut partitions, time(4_000));
    assert_eq!(first, Ok(20));
    assert_eq!(partitions.asked, ["end of 1", "time of 1"]);
}

#[test]
fn a_rule_that_has_nothing_to_say_leaves_it_to_the_one_behind_it_and_says_so() {
    let rule = StartAt::positions(
        [(7, 3)],
        StartAt::committed("g", StartAt::Earliest).unwrap(),
    );
    let questions = [0, 1, 7].map(|partition| question(partition, rule.clone()));

    let answers = resolve(&mut Partitions::new(), questions.into());

    let said: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.map(|one| (one.start.next.get(), one.rule)).unwrap())
        .collect();
    assert_eq!(
        said,
        [
            (
                10,
                "earliest, since no offset is given for it and group g has committed none for it"
                    .to_owned()
            ),
            (
                15,
                "the committed offset of group g, since no offset is given for it".to_owned()
            ),
            (3, "the given offset".to_owned()),
        ]
    );
}

/// A start that could not be found became the end, or what the rule behind it says. To see it fail, let
/// an error of [`ask_groups`] go on with the rule behind it, or one of a time with the end.
#[test]
fn what_cannot_be_asked_is_never_answered_by_another_rule() {
    let group = StartAt::committed("g", StartAt::Latest).unwrap();
    for (silent, rules) in [
        ("g", vec![group]),
        ("time", vec![time(0), before_now(0)]),
        ("end", vec![StartAt::Latest, before_end(1)]),
        ("beginning", vec![StartAt::Earliest, before_end(1)]),
    ] {
        for rule in rules {
            let mut partitions = Partitions::new();
            partitions.silent = Some(silent);

            let words = format!("{rule} while {silent} is silent");
            assert_eq!(
                start(&mut partitions, rule),
                Err(ControlError::LeftOut),
                "{words}"
            );
        }
    }
}

#[test]
fn many_partitions_of_many_rules_are_few_questions() {
    let rules = [
        StartAt::Earliest,
        StartAt::Latest,
        time(1_003),
        before_now(996),
        before_end(2),
        StartAt::committed("g", StartAt::Latest).unwrap(),
    ];
    let all = (0..600).map(|partition| {
        let rule = usize::try_from(partition).unwrap() % rules.len();
        question(partition, rules[rule].clone())
    });
    let mut partitions = Partitions::new();

    let answers = resolve(&mut partitions, all.collect());

    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(
        partitions.asked,
        ["g of 100", "end of 500", "beginning of 200", "time of 200"]
    );
    let starts = answers[..6].iter().map(|one| one.as_ref().unwrap().start);
    let starts: Vec<_> = starts.map(|start| start.next.get()).collect();
    assert_eq!(starts, [10, 20, 13, 14, 18, 20]);
}

/// Where a partition 0 of `partitions` starts and stops.
fn stretch(partitions: &mut Partitions, rules: Rules) -> Answer {
    let answers = resolve(partitions, vec![asking(0, rules)]);
    answers.into_iter().next().unwrap()
}

fn stop_time(record_time_ms: u64) -> StopAt {
    StopAt::Time { record_time_ms }
}

#[test]
fn each_stop_is_a_number_that_a_bounded_source_has_no_greater_than_the_end() {
    let committed = StopAt::committed("g", StopAt::Never).unwrap();
    for (stop, unbounded, bounded) in [
        (StopAt::Never, None, 20),
        (StopAt::End, Some(20), 20),
        (stop_time(1_003), Some(13), 13),
        (stop_time(1_010), Some(20), 20),
        (StopAt::positions([(0, 3)], StopAt::Never), Some(3), 3),
        (StopAt::positions([(0, 300)], StopAt::Never), Some(300), 20),
        (StopAt::positions([(1, 3)], committed), None, 20),
    ] {
        let words = stop.to_string();
        let stops = [false, true].map(|ends| {
            let rules = Rules::new(StartAt::Earliest, stop.clone(), ends);
            let resolved = stretch(&mut Partitions::new(), rules).unwrap();
            assert_eq!(resolved.start.next.get(), 10, "{words}");
            resolved.stop.map(|at| at.next.get())
        });
        assert_eq!(stops, [unbounded, Some(bounded)], "{words}");
    }
}

#[test]
fn where_a_partition_starts_and_where_it_stops_is_said_in_words() {
    let rule = |start, stop, bounded| {
        let rules = Rules::new(start, stop, bounded);
        stretch(&mut Partitions::new(), rules).unwrap().rule
    };

    assert_eq!(
        rule(StartAt::Earliest, StopAt::End, false),
        "earliest; stops at the end"
    );
    assert_eq!(
        rule(
            StartAt::Latest,
            StopAt::positions([(0, 300)], StopAt::Never),
            true
        ),
        "latest; stops at the end, since the given offset is behind it"
    );
    assert_eq!(
        rule(
            time(1_003),
            StopAt::committed("g", stop_time(1_005)).unwrap(),
            false
        ),
        "record time 1003 ms; stops at record time 1005 ms, since group g has committed none for it"
    );
}

/// A bounded source that takes a silent cluster for one without an end would never end, and one that
/// takes it for an empty one would end at once.
#[test]
fn a_stop_that_cannot_be_asked_for_is_no_other_stop() {
    let given = StopAt::positions([(0, 3)], StopAt::Never);
    for (silent, stop, bounded) in [
        ("end", StopAt::End, false),
        ("time", stop_time(1_003), false),
        ("end", given, true),
        ("g", StopAt::committed("g", StopAt::Never).unwrap(), false),
    ] {
        let mut partitions = Partitions::new();
        partitions.silent = Some(silent);

        let answer = stretch(
            &mut partitions,
            Rules::new(StartAt::Earliest, stop, bounded),
        );

        assert_eq!(answer, Err(ControlError::LeftOut), "{silent}");
    }
}

#[test]
fn starts_and_stops_are_asked_for_together_but_for_times() {
    let rules = Rules::new(time(1_003), stop_time(1_005), true);
    let groups = |start, stop| {
        let start = StartAt::committed("g", start).unwrap();
        Rules::new(start, StopAt::committed("g", stop).unwrap(), true)
    };
    let mut partitions = Partitions::new();
    let questions = vec![
        asking(0, rules),
        asking(1, groups(StartAt::Latest, StopAt::End)),
        asking(2, groups(StartAt::Earliest, StopAt::Never)),
    ];

    let answers = resolve(&mut partitions, questions);

    assert_eq!(
        partitions.asked,
        [
            "g of 2",
            "end of 3",
            "beginning of 1",
            "time of 1",
            "time of 1"
        ]
    );
    let stretches = answers.into_iter().map(|answer| {
        let Resolved { start, stop, .. } = answer.unwrap();
        (start.next.get(), stop.unwrap().next.get())
    });
    assert_eq!(
        stretches.collect::<Vec<_>>(),
        [(13, 15), (15, 15), (10, 20)]
    );
}
