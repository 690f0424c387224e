//! Which clusters have something for a worker.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::ClusterId;

/// The clusters whose queues a worker is to look at, in the order in which something came.
///
/// Bounded: each cluster has one turn at most, and one that is not listed any more has none, but for what its queue
/// calls while it ends.
///
/// # Invariants
///
/// What is on a queue is seen by a look to come: its cluster has a turn here, is being looked at, or is given
/// a turn by whoever put it there and has not returned yet. For that,
///
/// * whatever puts something on a queue that is empty [gives](Self::give) a turn after it, before the queue is
///   unlocked, and wakes the worker if there was none;
/// * the worker [takes](Self::take) a turn *before* it looks at the queue, and gives it back if it left something.
///
/// So what comes after a look to a queue that was left empty gives a turn, and what came before was seen. Taken
/// after the look, the turn of what came in between would be lost.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    order: VecDeque<ClusterId>,
    /// Those in `order`.
    having: BTreeSet<ClusterId>,
}

impl Turns {
    /// Gives a cluster a turn, the last; says whether it had none.
    pub(super) fn give(&self, cluster: &ClusterId) -> bool {
        let mut state = self.state();
        if state.having.contains(cluster) {
            return false;
        }
        state.having.insert(cluster.clone());
        state.order.push_back(cluster.clone());
        true
    }

    /// The cluster whose turn it is, which has none after that.
    pub(super) fn take(&self) -> Option<ClusterId> {
        let mut state = self.state();
        let cluster = state.order.pop_front()?;
        state.having.remove(&cluster);
        Some(cluster)
    }

    /// A cluster is not listed any more.
    pub(super) fn forget(&self, cluster: &ClusterId) {
        let mut state = self.state();
        if state.having.remove(cluster) {
            state.order.retain(|other| other != cluster);
        }
    }

    /// How many have a turn.
    pub(super) fn count(&self) -> usize {
        self.state().order.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    use crossbeam_channel::bounded;

    fn named(name: &str) -> ClusterId {
        ClusterId::new(name).unwrap()
    }

    #[test]
    fn a_cluster_has_one_turn_at_most_and_the_last_comes_last() {
        let turns = Turns::default();

        let given = ["b", "a", "b", "c"].map(|name| turns.give(&named(name)));
        let first = turns.take();
        let again = turns.give(&named("b"));

        assert_eq!(given, [true, true, false, true]);
        assert_eq!((first, again, turns.count()), (Some(named("b")), true, 3));
        let rest = std::iter::from_fn(|| turns.take());
        let rest: Vec<_> = rest.map(|cluster| cluster.to_string()).collect();
        assert_eq!(rest, ["a", "c", "b"]);
    }

    #[test]
    fn a_cluster_that_is_forgotten_has_no_turn_and_can_have_one_again() {
        let turns = Turns::default();
        for name in ["a", "b", "c"] {
            turns.give(&named(name));
        }

        turns.forget(&named("b"));
        turns.forget(&named("d"));

        assert_eq!(turns.count(), 2);
        assert!(turns.give(&named("b")));
        let rest = std::iter::from_fn(|| turns.take());
        let rest: Vec<_> = rest.map(|cluster| cluster.to_string()).collect();
        assert_eq!(rest, ["a", "c", "b"]);
    }

    /// The worker waits for a wake whenever there is no turn, and nothing else wakes it.
    #[test]
    fn what_comes_while_a_queue_is_looked_at_is_seen() {
        const CLUSTERS: usize = 3;
        const EACH: usize = 50_000;
        let queues: Arc<[Mutex<usize>; CLUSTERS]> = Arc::default();
        let turns = Arc::new(Turns::default());
        let (raise, raised) = bounded(1);
        let writers = (0..CLUSTERS).map(|index| {
            let (queues, turns, raise) = (Arc::clone(&queues), Arc::clone(&turns), raise.clone());
            thread::spawn(move || {
                for _ in 0..EACH {
                    // As librdkafka does: what is called is called under the lock of the queue.
                    let mut queue = queues[index].lock().unwrap();
                    *queue += 1;
                    if *queue == 1 && turns.give(&named(&index.to_string())) {
                        raise.try_send(()).ok();
                    }
                }
            })
        });
        let writers: Vec<_> = writers.collect();

        let mut seen = 0;
        while seen < CLUSTERS * EACH {
            let Some(cluster) = turns.take() else {
                let patience = std::time::Duration::from_secs(60);
                assert!(raised.recv_timeout(patience).is_ok(), "{seen} were seen");
                continue;
            };
            let index: usize = cluster.as_str().parse().unwrap();
            seen += std::mem::take(&mut *queues[index].lock().unwrap());
            // So that much comes between the look and the next turn.
            thread::yield_now();
        }

        assert_eq!(seen, CLUSTERS * EACH);
        for writer in writers {
            writer.join().unwrap();
        }
    }
}
