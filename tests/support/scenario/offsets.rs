//! What Kafka's tools see of a source that commits offsets.

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use timely_kafka::model::ClientProperties;

use super::brokers::Brokers;
use super::exactly::assert_exact;
use super::plan::{Backend, Plan};
use super::world::{Described, World};

/// The group that the sources of these scenarios commit to.
pub(crate) const GROUP: &str = "orders-view";

/// How often they do.
const EVERY: Duration = Duration::from_millis(50);

/// Guards against hangs only.
const DEADLINE: Duration = Duration::from_secs(60);

/// Looks at the group on one cluster as a tool does, without joining it.
pub(crate) struct Tool(BaseConsumer);

/// What a tool says of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) offset: u64,
    /// How many records there are from there on.
    pub(crate) lag: u64,
}

impl Tool {
    pub(crate) fn new(properties: &ClientProperties) -> Self {
        let servers = properties.value("bootstrap.servers");
        let consumer = ClientConfig::new()
            .set(
                "bootstrap.servers",
                servers.expect("a cluster has an address"),
            )
            .set("group.id", GROUP)
            .set("reconnect.backoff.max.ms", "500")
            .create();
        Self(consumer.expect("the settings are valid"))
    }

    /// What the group has of the first `partitions` of the topic `orders`; `None` without an offset.
    pub(crate) fn look(&self, partitions: i32) -> Vec<Option<Told>> {
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition("orders", partition);
        }
        // A coordinator that is not there yet is asked again, as a tool does.
        let deadline = Instant::now() + DEADLINE;
        let committed = loop {
            match self.0.committed_offsets(list.clone(), DEADLINE) {
                Ok(committed) => break committed,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        };
        let told = |partition| {
            let element = committed.find_partition("orders", partition)?;
            let Offset::Offset(offset) = element.offset() else {
                return None;
            };
            let (_, end) = self
                .0
                .fetch_watermarks("orders", partition, DEADLINE)
                .ok()?;
            Some(Told {
                offset: u64::try_from(offset).ok()?,
                lag: u64::try_from(end - offset).expect("what is committed was written"),
            })
        };
        (0..partitions).map(told).collect()
    }

    /// Waits until every partition has this offset and lag.
    pub(crate) fn await_told(&self, expected: &[(u64, u64)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(offset, lag)| {
                Some(Told {
                    offset: *offset,
                    lag: *lag,
                })
            })
            .collect();
        let partitions = i32::try_from(expected.len()).expect("there are few partitions");
        let deadline = Instant::now() + DEADLINE;
        loop {
            let told = self.look(partitions);
            if told == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{told:?}, expected {expected:?}");
        }
    }

    /// How many members the group has, if there is one.
    pub(crate) fn members(&self) -> Option<usize> {
        let groups = self.0.fetch_group_list(Some(GROUP), DEADLINE);
        let groups = groups.expect("the cluster is up");
        let group = groups.groups().iter().find(|group| group.name() == GROUP)?;
        Some(group.members().len())
    }
}

/// A plan that commits, with a log in the folder of the world.
pub(crate) fn committing<B: Brokers + 'static>(world: &World<B>) -> Plan {
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    plan.commits = Some((GROUP.to_owned(), EVERY));
    plan
}

fn prepared<B: Brokers + 'static>(world: &World<B>) -> [Tool; 2] {
    world.publish(&Described::orders(&["a", "b"]));
    ["a", "b"].map(|cluster| {
        world.brokers.create_topic(cluster, "orders", 3);
        Tool::new(&world.brokers.properties(cluster))
    })
}

/// A tool sees where the source is and what is left, while it runs, when it has ended, and after it was
/// started again.
pub(crate) fn follow<B: Brokers + 'static>(world: &World<B>, backend: Backend) {
    let [a, b] = prepared(world);
    let plan = committing(world);
    world.write("a", "orders", 3, 0..15);
    world.write("b", "orders", 3, 15..27);
    let run = world.run(&plan, backend);
    run.settle(27);
    a.await_told(&[(5, 0); 3]);
    b.await_told(&[(4, 0); 3]);
    run.end().with(|state| assert_exact(state, 0..27));

    world.write("a", "orders", 3, 27..33);
    a.await_told(&[(5, 2); 3]);

    let again = world.run(&plan, Backend::Threads(3));
    again.settle(6);
    a.await_told(&[(7, 0); 3]);
    b.await_told(&[(4, 0); 3]);
    again.end().with(|state| assert_exact(state, 27..33));
}

/// What was emitted and is not in the log yet is not committed.
pub(crate) fn held<B: Brokers + 'static>(world: &World<B>, backend: Backend) {
    let [a, b] = prepared(world);
    let mut plan = committing(world);
    plan.gated = true;
    let mut run = world.run(&plan, backend);
    // What binds records is held back: starts that come after it would wait for it.
    run.wait("all starts are in the log", |state| state.starts.len() == 6);
    world.write("a", "orders", 3, 0..15);
    run.wait("some came, and the log holds what binds them", |state| {
        !state.rows.is_empty() && state.held.is_some()
    });
    a.await_told(&[(0, 5); 3]);
    b.await_told(&[(0, 0); 3]);

    // Many times the interval of commits; each look asks the cluster.
    let until = Instant::now() + EVERY * 20;
    while Instant::now() < until {
        for told in a.look(3) {
            assert_eq!(told, Some(Told { offset: 0, lag: 5 }));
        }
    }
    run.open_gate();

    a.await_told(&[(5, 0); 3]);
    run.settle(15);
    run.end().with(|state| assert_exact(state, 0..15));
}

/// A cluster that cannot take commits stops nothing; `down` and `up` are what happens to `a`.
pub(crate) fn down<B: Brokers + 'static>(world: &World<B>, down: impl FnOnce(), up: impl FnOnce()) {
    let [a, b] = prepared(world);
    let mut plan = committing(world);
    // So that what is bound right before is not committed.
    plan.commits = Some((GROUP.to_owned(), Duration::from_secs(5)));
    world.write("a", "orders", 3, 0..15);
    let run = world.run(&plan, Backend::Threads(2));
    run.settle(15);
    a.await_told(&[(5, 0); 3]);
    world.write("a", "orders", 3, 15..18);
    run.settle(18);
    down();

    world.write("b", "orders", 3, 18..30);
    run.wait("it is said", |state| {
        state.said("committed offsets of cluster a", &[GROUP, "failed"])
    });
    run.settle(30);
    b.await_told(&[(4, 0); 3]);
    up();

    run.wait("it is said to be well again", |state| {
        let about = |health: &&timely_splits::health::Health| {
            health.subject == "committed offsets of cluster a"
        };
        let last = state.health.iter().rfind(about);
        last.is_some_and(|health| health.status == timely_splits::health::HealthStatus::Well)
    });
    a.await_told(&[(6, 0); 3]);
    run.end().with(|state| assert_exact(state, 0..30));
}
