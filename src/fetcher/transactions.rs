//! What open transactions hold back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use timely_splits::health::{Health, HealthStatus};

use crate::model::{ClusterId, KafkaSplit, Offset};

/// How long a transaction is open before anybody is told: most are over sooner.
const TELL_AFTER: Duration = Duration::from_secs(10);

/// How often it is looked whether there is one to tell of: that takes a look at every split.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Splits of one worker and cluster that were read to their last stable offset, with more behind it.
///
/// Who reads only what is committed waits at the beginning of the first transaction that is open,
/// also for records behind it that belong to none. A producer that hangs or was lost holds them back
/// for its `transaction.timeout.ms`, and nothing but the time that passes tells it from a slow one.
#[derive(Debug, Default)]
pub(super) struct OpenTransactions {
    /// Bounded by the splits that are read.
    held_back: BTreeMap<KafkaSplit, HeldBack>,
    /// The oldest that anybody was told of, unless it was told that it is over.
    told: Option<Told>,
    /// When it is to be looked for the oldest again.
    look_due: Option<Instant>,
}

/// A transaction that a person was told of.
#[derive(Debug)]
struct Told {
    split: KafkaSplit,
    since: Instant,
    /// How old it is when it is told again.
    again: Duration,
}

/// What is behind the last stable offset of one split.
#[derive(Clone, Copy, Debug)]
struct HeldBack {
    last_stable: Offset,
    records: u64,
    since: Instant,
}

impl OpenTransactions {
    /// Notes that so many offsets of `split` are behind its last stable one, which may be none.
    pub(super) fn note(
        &mut self,
        split: &KafkaSplit,
        last_stable: Offset,
        records: u64,
        now: Instant,
    ) {
        if records == 0 {
            self.held_back.remove(split);
            return;
        }
        match self.held_back.get_mut(split) {
            Some(held) if held.last_stable == last_stable => held.records = records,
            Some(held) => {
                *held = HeldBack {
                    last_stable,
                    records,
                    since: now,
                };
            }
            None => {
                let held = HeldBack {
                    last_stable,
                    records,
                    since: now,
                };
                self.held_back.insert(split.clone(), held);
            }
        }
    }

    /// `split` is at `at`: a transaction that held it back elsewhere is over.
    pub(super) fn moved(&mut self, split: &KafkaSplit, at: Offset) {
        let held = self.held_back.get(split);
        if held.is_some_and(|held| held.last_stable != at) {
            self.held_back.remove(split);
        }
    }

    /// `split` is not read any more.
    pub(super) fn forget(&mut self, split: &KafkaSplit) {
        self.held_back.remove(split);
    }

    /// None of the splits is read any more.
    pub(super) fn forget_all(&mut self) {
        self.held_back.clear();
    }

    /// What a person should know of them, if anything changed: each that is the oldest, once for each
    /// doubling of its age, and once when there is none. Most are over soon, so none is one before it has
    /// been open for some time.
    pub(super) fn tell(
        &mut self,
        cluster: &ClusterId,
        worker: usize,
        now: Instant,
    ) -> Option<Health> {
        if self.look_due.is_some_and(|due| now < due) {
            return None;
        }
        self.look_due = Some(now + LOOK_EVERY);
        let subject = || format!("open transactions of cluster {cluster}, worker {worker}");
        let age = |held: &HeldBack| now.saturating_duration_since(held.since);
        let old = (self.held_back.iter()).filter(|(_, held)| age(held) >= TELL_AFTER);
        let Some((split, held)) = old.min_by_key(|(_, held)| held.since) else {
            self.told.take()?;
            let message = "none holds anything back";
            return Some(Health::new(subject(), HealthStatus::Well, message));
        };
        let age = age(held);
        let told = self.told.as_ref();
        let told = told.filter(|told| told.split == *split && told.since == held.since);
        if told.is_some_and(|told| age < told.again) {
            return None;
        }
        self.told = Some(Told {
            split: split.clone(),
            since: held.since,
            again: age * 2,
        });
        let more = match self.held_back.len() - 1 {
            0 => String::new(),
            count => format!(", and {count} more splits for a shorter time"),
        };
        let message = format!(
            "split {split} waits for {} s at offset {}, its last stable one, with {} offsets behind \
             it{more}; it goes on when the transaction there ends, which Kafka does by itself after \
             its producer's transaction.timeout.ms; kafka-transactions --find-hanging finds those \
             that never end",
            age.as_secs(),
            held.last_stable.get(),
            held.records,
        );
        Some(Health::new(subject(), HealthStatus::Waiting, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Partition, TopicName};

    fn split(partition: i32) -> KafkaSplit {
        let east = ClusterId::new("east").unwrap();
        KafkaSplit::new(east, TopicName::new("t").unwrap(), Partition(partition))
    }

    #[test]
    fn the_oldest_is_told_after_some_time_and_at_each_doubling_and_the_end_of_all_once() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut open = OpenTransactions::default();
        let east = ClusterId::new("east").unwrap();
        let mut told = Vec::new();
        for second in 0..50 {
            open.note(&split(0), Offset::new(12), 8, at(second));
            if second >= 5 {
                open.note(&split(1), Offset::new(3), 1, at(second));
            }
            told.extend(
                open.tell(&east, 2, at(second))
                    .map(|health| (second, health)),
            );
        }
        open.note(&split(0), Offset::new(12), 0, at(50));
        open.forget(&split(1));
        told.extend(open.tell(&east, 2, at(50)).map(|health| (50, health)));
        told.extend(open.tell(&east, 2, at(51)).map(|health| (51, health)));

        let seconds: Vec<_> = told.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds, [10, 20, 40, 50]);
        let first = &told[0].1;
        assert_eq!(first.subject, "open transactions of cluster east, worker 2");
        for words in ["east/t/0", "10 s", "offset 12", "8 offsets", "1 more"] {
            assert!(first.message.contains(words), "{words}: {first}");
        }
        assert_eq!(told[3].1.status, HealthStatus::Well);
    }

