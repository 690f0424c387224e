//! `tail` says what keeps it from starting, and ends while it starts when it is told to.

use std::fs::OpenOptions;
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use timely_kafka::SOURCE_FAILED_STATUS;

use crate::support::{Example, LINE_WITHIN};
use crate::tail::{Clusters, ENDS_WITHIN, tail};

/// What a `tail` says that is refused before it asks for anything.
fn refused(more: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut tail = tail(&folder.path().join("streams.json"), more);

    assert_eq!(tail.status(LINE_WITHIN), Some(2));
    tail.rest_of_errors()
}

/// Timely panicked.
#[test]
fn a_process_that_cannot_be_is_refused() {
    let said = refused(&["-n", "2", "-p", "5"]);

    let expected =
        "tail: -p 5: there is no such process; expected a number from 0 to 1, as -n is 2";
    assert_eq!(said, [expected]);
}

/// What was said did not name the file.
#[test]
fn a_hostfile_that_is_not_there_or_too_short_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("short");
    std::fs::write(&short, "127.0.0.1:1\n").unwrap();
    let short = short.to_str().unwrap();

    let missing = refused(&["-n", "2", "--hostfile", "nohosts"]);
    let too_short = refused(&["-n", "2", "--hostfile", short]);

    assert_eq!(
        missing,
        ["tail: hostfile nohosts: cannot be read: No such file or directory (os error 2)"]
    );
    let lines = format!("tail: hostfile {short}: has 1 lines; ");
    assert_eq!(
        too_short,
        [lines + "expected the host:port of each of 2 processes, one a line"]
    );
}

/// Before it had asked for anything it was killed by the signal.
#[test]
fn a_signal_while_it_starts_ends_it_well() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("streams.json");
    let made = Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    let mut tail = tail(&file, &[]);
    // It can be opened for writing once tail reads it, which has to wait for what is written.
    let (opened, reads) = mpsc::channel();
    thread::spawn(move || opened.send(OpenOptions::new().write(true).open(file)));
    let pipe = reads.recv_timeout(LINE_WITHIN).unwrap().unwrap();

    tail.terminate();

    assert_eq!(tail.status(ENDS_WITHIN), Some(0));
    assert_eq!(tail.rest_of_errors(), [] as [String; 0]);
    drop(pipe);
}

/// It went on without a word, and said when it was ended that not all could be printed in time.
#[test]
fn a_source_that_cannot_go_on_ends_it_with_the_reason() {
    let clusters = Clusters::start(&["east"], &["east"]);
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners = [free(), free()];
    let hosts = listeners.map(|listener| format!("{}\n", listener.local_addr().unwrap()));
    let hostfile = clusters.file().with_file_name("hosts");
    std::fs::write(&hostfile, hosts.concat()).unwrap();
    let hostfile = hostfile.to_str().unwrap();
    let process = |index, from| {
        let more = [
            "-n",
            "2",
            "-p",
            index,
            "--hostfile",
            hostfile,
            "--from",
            from,
        ];
        tail(&clusters.file(), &more)
    };

    let mut both: [Example; 2] = [process("0", "earliest"), process("1", "latest")];

    let ends = both.each_mut().map(|one| {
        let status = one.status(LINE_WITHIN);
        (status, one.rest_of_errors())
    });

    // One may hear first that the other is gone, and end because of that.
    let with_the_reason = ends.iter().filter(|(status, said)| {
        *status == Some(SOURCE_FAILED_STATUS)
            && said.iter().any(|line| {
                line.starts_with("tail: source: ") && line.contains("configured differently")
            })
    });
    assert!(with_the_reason.count() > 0, "{ends:#?}");
}
