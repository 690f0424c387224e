//! Record batches that were made beforehand, and what hands them over.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use timely_kafka::model::{
    ClusterId, KafkaIdentity, KafkaPosition, KafkaSplit, Offset, Partition, SharedMetadata,
    StreamsMetadata, TopicName,
};
use timely_kafka::records::{BatchBuilder, RecordBatch};
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit, SplitDiscovery};
use timely_splits::epoch::{MetadataEpoch, SplitEpoch};
use timely_splits::fetcher::{Fetched, Piece, Polled, SplitFetcher};
use timely_splits::loss::Remains;
use timely_splits::wake::Waker;

use crate::Outcome;
use crate::batch::Batch;

/// The name of the cluster and of the stream.
pub(crate) const NAME: &str = "bench";

pub(crate) const TOPIC: &str = "bench";

pub(crate) const PARTITIONS: i32 = 8;

/// The records of a batch, as a producer of Kafka's makes them that is busy.
const RECORDS: u64 = 1_000;

/// When it was made, in nanoseconds since 1970.
const MADE: u64 = 1_700_000_000_000_000_000;

/// The batches of all partitions.
pub(crate) struct Prepared {
    partitions: Vec<Vec<Bytes>>,
}

impl Prepared {
    /// About `records` records with values of `size` bytes.
    pub(crate) fn new(records: u64, size: usize) -> Outcome<Self> {
        let batches = records / RECORDS / u64::from(PARTITIONS.unsigned_abs());
        let mut batch = Batch::new(usize::try_from(RECORDS)?, size)?;
        batch.stamp(MADE);
        // Each in memory of its own, as what comes from a socket is.
        let partition = || (0..batches).map(|number| with_base(batch.bytes(), number * RECORDS));
        let partitions = (0..PARTITIONS).map(|_| partition().collect()).collect();
        Ok(Self { partitions })
    }

    pub(crate) fn records(&self) -> u64 {
        self.partitions
            .iter()
            .map(|all| all.len() as u64)
            .sum::<u64>()
            * RECORDS
    }
}

fn with_base(batch: &[u8], base: u64) -> Bytes {
    let mut batch = batch.to_vec();
    batch[..8].copy_from_slice(&base.to_be_bytes());
    batch.into()
}

fn names() -> Outcome<(ClusterId, TopicName)> {
    Ok((ClusterId::new(NAME)?, TopicName::new(TOPIC)?))
}

/// Hands over what was prepared, indexed.
pub(crate) struct PreparedFetcher {
    prepared: Arc<Prepared>,
    /// What is assigned, and the number of the next batch.
    splits: BTreeMap<KafkaSplit, (SplitEpoch, usize)>,
    builder: BatchBuilder,
    waker: Waker,
}

impl PreparedFetcher {
    pub(crate) fn new(prepared: Arc<Prepared>, waker: Waker) -> Self {
        Self {
            prepared,
            splits: BTreeMap::new(),
            builder: BatchBuilder::new(),
            waker,
        }
    }
}

impl SplitFetcher<KafkaSplit> for PreparedFetcher {
    type Batch = RecordBatch;

    fn adopt(&mut self, _epoch: MetadataEpoch, _metadata: &SharedMetadata) {}

    fn assign(&mut self, split: &KafkaSplit, split_epoch: SplitEpoch, start: &KafkaPosition) {
        let number = usize::try_from(start.next.get() / RECORDS).unwrap_or(usize::MAX);
        self.splits.insert(split.clone(), (split_epoch, number));
        self.waker.wake();
    }

    fn unassign(&mut self, split: &KafkaSplit, split_epoch: SplitEpoch) {
        if self
            .splits
            .get(split)
            .is_some_and(|(held, _)| *held == split_epoch)
        {
            self.splits.remove(split);
        }
    }

