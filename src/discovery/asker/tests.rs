use std::collections::BTreeMap;

use timely_splits::epoch::{MetadataEpoch, RequestId};

use super::*;
use crate::discovery::CommitOffsets;
use crate::discovery::inbox::{Bound, TopicRules, WantedIdentities, WantedStart, Wanting};
use crate::discovery::resolve::Rules;
use crate::embedded::EmbeddedCluster;
use crate::fetcher::ffi::NativeError;
use crate::model::{KafkaPosition, Offset, Partition, StartAt, StartRules, StopAt};

/// Guards against hangs only.
const PATIENCE: Duration = Duration::from_secs(60);

/// That of cluster `east`, without a thread.
fn asker(committing: Option<Committing>) -> Asker {
    let (events, _polled) = crossbeam_channel::bounded(1);
    let outlet = Outlet::new(events, Box::new(|| {}));
    let options = AskOptions {
        interval: Duration::ZERO,
        timeout: Duration::ZERO,
        committing,
        bounded: false,
    };
    let common = Common {
        claims: Arc::default(),
        all_found: Arc::default(),
        outlet,
    };
    let east = ClusterId::new("east").unwrap();
    Asker::new(east, Arc::default(), common, options)
}

/// Kept, it would connect to a broker that refuses as often as it can, or tell of what is over.
#[test]
fn a_client_that_something_failed_with_is_given_up_for_another() {
    let cluster = EmbeddedCluster::start().unwrap();
    let orders = TopicName::new("orders").unwrap();
    cluster.create_topic(orders.as_str(), 1).unwrap();
    let properties = cluster.client_properties();
    let mut asker = asker(None);
    let complained = |of: &mut Asker| of.client.as_mut().unwrap().1.has_complained();
    assert_eq!(asker.connect(&properties), Ok(true));
    let (_, client) = asker.client.as_mut().unwrap();
    client.describe_topics(&[orders], PATIENCE).unwrap();
    assert!(!complained(&mut asker));

    cluster.broker_down().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !complained(&mut asker) {
        assert!(Instant::now() < deadline, "it tells nothing");
        thread::yield_now();
    }
    cluster.broker_up().unwrap();
    assert_eq!(asker.connect(&properties), Ok(true));

    assert!(!complained(&mut asker));
    let refused = ControlError::Refused(NativeError {
        code: 29,
        name: "TOPIC_AUTHORIZATION_FAILED".to_owned(),
        message: "not allowed".to_owned(),
        property: None,
    });
    asker.renew(&refused, &properties);
    assert!(asker.client.is_some());
    asker.renew(&ControlError::LeftOut, &properties);
    assert!(asker.client.is_none());
}

/// A thread that looks before it was told how its cluster is reached has nowhere to commit to.
#[test]
fn what_is_bound_waits_for_the_first_target() {
    let (_under_way, _ended) = crossbeam_channel::bounded(0);
    let mut asker = asker(Some(Committing {
        offsets: CommitOffsets::to_group("view"),
        _under_way,
    }));
    let orders = TopicName::new("orders").unwrap();
    let split = KafkaSplit::new(asker.cluster.clone(), orders, Partition(0));
    let position = KafkaPosition {
        next: Offset::new(5),
        leader_epoch: None,
    };
    asker.inbox.post_bound(&split, position);

    assert_eq!(asker.commit_due(), None);
    asker.step().unwrap();

    let left = asker.inbox.take_bound();
    assert_eq!(left, Bound::from([(split, position)]));
}

#[test]
fn what_is_asked_is_the_rule_of_the_topic_unless_another_is_given() {
    let mut asker = asker(None);
    let cluster = asker.cluster.clone();
    let orders = TopicName::new("orders").unwrap();
    let rules = TopicRules {
        since: MetadataEpoch(1),
        starts: StartRules {
            start: Some(StartAt::Latest),
            ..StartRules::default()
        },
        stop: StopAt::End,
    };
    asker.target = Some(Target {
        epoch: MetadataEpoch(1),
        topics: BTreeMap::from([(orders.clone(), rules)]),
        properties: ClientProperties::new(),
    });
    let split = |name: &str, partition| {
        let topic = TopicName::new(name).unwrap();
        KafkaSplit::new(cluster.clone(), topic, Partition(partition))
    };
    let wanted = |name: &str, partition: i32, rule: Wanting| WantedStart {
        request: RequestId(1),
        split: split(name, partition),
        rule,
    };

    let asked = |start, stop| Some(Rules::new(start, stop, false));
    assert_eq!(
        asker.rules(&wanted("orders", 0, Wanting::OfTopic)),
        asked(StartAt::Latest, StopAt::End)
    );
    assert_eq!(
        asker.rules(&wanted("orders", 1, Wanting::OfNewPartitions)),
        asked(StartAt::Earliest, StopAt::End)
    );
    let given = StartAt::BeforeEnd { records: 1 };
    assert_eq!(
        asker.rules(&wanted("orders", 1, Wanting::Given(given.clone()))),
        asked(given, StopAt::Never)
    );
    assert_eq!(asker.rules(&wanted("payments", 0, Wanting::OfTopic)), None);
}

/// Ticks in which they have records wait for it, and their topic may be there yet.
#[test]
fn what_splits_are_is_asked_also_when_they_are_not_listed_any_more() {
    let mut asker = asker(None);
    let orders = TopicName::new("orders").unwrap();
    let split = KafkaSplit::new(asker.cluster.clone(), orders, Partition(0));
    let wanted = WantedIdentities {
        request: RequestId(1),
        splits: vec![split],
    };
    let now = Instant::now();
    asker.identities.want(vec![wanted], BTreeMap::new(), now);

    let target = Target {
        epoch: MetadataEpoch(1),
        topics: BTreeMap::new(),
        properties: ClientProperties::new(),
    };
    asker.aim(target, now).unwrap();

    assert_eq!(asker.identities.due(), Some(now));
}
