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
        let by_split = DistributorPact(|_peers| BySplit);
        self.unary(by_split, "ExchangeBySplit", |_, _| {
            |input, output| {
                input.for_each(|capability, batch| {
                    output.session(&capability).give_container(batch);
                });
            }
        })
    }
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