    fn poll(
        &mut self,
        bytes_max: usize,
        fetched: &mut Vec<Fetched<KafkaSplit, RecordBatch>>,
    ) -> Polled {
        let mut bytes = 0;
        let mut any = bytes_max > 0;
        while any {
            any = false;
            for (split, (split_epoch, number)) in &mut self.splits {
                let batches = &self.prepared.partitions[split.partition.0.unsigned_abs() as usize];
                let Some(wire) = batches.get(*number) else {
                    continue;
                };
                let batch = match self.builder.share(split, wire.clone()) {
                    Ok(batch) => batch,
                    Err(error) => panic!("the benchmark makes bad batches: {error}"),
                };
                let start = *number as u64 * RECORDS;
                *number += 1;
                any = true;
                bytes += batch.memory_bytes();
                fetched.push(Fetched::Piece(Piece {
                    split: split.clone(),
                    split_epoch: *split_epoch,
                    start: KafkaPosition::at(Offset::new(start)),
                    end: KafkaPosition::at(Offset::new(start + RECORDS)),
                    bytes: batch.memory_bytes(),
                    batch: Some(batch),
                }));
                if bytes >= bytes_max {
                    return Polled::More;
                }
            }
        }
        Polled::Drained
    }

    fn cut(&mut self, batch: RecordBatch, at: &[KafkaPosition]) -> Vec<Option<RecordBatch>> {
        panic!("nothing stops or is given again here: {batch:?} at {at:?}")
    }
}

/// Finds the partitions, and says that they are read from their beginning.
pub(crate) struct PreparedDiscovery {
    events: VecDeque<DiscoveryEvent<KafkaSplit>>,
    waker: Waker,
}

impl PreparedDiscovery {
    pub(crate) fn new(metadata: StreamsMetadata, waker: Waker) -> Self {
        waker.wake();
        Self {
            events: VecDeque::from([DiscoveryEvent::Metadata(metadata.into())]),
            waker,
        }
    }

    fn answer(&mut self, request: DiscoveryRequest<KafkaSplit>) -> Outcome<()> {
        let here = KafkaPosition::at(Offset::ZERO);
        match request {
            DiscoveryRequest::Discover { epoch, .. } => {
                let (cluster, topic) = names()?;
                let split = |partition| {
                    KafkaSplit::new(cluster.clone(), topic.clone(), Partition(partition))
                };
                let found = (0..PARTITIONS)
                    .map(|partition| FoundSplit::new(split(partition), KafkaIdentity::default()));
                let splits = found.collect();
                self.events
                    .push_back(DiscoveryEvent::Found { epoch, splits });
                self.events.push_back(DiscoveryEvent::AllFound { epoch });
            }
            DiscoveryRequest::Check { request, .. } => {
                let lost = Vec::new();
                self.events
                    .push_back(DiscoveryEvent::Checked { request, lost });
            }
            DiscoveryRequest::Identify { request, splits } => {
                let same = |split| (split, Some(KafkaIdentity::default()));
                let splits = splits.into_iter().map(same).collect();
                self.events
                    .push_back(DiscoveryEvent::Identified { request, splits });
            }
            DiscoveryRequest::Judge { request, split } => {
                let remains = Remains {
                    identity: Some(KafkaIdentity::default()),
                    first: here,
                    end: here,
                };
                self.events.push_back(DiscoveryEvent::Judged {
                    request,
                    split,
                    remains,
                });
            }
            DiscoveryRequest::End { request, split } => {
                let end = here;
                self.events.push_back(DiscoveryEvent::End {
                    request,
                    split,
                    end,
                });
            }
            DiscoveryRequest::Resolve { request, split, .. } => {
                self.events.push_back(DiscoveryEvent::Resolved {
                    request,
                    split,
                    start: here,
                    stop: None,
                    rule: "earliest".to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl SplitDiscovery<KafkaSplit> for PreparedDiscovery {
    fn request(&mut self, request: DiscoveryRequest<KafkaSplit>) {
        if let Err(error) = self.answer(request) {
            panic!("the benchmark has bad names: {error}");
        }
        self.waker.wake();
    }

    fn poll(&mut self) -> Option<DiscoveryEvent<KafkaSplit>> {
        self.events.pop_front()
    }
}
