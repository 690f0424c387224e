//! The contract of a fetcher, by the kit of `timely-splits`.

use timely_splits::conformance::{FetcherRig, Kit};
use timely_splits::wake::Waker;

use super::*;
use crate::records::RecordBatch;

/// The most that the client may have fetched that nobody took, in bytes of values.
const QUEUED_BYTES_MAX: usize = 64 << 10;
const FETCH_BYTES_MAX: usize = 16 << 10;
const BATCH_RECORDS: usize = 100;
const VALUE: [u8; 100] = [b'x'; 100];

/// One topic of a cluster of its own.
struct Rig(Broker);

impl Rig {
    fn new() -> Self {
        Self(Broker::with_topic("t", 3))
    }
}

impl FetcherRig for Rig {
    type Split = KafkaSplit;
    type Fetcher = KafkaFetcher;

    fn fetcher(&mut self, waker: Waker) -> KafkaFetcher {
        let pool = ClientPool::new(Settings {
            source: "conformance".to_owned(),
            properties: ClientProperties::new(),
            memory: MemoryBudget::new(256 << 20),
        });
        let activate = move || {
            waker.wake();
        };
        pool.unwrap().fetcher(0, Box::new(activate)).unwrap()
    }

    fn split(&self, index: usize) -> KafkaSplit {
        split("east", "t", i32::try_from(index).unwrap())
    }

    fn metadata(&self, _splits: &[KafkaSplit]) -> SharedMetadata {
        // Less than a client is given by itself, so that few records show the bound.
        let properties = (self.0.properties())
            .with("fetch.message.max.bytes", &FETCH_BYTES_MAX.to_string())
            .with(
                "queued.max.messages.kbytes",
                &(QUEUED_BYTES_MAX / 1024).to_string(),
            );
        metadata("t", &[("east", properties)]).into()
    }

    fn start(&self, _split: &KafkaSplit) -> KafkaPosition {
        at(0)
    }

    fn write(&mut self, split: &KafkaSplit, records: usize) {
        let producer = &self.0.producer;
        for number in 1..=records {
            let record = BaseRecord::<(), _>::to("t")
                .partition(split.partition.0)
                .payload(&VALUE);
            producer.send(record).unwrap();
            // A fetch brings whole batches, as the producer made them: small ones here.
            if number % BATCH_RECORDS == 0 || number == records {
                settle(producer);
            }
        }
    }

    fn numbers(&self, batch: &RecordBatch) -> Vec<u64> {
        let offsets = batch.iter().map(|record| record.offset().get());
        offsets.collect()
    }

    fn unreadable(&self, _split: &KafkaSplit) -> Option<KafkaPosition> {
        Some(at(1_000_000))
    }

    fn cut_off(&mut self) -> Option<usize> {
        self.0.cluster.broker_down(1).unwrap();
        // What is queued, and what was on its way when the queue became full.
        let bytes = QUEUED_BYTES_MAX + 2 * FETCH_BYTES_MAX;
        Some(bytes / VALUE.len() + BATCH_RECORDS)
    }
}

#[test]
fn the_fetcher_keeps_its_contract() {
    Kit::new().fetcher(Rig::new).assert_kept_but(&[]);
}
