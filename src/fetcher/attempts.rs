//! When a client is made, made again, and given up: for one with other secrets, or until it is needed.

use std::time::{Duration, Instant};

/// How long is waited between two attempts to make a client, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How long is waited after a crash, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How long a client that fails has the same secrets before it is looked whether they are still what
/// its properties refer to, at first and at most. To look costs the reading of a small file or two.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// A wait that grows.
#[derive(Debug)]
struct Wait {
    bounds: (Duration, Duration),
    next: Duration,
}

impl Wait {
    fn within(bounds: (Duration, Duration)) -> Self {
        Self {
            bounds,
            next: bounds.0,
        }
    }

    /// This wait; the next one is twice as long.
    fn take(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.bounds.1);
        wait
    }

    fn reset(&mut self) {
        self.next = self.bounds.0;
    }
}

/// The attempts at one client.
#[derive(Debug)]
pub(super) struct Attempts {
    /// When the client is to be made.
    next: Option<Instant>,
    failing: Wait,
    crashing: Wait,
    looking: Wait,
    /// When to look next, while the client fails.
    look: Option<Instant>,
    /// When the client was made last.
    made: Option<Instant>,
    /// The client was given up until it is needed.
    rests: bool,
}

impl Attempts {
    /// None so far; the first is due at once.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            next: Some(now),
            failing: Wait::within(RETRY),
            crashing: Wait::within(AGAIN),
            looking: Wait::within(LOOK),
            look: None,
            made: None,
            rests: false,
        }
    }

    /// Whether a client is to be made.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| now >= next)
    }

    /// A client was made.
    pub(super) fn made(&mut self, now: Instant) {
        self.next = None;
        self.rests = false;
        self.made = Some(now);
        self.failing.reset();
    }

    /// The client is given up until it is needed.
    pub(super) fn rest(&mut self) {
        self.rests = true;
    }

    /// Whether the client is not made until it is needed.
    pub(super) fn rests(&self) -> bool {
        self.rests
    }

    /// The client is needed. Says whether it is to be made therefore.
    pub(super) fn needed(&mut self) -> bool {
        std::mem::take(&mut self.rests)
    }

    /// No client could be made. If it may not pass, it is not tried again with the same properties.
    pub(super) fn failed(&mut self, may_pass: bool, now: Instant) {
        self.next = may_pass.then(|| now + self.failing.take());
    }

    /// The client's thread panicked. Says how long is waited until a client is made again.
    pub(super) fn crashed(&mut self, now: Instant) -> Duration {
        let lived = self.made.map_or(Duration::ZERO, |made| now - made);
        if lived > AGAIN.1 {
            self.crashing.reset();
        }
        let wait = self.crashing.take();
        self.next = Some(now + wait);
        self.rests = false;
        wait
    }

    /// Whether it is time to look whether secrets changed; `fails` says whether there is a reason.
    pub(super) fn looks(&mut self, fails: bool, now: Instant) -> bool {
        if !fails {
            self.looking.reset();
            self.look = None;
            return false;
        }
        let is_due = self.look.is_some_and(|look| now >= look);
        if is_due || self.look.is_none() {
            self.look = Some(now + self.looking.take());
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn crashes_in_a_row_are_waited_out_longer_each_time_and_never_longer_than_a_minute() {
        let mut now = Instant::now();
        let mut attempts = Attempts::new(now);
        let mut waits = Vec::new();

        for _ in 0..8 {
            attempts.made(now);
            let wait = attempts.crashed(now);
            assert!(!attempts.is_due(now) && attempts.is_due(now + wait));
            waits.push(wait.as_secs());
            now += wait;
        }
        attempts.made(now);

        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(attempts.crashed(now + 61 * SECOND), SECOND);
    }

    #[test]
    fn secrets_are_looked_at_every_few_seconds_while_a_client_fails() {
        let now = Instant::now();
        let mut attempts = Attempts::new(now);
        let mut looked = Vec::new();

        for second in 0..20 {
            if attempts.looks(true, now + second * SECOND) {
                looked.push(second);
            }
        }

        assert_eq!(looked, [1, 3, 7, 12, 17]);
        assert!(!attempts.looks(false, now + 100 * SECOND));
        assert!(!attempts.looks(true, now + 101 * SECOND));
    }
}
