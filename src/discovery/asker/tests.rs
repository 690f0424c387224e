use std::collections::BTreeMap;

use timely_splits::epoch::{MetadataEpoch, RequestId};

use super::*;
use crate::model::{KafkaSplit, Partition, StartRules};

#[test]
fn what_is_asked_is_the_rule_of_the_topic_unless_another_is_given() {
    let (events, _polled) = crossbeam_channel::bounded(1);
    let outlet = Outlet::new(events, Box::new(|| {}));
    let cluster = ClusterId::new("east").unwrap();
    let orders = TopicName::new("orders").unwrap();
    let options = AskOptions {
        interval: Duration::ZERO,
        timeout: Duration::ZERO,
        committing: None,
    };
    let mut asker = Asker::new(
        cluster.clone(),
        Arc::default(),
        Arc::default(),
        outlet,
        options,
    );
    let rules = StartRules {
        start: Some(StartAt::Latest),
        new_partitions: None,
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

    assert_eq!(
        asker.rule(&wanted("orders", 0, Wanting::OfTopic)),
        Some(StartAt::Latest)
    );
    assert_eq!(
        asker.rule(&wanted("orders", 1, Wanting::OfNewPartitions)),
        Some(StartAt::Earliest)
    );
    let given = StartAt::BeforeEnd { records: 1 };
    assert_eq!(
        asker.rule(&wanted("orders", 1, Wanting::Given(given.clone()))),
        Some(given)
    );
    assert_eq!(asker.rule(&wanted("payments", 0, Wanting::OfTopic)), None);
}
