//! What comes out of a source over clusters that come and go, on embedded clusters.
//!
//! Each scenario runs with 1, 2 and 4 workers in this process unless it says otherwise. Those that
//! need two processes start this program again, which is why it has a `main` of its own.

#![allow(clippy::unwrap_used, reason = "the whole program is a test")]

mod answers;
mod backlogs;
mod campaign;
mod changes;
mod crashes;
mod drains;
mod failures;
mod front;
mod frontiers;
mod histories;
mod laws;
mod losses;
mod messages;
mod offsets;
mod relay;
mod replaced;
mod restarts;
mod stops;
mod undisturbed;

#[path = "../../operators/tests/support/random.rs"]
mod random;
#[path = "../support/scenario/mod.rs"]
mod scenario;

use libtest_mimic::Trial;

use scenario::{Backend, Embedded, World};

/// The numbers of workers in one process that scenarios run with.
const WORKERS: [usize; 3] = [1, 2, 4];

fn main() {
    scenario::child::run_if_asked();
    let arguments = scenario::arguments();
    let trials = [
        shared(),
        answers::trials(),
        backlogs::trials(),
        campaign::trials(),
        changes::trials(),
        crashes::trials(),
        drains::trials(),
        failures::trials(),
        frontiers::trials(),
        histories::trials(),
        laws::trials(),
        losses::trials(),
        messages::trials(),
        offsets::trials(),
        replaced::trials(),
        restarts::trials(),
        stops::trials(),
        undisturbed::trials(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit();
}

/// A world of two clusters.
fn world() -> World<Embedded> {
    world_of(&["a", "b"])
}

fn world_of(clusters: &[&str]) -> World<Embedded> {
    World::new(Embedded::start(clusters))
}

/// A test that runs once.
fn once(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

/// A test for each number of workers.
fn each(name: &str, test: fn(Backend)) -> Vec<Trial> {
    let trial = |workers| {
        Trial::test(format!("{name}::{workers}_workers"), move || {
            test(Backend::Threads(workers));
            Ok(())
        })
    };
    WORKERS.into_iter().map(trial).collect()
}

/// The scenarios that real Kafka shares, here also in two processes of one worker and of two.
fn shared() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (name, scenario) in scenario::shared::all::<Embedded>() {
        let backends =
            WORKERS.map(|workers| (format!("{workers}_workers"), Backend::Threads(workers)));
        let processes = [1, 2].map(|each| {
            (
                format!("2_processes_of_{each}"),
                Backend::TwoProcesses(each),
            )
        });
        for (suffix, backend) in backends.into_iter().chain(processes) {
            trials.push(Trial::test(format!("{name}::{suffix}"), move || {
                scenario(&world(), backend);
                Ok(())
            }));
        }
    }
    trials
}
