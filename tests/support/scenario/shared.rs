//! The scenarios that run on embedded clusters and on real Kafka.
//!
//! All take two clusters, `a` and `b`, and three partitions a topic.

use std::collections::BTreeMap;

use super::brokers::Brokers;
use super::drains;
use super::exactly::assert_exact;
use super::plan::{Backend, Service};
use super::replays;
use super::run::Run;
use super::world::{Described, World};

/// The partitions of every topic.
pub(crate) const PARTITIONS: u64 = 3;

/// A scenario on any clusters.
pub(crate) type Scenario<B> = fn(&World<B>, Backend);

/// The scenarios by their sentences.
pub(crate) fn all<B: Brokers + 'static>() -> Vec<(&'static str, Scenario<B>)> {
    vec![
        ("a_stream_on_two_clusters_is_read_exactly", two_clusters),
        ("each_cluster_starts_where_its_rule_says", starting_rules),
        (
            "a_stream_that_moves_to_another_cluster_is_read_exactly",
            migration,
        ),
        (
            "a_topic_that_takes_the_place_of_another_is_read_exactly",
            replaced_topic,
        ),
        ("what_is_removed_is_read_to_where_it_ended", drains::drained),
        ("what_comes_is_read_after_what_goes", drains::drained_first),
        (
            "bound_ticks_are_given_again_and_reading_goes_on",
            replays::given_again,
        ),
    ]
}

fn create<B: Brokers>(world: &World<B>, topics: &[(&str, &str)]) {
    let partitions = i32::try_from(PARTITIONS).expect("there are few");
    for (cluster, topic) in topics {
        world.brokers.create_topic(cluster, topic, partitions);
    }
}

fn end_exactly(run: Run, expected: impl IntoIterator<Item = u64>) {
    run.end().with(|state| assert_exact(state, expected));
}

/// S1.
fn two_clusters<B: Brokers + 'static>(world: &World<B>, backend: Backend) {
    create(world, &[("a", "orders"), ("b", "orders")]);
    world.write("a", "orders", PARTITIONS, 0..15);
    world.write("b", "orders", PARTITIONS, 15..30);
    world.publish(&Described::orders(&["a", "b"]));
    let mut plan = world.plan();
    plan.service = Service::Once;

    let run = world.run(&plan, backend);

    run.settle(30);
    run.observed
        .expect("the metadata was asked for once", |state| state.asked == 1);
    end_exactly(run, 0..30);
}

/// S3.
fn starting_rules<B: Brokers + 'static>(world: &World<B>, backend: Backend) {
    create(world, &[("a", "orders"), ("b", "orders")]);
    world.write("a", "orders", PARTITIONS, 0..15);
    world.write("b", "orders", PARTITIONS, 100..115);
    let described = Described::new()
        .stream_from("orders", "a", &["orders"], "earliest")
        .stream_from("orders", "b", &["orders"], "latest");
    world.publish(&described);
    let run = world.run(&world.plan(), backend);
    // Only then is it certain which records of `b` are the later ones.
    run.wait("it is known where all splits start", |state| {
        state.starts.len() == 6
    });

    world.write("a", "orders", PARTITIONS, 15..30);
    world.write("b", "orders", PARTITIONS, 115..130);

    run.settle(45);
    end_exactly(run, (0..30).chain(115..130));
}

/// S5.
fn migration<B: Brokers + 'static>(world: &World<B>, backend: Backend) {
    create(world, &[("a", "orders"), ("b", "orders")]);
    world.write("a", "orders", PARTITIONS, 0..15);
    world.publish(&Described::orders(&["a"]));
    let run = world.run(&world.plan(), backend);
    run.wait("5 records were read", |state| state.rows.len() >= 5);

    world.publish(&Described::orders(&["a", "b"]));
    world.write("a", "orders", PARTITIONS, 15..30);
    run.wait("30 records were read", |state| state.rows.len() >= 30);
    world.publish(&Described::orders(&["b"]));
    world.write("b", "orders", PARTITIONS, 30..45);

    run.settle(45);
    run.observed
        .expect("the records came from where they were written", |state| {
            state.rows_of("a", "orders") == 30 && state.rows_of("b", "orders") == 15
        });
    end_exactly(run, 0..45);
}

/// S19.
fn replaced_topic<B: Brokers + 'static>(world: &World<B>, backend: Backend) {
    create(world, &[("a", "kept"), ("a", "old"), ("a", "new")]);
    world.write("a", "kept", PARTITIONS, 0..15);
    world.write("a", "old", PARTITIONS, 15..30);
    world.write("a", "new", PARTITIONS, 30..45);
    world.publish(&Described::new().stream("orders", "a", &["kept", "old"]));
    let run = world.run(&world.plan(), backend);
    run.settle(30);
    let owners = owners_of_kept(&run);

    world.publish(&Described::new().stream("orders", "a", &["kept", "new"]));
    run.wait("the new topic was read", |state| {
        state.rows_of("a", "new") == 15
    });
    world.write("a", "kept", PARTITIONS, 45..60);
    // Nobody reads it.
    world.write("a", "old", PARTITIONS, 100..115);

    run.settle(60);
    assert_eq!(
        owners_of_kept(&run),
        owners,
        "the splits of the other topic do not move"
    );
    end_exactly(run, 0..60);
}

/// The workers that read each partition of the topic `kept`, in the order of their records.
fn owners_of_kept(run: &Run) -> BTreeMap<i32, Vec<usize>> {
    run.observed.with(|state| {
        let mut owners: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for row in state
            .rows
            .iter()
            .filter(|row| row.split.topic.as_str() == "kept")
        {
            let of_split = owners.entry(row.split.partition.0).or_default();
            of_split.push(row.worker);
            of_split.dedup();
        }
        owners
    })
}
