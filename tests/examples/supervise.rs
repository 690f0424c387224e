//! What `supervise` does with processes, which are shell scripts here. Each gets `-n 2 -p INDEX`, so
//! that `$4` is its index.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::WITHIN;
use crate::support::Example;

/// Supervises two processes that run a script in a folder.
fn supervise(folder: &Path, grace: &str, script: &str) -> Example {
    let script = format!("cd {} && {script}", folder.display());
    let arguments = [
        "-n", "2", "--grace", grace, "/bin/sh", "-c", &script, "script",
    ];
    Example::start("supervise", &arguments)
}

/// The two lines that the two processes print, in whatever order.
fn two_lines(example: &Example) -> BTreeSet<String> {
    BTreeSet::from([example.line(), example.line()])
}

fn both(words: &str) -> BTreeSet<String> {
    [0, 1].map(|index| format!("{words} {index}")).into()
}

/// Whether a process runs. One that has ended is there until its parent, whoever that became, has
/// waited for it.
fn runs(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    state.is_some_and(|state| state != "Z")
}

/// Waits until a process has ended.
fn await_end(process: &str) {
    let deadline = Instant::now() + WITHIN;
    let (_never, nothing) = mpsc::channel::<()>();
    while runs(process) {
        assert!(Instant::now() < deadline, "process {process} still runs");
        nothing.recv_timeout(Duration::from_millis(10)).unwrap_err();
    }
}

#[test]
fn all_processes_are_started_again_when_one_ends_badly() {
    let folder = tempfile::tempdir().unwrap();
    // In the first run one fails and the other would run for ever; in the second both end well.
    let script = "echo run $TIMELY_KAFKA_RUN; [ -e again$4 ] && exit; touch again$4; \
                  [ $4 = 1 ] && exec sleep 1000; while [ ! -e again1 ]; do sleep 0.05; done; exit 3";

    let mut supervisor = supervise(folder.path(), "10", script);

    let runs = [two_lines(&supervisor), two_lines(&supervisor)];
    assert_eq!(supervisor.status(WITHIN), Some(0));
    // What processes of one run have in common differs between runs.
    assert!(runs.iter().all(|run| run.len() == 1), "{runs:?}");
    assert_ne!(runs[0], runs[1]);
}

#[test]
fn a_signal_is_passed_on_and_the_end_is_waited_for() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap 'echo ended $4; exit 0' TERM INT; echo started $4; \
                      while :; do sleep 0.1; done";
        let mut supervisor = supervise(folder.path(), "30", script);
        assert_eq!(two_lines(&supervisor), both("started"));

        supervisor.signal(signal);

        assert_eq!(two_lines(&supervisor), both("ended"));
        assert_eq!(supervisor.status(WITHIN), Some(0));
    }
}

#[test]
fn a_process_that_does_not_end_when_it_is_asked_to_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    // What a shell ignores, `sleep` ignores as well.
    let script = "trap '' TERM; echo $$; exec sleep 1000";
    let mut supervisor = supervise(folder.path(), "1", script);
    let processes = two_lines(&supervisor);

    supervisor.signal(Signal::TERM);

    assert_eq!(supervisor.status(WITHIN), Some(1));
    for process in processes {
        assert!(!runs(&process), "process {process} still runs");
    }
}

#[test]
fn a_program_that_cannot_be_started_is_named() {
    let mut supervisor = Example::start("supervise", &["/nowhere/program"]);

    assert_eq!(supervisor.status(WITHIN), Some(1));
    let said = supervisor.rest_of_errors().join("\n");
    assert!(said.contains("/nowhere/program"), "{said}");
}

/// Nobody passes SIGKILL on: the process sees that its standard input ends.
#[test]
fn a_source_ends_when_its_supervisor_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = folder.path().join("streams.yaml");
    let folder = folder.path().display().to_string();
    let program = crate::support::program("exact_sink");
    let supervisor = Example::start(
        "supervise",
        &[
            program.to_str().unwrap(),
            "--metadata",
            metadata.to_str().unwrap(),
            "--stream",
            "orders",
            "--folder",
            &folder,
        ],
    );
    let line = supervisor.error_with("started as");
    let source = line.split_whitespace().next_back().unwrap();
    // It runs: it looks for its metadata.
    supervisor.error_with("streams.yaml");

    supervisor.signal(Signal::KILL);

    supervisor.error_with("the supervisor of this process is gone");
    await_end(source);
}
