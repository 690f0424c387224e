//! What a consumer reads, and into which queue.

use std::ffi::{CString, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use rdkafka_sys as sys;

use super::client::{NativeClient, NativeError};
use super::{NativeQueue, c_string};

/// A partition to read, from where on, and the queue that its records go to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartReading<'a> {
    /// The topic.
    pub(crate) topic: &'a str,
    /// The partition.
    pub(crate) partition: i32,
    /// The offset of the first record to read.
    pub(crate) offset: i64,
    /// The leader epoch of the record before, without which a truncated log is read on silently.
    pub(crate) leader_epoch: Option<i32>,
    /// The queue, of the same client.
    pub(crate) queue: &'a NativeQueue,
}

/// A list of partitions, alive for one call.
struct PartitionList(NonNull<sys::rd_kafka_topic_partition_list_t>);

impl PartitionList {
    fn new(capacity: usize) -> Self {
        let capacity = c_int::try_from(capacity).unwrap_or(c_int::MAX);
        // SAFETY: takes a number; the result is ours.
        let raw = unsafe { sys::rd_kafka_topic_partition_list_new(capacity) };
        Self(NonNull::new(raw).expect("librdkafka ends the process when memory is out"))
    }

    /// Adds a partition and returns its element, valid until the next call.
    fn add(&mut self, topic: &CString, partition: i32) -> NonNull<sys::rd_kafka_topic_partition_t> {
        // SAFETY: the list is ours; the topic is copied during the call.
        let element = unsafe {
            sys::rd_kafka_topic_partition_list_add(self.0.as_ptr(), topic.as_ptr(), partition)
        };
        NonNull::new(element).expect("librdkafka ends the process when memory is out")
    }
}

impl Drop for PartitionList {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.0.as_ptr()) };
    }
}

impl NativeClient {
    /// Reads these partitions too. Blocks until the client has taken note.
    ///
    /// # Errors
    ///
    /// In the words of librdkafka; then none of them is read that was not read before.
    pub(crate) fn incremental_assign(
        self: &Arc<Self>,
        starts: &[StartReading<'_>],
    ) -> Result<(), NativeError> {
        let mut list = PartitionList::new(starts.len());
        // Forwarded before and after. Before, because librdkafka then knows that the application
        // forwards, and leaves it at that when reading starts; otherwise records would go astray to
        // the client's own queue. After, because the end of an assignment before this one unsets
        // the forwarding, some time between `incremental_unassign` and the answer to the call
        // below. What the partition's own queue got meanwhile is moved along.
        let mut forwarded = Vec::with_capacity(starts.len());
        for start in starts {
            let topic = c_string("a topic name", start.topic)?;
            // SAFETY: the client is alive; the queue that comes back is a new reference.
            let raw = unsafe {
                sys::rd_kafka_queue_get_partition(self.raw(), topic.as_ptr(), start.partition)
            };
            let partition = NativeQueue::of(self, raw).ok_or_else(|| {
                NativeError::invalid(format!(
                    "topic {}: librdkafka has no queue for partition {}",
                    start.topic, start.partition
                ))
            })?;
            partition.forward(start.queue);
            forwarded.push((partition, start.queue));
            let element = list.add(&topic, start.partition).as_ptr();
            // SAFETY: the element is valid until the list changes.
            unsafe {
                (*element).offset = start.offset;
                if let Some(leader_epoch) = start.leader_epoch {
                    sys::rd_kafka_topic_partition_set_leader_epoch(element, leader_epoch);
                }
            }
        }
        // SAFETY: client and list are alive; the error that comes back is ours.
        unsafe {
            let error = sys::rd_kafka_incremental_assign(self.raw(), list.0.as_ptr());
            self.take(error)?;
        }
        for (partition, queue) in forwarded {
            partition.forward(queue);
        }
        Ok(())
    }

    /// Stops reading these partitions. Blocks until the client has taken note: what was fetched of
    /// them before is not handed over any more.
    ///
    /// # Errors
    ///
    /// In the words of librdkafka, also if one of them is not read; then all are read on.
    pub(crate) fn incremental_unassign<'a>(
        &self,
        partitions: impl ExactSizeIterator<Item = (&'a str, i32)>,
    ) -> Result<(), NativeError> {
        let mut list = PartitionList::new(partitions.len());
        for (topic, partition) in partitions {
            list.add(&c_string("a topic name", topic)?, partition);
        }
        // SAFETY: as above.
        unsafe {
            self.take(sys::rd_kafka_incremental_unassign(
                self.raw(),
                list.0.as_ptr(),
            ))
        }
    }
}
