//! What `exact_sink` stores, across kills. The kill campaign does the same on real Kafka, for longer.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use timely_kafka::embedded::{EmbeddedCluster, EmbeddedRecord};

use crate::WITHIN;
use crate::support::Example;

const PARTITIONS: i32 = 3;
const SHARDS: u64 = 4;

fn start(folder: &Path, log: Option<&str>, workers: &str) -> Example {
    let metadata = folder.join("streams.yaml");
    let arguments = [
        "--metadata",
        metadata.to_str().unwrap(),
        "--stream",
        "orders",
    ];
    let further = ["--folder", folder.to_str().unwrap(), "-w", workers];
    let mut all = [&arguments[..], &further[..]].concat();
    all.extend(log.into_iter().flat_map(|log| ["--log", log]));
    Example::start("exact_sink", &all)
}

/// Writes so many records to each partition.
fn write(cluster: &EmbeddedCluster, count: usize) {
    for partition in 0..PARTITIONS {
        let record = |number: usize| EmbeddedRecord::new(format!("k{number}"), number.to_string());
        let records = (0..count).map(record);
        cluster.produce("orders", partition, records).unwrap();
    }
}

/// What is stored: the offsets of each split, in the order of the shards and of their rows. Nothing
/// while the store is being made.
fn stored(folder: &Path) -> BTreeMap<String, Vec<u64>> {
    let mut stored: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for number in 0..SHARDS {
        let path = folder.join(format!("store/shard-{number}.db"));
        if !path.exists() {
            return BTreeMap::new();
        }
        let shard = Connection::open(path).unwrap();
        let Ok(mut rows) = shard.prepare("SELECT split, offset FROM rows ORDER BY number") else {
            return BTreeMap::new();
        };
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        for row in rows.unwrap() {
            let (split, offset) = row.unwrap();
            stored.entry(split).or_default().push(offset);
        }
    }
    stored
}

/// Waits until at least so many rows are stored.
fn await_rows(folder: &Path, count: usize) {
    let deadline = Instant::now() + WITHIN;
    let (_never, nothing) = mpsc::channel::<()>();
    loop {
        let rows: usize = stored(folder).values().map(Vec::len).sum();
        if rows >= count {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{rows} rows of {count} are stored"
        );
        nothing.recv_timeout(Duration::from_millis(10)).unwrap_err();
    }
}

#[test]
fn the_exact_sink_stores_each_record_once_however_often_it_is_killed() {
    let folder = stored_across_kills(None);

    assert!(folder.path().join("log").exists());
}

/// Nothing of the source is on the disk: another machine could have started it again.
#[cfg(feature = "s3")]
#[test]
fn the_exact_sink_stores_each_record_once_with_its_log_in_s3() {
    let bucket = std::env::var("LOG_TEST_S3");
    let bucket = bucket.expect("LOG_TEST_S3 names a bucket: run scripts/test-s3, which starts one");
    let log = format!("{bucket}/exact-sink-{}", std::process::id());

    let folder = stored_across_kills(Some(&log));

    assert!(!folder.path().join("log").exists());
}

/// Runs the sink with one number of workers after the other, each killed but for the last, and asserts
/// that every record is stored once; returns where.
fn stored_across_kills(log: Option<&str>) -> tempfile::TempDir {
    let cluster = EmbeddedCluster::start().unwrap();
    cluster.create_topic("orders", PARTITIONS).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "clusters:\n  here:\n    properties: {{ bootstrap.servers: '{}' }}\n\
         streams:\n  orders:\n    here: {{ topics: [orders] }}\n",
        cluster.bootstrap_servers()
    );
    fs::write(folder.path().join("streams.yaml"), text).unwrap();

    let mut written = 0;
    for (workers, enough) in [("2", 1), ("3", 301), ("1", 601)] {
        let killed = start(folder.path(), log, workers);
        write(&cluster, 100);
        written += 100;
        await_rows(folder.path(), enough);
        // By SIGKILL, wherever it is.
        drop(killed);
    }
    let mut last = start(folder.path(), log, "4");
    // The others may have stored everything.
    write(&cluster, 100);
    written += 100;
    let all = written * usize::try_from(PARTITIONS).unwrap();
    await_rows(folder.path(), all);
    last.terminate();

    assert_eq!(last.status(WITHIN), Some(0), "{:?}", last.rest_of_errors());
    let stored = stored(folder.path());
    assert_eq!(stored.len(), 3);
    for (split, mut offsets) in stored {
        offsets.sort_unstable();
        assert!(offsets.into_iter().eq(0..written as u64), "{split}");
    }
    folder
}
