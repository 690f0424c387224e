//! What answers change of each other, and what it takes to know it.

use super::*;
use std::num::NonZeroU32;
use std::time::Duration;

use timely_splits::assignor::{ReaderProfile, StickyBalanced};
use timely_splits::coordinator::{Coordinator, CoordinatorOptions, Intention};
use timely_splits::discovery::DiscoveryEvent;
use timely_splits::epoch::ReaderId;
use timely_splits::protocol::Configuration;
use timely_splits::reader::{ReaderAction, ReaderOptions, ReaderState};

use crate::model::{ClientProperties, KafkaStream, OnReturn};

/// The topics of a cluster, by its number.
type Read<'a> = (usize, &'a [&'a str]);

fn metadata(streams: &[(&str, &[Read<'_>])]) -> StreamsMetadata {
    let mut all = StreamsMetadata::new();
    for (name, read) in streams {
        let mut stream = KafkaStream::new();
        for (cluster, topics) in *read {
            let cluster = format!("c{cluster}");
            all = all.with_cluster(&cluster, ClientProperties::new()).unwrap();
            stream = stream
                .with_topics(&cluster, topics.iter().copied())
                .unwrap();
        }
        all = all.with_stream(name, stream).unwrap();
    }
    all
}

fn answers() -> Vec<StreamsMetadata> {
    let one = metadata(&[("s", &[(1, &["a", "b"])])]);
    let two = metadata(&[("s", &[(1, &["a", "b"]), (2, &["a"])])]);
    let properties = ClientProperties::new().with("client.id", "other");
    let read_again = two.streams["s"].clone().with_return(OnReturn::ReadAgain);
    vec![
        StreamsMetadata::new(),
        one.clone(),
        two.clone(),
        metadata(&[("s", &[(1, &["a"]), (2, &[])]), ("t", &[(3, &["a", "c"])])]),
        metadata(&[("s", &[(1, &["b"])]), ("t", &[(1, &["a"]), (2, &["a"])])]),
        two.clone().with_cluster("c2", properties).unwrap(),
        two.with_stream("s", read_again).unwrap(),
        // What is read of a cluster that is not described.
        one.with_stream("t", KafkaStream::new().with_topics("c9", ["a"]).unwrap())
            .unwrap(),
    ]
}

#[test]
fn what_an_answer_changes_of_the_one_before_is_what_a_comparison_of_all_says() {
    for before in answers() {
        for after in answers() {
            // Counted from the first, found from what is counted.
            let first = SharedMetadata::from(StreamsMetadata::new());
            let one = first.followed_by(before.clone());
            let two = one.followed_by(after.clone());
            for (here, there, whole, other) in
                [(&one, &two, &before, &after), (&two, &one, &after, &before)]
            {
                assert_eq!(here == there, before == after);
                let clusters: BTreeSet<_> =
                    whole.changed_clusters(other).into_iter().cloned().collect();
                assert_eq!(here.changes(there), clusters);
                assert_eq!(here.changed_groups(there), whole.changed_groups(other));
                assert_eq!(here.shrinks(there), whole.shrinks(other));
                assert_eq!(
                    here.interim(there).as_deref(),
                    whole.interim(other).as_ref()
                );
            }
        }
    }
}

/// A coordinator with two readers, without the world around them.
struct Deciding {
    coordinator: Coordinator<KafkaSplit, StickyBalanced>,
    readers: Vec<ReaderState<KafkaSplit, ()>>,
    /// How often a reader had its fetcher adopt an epoch.
    adopted: usize,
    now: Duration,
}

impl Deciding {
    fn begin() -> Self {
        let reader = |id| {
            let profile = ReaderProfile {
                id: ReaderId(id),
                capacity: NonZeroU32::MIN,
                rack: None,
            };
            ReaderState::new(profile, ReaderOptions::default(), Configuration::new())
        };
        let mut begun = Self {
            coordinator: Coordinator::new(CoordinatorOptions::new(2), StickyBalanced),
            readers: (0..2).map(reader).collect(),
            adopted: 0,
            now: Duration::from_secs(1_000),
        };
        begun.coordinator.handle_opened(&[], begun.now);
        begun.settle();
        begun
    }

    fn answer(&mut self, metadata: SharedMetadata) {
        let event = DiscoveryEvent::Metadata(metadata);
        self.coordinator.handle_discovery(event, self.now);
        self.settle();
    }

    /// Passes on what is said until nothing is.
    fn settle(&mut self) {
        loop {
            for reader in &mut self.readers {
                while let Some(action) = reader.poll() {
                    match action {
                        ReaderAction::Report(report) => {
                            self.coordinator.handle_report(report, self.now);
                        }
                        ReaderAction::Adopt(..) => self.adopted += 1,
                        _ => {}
                    }
                }
            }
            let Some(intention) = self.coordinator.poll() else {
                return;
            };
            match intention {
                Intention::Send(reader, directive) => {
                    self.readers[reader.0].handle_directive(directive, self.now);
                }
                Intention::Append(..) => self.coordinator.handle_appended(self.now),
                _ => {}
            }
        }
    }
}

/// Each epoch copied and compared all that is listed, on the coordinator's thread and on each reader's, so
/// that a cluster cost the more the more there were.
#[test]
fn who_decides_goes_through_nothing_that_an_answer_does_not_change() {
    let of = |count: usize| {
        let clusters = (0..count).map(|number| (number, &["a", "b"][..]));
        metadata(&[("s", &clusters.collect::<Vec<_>>())])
    };
    let mut deciding = Deciding::begin();
    let few = SharedMetadata::from(of(50));
    let more = few.followed_by(of(51));
    let few_again = more.followed_by(of(50));
    deciding.answer(few);
    let (walks, adopted) = (WALKS.get(), deciding.adopted);

    deciding.answer(more);
    deciding.answer(few_again);

    assert_eq!(deciding.adopted - adopted, 4);
    assert_eq!(WALKS.get() - walks, 0);
}

#[test]
fn an_answer_is_stored_and_sent_as_the_metadata_that_it_is() {
    for metadata in answers() {
        let shared = SharedMetadata::from(metadata.clone());

        let stored = SharedMetadata::restore(&shared.store()).unwrap();
        let sent = serde_json::to_string(&shared).unwrap();

        assert_eq!(*stored, metadata);
        assert_eq!(sent, serde_json::to_string(&metadata).unwrap());
        assert_eq!(
            serde_json::from_str::<SharedMetadata>(&sent).unwrap(),
            shared
        );
    }
}
