//! What a fetcher has to hand over.

use std::collections::{BTreeSet, VecDeque};

use timely_splits::epoch::SplitEpoch;
use timely_splits::fetcher::{DownCause, Fetched, FetcherDown};
use timely_splits::health::{FailureKind, Health, HealthStatus};

use super::drain::KafkaFetched;
use crate::model::KafkaSplit;

/// What is to be handed over.
///
/// Bounded by what clients may have on a queue, since only an empty one is filled from there, by the splits,
/// and by the health that a link lets wait.
///
/// # Invariants
///
/// The end of an assignment is behind the pieces of its split, so that where the reader is when it hears of it is
/// where the reading stopped. It waits for no other piece, and a person hears of it at once.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// What clients are prepared for, and health.
    said: Vec<KafkaFetched>,
    /// Pieces and ends, in the order in which they came.
    fetched: VecDeque<KafkaFetched>,
    /// The memory of its batches.
    bytes: usize,
    /// The ends that are in it.
    ends: usize,
    /// Those of them of which a person has heard.
    told: BTreeSet<(KafkaSplit, SplitEpoch)>,
}

impl Backlog {
    pub(super) fn push(&mut self, fetched: KafkaFetched) {
        match fetched {
            Fetched::Prepared(_) | Fetched::Health(_) => self.said.push(fetched),
            Fetched::Piece(_) | Fetched::Down(_) => {
                self.bytes += bytes_of(&fetched);
                self.ends += usize::from(matches!(fetched, Fetched::Down(_)));
                self.fetched.push_back(fetched);
            }
        }
    }

