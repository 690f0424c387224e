//! Every schedule of threads that wake an operator.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

use std::sync::Arc;

use loom::sync::atomic; // what the flag is made of here
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

#[path = "../src/wake/flag.rs"]
mod flag;

use crate::flag::WakeFlag;

/// A worker that runs its operator once for each activation.
struct Worker {
    flag: WakeFlag,
    activations: Mutex<usize>,
    activated: Condvar,
    /// What threads left for the operator. Relaxed: it is the flag alone that orders it.
    left: AtomicUsize,
}

impl Worker {
    fn new() -> Self {
        Self {
            flag: WakeFlag::new(),
            activations: Mutex::new(0),
            activated: Condvar::new(),
            left: AtomicUsize::new(0),
        }
    }

    /// Leaves something for the operator and wakes it.
    fn leave(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
        if self.flag.raise() {
            let mut activations = self.activations.lock().unwrap();
            *activations += 1;
            assert_eq!(*activations, 1, "activations outstanding");
            self.activated.notify_one();
        }
    }

    /// Runs the operator when it is activated; returns what it found.
    fn run(&self) -> usize {
        let mut activations = self.activations.lock().unwrap();
        while *activations == 0 {
            activations = self.activated.wait(activations).unwrap();
        }
        *activations -= 1;
        drop(activations);
        self.flag.lower();
        self.left.load(Ordering::Relaxed)
    }
}

/// A wake that is lost leaves the operator waiting for ever, which loom reports.
fn all_is_found(threads: usize, each: usize) {
    loom::model(move || {
        let worker = Arc::new(Worker::new());
        let wakers: Vec<_> = (0..threads)
            .map(|_| {
                let shared = Arc::clone(&worker);
                thread::spawn(move || (0..each).for_each(|_| shared.leave()))
            })
            .collect();

        while worker.run() < threads * each {}

        for waker in wakers {
            waker.join().unwrap();
        }
    });
}

#[test]
fn nothing_that_one_thread_leaves_is_lost_and_one_activation_is_outstanding() {
    all_is_found(1, 3);
}

#[test]
fn nothing_that_two_threads_leave_is_lost_and_one_activation_is_outstanding() {
    all_is_found(2, 1);
}
