//! The operator that stores rows and ticks.

use std::collections::BTreeMap;

use timely_kafka::timely::container::CapacityContainerBuilder;
use timely_kafka::timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely_kafka::timely::dataflow::operators::vec::Broadcast;
use timely_kafka::timely::dataflow::operators::{Capability, Operator, Probe, ToStream};
use timely_kafka::timely::dataflow::{ProbeHandle, Stream};
use timely_kafka::{BatchStream, RecordBatch, Tick};

use crate::store::{Row, Shard, Store, StoreError};

/// How far, in milliseconds, the tick of a shard without rows may stay behind.
///
/// Each commit is a write to the disk. A shard that stays behind costs nothing but what is read again.
const IDLE_BEHIND: u64 = 1_000;

/// Nothing comes out of the operator but its frontier.
type NothingBuilder = CapacityContainerBuilder<Vec<()>>;

/// Stores all records of a stream, each in the shard of its key. A shard is on the worker
/// `shard % peers`.
///
/// `run` is the number of the run, on worker 0. It goes through the dataflow, so that a process that
/// was left over from an earlier run can never learn it.
///
/// # Frontier
///
/// `stored` passes a tick when its rows are stored.
///
/// # Panics
///
/// Panics, and so ends the process, when a shard cannot be written: the next run goes on at what is
/// stored.
pub(crate) fn store<'scope>(
    batches: Stream<'scope, u64, RecordBatch>,
    store: &Store,
    run: Option<u64>,
    stored: &ProbeHandle<u64>,
) -> Result<(), StoreError> {
    let scope = batches.scope();
    let (index, peers) = (scope.index() as u64, scope.peers() as u64);
    let count = store.shards;
    let mut shards = BTreeMap::new();
    for number in (0..count).filter(|number| number % peers == index) {
        let shard = OpenShard {
            tick: Tick::default(),
            shard: store.shard(number)?,
        };
        shards.insert(number, shard);
    }
    let mut sink = Sink {
        count,
        shards,
        run: None,
        waiting: BTreeMap::new(),
        passed: Tick::default(),
    };
    let runs = run.to_stream(scope).container::<Vec<_>>().broadcast();
    let rows = batches.map_records(Row::of);
    let to_shard = Exchange::new(move |row: &Row| row.shard(count));
    rows.binary_frontier::<_, NothingBuilder, _, _, _, _>(
        runs,
        to_shard,
        Pipeline,
        "Store",
        move |_, _| {
            move |(row_input, frontier), (run_input, _), _| {
                // Step 1: the number, which is there before any tick has passed.
                run_input.for_each(|_, numbers| sink.run = numbers.first().copied());
                // Step 2: rows wait for their tick, with its capability.
                row_input.for_each(|capability, some| {
                    if let Some(capability) = capability.retain_least(0) {
                        sink.take(capability, some);
                    }
                });
                // Step 3: what the frontier has passed is final.
                let result = sink.commit(frontier.frontier().first().copied());
                result.unwrap_or_else(|error| panic!("{}", full(&error)));
            }
        },
    )
    .probe_with(stored);
    Ok(())
}

/// The words of an error and of what caused it.
fn full(error: &StoreError) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

struct OpenShard {
    shard: Shard,
    /// What this run has stored, zero if nothing yet.
    tick: Tick,
}

/// The rows of a tick that the frontier has not passed, with its capability.
type Waiting = (Capability<u64>, Vec<Row>);

/// Which shard has which rows of which ticks.
fn by_shard(ticks: &BTreeMap<Tick, Waiting>, shards: u64) -> BTreeMap<u64, Vec<(Tick, Vec<Row>)>> {
    let mut complete: BTreeMap<u64, Vec<(Tick, Vec<Row>)>> = BTreeMap::new();
    for (tick, (_, rows)) in ticks {
        let mut of_tick: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
        for row in rows {
            let shard = of_tick.entry(row.shard(shards));
            shard.or_default().push(row.clone());
        }
        for (number, mut of_shard) in of_tick {
            // A split that has moved within the tick comes from two workers.
            of_shard.sort();
            complete.entry(number).or_default().push((*tick, of_shard));
        }
    }
    complete
}

/// The shards of one worker.
struct Sink {
    count: u64,
    shards: BTreeMap<u64, OpenShard>,
    run: Option<u64>,
    /// The source bounds how much there is.
    waiting: BTreeMap<Tick, Waiting>,
    /// All ticks up to this one are final.
    passed: Tick,
}

impl Sink {
    fn take(&mut self, capability: Capability<u64>, rows: &mut Vec<Row>) {
        let tick = Tick(*capability.time());
        assert!(
            tick > self.passed,
            "a row at tick {tick}, but {} has passed",
            self.passed
        );
        let entry = self.waiting.entry(tick);
        let (_, waiting) = entry.or_insert_with(|| (capability, Vec::new()));
        waiting.append(rows);
    }

    /// Stores what is final when the frontier is at `frontier`, or at its end.
    fn commit(&mut self, frontier: Option<u64>) -> Result<(), StoreError> {
        let last = self.waiting.keys().next_back().copied();
        let passed = match frontier {
            Some(time) => Tick(time.saturating_sub(1)),
            None => last.unwrap_or(self.passed).max(self.passed),
        };
        let ended = frontier.is_none();
        let Some(run) = self.run.filter(|_| passed > self.passed || ended) else {
            return Ok(());
        };
        self.passed = passed;
        let later = self.waiting.split_off(&Tick(passed.0.saturating_add(1)));
        let ticks = std::mem::replace(&mut self.waiting, later);
        let mut complete = by_shard(&ticks, self.count);
        for (number, open) in &mut self.shards {
            let rows = complete.remove(number).unwrap_or_default();
            let behind = passed.0 - open.tick.0;
            if !rows.is_empty() || behind >= IDLE_BEHIND || (ended && behind > 0) {
                open.shard.commit(run, passed, &rows)?;
                open.tick = passed;
            }
        }
        // Here the capabilities of the ticks are dropped.
        Ok(())
    }
}
