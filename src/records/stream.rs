//! Operators that take a stream of batches apart or move it to other workers.

use timely::communication::Push;
use timely::dataflow::Stream;
use timely::dataflow::channels::Message;
use timely::dataflow::channels::pact::{DistributorPact, Pipeline};
use timely::dataflow::channels::pushers::exchange::Distributor;
use timely::dataflow::operators::generic::Operator;
use timely::progress::{Stamp, Timestamp};

use super::{Record, RecordBatch, RecordRef};
use crate::model::KafkaSplit;

/// Operators on a stream of [`RecordBatch`]es.
///
/// # Frontier
///
/// All of them hold no capability of their own: what they put out has the times of what came in, and
/// their output frontier is their input frontier. They keep the order of batches and the order
/// within a batch, which timely's own operators do not promise between batches of one activation.
pub trait BatchStream<'scope, T: Timestamp>: Sized {
    /// Makes a row of its own of every record.
    ///
    /// Rows share the memory of their batch. Move batches to other workers before they are taken
    /// apart: a row costs several times what it costs in a batch.
    fn records(self) -> Stream<'scope, T, Vec<Record>> {
        self.map_records(|record| record.to_record())
    }

    /// Applies `logic` to every record in place.
    fn map_records<D, L>(self, mut logic: L) -> Stream<'scope, T, Vec<D>>
    where
        D: 'static,
        L: FnMut(RecordRef<'_>) -> D + 'static,
    {
        self.flat_map_records(move |record| Some(logic(record)))
    }

    /// Applies `logic` to every record in place and puts out all that it gives.
    fn flat_map_records<I, L>(self, logic: L) -> Stream<'scope, T, Vec<I::Item>>
    where
        I: IntoIterator<Item: 'static>,
        L: FnMut(RecordRef<'_>) -> I + 'static;

    /// Moves whole batches between workers, so that each split is on one worker.
    ///
    /// Which one depends on the split and the number of workers only.
    #[must_use]
    fn exchange_by_split(self) -> Self;

    /// Moves whole batches to all workers in turn, so that a split that has more than one worker can deal
    /// with is dealt with by all.
    ///
    /// The batches of a split are on different workers then, in no order between these.
    #[must_use]
    fn exchange_round_robin(self) -> Self;
}

impl<'scope, T: Timestamp> BatchStream<'scope, T> for Stream<'scope, T, RecordBatch> {
    fn flat_map_records<I, L>(self, mut logic: L) -> Stream<'scope, T, Vec<I::Item>>
    where
        I: IntoIterator<Item: 'static>,
        L: FnMut(RecordRef<'_>) -> I + 'static,
    {
        self.unary(Pipeline, "FlatMapRecords", move |_, _| {
            move |input, output| {
                input.for_each(|capability, batch| {
                    let items = batch.iter().flat_map(&mut logic);
                    output.session(&capability).give_iterator(items);
                });
            }
        })
    }

    fn exchange_by_split(self) -> Self {
        exchange(self, "ExchangeBySplit", |_peers| BySplit)
    }

    fn exchange_round_robin(self) -> Self {
        // Not all workers begin with the same one.
        let next = self.scope().index();
        exchange(self, "ExchangeRoundRobin", move |_peers| RoundRobin {
            next,
        })
    }
}

/// Moves batches as `distributor` has it.
fn exchange<'scope, T: Timestamp, D: Distributor<RecordBatch> + 'static>(
    batches: Stream<'scope, T, RecordBatch>,
    name: &str,
    distributor: impl FnOnce(usize) -> D + 'static,
) -> Stream<'scope, T, RecordBatch> {
    batches.unary(DistributorPact(distributor), name, |_, _| {
        |input, output| {
            input.for_each(|capability, batch| {
                output.session(&capability).give_container(batch);
            });
        }
    })
}

/// Sends a batch as it is to the worker of its split.
struct BySplit;