    /// Transactions that follow each other closely are none that hangs.
    #[test]
    fn a_last_stable_offset_that_moves_is_another_transaction() {
        let start = Instant::now();
        let mut open = OpenTransactions::default();
        let east = ClusterId::new("east").unwrap();
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            open.note(&split(0), Offset::new(second / 5), 1, now);
            assert_eq!(open.tell(&east, 0, now), None);
        }
    }

    /// One that hung was told of. While others came after it, each for a moment only, it was neither said
    /// that it is over, nor of the next that hung before that was as old as the first had been.
    #[test]
    fn the_end_of_one_and_the_age_of_the_next_are_told_whatever_comes_in_between() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut open = OpenTransactions::default();
        let east = ClusterId::new("east").unwrap();
        let mut told = Vec::new();
        for second in 0..200 {
            // Split 0 hangs until 100, split 1 from 120 on, and split 2 has a short one at any time.
            let (hangs, hangs_next) = (second < 100, second >= 120);
            open.note(&split(0), Offset::new(1), u64::from(hangs), at(second));
            open.note(&split(1), Offset::new(1), u64::from(hangs_next), at(second));
            open.note(&split(2), Offset::new(second / 2), 1, at(second));
            let health = open.tell(&east, 0, at(second));
            told.extend(health.map(|health| (second, health.status)));
        }

        let (waits, well) = (HealthStatus::Waiting, HealthStatus::Well);
        let hanging = [10, 20, 40, 80].map(|second| (second, waits));
        let next = [130, 140, 160].map(|second| (second, waits));
        assert_eq!(told, [&hanging[..], &[(100, well)], &next].concat());
    }

    /// A worker whose queue is never empty forgot at each look since when it was open.
    #[test]
    fn a_split_that_does_not_move_is_held_back_since_the_first_look() {
        let start = Instant::now();
        let later = start + TELL_AFTER;
        let mut open = OpenTransactions::default();
        let east = ClusterId::new("east").unwrap();
        open.note(&split(0), Offset::new(1), 1, start);
        open.moved(&split(0), Offset::new(1));
        open.note(&split(0), Offset::new(1), 1, later);
        let waits = open.tell(&east, 0, later).map(|health| health.status);

        open.moved(&split(0), Offset::new(2));
        let over = open.tell(&east, 0, later + LOOK_EVERY);

        assert_eq!(waits, Some(HealthStatus::Waiting));
        assert_eq!(over.map(|health| health.status), Some(HealthStatus::Well));
    }

    /// Each poll would look at every split, which is quadratic where the lag of each is asked for.
    #[test]
    fn it_is_looked_for_the_oldest_once_a_second() {
        let start = Instant::now();
        let mut open = OpenTransactions::default();
        let east = ClusterId::new("east").unwrap();
        open.note(&split(0), Offset::new(1), 1, start);

        let looks = (0..20_000).filter(|millis| {
            let before = open.look_due;
            open.tell(&east, 0, start + Duration::from_millis(*millis));
            open.look_due != before
        });

        assert_eq!(looks.count(), 20);
    }
}
