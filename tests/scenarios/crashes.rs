//! A source that is started again after its world has changed, or after a crash at a bad moment.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::time::Duration;

use libtest_mimic::Trial;
use timely_kafka::PEER_LOST_STATUS;
use timely_kafka::embedded::KafkaApi;
use timely_kafka::model::StartAt;
use timely_splits::health::{FailureKind, HealthStatus};

use crate::relay::Relay;
use crate::restarts::{assert_rest_comes, bound, two_clusters};
use crate::scenario::{Backend, Described, Run, State, assert_exact};
use crate::{once, world};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        once("all_clusters_go_and_one_comes_back_after_a_restart", all_go),
        once(
            "a_restart_dials_the_new_address_with_the_new_properties",
            new_properties,
        ),
        once(
            "a_start_that_is_recorded_when_the_source_is_killed_is_not_asked_for_again",
            recorded_start,
        ),
        once("a_restart_balances_over_the_workers_there_are", balances),
        once(
            "kills_in_the_middle_of_moves_lose_nothing_and_bring_nothing_twice",
            killed_in_moves,
        ),
        once("a_torn_log_goes_on_after_its_last_whole_binding", torn),
        once("a_log_with_a_flipped_bit_is_refused", flipped),
        once("a_file_that_is_no_log_is_refused", foreign),
    ]
}

/// How long the processes of a dataflow may outlive one of them.
const END_MAX: Duration = Duration::from_secs(5);

/// S6: nothing is listed when the source ends, and when it starts. To see it fail, leave out what is not
/// listed when the log is restored.
fn all_go() {
    let (world, plan) = two_clusters();
    world.publish(&Described::orders(&["a", "b"]));
    world.write("a", "orders", 3, 0..9);
    world.write("b", "orders", 3, 9..15);
    let run = world.run(&plan, Backend::Threads(2));
    run.settle(15);
    world.publish(&Described::new());
    run.await_epoch(2);
    world.write("a", "orders", 3, 15..30);
    run.let_ticks_pass(100);
    run.end().with(|state| assert_exact(state, 0..15));

    let again = world.run(&plan, Backend::Threads(4));
    again.let_ticks_pass(100);
    again.observed.with(|state| assert_eq!(state.rows.len(), 0));
    world.publish(&Described::orders(&["a"]));
    again.settle(15);

    again.end().with(|state| {
        assert_exact(state, 15..30);
        assert!(state.starts.is_empty(), "{:?}", state.starts);
    });
}

/// S13, C16 and C18: one cluster is gone, one is new, one has another address and other properties.
///
/// What stands for credentials is the id of the client: embedded clusters have none.
fn new_properties() {
    let world = crate::world_of(&["a", "b", "c"]);
    for cluster in ["a", "b", "c"] {
        let cluster = world.brokers.cluster(cluster);
        cluster.create_topic("orders", 3).unwrap();
    }
    let mut plan = world.plan();
    plan.log = Some(world.folder().join("log"));
    let cluster = world.brokers.cluster("a");
    let [before, after] = [(); 2].map(|()| Relay::start(&cluster.bootstrap_servers()));
    let reached_by = |described: Described, relay: &Relay, id: &str| {
        let properties = cluster.client_properties();
        let properties = properties.with("bootstrap.servers", relay.address());
        described.cluster("a", properties.with("client.id", id))
    };
    let first = Described::orders(&["a", "b"]);
    world.publish(&reached_by(first, &before, "as-it-was"));
    world.write("a", "orders", 3, 0..15);
    world.write("b", "orders", 3, 15..30);
    let run = world.run(&plan, Backend::Threads(2));
    run.settle(30);
    run.end().with(|state| assert_exact(state, 0..30));
    let dialled = before.first().len();
    assert!(dialled > 0, "it was reached by its first address");
    assert!(after.first().is_empty(), "and not by the second");

    world.write("a", "orders", 3, 30..45);
    world.write("b", "orders", 3, 100..115);
    world.write("c", "orders", 3, 45..60);
    let second = Described::orders(&["a", "c"]);
    world.publish(&reached_by(second, &after, "as-it-is"));
    let again = world.run(&plan, Backend::Threads(3));
    again.settle(30);
    again.let_ticks_pass(100);

    again.end().with(|state| assert_exact(state, 30..60));
    assert_eq!(
        before.first().len(),
        dialled,
        "the old address is not dialled"
    );
    let dials = after.first();
    assert!(!dials.is_empty(), "the new one is");
    for said in dials {
        assert!(said.contains("as-it-is"), "{said:?}");
    }
}

