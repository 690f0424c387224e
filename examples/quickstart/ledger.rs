//! Keeps account of every order: whether it was written, and how often it was read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use timely_kafka::Tick;

/// A record as the dataflow sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) key: String,
    pub(crate) cluster: String,
    pub(crate) number: usize,
}

/// Something that happened on the side that writes or in the dataflow.
pub(crate) enum Event {
    /// An order is about to be written to a cluster.
    Written(&'static str, Order),
    /// Writing failed.
    NotWritten(String),
    /// Orders were read, each with the count of its key.
    Counted(Vec<(Order, usize)>),
    /// The frontier of a worker moved on; `None` is the empty frontier.
    Frontier(usize, Option<u64>),
    /// A tick with so many records is durable.
    Bound(Tick, u64),
    /// A word about the health of the source.
    Told(String),
    /// A partition cannot be read any further.
    Failed(String),
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) written: usize,
    pub(crate) read: usize,
}

/// What was written, read, counted and bound.
pub(crate) struct Ledger {
    /// By number.
    orders: Vec<Tally>,
    /// By cluster.
    clusters: BTreeMap<String, Tally>,
    /// How many were written of each key, and the last count that the dataflow gave.
    keys: BTreeMap<String, Tally>,
    /// By worker.
    frontiers: Vec<Option<u64>>,
    last_tick: Tick,
    bound: u64,
    ticks: usize,
    /// Orders that were read and that nobody wrote.
    strange: usize,
    failures: Vec<String>,
}

impl Ledger {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            orders: Vec::new(),
            clusters: ["A", "B"]
                .map(|name| (name.to_owned(), Tally::default()))
                .into(),
            keys: BTreeMap::new(),
            frontiers: vec![Some(0); workers],
            last_tick: Tick(0),
            bound: 0,
            ticks: 0,
            strange: 0,
            failures: Vec::new(),
        }
    }

    pub(crate) fn enter(&mut self, event: Event) {
        match event {
            Event::Written(cluster, order) => {
                debug_assert_eq!(order.number, self.orders.len(), "orders are numbered");
                self.orders.push(Tally {
                    written: 1,
                    read: 0,
                });
                self.clusters.entry(cluster.to_owned()).or_default().written += 1;
                self.keys.entry(order.key).or_default().written += 1;
            }
            Event::Counted(counted) => {
                for (order, count) in counted {
                    match self.orders.get_mut(order.number) {
                        Some(tally) => tally.read += 1,
                        None => self.strange += 1,
                    }
                    self.clusters.entry(order.cluster).or_default().read += 1;
                    self.keys.entry(order.key).or_default().read = count;
                }
            }
            Event::Frontier(worker, frontier) => self.frontiers[worker] = frontier,
            Event::Bound(tick, records) => {
                self.last_tick = tick;
                self.ticks += 1;
                self.bound += records;
            }
            Event::NotWritten(why) | Event::Failed(why) => self.failures.push(why),
            Event::Told(_) => {}
        }
    }

    pub(crate) fn clusters(&self) -> &BTreeMap<String, Tally> {
        &self.clusters
    }

    pub(crate) fn keys(&self) -> &BTreeMap<String, Tally> {
        &self.keys
    }

    pub(crate) fn read(&self, cluster: &str) -> usize {
        self.clusters[cluster].read
    }

    pub(crate) fn unread(&self, cluster: &str) -> usize {
        let tally = self.clusters[cluster];
        tally.written.saturating_sub(tally.read)
    }

    /// The time before which all workers have seen everything; `None` is the end of time.
    pub(crate) fn frontier(&self) -> Option<u64> {
        self.frontiers.iter().flatten().min().copied()
    }

    pub(crate) fn frontier_is_empty(&self) -> bool {
        self.frontier().is_none()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let count = |what: fn(&&Tally) -> bool| self.orders.iter().filter(what).count();
        Verdict {
            written: self.orders.len(),
            read: self.clusters.values().map(|tally| tally.read).sum(),
            missing: count(|tally| tally.read == 0),
            twice: count(|tally| tally.read > 1),
            strange: self.strange,
            miscounted: self
                .keys
                .values()
                .filter(|tally| tally.written != tally.read)
                .count(),
            bound: self.bound,
            ticks: self.ticks,
            last_tick: self.last_tick,
            durable: self.frontier_is_empty(),
            failures: self.failures.clone(),
        }
    }
}

/// What the ledger says in the end.
pub(crate) struct Verdict {
    pub(crate) written: usize,
    pub(crate) read: usize,
    pub(crate) missing: usize,
    pub(crate) twice: usize,
    /// Orders that were read and that nobody wrote.
    pub(crate) strange: usize,
    /// Keys whose count is wrong.
    pub(crate) miscounted: usize,
    /// Records in the ranges of all bindings.
    pub(crate) bound: u64,
    /// Bindings.
    pub(crate) ticks: usize,
    pub(crate) last_tick: Tick,
    /// Whether the frontier passed the last tick on all workers.
    pub(crate) durable: bool,
    pub(crate) failures: Vec<String>,
}

impl Verdict {
    pub(crate) fn is_good(&self) -> bool {
        let wrong = self.missing + self.twice + self.strange + self.miscounted;
        wrong == 0
            && self.written > 0
            && self.read == self.written
            && u64::try_from(self.read).is_ok_and(|read| read == self.bound)
            && self.durable
            && self.failures.is_empty()
    }
}
