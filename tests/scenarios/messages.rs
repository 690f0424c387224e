//! Wrong input gets a sentence.

use std::net::TcpListener;

use libtest_mimic::Trial;
use timely_kafka::metadata::{FixedMetadataService, Subscription};
use timely_kafka::model::ClientProperties;
use timely_kafka::model::StreamsMetadata;
use timely_kafka::{KafkaSource, KafkaSourceBuilder};
use timely_splits::health::HealthStatus;

use crate::scenario::{Backend, Described, Streams, assert_exact};
use crate::{once, world};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        once(
            "an_unknown_stream_is_waited_for_with_the_known_ones_named",
            unknown_stream,
        ),
        once("a_port_that_refuses_is_named", refused_port),
        once(
            "what_cannot_work_is_refused_before_anything_runs",
            refused_builds,
        ),
    ]
}

fn unknown_stream() {
    let world = world();
    world
        .brokers
        .cluster("a")
        .create_topic("orders", 3)
        .unwrap();
    world.write("a", "orders", 3, 0..15);
    let described = Described::orders(&["a"]).stream("payments", "a", &["payments"]);
    world.publish(&described);
    let mut plan = world.plan();
    plan.streams = Streams::Named(vec!["ordres".to_owned()]);

    let run = world.run(&plan, Backend::Threads(2));

    let expected = "stream ordres: the metadata does not describe it, but 'orders', 'payments'; \
                    did you mean 'orders'?";
    run.wait("it says what is known", |state| {
        state
            .health
            .iter()
            .any(|health| health.to_string() == expected && health.status == HealthStatus::Waiting)
    });
    run.let_ticks_pass(100);
    run.end().with(|state| assert_exact(state, []));
}

fn refused_port() {
    let world = world();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let closed = ClientProperties::new().with("bootstrap.servers", &address);
    let described = Described::new().cluster("closed", closed);
    world.publish(&described.stream("orders", "closed", &["orders"]));

    let run = world.run(&world.plan(), Backend::Threads(1));

    run.wait("it says that the port refuses", |state| {
        state.said("cluster closed", &[&address, "Connection refused"])
    });
    run.end().with(|state| assert_exact(state, []));
}

fn refused_builds() {
    let refused = |builder: KafkaSourceBuilder| builder.build().unwrap_err().to_string();
    let builder = || {
        KafkaSource::builder()
            .name("shop")
            .metadata(FixedMetadataService::new(StreamsMetadata::new()))
    };
    let orders = || builder().subscribe(Subscription::streams(["orders"]));
    let property = |name: &str| orders().properties(ClientProperties::new().with(name, "1"));

    let empty = "source shop: subscription is empty; expected at least one stream, or a pattern";
    assert_eq!(refused(builder()), empty);
    assert_eq!(
        refused(builder().subscribe(Subscription::streams::<&str>([]))),
        empty
    );
    let pattern = refused(builder().subscribe(Subscription::pattern("orders-(")));
    assert!(
        pattern
            .starts_with("source shop: subscription pattern 'orders-(' is no regular expression: "),
        "{pattern}"
    );
    let property = refused(property("fetch.wait.maxms"));
    assert!(
        property.contains("fetch.wait.maxms") && property.contains("fetch.wait.max.ms"),
        "{property}"
    );
    let nobody = KafkaSource::builder().subscribe(Subscription::streams(["orders"]));
    assert_eq!(
        refused(nobody),
        "source kafka: no metadata service; expected one by .metadata(...)"
    );
}
