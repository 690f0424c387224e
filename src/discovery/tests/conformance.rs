//! The contract of a discovery, by the kit of `timely-splits`.

use std::sync::{Arc, Mutex};

use timely_splits::binding::SplitRange;
use timely_splits::conformance::{DiscoveryRig, Kit};
use timely_splits::wake::Waker;

use super::*;
use crate::embedded::EmbeddedRecord;
use crate::metadata::MetadataError;
use crate::model::{KafkaPosition, Offset, SharedMetadata};

const TOPICS: [&str; 3] = ["zero", "one", "two"];

/// A service that answers what was announced last.
struct Announcer(Arc<Mutex<StreamsMetadata>>);

impl MetadataService for Announcer {
    fn ask(&mut self, _deadline: Instant) -> Result<StreamsMetadata, MetadataError> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn interval(&self) -> Option<Duration> {
        Some(Duration::from_millis(10))
    }
}

/// A cluster with two topics of one partition and three records each; the third is yet to come.
struct Rig {
    cluster: EmbeddedCluster,
    announced: Arc<Mutex<StreamsMetadata>>,
}

impl Rig {
    fn new() -> Self {
        let rig = Self {
            cluster: EmbeddedCluster::start().unwrap(),
            announced: Arc::default(),
        };
        TOPICS[..2].iter().for_each(|topic| rig.create_topic(topic));
        rig
    }

    fn create_topic(&self, topic: &str) {
        self.cluster.create_topic(topic, 1).unwrap();
        let records = vec![EmbeddedRecord::value("v"); 3];
        self.cluster.produce(topic, 0, records).unwrap();
    }
}

impl DiscoveryRig for Rig {
    type Split = KafkaSplit;
    type Discovery = KafkaDiscovery;

    fn discovery(&mut self, waker: Waker) -> KafkaDiscovery {
        KafkaDiscovery::start(
            Box::new(Announcer(Arc::clone(&self.announced))),
            Subscription::all(),
            DiscoveryOptions {
                starts: latest(),
                ..options()
            },
            Box::new(move || waker.wake()),
        )
    }

    fn split(&self, index: usize) -> KafkaSplit {
        split("east", TOPICS[index], 0)
    }

    fn metadata(&self, splits: &[KafkaSplit]) -> SharedMetadata {
        let topics: Vec<&str> = splits.iter().map(|split| split.topic.as_str()).collect();
        orders(&[("east", self.cluster.client_properties(), &topics)]).into()
    }

    fn announce(&mut self, splits: &[KafkaSplit]) {
        *self.announced.lock().unwrap() = StreamsMetadata::clone(&self.metadata(splits));
    }

    fn start(&self, _split: &KafkaSplit) -> KafkaPosition {
        KafkaPosition::at(Offset::new(3))
    }

    fn create(&mut self, split: &KafkaSplit) -> bool {
        self.create_topic(split.topic.as_str());
        true
    }

    fn reach(&mut self, reachable: bool) -> bool {
        if reachable {
            self.cluster.broker_up().unwrap();
        } else {
            self.cluster.broker_down().unwrap();
        }
        true
    }

    fn ranges(&mut self) -> Option<[SplitRange<KafkaSplit>; 2]> {
        let range = |index, to| SplitRange {
            split: self.split(index),
            from: KafkaPosition::at(Offset::ZERO),
            to: KafkaPosition::at(Offset::new(to)),
        };
        // There are three records in each.
        Some([range(0, 3), range(1, 4)])
    }

    fn unpolled_max(&self) -> usize {
        crate::discovery::EVENTS_MAX
    }
}

/// D9: embedded clusters cannot delete topics.
#[test]
fn the_discovery_keeps_its_contract() {
    Kit::new().discovery(Rig::new).assert_kept_but(&["D9"]);
}
