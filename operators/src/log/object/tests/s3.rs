//! A store that speaks the protocol of S3, which `scripts/test-s3` starts.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::health::FailureKind;

/// A log of its own, in the bucket that the environment names.
fn log() -> impl Fn() -> Log {
    static LOGS: AtomicU32 = AtomicU32::new(0);
    let bucket = std::env::var("LOG_TEST_S3");
    let bucket = bucket.expect("LOG_TEST_S3 names a bucket: run scripts/test-s3, which starts one");
    let mut run = [0; 8];
    getrandom::fill(&mut run).expect("a random number can be had");
    let run = u64::from_le_bytes(run);
    let number = LOGS.fetch_add(1, Ordering::Relaxed);
    let url = format!("{bucket}/{run:x}/{number}");
    move || Log::in_s3(&url).unwrap()
}

struct Bucket<L>(L);

impl<L: Fn() -> Log + 'static> LogRig for Bucket<L> {
    type Split = Letter;
    type Log = Log;

    fn open(&mut self) -> Log {
        (self.0)()
    }

    fn split(&self) -> Letter {
        Letter('a')
    }

    fn position(&self, number: u64) -> u64 {
        number
    }

    fn metadata(&self, number: u64) -> Letters {
        Letters::of(if number.is_multiple_of(2) { "a" } else { "ab" })
    }
}

#[test]
fn the_log_in_s3_keeps_its_contract() {
    let kit = Kit::new().patience(Duration::from_secs(120));
    kit.log(|| Bucket(log())).assert_kept_but(&["L5"]);
}

#[test]
fn a_run_in_s3_is_fenced_by_the_next_and_what_is_old_is_deleted() {
    let log = log();
    let mut first = log();
    let mut written = write(&mut first, &appends());
    let mut second = log().keep_for(Duration::ZERO);
    let next = second.open().unwrap().next;

    let fenced = first.append(RUN, next, &[binding(3, 7, 8)]).unwrap();

    assert_eq!(fenced, Appended::Fenced);
    assert_eq!(second.read_all().unwrap(), written);
    written = write(&mut second, &[vec![snapshot(3)], vec![binding(4, 7, 8)]]);
    assert_eq!(log().read_only().read_all().unwrap(), written);
}

#[test]
fn a_bucket_that_is_not_there_ends_a_run_at_once_and_a_store_that_is_away_is_waited_for() {
    drop(log());
    let missing = Log::in_s3("s3://no-such-bucket-here/log").unwrap().open();

    let missing = missing.unwrap_err();
    assert_eq!(missing.kind, FailureKind::Definite, "{missing}");
    assert!(missing.to_string().contains("NoSuchBucket"), "{missing}");
    // Nobody listens on port 1.
    let store = object_store::aws::AmazonS3Builder::from_env()
        .with_endpoint("http://127.0.0.1:1")
        .with_bucket_name("bindings");
    let store = Arc::new(store.build().unwrap());
    let limit = Duration::from_millis(300);
    let away = Log::in_store(store, "log").time_limit(limit).open();
    let away = away.unwrap_err();
    assert_eq!(away.kind, FailureKind::Transient, "{away}");
}