    pub(super) fn extend(&mut self, fetched: impl IntoIterator<Item = KafkaFetched>) {
        for one in fetched {
            self.push(one);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.said.is_empty() && self.fetched.is_empty()
    }

    /// Whether a piece of a split waits in it.
    #[cfg(test)]
    pub(super) fn has_piece(&self, split: &KafkaSplit) -> bool {
        let mut pieces = self.fetched.iter();
        pieces.any(|fetched| matches!(fetched, Fetched::Piece(piece) if piece.split == *split))
    }

    /// The memory of what waits in it.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves to `fetched` what waits for no room: all but pieces, and the ends behind pieces of their splits,
    /// of which health has to tell.
    pub(super) fn speak(&mut self, fetched: &mut Vec<KafkaFetched>) {
        fetched.append(&mut self.said);
        if self.ends == 0 {
            return;
        }
        let mut with_pieces = BTreeSet::new();
        for one in std::mem::take(&mut self.fetched) {
            match &one {
                Fetched::Piece(piece) => {
                    with_pieces.insert(piece.split.clone());
                }
                Fetched::Down(down) if with_pieces.contains(&down.split) => {
                    if self.told.insert((down.split.clone(), down.split_epoch)) {
                        fetched.push(Fetched::Health(waits(down)));
                    }
                }
                Fetched::Down(_) | Fetched::Prepared(_) | Fetched::Health(_) => {
                    self.ends -= 1;
                    fetched.push(one);
                    continue;
                }
            }
            self.fetched.push_back(one);
        }
    }

    /// Moves the oldest that was fetched to `fetched` and says how many bytes it has, if there is one.
    pub(super) fn hand_over(&mut self, fetched: &mut Vec<KafkaFetched>) -> Option<usize> {
        let oldest = self.fetched.pop_front()?;
        let bytes = bytes_of(&oldest);
        self.bytes -= bytes;
        if let Fetched::Down(down) = &oldest {
            self.ends -= 1;
            self.told.remove(&(down.split.clone(), down.split_epoch));
        }
        fetched.push(oldest);
        Some(bytes)
    }

    /// Forgets what was fetched of a split: it is read anew.
    pub(super) fn forget(&mut self, split: &KafkaSplit) {
        self.fetched.retain(|fetched| match fetched {
            Fetched::Piece(piece) => piece.split != *split,
            Fetched::Down(down) => down.split != *split,
            Fetched::Prepared(_) | Fetched::Health(_) => true,
        });
        let is_end = |fetched: &&KafkaFetched| matches!(fetched, Fetched::Down(_));
        self.bytes = self.fetched.iter().map(bytes_of).sum();
        self.ends = self.fetched.iter().filter(is_end).count();
        self.told.retain(|(told, _)| told != split);
    }
}

/// What a person should know of an end that has to wait for room.
fn waits(down: &FetcherDown<KafkaSplit>) -> Health {
    let kind = match down.cause {
        DownCause::Failed(kind) => kind,
        DownCause::Crashed | DownCause::Damaged | DownCause::Lost(_) => FailureKind::Transient,
    };
    let message = format!(
        "{}; this is dealt with when there is room for what was read before",
        down.message
    );
    Health::new(
        format!("split {}", down.split),
        HealthStatus::Failing(kind),
        message,
    )
}

fn bytes_of(fetched: &KafkaFetched) -> usize {
    match fetched {
        Fetched::Piece(piece) => piece.bytes,
        Fetched::Down(_) | Fetched::Prepared(_) | Fetched::Health(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use timely_splits::fetcher::Piece;

    use super::*;
    use crate::model::{ClusterId, KafkaPosition, Offset, Partition, TopicName};

    fn split(partition: i32) -> KafkaSplit {
        KafkaSplit::new(
            ClusterId::new("east").unwrap(),
            TopicName::new("t").unwrap(),
            Partition(partition),
        )
    }

    fn piece(partition: i32) -> KafkaFetched {
        Fetched::Piece(Piece {
            split: split(partition),
            split_epoch: SplitEpoch(1),
            start: KafkaPosition::at(Offset::new(0)),
            end: KafkaPosition::at(Offset::new(1)),
            bytes: 7,
            batch: None,
        })
    }

    fn end(partition: i32) -> KafkaFetched {
        Fetched::Down(FetcherDown {
            split: split(partition),
            split_epoch: SplitEpoch(1),
            cause: DownCause::Failed(FailureKind::Transient),
            message: "it failed".to_owned(),
        })
    }

    /// What was handed over, in short.
    fn words(fetched: &mut Vec<KafkaFetched>) -> Vec<String> {
        let word = |one: KafkaFetched| match one {
            Fetched::Piece(piece) => format!("piece {}", piece.split.partition.0),
            Fetched::Down(down) => format!("end {}", down.split.partition.0),
            Fetched::Prepared(split) => format!("prepared {}", split.partition.0),
            Fetched::Health(health) => health.to_string(),
        };
        fetched.drain(..).map(word).collect()
    }

    fn spoken(backlog: &mut Backlog) -> Vec<String> {
        let mut fetched = Vec::new();
        backlog.speak(&mut fetched);
        words(&mut fetched)
    }

    /// All ends waited until the user had dealt with every record that was fetched before.
    #[test]
    fn an_end_waits_for_the_pieces_of_its_split_only_and_health_for_none() {
        let mut backlog = Backlog::default();
        backlog.extend([piece(0), end(0), piece(1), end(2), piece(2)]);

        let said = spoken(&mut backlog);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("split east/t/0") && said[0].contains("it failed"));
        assert_eq!(said[1], "end 2");
        assert_eq!(spoken(&mut backlog), [""; 0], "it is told once");
        assert_eq!(backlog.bytes(), 21);

        let mut fetched = Vec::new();
        while backlog.hand_over(&mut fetched).is_some() {}
        assert_eq!(
            words(&mut fetched),
            ["piece 0", "end 0", "piece 1", "piece 2"]
        );
        assert!(backlog.is_empty() && backlog.told.is_empty() && backlog.ends == 0);
    }

    #[test]
    fn nothing_is_told_of_what_is_read_anew() {
        let mut backlog = Backlog::default();
        backlog.extend([piece(0), end(0), piece(1), end(1)]);

        backlog.forget(&split(0));

        let said = spoken(&mut backlog);
        assert!(said.len() == 1 && said[0].contains("split east/t/1"));
        backlog.forget(&split(1));
        assert!(backlog.is_empty() && backlog.told.is_empty() && backlog.ends == 0);
    }
}