/// S25 and C14: the kill comes when starts are on the disk, before anything is assigned.
fn recorded_start() {
    let (world, mut plan) = two_clusters();
    plan.start = StartAt::Latest;
    // One partition: the starts of several can come to the log one by one, and the first is held.
    let a = world.brokers.cluster("a");
    a.create_topic("single", 1).unwrap();
    world.publish(&Described::new().stream("orders", "a", &["single"]));
    world.write("a", "single", 1, 0..15);
    plan.starts_held = true;
    let run = world.run(&plan, Backend::TwoProcesses(1));
    run.wait("the start is recorded", |state| state.starts.len() == 1);
    kill_all(&run);
    run.observed.with(|state| {
        let assigned = |(_, line): &(usize, String)| line.contains("assigned to worker");
        assert!(!state.told.iter().any(assigned), "{:?}", state.told);
        assert_eq!(state.rows.len(), 0);
    });

    world.write("a", "single", 1, 15..20);
    plan.starts_held = false;
    world.brokers.cluster("a").track_requests();
    let again = world.run(&plan, Backend::Threads(3));
    again.settle(5);

    again.end().with(|state| {
        assert_exact(state, 15..20);
        assert!(state.starts.is_empty(), "{:?}", state.starts);
    });
    let asked = world.brokers.cluster("a").request_counts();
    assert_eq!(asked.get(&KafkaApi::ListOffsets), None, "{asked:?}");
}

/// C17.
fn balances() {
    let (world, plan) = two_clusters();
    world.publish(&Described::orders(&["a", "b"]));
    let mut next = 0;
    for workers in [2, 5, 2] {
        world.write("a", "orders", 3, next..next + 15);
        world.write("b", "orders", 3, next + 15..next + 30);
        let run = world.run(&plan, Backend::Threads(workers));
        run.settle(30);
        run.end().with(|state| {
            assert_exact(state, next..next + 30);
            let counts = splits_by_worker(state);
            let most = counts.iter().max();
            let least = counts.iter().min();
            assert!(
                most.zip(least)
                    .is_some_and(|(most, least)| most - least <= 1),
                "{counts:?}"
            );
        });
        next += 30;
    }
}

/// How many splits each worker has read.
fn splits_by_worker(state: &State) -> Vec<usize> {
    let of_worker = |worker| {
        let rows = state.rows.iter().filter(|row| row.worker == worker);
        rows.map(|row| &row.split).collect::<BTreeSet<_>>().len()
    };
    (0..state.workers).map(of_worker).collect()
}

