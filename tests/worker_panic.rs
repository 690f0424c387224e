//! A worker that panics ends its process, so that its siblings do not wait for it for ever.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::{env, thread};

use signal_hook::consts::SIGABRT;
use timely_kafka::timely::Config;

/// Set in the process whose worker panics.
const PANICS: &str = "TIMELY_KAFKA_TEST_PANICS";

#[test]
fn a_worker_that_panics_aborts_its_process() {
    if env::var_os(PANICS).is_some() {
        let workers = timely_kafka::execute(Config::process(2), |worker| {
            assert_eq!(worker.index(), 0, "one worker panics");
            // As a sibling that waits for ever for what the other one would have sent.
            loop {
                thread::park();
            }
        });
        drop(workers.unwrap());
        return;
    }

    let output = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "a_worker_that_panics_aborts_its_process",
            "--nocapture",
        ])
        .env(PANICS, "1")
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains("a worker panicked"), "{said}");
}
