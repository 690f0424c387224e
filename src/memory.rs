//! How much memory the sources of a process may use.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use timely_splits::budget::{ByteBudget, SourceBudget};

/// The bytes of the budget that sources share unless they are told otherwise.
const PROCESS_BYTES: usize = 256 << 20;

/// The part of a budget that the clients may fill with what nobody took yet.
const QUEUES_PART: usize = 64;

/// The least share of a client and worker in that. An empty queue is filled with a fetch whatever its limit is.
const QUEUED_BYTES_MIN: usize = 128 << 10;

/// The greatest share: what is on a queue is taken off it in one go, on a timely thread.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// The part of a budget that the clients may fetch at once, each from one broker, as it is on the wire. While one
/// fetch is made batches the next one comes in; so this has two of records of 100 bytes that zstd made a
/// twentieth, and for which librdkafka takes some 450 bytes each, take less than half of the budget.
const FETCHES_PART: usize = 512;

/// The least that a fetch may bring: less is so many round trips that reading is slow.
const FETCH_BYTES_MIN: usize = 64 << 10;

/// The most that a fetch may bring: more makes reading no faster.
const FETCH_BYTES_MAX: usize = 2 << 20;

/// The memory that sources of a process may use for records, about.
///
/// Sources that are not told otherwise share that of the [process](Self::process), and those that are given
/// clones of another one share that. Half of it is for what workers emitted and the user has not
/// dealt with. Of this half, each source that is read is guaranteed an equal part of one half, and an equal part
/// of that each of its workers; the rest is lent to whoever asks first. So a source alone can use
/// all of it, and one whose user stops takes nothing away from what is guaranteed to another.
///
/// The clients of all clusters share a 64th for what they have fetched and nobody took, each for all workers, and a
/// 512th for one fetch of each from each broker. A client has its share by the clients that there are when it is made,
/// since librdkafka cannot be told another one later. The rest is for what is between these, and for what a
/// fetch becomes when it is decompressed; the chapter on [performance](crate::manual::_10_performance) has the
/// sum.
///
/// Clones are the same budget.
///
/// # Examples
///
/// ```
/// use timely_kafka::{KafkaSource, MemoryBudget};
///
/// MemoryBudget::process().resize(1 << 30); // for all sources that are not told otherwise
///
/// let apart = MemoryBudget::new(64 << 20);
/// let orders = KafkaSource::builder().memory(&apart);
/// let visits = KafkaSource::builder().memory(&apart);
/// let alone = KafkaSource::builder().memory(32 << 20); // a budget that it shares with nobody
/// ```
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    bytes: AtomicUsize,
    in_flight: ByteBudget,
    /// The clients of all sources.
    clients: AtomicUsize,
}

impl MemoryBudget {
    /// A budget of `bytes`.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Parts {
            bytes: AtomicUsize::new(bytes),
            in_flight: ByteBudget::new(bytes / 2),
            clients: AtomicUsize::default(),
        }))
    }

    /// The budget of all sources of this process that are not given another one; 256 MiB unless it is
    /// [resized](Self::resize).
    #[must_use]
    pub fn process() -> Self {
        static PROCESS: LazyLock<MemoryBudget> = LazyLock::new(|| MemoryBudget::new(PROCESS_BYTES));
        PROCESS.clone()
    }

    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // The counters order nothing but themselves.
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Makes it another number of bytes, best before a source is read: clients that are made by then keep
    /// what they may fetch, and sources what they may emit at a tick.
    pub fn resize(&self, bytes: usize) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
        self.0.in_flight.resize(bytes / 2);
    }

    /// The share of one source in what may be in flight.
    pub(crate) fn source(&self) -> SourceBudget {
        self.0.in_flight.source()
    }

    /// What one of `peers` workers may emit at one tick. Those of all processes together may emit as much as may
    /// be in flight in this one, which may have to give the tick again alone.
    pub(crate) fn tick_bytes(&self, peers: usize) -> usize {
        (self.bytes() / 2 / peers.max(1)).max(1)
    }

    /// What one client of `sharers` may fetch.
    pub(crate) fn of_client(&self, sharers: Sharers) -> ClientShare {
        let part = |part: usize| self.bytes() / part / sharers.clients.max(1);
        let queued = part(QUEUES_PART) / sharers.workers.max(1);
        ClientShare {
            queued_bytes: queued.clamp(QUEUED_BYTES_MIN, QUEUED_BYTES_MAX),
            fetch_bytes: part(FETCHES_PART).clamp(FETCH_BYTES_MIN, FETCH_BYTES_MAX),
        }
    }

    /// The clients of one source, none by now.
    pub(crate) fn clients(&self) -> ClientCount {
        ClientCount {
            budget: self.clone(),
            own: 0,
        }
    }
}

impl From<usize> for MemoryBudget {
    fn from(bytes: usize) -> Self {
        Self::new(bytes)
    }
}

impl From<&Self> for MemoryBudget {
    fn from(budget: &Self) -> Self {
        budget.clone()
    }
}

/// Who shares what clients may fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharers {
    /// The clients of all sources.
    pub(crate) clients: usize,
    /// The workers of this process, each of which has a queue of each client.
    pub(crate) workers: usize,
}

impl Sharers {
    /// So many clients, for one worker.
    pub(crate) fn of_clients(clients: usize) -> Self {
        let workers = 1;
        Self { clients, workers }
    }
}

/// What one client may fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientShare {
    /// The bytes that may be queued of a worker when more is fetched for it.
    pub(crate) queued_bytes: usize,
    /// The bytes that a fetch may bring, as they are on the wire.
    pub(crate) fetch_bytes: usize,
}

/// How many clients one source has, until this is dropped.
#[derive(Debug)]
pub(crate) struct ClientCount {
    budget: MemoryBudget,
    own: usize,
}

impl ClientCount {
    /// The source has `own` clients; says how many there are with those of other sources.
    pub(crate) fn set(&mut self, own: usize) -> usize {
        let all = &self.budget.0.clients;
        let with_before = all.fetch_add(own, Ordering::Relaxed) + own;
        all.fetch_sub(self.own, Ordering::Relaxed);
        let total = with_before - self.own;
        self.own = own;
        total
    }
}

impl Drop for ClientCount {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_all_sources_share_what_may_be_fetched() {
        let budget = MemoryBudget::new(256 << 20);
        let (mut one, mut other) = (budget.clients(), budget.clients());

        assert_eq!(one.set(4), 4);
        assert_eq!(other.set(6), 10);
        assert_eq!(one.set(2), 8);
        drop(other);
        assert_eq!(one.set(3), 3);
    }

    #[test]
    fn a_share_is_neither_so_small_that_reading_is_slow_nor_larger_than_helps() {
        let budget = MemoryBudget::new(256 << 20);
        let share = |clients, workers| {
            let share = budget.of_client(Sharers { clients, workers });
            (share.queued_bytes >> 10, share.fetch_bytes >> 10)
        };

        assert_eq!(share(1, 1), (4 << 10, 512));
        assert_eq!(share(1, 4), (1 << 10, 512));
        assert_eq!(share(4, 1), (1 << 10, 128));
        assert_eq!(share(4, 2), (512, 128));
        assert_eq!(share(1_000, 1), (128, 64));
    }
}
