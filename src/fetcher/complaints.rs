//! Makes few lines for a person of the many that a client says.
//!
//! A client that cannot connect complains up to twenty times a second, and most of what it says is a
//! consequence: that all brokers are down follows from a refused password. A complaint is shown
//! once, and not while a closer cause is known.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use timely_splits::health::{FailureKind, Health, HealthStatus};

use super::ffi::control::DOWN_FOR;
use super::ffi::{NativeError, Said};
use crate::model::ClusterId;
use crate::model::words::without_numbers;

/// How long a client must not have complained to be well again if nothing else shows it: longer than
/// a broker that hangs takes to be noticed once more.
const QUIET: Duration = Duration::from_secs(30);

/// How long a client must not have complained to be well again once records come: what was fetched
/// before the trouble comes too.
const QUIET_WITH_RECORDS: Duration = Duration::from_secs(1);

/// How many different complaints, and how many brokers' causes, are remembered.
const REMEMBERED_MAX: usize = 64;

/// How near a complaint is to the cause of the trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closeness {
    /// `_ALL_BROKERS_DOWN`: follows from anything.
    Consequence,
    /// A connection broke or could not be made, or a call failed.
    Connection,
    /// Who we are, or who the broker is, was not accepted.
    Identity,
}

impl Closeness {
    fn of(error: &NativeError) -> Self {
        match error.name.as_str() {
            "_ALL_BROKERS_DOWN" => Self::Consequence,
            "_SSL" | "_AUTHENTICATION" => Self::Identity,
            _ => Self::Connection,
        }
    }
}

/// What a client complained of since it was well.
#[derive(Debug)]
pub(super) struct Complaints {
    subject: String,
    shown: BTreeSet<(String, String)>,
    closest: Option<Closeness>,
    last: Option<Instant>,
    /// When the client said that all brokers are down.
    down: Option<Instant>,
    /// The last line of the log about each broker; some causes are told nowhere else.
    causes: BTreeMap<String, String>,
}

impl Complaints {
    /// None, of a client of `cluster`.
    pub(super) fn about(cluster: &ClusterId) -> Self {
        Self {
            subject: format!("cluster {cluster}"),
            shown: BTreeSet::new(),
            closest: None,
            last: None,
            down: None,
            causes: BTreeMap::new(),
        }
    }

    /// What a person should hear of what the client `said` since it was last asked.
    pub(super) fn hear(&mut self, said: Vec<Said>, now: Instant) -> Vec<Health> {
        let mut errors = Vec::new();
        for one in said {
            match one {
                Said::Error(error) => errors.push(error),
                Said::Log {
                    level,
                    facility,
                    message,
                } => self.note(level, &facility, message),
            }
        }
        // The closest first, also if it was said last.
        errors.sort_by_key(|error| std::cmp::Reverse(Closeness::of(error)));
        errors
            .iter()
            .filter_map(|error| self.complain(error, now))
            .collect()
    }

    /// That the client is well again, if it is; `records` says whether records came meanwhile.
    pub(super) fn recover(&mut self, records: bool, now: Instant) -> Option<Health> {
        let quiet = if records { QUIET_WITH_RECORDS } else { QUIET };
        if now.duration_since(self.last?) < quiet {
            return None;
        }
        self.shown.clear();
        self.causes.clear();
        self.closest = None;
        self.last = None;
        self.down = None;
        let message = if records {
            "records come again"
        } else {
            "no complaint for 30 seconds"
        };
        Some(Health::new(
            self.subject.as_str(),
            HealthStatus::Well,
            message,
        ))
    }

    /// Whether the client complained since it was well.
    pub(super) fn is_failing(&self) -> bool {
        self.last.is_some()
    }

    /// Another client takes the place of the one that complained, or that ended in another way: it is
    /// not well before it has shown so, and what it complains of is news.
    pub(super) fn start_over(&mut self, now: Instant) {
        self.shown.clear();
        self.causes.clear();
        self.closest = None;
        self.last = Some(now);
        self.down = None;
    }

    /// Whether the client has said, for [`DOWN_FOR`] now, that all brokers are down. It does not say when they
    /// are not any more.
    pub(super) fn said_down(&self, now: Instant) -> bool {
        self.down.is_some_and(|since| now >= since + DOWN_FOR)
    }

