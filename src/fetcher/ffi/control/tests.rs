use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::{
    Call, Code, ControlClient, ControlError, GroupClient, Isolation, OffsetAnswer, Place,
    TopicPartition,
};
use crate::embedded::{EmbeddedCluster, EmbeddedFault, EmbeddedRecord, KafkaApi};
use crate::fetcher::ffi::NativeError;
use crate::fetcher::ffi::mock::MockCluster;
use crate::metadata::secret::resolve;
use crate::model::{ClientProperties, GroupId, Partition, TopicName};

/// Long enough for a machine that does many other things.
const WHILE: Duration = Duration::from_secs(20);

fn client(bootstrap_servers: &str) -> ControlClient {
    let properties = ClientProperties::new().with("bootstrap.servers", bootstrap_servers);
    ControlClient::new(&resolve(&properties).unwrap()).unwrap()
}

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

fn partition(name: &str, number: i32) -> (TopicName, Partition) {
    (topic(name), Partition(number))
}

/// The same offset of each of `partitions`.
fn list(
    control: &mut ControlClient,
    partitions: &[TopicPartition],
    place: Place,
    timeout: Duration,
) -> Vec<OffsetAnswer> {
    let questions = partitions
        .iter()
        .map(|partition| (partition.clone(), place));
    let questions: Vec<_> = questions.collect();
    control.list_offsets(&questions, Isolation::Committed, timeout)
}

/// The offset that an answer gives.
fn offset(answer: &OffsetAnswer) -> Option<u64> {
    let position = answer.as_ref().ok()?.as_ref()?;
    Some(position.next.get())
}

#[test]
fn topics_are_described_with_partitions_and_ids() {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", 3).unwrap();
    cluster.create_topic("payments", 1).unwrap();
    let mut control = client(&cluster.bootstrap_servers());

    let answers = control
        .describe_topics(&[topic("payments"), topic("orders")], WHILE)
        .unwrap();

    let [payments, orders] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    let (payments, orders) = (
        payments.found.clone().unwrap(),
        orders.found.clone().unwrap(),
    );
    assert_eq!(payments.partitions, [Partition(0)]);
    assert_eq!(
        orders.partitions,
        [Partition(0), Partition(1), Partition(2)]
    );
    assert!(orders.id.is_some());
    assert_ne!(orders.id, payments.id);
}

/// K15.
#[test]
fn asking_for_a_topic_does_not_create_it() {
    let cluster = EmbeddedCluster::start().unwrap();
    let mut control = client(&cluster.bootstrap_servers());

    for _ in 0..3 {
        let answers = control.describe_topics(&[topic("orders")], WHILE).unwrap();
        assert_eq!(answers[0].found, Err(ControlError::UnknownTopic));
        let asked = [partition("orders", 0)];
        let offsets = list(
            &mut control,
            &asked,
            Place::Beginning,
            Duration::from_secs(1),
        );
        assert!(offsets[0].is_err(), "{offsets:?}");
    }

    cluster.create_topic("orders", 1).unwrap();
    let answers = control.describe_topics(&[topic("orders")], WHILE).unwrap();
    assert_eq!(
        answers[0].found.as_ref().unwrap().partitions,
        [Partition(0)]
    );
}

#[test]
fn a_topic_that_must_not_be_seen_is_told_apart_from_one_that_is_not_there() {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", 1).unwrap();
    cluster
        .fail_topic("orders", Some(EmbeddedFault::TopicAuthorizationFailed))
        .unwrap();
    let mut control = client(&cluster.bootstrap_servers());

    let answers = control.describe_topics(&[topic("orders")], WHILE).unwrap();

    let error = answers[0].found.clone().unwrap_err();
    assert!(
        error.to_string().contains("authorization failed"),
        "{error}"
    );
}

/// A cluster without a reachable controller, like librdkafka's own mock, lets the question for ids
/// hang.
#[test]
fn a_cluster_without_a_controller_is_described_at_once_and_without_ids() {
    let cluster = rdkafka::mocking::MockCluster::new(1).unwrap();
    cluster.create_topic("orders", 2, 1).unwrap();
    let mut control = client(&cluster.bootstrap_servers());
    let began = Instant::now();

    let answers = control
        .describe_topics(&[topic("orders"), topic("payments")], WHILE)
        .unwrap();

    let found = answers[0].found.clone().unwrap();
    assert_eq!(found.partitions, [Partition(0), Partition(1)]);
    assert_eq!(found.id, None);
    assert_eq!(answers[1].found, Err(ControlError::NotListed));
    assert!(began.elapsed() < WHILE, "{:?}", began.elapsed());
}