impl Distributor<RecordBatch> for BySplit {
    fn partition<T: Clone, P: Push<Message<T, RecordBatch>>>(
        &mut self,
        batch: &mut RecordBatch,
        stamp: &Stamp<T>,
        pushers: &mut [P],
    ) {
        if let Some(split) = batch.split() {
            let worker = worker_of(split, pushers.len());
            Message::push_at(batch, stamp.clone(), &mut pushers[worker]);
        }
    }

    /// Nothing is kept back.
    fn flush<T: Clone, P: Push<Message<T, RecordBatch>>>(&mut self, _: &Stamp<T>, _: &mut [P]) {}
}

/// Sends one batch after the other as it is to one worker after the other.
struct RoundRobin {
    next: usize,
}

impl Distributor<RecordBatch> for RoundRobin {
    fn partition<T: Clone, P: Push<Message<T, RecordBatch>>>(
        &mut self,
        batch: &mut RecordBatch,
        stamp: &Stamp<T>,
        pushers: &mut [P],
    ) {
        let worker = self.next % pushers.len();
        self.next = worker + 1;
        Message::push_at(batch, stamp.clone(), &mut pushers[worker]);
    }

    /// Nothing is kept back.
    fn flush<T: Clone, P: Push<Message<T, RecordBatch>>>(&mut self, _: &Stamp<T>, _: &mut [P]) {}
}

