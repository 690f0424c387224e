use std::time::{Duration, Instant};

use timely_splits::health::HealthStatus;

use super::{DEFINITE, Event, TRANSIENT, Watched, nobody, options, orders};
use crate::metadata::{MetadataError, MetadataService, Subscription};
use crate::model::StreamsMetadata;

/// Answers what a closure answers.
struct Scripted<F>(F);

impl<F> MetadataService for Scripted<F>
where
    F: FnMut() -> Result<StreamsMetadata, MetadataError> + Send + 'static,
{
    fn ask(&mut self, _deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        (self.0)()
    }

    fn interval(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }
}

fn streams(names: &[&str]) -> StreamsMetadata {
    let one = orders(&[("east", nobody(), &["orders"])]);
    let stream = one.streams.values().next().unwrap().clone();
    let all = StreamsMetadata {
        clusters: one.clusters,
        ..StreamsMetadata::default()
    };
    names.iter().fold(all, |all, name| {
        all.with_stream(name, stream.clone()).unwrap()
    })
}

#[test]
fn a_stream_that_the_metadata_does_not_describe_is_waited_for() {
    let mut answers = vec![streams(&["ordres", "orders"]), streams(&["orders"])];
    let service = Scripted(move || {
        let last = answers.len() == 1;
        let answer = if last {
            answers.first().cloned()
        } else {
            answers.pop()
        };
        Ok(answer.unwrap())
    });
    let subscription = Subscription::streams(["ordres"]);
    let mut watched = Watched::asking(service, subscription, options());

    let waiting = watched.health("stream ordres", HealthStatus::Waiting);
    watched.health("stream ordres", HealthStatus::Well);

    assert_eq!(
        waiting.message,
        "the metadata does not describe it; did you mean 'orders'?"
    );
    let told = watched.said.iter().filter_map(|event| match event {
        Event::Metadata(metadata) => Some(metadata.streams.len()),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_pattern_that_selects_nothing_is_told() {
    let names: Vec<String> = (10..22).map(|number| format!("orders-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let subscription = Subscription::pattern("payments-.+");
    let mut watched = Watched::subscribed(subscription, &streams(&names), options());

    let health = watched.health("subscription", HealthStatus::Waiting);

    assert!(
        health
            .message
            .starts_with("it selects no stream; the metadata describes 'orders-10', 'orders-11', "),
        "{health}"
    );
    assert!(health.message.ends_with(" and 2 more"), "{health}");
}

/// S11.
#[test]
fn a_metadata_service_that_fails_is_told_once_and_until_it_answers() {
    let mut asked = 0;
    let service = Scripted(move || {
        asked += 1;
        match asked {
            1..=3 => Err(MetadataError::unavailable(format!("attempt {asked}"))),
            4 => Err(MetadataError::invalid("no streams")),
            _ => Ok(streams(&["orders"])),
        }
    });
    let mut watched = Watched::asking(service, Subscription::all(), options());

    watched.until(|event| matches!(event, Event::Metadata(_)).then_some(()));

    let said: Vec<_> = watched
        .said
        .iter()
        .filter_map(|event| match event {
            Event::Health(health) => Some((health.status, health.to_string())),
            _ => None,
        })
        .collect();
    let expected = [
        (TRANSIENT, "metadata service: asking failed: attempt 1"),
        (
            DEFINITE,
            "metadata service: the answer cannot be used: no streams",
        ),
        (HealthStatus::Well, "metadata service: it answers again"),
    ];
    assert_eq!(
        said,
        expected.map(|(status, words)| (status, words.to_owned()))
    );
}