/// librdkafka connects to a broker that is asked something again as soon as that refuses, so that 4,500
/// connections a second were tried and two thirds of a core were taken until the deadline.
#[test]
fn a_controller_that_refuses_is_not_waited_for() {
    let cluster = MockCluster::start(1).unwrap();
    cluster.create_topic("orders", 2).unwrap();
    let mut known = client(&cluster.bootstrap_servers());
    known.describe_topics(&[topic("orders")], WHILE).unwrap();
    assert!(!known.has_complained());
    cluster.set_controller_down().unwrap();

    let asked = known.describe_topics(&[topic("orders")], WHILE);

    assert!(
        matches!(asked, Err(ControlError::Unreachable { .. })),
        "{asked:?}"
    );
    assert!(known.has_complained());
    // Another one is told by the first broker who is there.
    let mut other = client(&cluster.bootstrap_servers());
    let answers = other.describe_topics(&[topic("orders")], WHILE).unwrap();
    assert_eq!(answers[0].found.clone().unwrap().id, None);
}

#[test]
fn positions_are_looked_up_in_bulk() {
    let cluster = EmbeddedCluster::start_with(2).unwrap();
    cluster.create_topic("orders", 3).unwrap();
    cluster.create_topic("wide", 2_500).unwrap();
    cluster
        .produce("orders", 1, vec![EmbeddedRecord::value("v"); 7])
        .unwrap();
    let mut control = client(&cluster.bootstrap_servers());
    let mut asked: Vec<_> = (0..2_500).map(|number| partition("wide", number)).collect();
    asked.push(partition("orders", 1));
    asked.push(partition("orders", 9));

    let ends = list(&mut control, &asked, Place::End, WHILE);
    let begins = list(&mut control, &asked, Place::Beginning, WHILE);

    assert_eq!(ends.len(), asked.len());
    assert!(ends[..2_500].iter().all(|end| offset(end) == Some(0)));
    assert_eq!(offset(&ends[2_500]), Some(7));
    assert_eq!(offset(&begins[2_500]), Some(0));
    assert_eq!(offset(&ends[2_501]), None, "{:?}", ends[2_501]);
}

/// Commits the offset of `orders/1` for the group `billing`.
fn commit(bootstrap_servers: &str, offset: i64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap_servers)
        .set("group.id", "billing")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("orders", 1, rdkafka::Offset::Offset(offset))
        .unwrap();
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

fn group_client(cluster: &EmbeddedCluster, group: &str) -> GroupClient {
    let properties = resolve(&cluster.client_properties()).unwrap();
    GroupClient::new(&properties, &GroupId::new(group).unwrap()).unwrap()
}

#[test]
fn what_a_group_has_committed_is_told_apart_from_what_it_has_not() {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", 2).unwrap();
    commit(&cluster.bootstrap_servers(), 5);
    let asked = [partition("orders", 0), partition("orders", 1)];
    let ask = |group| {
        let answers = group_client(&cluster, group).committed(&asked, WHILE);
        let offsets = answers
            .into_iter()
            .map(|answer| answer.map(|position| position.map(|position| position.next.get())));
        offsets.collect::<Vec<_>>()
    };

    assert_eq!(ask("billing"), [Ok(None), Ok(Some(5))]);
    assert_eq!(ask("others"), [Ok(None), Ok(None)]);
}

/// On a client without a group, the first of these faults ended the process: whatever has librdkafka look for
/// the coordinator again.
#[test]
fn a_committed_offset_is_never_made_up() {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", 2).unwrap();
    commit(&cluster.bootstrap_servers(), 5);
    let mut control = group_client(&cluster, "billing");
    let asked = [partition("orders", 0), partition("orders", 1)];
    let offset_fetch = KafkaApi::Other(9);

    for fault in [
        EmbeddedFault::NotLeader,
        EmbeddedFault::TopicAuthorizationFailed,
        EmbeddedFault::Storage,
        EmbeddedFault::Disconnect,
    ] {
        cluster.fail(offset_fetch, 30, fault);
        let failed = control.committed(&asked, Duration::from_secs(3));
        cluster.fail_no_more(offset_fetch);

        assert!(failed.iter().all(Result::is_err), "{fault:?}: {failed:?}");
        let answers = control.committed(&asked, WHILE);
        assert!(answers.iter().all(Result::is_ok), "{fault:?}: {answers:?}");
    }
}