/// C26 and C15: one process is killed while splits are between owners; the next run is killed as soon
/// as its frontier moves, on another number of workers; the run after that has the rest.
fn killed_in_moves() {
    let (world, plan) = two_clusters();
    let folder = plan.log.clone().unwrap();
    world.publish(&Described::orders(&["a", "b"]));
    let mut written = 0;
    for round in 0..3 {
        for cluster in ["a", "b"] {
            world.write(cluster, "orders", 3, written..written + 300);
            written += 300;
        }
        let before = bound(&folder);
        let mut run = world.run(&plan, Backend::TwoProcesses(1));
        run.settle(1);
        let reader = round % 2;
        for cluster in ["a", "b"] {
            for partition in 0..3 {
                run.say(&format!("move {cluster} orders {partition} {reader}"));
                run.say(&format!("move {cluster} orders {partition} {}", 1 - reader));
            }
        }
        run.wait("a split is between two owners", |state| {
            state
                .told
                .iter()
                .any(|(_, line)| line.ends_with("to be moved"))
        });
        run.processes()[1].kill();
        let (status, said) = run.processes()[0].await_end(END_MAX);
        assert_eq!(status.code(), Some(PEER_LOST_STATUS), "{status}: {said}");
        run.processes()[1].await_end(END_MAX);

        let after = bound(&folder);
        run.observed.with(|state| {
            for row in &state.rows {
                let start = before.get(&row.split).copied().unwrap_or(0);
                assert!(row.offset >= start, "it was final before: {row:?}");
                let end = after.get(&row.split).copied().unwrap_or(0);
                let passed = state.all_passed(row.tick);
                assert!(
                    !passed || row.offset < end,
                    "it is final and not bound: {row:?}"
                );
            }
        });

        // Cut again before all readers are at work.
        let again = world.run(&plan, Backend::TwoProcesses(2));
        again.wait("the frontier moves", |state| state.frontier() > 0);
        kill_all(&again);
    }

    assert_rest_comes(&world, &plan, written);
}

pub(crate) fn kill_all(run: &Run) {
    for process in run.processes() {
        process.kill();
    }
    for process in run.processes() {
        process.await_end(END_MAX);
    }
}

/// C27: what an interrupted append left is cut off, and what it bound comes again.
fn torn() {
    let (world, plan) = two_clusters();
    let folder = plan.log.clone().unwrap();
    world.publish(&Described::orders(&["a", "b"]));
    let mut written = 0;
    for (round, torn) in [1, 7, 40].into_iter().enumerate() {
        for cluster in ["a", "b"] {
            world.write(cluster, "orders", 3, written..written + 15);
            written += 15;
        }
        let run = world.run(&plan, Backend::Threads(round + 1));
        run.wait("something is bound", |state| !state.bindings.is_empty());
        run.end();
        let last = files_of(&folder).pop().unwrap();
        let file = OpenOptions::new().write(true).open(&last).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - torn).unwrap();
    }

    assert_rest_comes(&world, &plan, written);
}

/// C27.
fn flipped() {
    refused(|file| {
        let mut bytes = fs::read(file).unwrap();
        // Behind the header and the frame of the snapshot, in the middle of what was bound.
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        fs::write(file, bytes).unwrap();
    });
}

/// C27.
fn foreign() {
    refused(|file| fs::write(file, vec![b'x'; 4_096]).unwrap());
}

/// Asserts that a source says why it does not use its log after `harm`, and reads nothing.
fn refused(harm: fn(&PathBuf)) {
    let world = world();
    world
        .brokers
        .cluster("a")
        .create_topic("orders", 3)
        .unwrap();
    let mut plan = world.plan();
    let folder = world.folder().join("log");
    plan.log = Some(folder.clone());
    world.publish(&Described::orders(&["a"]));
    let mut next = 0;
    let run = world.run(&plan, Backend::Threads(2));
    for _ in 0..10 {
        world.write("a", "orders", 3, next..next + 15);
        next += 15;
        run.settle(usize::try_from(next).unwrap());
    }
    run.end().with(|state| assert_exact(state, 0..next));
    let files = files_of(&folder);
    harm(&files[0]);
    let harmed = fs::read(&files[0]).unwrap();

    let again = world.run(&plan, Backend::Threads(3));
    again.wait("the log is refused", |state| {
        state.health.iter().any(|health| {
            health.subject == "binding log"
                && health.status == HealthStatus::Failing(FailureKind::Definite)
        })
    });
    again.observed.with(|state| {
        assert_eq!(state.rows.len(), 0);
        assert_eq!(state.frontier(), 0, "its frontier stays where it is");
        let folder = folder.to_str().unwrap();
        assert!(state.said("binding log", &[folder]), "{:?}", state.health);
    });
    assert_eq!(fs::read(&files[0]).unwrap(), harmed, "it is left as it is");
}

/// The files of a log with records, in their order.
fn files_of(folder: &PathBuf) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    files.sort();
    files
}