    fn complain(&mut self, error: &NativeError, now: Instant) -> Option<Health> {
        let closeness = Closeness::of(error);
        self.last = Some(now);
        if closeness == Closeness::Consequence {
            self.down.get_or_insert(now);
        }
        if self.closest > Some(closeness) {
            return None;
        }
        let key = (error.name.clone(), without_numbers(&error.message));
        if self.shown.len() >= REMEMBERED_MAX || !self.shown.insert(key) {
            return None;
        }
        self.closest = Some(closeness);
        let mut message = format!("{} ({})", error.message, error.name);
        if error.name == "_SSL" && error.message.contains("verify failed") {
            message.push_str("; the authority is not the expected one, or a certificate expired");
        }
        if closeness == Closeness::Consequence {
            for cause in self.causes.values() {
                message.push_str("; ");
                message.push_str(cause);
            }
        }
        Some(Health::new(
            self.subject.as_str(),
            HealthStatus::Failing(FailureKind::Transient),
            message,
        ))
    }

    /// Keeps a line of the client's log if it may tell a cause.
    fn note(&mut self, level: i32, facility: &str, message: String) {
        tracing::debug!(subject = %self.subject, level, facility, "{message}");
        if !matches!(facility, "FAIL" | "REQTMOUT" | "CLUSTERID" | "ERROR") {
            return;
        }
        let line = message
            .strip_prefix("[thrd:")
            .and_then(|rest| rest.split_once("]: "));
        let (broker, cause) = line.unwrap_or(("", &message));
        if self.causes.len() < REMEMBERED_MAX || self.causes.contains_key(broker) {
            self.causes.insert(broker.to_owned(), cause.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints() -> Complaints {
        Complaints::about(&ClusterId::new("east").unwrap())
    }

    fn error(name: &str, message: &str) -> Said {
        Said::Error(NativeError {
            code: -1,
            name: name.to_owned(),
            message: message.to_owned(),
            property: None,
        })
    }

    #[test]
    fn what_differs_in_numbers_only_is_said_once() {
        let (mut complaints, now) = (complaints(), Instant::now());

        let first = complaints.hear(
            vec![error(
                "_TRANSPORT",
                "connect to 10.0.0.1:9092 failed after 3ms",
            )],
            now,
        );
        let second = complaints.hear(
            vec![error(
                "_TRANSPORT",
                "connect to 10.0.0.2:9092 failed after 17ms",
            )],
            now,
        );

        assert_eq!(first.len(), 1);
        assert_eq!(second, []);
    }

    #[test]
    fn a_consequence_is_not_said_while_a_closer_cause_is_known() {
        let (mut complaints, now) = (complaints(), Instant::now());

        let heard = complaints.hear(
            vec![
                error("_ALL_BROKERS_DOWN", "1/1 brokers are down"),
                error("_AUTHENTICATION", "invalid credentials"),
                error("_TRANSPORT", "disconnected"),
            ],
            now,
        );

        assert_eq!(heard.len(), 1);
        assert!(heard[0].message.contains("invalid credentials"));
    }

    #[test]
    fn that_all_brokers_are_down_is_said_with_the_cause_in_the_log() {
        let mut complaints = complaints();
        let line = "[thrd:127.0.0.1:1/bootstrap]: 127.0.0.1:1/bootstrap: Disconnected: closed";

        let heard = complaints.hear(
            vec![
                error("_ALL_BROKERS_DOWN", "1/1 brokers are down"),
                Said::Log {
                    level: 6,
                    facility: "FAIL".to_owned(),
                    message: line.to_owned(),
                },
            ],
            Instant::now(),
        );

        assert_eq!(
            heard[0].message,
            "1/1 brokers are down (_ALL_BROKERS_DOWN); 127.0.0.1:1/bootstrap: Disconnected: closed"
        );
    }

    #[test]
    fn a_client_is_well_again_when_records_come_and_nothing_is_said() {
        let (mut complaints, now) = (complaints(), Instant::now());
        complaints.hear(vec![error("_TRANSPORT", "disconnected")], now);

        let at_once = complaints.recover(true, now);
        let later = complaints.recover(true, now + QUIET_WITH_RECORDS);
        let again = complaints.recover(true, now + QUIET_WITH_RECORDS);

        assert_eq!(at_once, None);
        assert_eq!(later.unwrap().status, HealthStatus::Well);
        assert_eq!(again, None);
    }
}