#[test]
fn the_id_of_each_cluster_is_its_own() {
    let (one, other) = (
        EmbeddedCluster::start().unwrap(),
        EmbeddedCluster::start().unwrap(),
    );

    let ids = [&one, &one, &other].map(|cluster| {
        let mut control = client(&cluster.bootstrap_servers());
        control.cluster_id(WHILE).unwrap().expect("mocks have one")
    });

    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
}

/// S16.
#[test]
fn a_cluster_that_cannot_be_reached_is_told_in_the_words_of_the_client() {
    let refusing = "127.0.0.1:1";

    let refused = client(refusing).describe_topics(&[topic("orders")], WHILE);
    let unresolved = client("no-such-host.invalid:9092").describe_topics(&[topic("orders")], WHILE);

    for (asked, expected) in [
        (refused, "Connection refused"),
        (unresolved, "Failed to resolve 'no-such-host.invalid:9092'"),
    ] {
        let Err(ControlError::Unreachable { words }) = asked else {
            panic!("{asked:?}");
        };
        assert!(words.contains(expected), "{words}");
    }
}

#[test]
fn brokers_that_say_nothing_cost_the_deadline_and_no_more() {
    let hung = EmbeddedCluster::start().unwrap();
    hung.create_topic("orders", 1).unwrap();
    let mut control = client(&hung.bootstrap_servers());
    control.describe_topics(&[topic("orders")], WHILE).unwrap();
    hung.delay(Duration::from_secs(60)).unwrap();

    let silent = control.describe_topics(&[topic("orders")], Duration::from_millis(700));

    let Err(ControlError::TimedOut { waited, .. }) = silent else {
        panic!("{silent:?}");
    };
    assert_eq!(waited, Duration::from_millis(700));
}

/// A partial answer leaves a negative offset, without an error, where nothing was answered.
#[test]
fn a_position_is_never_made_up() {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", 1).unwrap();
    cluster
        .produce("orders", 0, vec![EmbeddedRecord::value("v"); 7])
        .unwrap();
    let mut control = client(&cluster.bootstrap_servers());
    let asked = [partition("orders", 0)];
    let mut ask = || {
        let wait = Duration::from_secs(3);
        let answers = list(&mut control, &asked, Place::End, wait);
        let answer = answers[0].clone();
        answer.map(|position| position.map(|position| position.next.get()))
    };
    assert_eq!(ask(), Ok(Some(7)));

    for fault in [
        EmbeddedFault::NotLeader,
        EmbeddedFault::TopicAuthorizationFailed,
        EmbeddedFault::Storage,
        EmbeddedFault::Disconnect,
    ] {
        cluster.fail(KafkaApi::ListOffsets, 30, fault);
        let failed = ask();
        cluster.fail_no_more(KafkaApi::ListOffsets);

        assert!(failed.is_err(), "{fault:?}: {failed:?}");
        assert_eq!(ask(), Ok(Some(7)), "{fault:?}");
    }
}

/// The client repeats what it does not understand of a property.
#[test]
fn why_a_cluster_cannot_be_asked_is_told_without_secrets() {
    let properties = ClientProperties::new()
        .with("bootstrap.servers", "127.0.0.1:1")
        .with("security.protocol", "SASL_PLAINTEXT")
        .with("sasl.mechanism", "OAUTHBEARER")
        .with("enable.sasl.oauthbearer.unsecure.jwt", "true")
        .with("sasl.oauthbearer.config", "principal=a hunter2secret");
    let mut control = ControlClient::new(&resolve(&properties).unwrap()).unwrap();

    let asked = control.describe_topics(&[topic("orders")], Duration::from_secs(5));

    let words = format!("{asked:?}");
    assert!(words.contains("beginning at: ***"), "{words}");
    assert!(!words.contains("hunter2"), "{words}");
}

/// It was taken for a refusal of the cluster's, and the client that had lost its broker was kept.
#[test]
fn a_broker_that_the_client_gave_up_meanwhile_has_refused_nothing() {
    let cluster = EmbeddedCluster::start().unwrap();
    let mut control = client(&cluster.bootstrap_servers());
    let began = Instant::now();
    let call = Call {
        began,
        deadline: began + WHILE,
        ends_by_complaint: false,
    };
    let given_up = NativeError::of(Code::RD_KAFKA_RESP_ERR__DESTROY_BROKER);

    let failure = control.failure(call, given_up);

    assert!(
        matches!(failure, ControlError::Unreachable { .. }),
        "{failure:?}"
    );
    assert!(control.has_complained());
}