/// The worker, of `peers`, that a split belongs to.
///
/// A hash of our own (FNV-1a): every process must come to the same worker, and the standard
/// library's hashes are not promised to be the same in two builds.
fn worker_of(split: &KafkaSplit, peers: usize) -> usize {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let (cluster, topic) = (split.cluster.as_str(), split.topic.as_str());
    let hash = cluster
        .bytes()
        // Names have no slash, so that no two pairs of them join to the same text.
        .chain([b'/'])
        .chain(topic.bytes())
        .chain(split.generation.0.to_le_bytes())
        .chain(split.partition.0.to_le_bytes())
        .fold(BASIS, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(PRIME)
        });
    let worker = hash % peers as u64;
    usize::try_from(worker).expect("less than the number of workers, which is a usize")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};
    use std::rc::Rc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{self, Sender};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use timely::communication::Config as CommunicationConfig;
    use timely::container::{CapacityContainerBuilder, NoopBuilder};
    use timely::dataflow::operators::core::{Inspect, Map, Probe};
    use timely::dataflow::operators::generic::operator::source;
    use timely::dataflow::{InputHandle, ProbeHandle};
    use timely::worker::Worker;
    use timely::{Accountable, Config, WorkerConfig};

    use super::*;
    use crate::model::Offset;
    use crate::records::BatchGuard;
    use crate::records::testing::{batch, split};

    type BatchInput = InputHandle<u64, NoopBuilder<RecordBatch>>;

    const TICKS: u64 = 4;
    const PARTITIONS: i32 = 6;

    fn step_until(worker: &mut Worker, condition: impl Fn() -> bool) {
        for _ in 0..100_000 {
            if condition() {
                return;
            }
            worker.step_or_park(Some(Duration::from_millis(1)));
        }
        panic!("the condition did not come true in 100000 steps");
    }

    /// What arrived: at which worker, at which tick.
    type Arrival = (usize, u64, RecordBatch);

    fn offsets_at(index: usize, tick: u64) -> std::ops::Range<u64> {
        let start = 1_000 * index as u64 + 10 * tick;
        start..start + 1 + tick
    }

    /// A way to move batches.
    type Way = for<'scope> fn(Stream<'scope, u64, RecordBatch>) -> Stream<'scope, u64, RecordBatch>;

    fn by_split<'scope>(
        batches: Stream<'scope, u64, RecordBatch>,
    ) -> Stream<'scope, u64, RecordBatch> {
        batches.exchange_by_split()
    }

    fn in_turn<'scope>(
        batches: Stream<'scope, u64, RecordBatch>,
    ) -> Stream<'scope, u64, RecordBatch> {
        batches.exchange_round_robin()
    }

    /// Sends a batch of each split from each worker at each tick.
    fn exchange_batches(worker: &mut Worker, arrivals: &Sender<Arrival>, way: Way) {
        let index = worker.index();
        let arrivals = arrivals.clone();
        let mut input = BatchInput::new_with_builder();
        let probe = ProbeHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            way(input.to_stream(scope))
                .inspect_core(move |event| {
                    if let Ok((stamp, batch)) = event {
                        let tick = stamp.iter().next().copied().unwrap();
                        arrivals.send((index, tick, batch.clone())).unwrap();
                    }
                })
                .probe_with(&probe);
        });
        for tick in 0..TICKS {
            for partition in 0..PARTITIONS {
                let mut batch = batch("east", partition, offsets_at(index, tick));
                input.send_batch(&mut batch);
            }
            input.advance_to(tick + 1);
            step_until(worker, || !probe.less_equal(&tick));
            assert!(probe.less_equal(&(tick + 1)), "the frontier ran ahead");
        }
        input.close();
        step_until(worker, || probe.done());
    }

    /// Has batches be moved in a way, asserts that each came once, at its tick, and says which splits came to
    /// which worker, a batch each.
    fn exchanged(
        communication: CommunicationConfig,
        workers: usize,
        way: Way,
    ) -> Vec<(KafkaSplit, usize)> {
        let (sender, receiver) = mpsc::channel();
        let sender = Mutex::new(sender);
        let config = Config {
            communication,
            worker: WorkerConfig::default(),
        };

        let guards = timely::execute(config, move |worker| {
            let sender = sender.lock().unwrap().clone();
            exchange_batches(worker, &sender, way);
        })
        .unwrap();

        guards.join().into_iter().for_each(|joined| joined.unwrap());
        let mut came = Vec::new();
        let mut arrived = Vec::new();
        for (index, tick, batch) in receiver {
            let split = batch.split().unwrap().clone();
            came.push((split.clone(), index));
            arrived.push((tick, batch.first_offset().unwrap(), split.partition, batch));
        }
        arrived.sort_by_key(|(tick, first, partition, _)| (*tick, *first, *partition));
        let sent = |tick, index, partition| {
            let batch = batch("east", partition, offsets_at(index, tick));
            (
                tick,
                batch.first_offset().unwrap(),
                split("east", partition).partition,
                batch,
            )
        };
        let expected: Vec<_> = (0..TICKS)
            .flat_map(|tick| (0..workers).map(move |index| (tick, index)))
            .flat_map(|(tick, index)| (0..PARTITIONS).map(move |p| sent(tick, index, p)))
            .collect();
        assert_eq!(arrived, expected);
        came
    }

    fn assert_exchange(communication: CommunicationConfig, workers: usize) {
        let mut owners: BTreeMap<KafkaSplit, BTreeSet<usize>> = BTreeMap::new();
        for (split, index) in exchanged(communication, workers, by_split) {
            owners.entry(split).or_default().insert(index);
        }
        assert!(owners.values().all(|owner| owner.len() == 1), "{owners:?}");
        let used: BTreeSet<_> = owners.into_values().flatten().collect();
        assert_eq!(used.len(), workers);
    }

    #[test]
    fn batches_cross_serialised_between_two_workers_whole_and_each_split_to_one() {
        assert_exchange(CommunicationConfig::ProcessBinary(2), 2);
    }

    #[test]
    fn batches_cross_between_threads_whole_and_each_split_to_one() {
        assert_exchange(CommunicationConfig::Thread, 1);
        assert_exchange(CommunicationConfig::Process(2), 2);
        assert_exchange(CommunicationConfig::Process(4), 4);
    }

    #[test]
    fn batches_go_to_all_workers_in_turn() {
        for (communication, workers) in [
            (CommunicationConfig::Thread, 1),
            (CommunicationConfig::ProcessBinary(2), 2),
            (CommunicationConfig::Process(3), 3),
        ] {
            let came = exchanged(communication, workers, in_turn);
            let mut counts = vec![0; workers];
            came.iter().for_each(|(_, index)| counts[*index] += 1);
            assert_eq!(counts, vec![came.len() / workers; workers]);
        }
    }

    /// Many batches in one activation, at ticks that alternate: the case in which grouping by stamp
    /// changes the order.
    #[test]
    fn rows_come_in_the_order_of_their_batches() {
        const BATCHES: u64 = 64;
        let rows = timely::execute_directly(|worker| {
            let rows = Rc::new(RefCell::new(Vec::new()));
            let sink = Rc::clone(&rows);
            worker.dataflow::<u64, _, _>(|scope| {
                type Builder = CapacityContainerBuilder<RecordBatch>;
                let batches = source::<_, Builder, _, _>(scope, "Batches", |capability, _| {
                    let mut capability = Some(capability);
                    move |output| {
                        let Some(capability) = capability.take() else {
                            return;
                        };
                        for number in 0..BATCHES {
                            let at = capability.delayed(&(number % 2));
                            let mut batch = batch("east", 0, 3 * number..3 * number + 3);
                            output.session(&at).give_container(&mut batch);
                        }
                    }
                });
                batches.records().sink(Pipeline, "Rows", move |(input, _)| {
                    input.for_each(|_, more| sink.borrow_mut().append(more));
                });
            });
            while worker.step() {}
            rows.take()
        });

        let offsets: Vec<_> = rows.iter().map(|row| row.offset.get()).collect();

        assert_eq!(offsets, (0..3 * BATCHES).collect::<Vec<_>>());
    }

    #[test]
    fn the_operators_of_timely_see_every_record_of_a_batch() {
        let seen = Arc::new(AtomicUsize::new(0));
        let (counted, inspected) = (Arc::clone(&seen), Arc::clone(&seen));

        let frontier_passed = timely::execute_directly(move |worker| {
            let mut input = BatchInput::new_with_builder();
            let probe = ProbeHandle::new();
            worker.dataflow::<u64, _, _>(|scope| {
                input
                    .to_stream(scope)
                    .inspect(move |record| {
                        let odd = record.offset() != Offset::ZERO;
                        inspected.fetch_add(usize::from(odd), Ordering::Relaxed);
                    })
                    .flat_map(|record: RecordRef<'_>| record.value().map(<[u8]>::len))
                    .container::<Vec<_>>()
                    .inspect_core(move |event| {
                        if let Ok((_, lengths)) = event {
                            let lengths = usize::try_from(lengths.record_count()).unwrap();
                            counted.fetch_add(1_000 * lengths, Ordering::Relaxed);
                        }
                    })
                    .probe_with(&probe);
            });
            input.send_batch(&mut batch("east", 0, 0..5));
            input.advance_to(1);
            step_until(worker, || !probe.less_equal(&0));
            probe.less_equal(&1)
        });

        assert!(frontier_passed);
        assert_eq!(seen.load(Ordering::Relaxed), 5_004);
    }

    #[test]
    fn a_guard_is_given_back_when_the_dataflow_has_used_its_batch() {
        let in_use = Arc::new(AtomicUsize::new(0));
        let (held, lengths) = timely::execute_directly(move |worker| {
            let mut input = BatchInput::new_with_builder();
            let probe = ProbeHandle::new();
            worker.dataflow::<u64, _, _>(|scope| {
                let batches = input.to_stream(scope).exchange_by_split();
                batches
                    .map_records(|record| record.value().map(<[u8]>::len))
                    .probe_with(&probe);
            });
            let batch = batch("east", 0, 0..5);
            let guard = Arc::new(BatchGuard::new(&in_use, batch.bytes()));
            let bytes = batch.bytes();
            let mut guarded = batch.with_guard(guard);
            assert_eq!(in_use.load(Ordering::Relaxed), bytes);

            input.send_batch(&mut guarded);
            input.advance_to(1);
            step_until(worker, || !probe.less_equal(&0));

            (in_use.load(Ordering::Relaxed), guarded.len())
        });

        assert_eq!((held, lengths), (0, 0));
    }

    /// The workers of splits are the same in every process and every build.
    #[test]
    fn splits_are_spread_over_workers_and_always_in_the_same_way() {
        let workers: Vec<_> = (0..8).map(|p| worker_of(&split("east", p), 4)).collect();

        assert_eq!(workers, [0, 1, 2, 3, 0, 1, 2, 3]);
    }
}
