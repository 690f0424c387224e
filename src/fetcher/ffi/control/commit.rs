//! Writes the offsets of a group that has no members.
//!
//! There is a call for that which needs no group of its own, `AlterConsumerGroupOffsets`, but in
//! librdkafka 2.12.1 it ends the process, by an assertion, when the broker that keeps the group goes
//! down meanwhile. So this is a client that has the group, and reads and joins nothing.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::ptr;
use std::slice;
use std::time::Duration;

use rdkafka_sys as sys;
use rdkafka_sys::rd_kafka_resp_err_t as Code;

use super::describe::problem;
use super::{Call, ControlClient, ControlError};
use crate::fetcher::ffi::client::NativeError;
use crate::fetcher::ffi::queue::{NativeEvent, NativeQueue};
use crate::fetcher::ffi::{c_string, text_at};
use crate::metadata::secret::ResolvedProperties;
use crate::model::{KafkaPosition, Partition, TopicName};

/// The greatest number of partitions in one request.
const CHUNK: usize = 1_000;

/// The position of one partition.
pub(crate) type PartitionPosition = ((TopicName, Partition), KafkaPosition);

/// A client that commits offsets of one group. It never joins it.
///
/// Every call blocks, as with a [`ControlClient`].
#[derive(Debug)]
pub(crate) struct CommitClient(ControlClient);

impl CommitClient {
    /// A client of `group` with `properties`.
    ///
    /// # Errors
    ///
    /// If a property is unknown or its value refused.
    pub(crate) fn new(properties: &ResolvedProperties, group: &str) -> Result<Self, NativeError> {
        Ok(Self(ControlClient::of_group(properties, group)?))
    }

    /// Takes what the client says off its queue, which grows while nobody commits anything.
    pub(crate) fn attend(&mut self) {
        self.0.attend();
    }

    /// Commits `positions`, each partition named once; one answer for each, in order.
    ///
    /// A cluster refuses if somebody else has joined the group.
    ///
    /// A client that has not answered in time may commit later yet, so it should be dropped.
    pub(crate) fn commit(
        &mut self,
        positions: &[PartitionPosition],
        timeout: Duration,
    ) -> Vec<Result<(), ControlError>> {
        let client = &mut self.0;
        let call = client.begin(timeout);
        let mut answers = Vec::with_capacity(positions.len());
        for chunk in positions.chunks(CHUNK) {
            let committed = client
                .connect(call)
                .and_then(|()| client.commit_chunk(chunk, call));
            answers.extend(chunk.iter().map(|((topic, partition), _)| {
                let of_partition = committed.as_ref().map_err(Clone::clone)?;
                let key = (topic.as_str().to_owned(), *partition);
                let told = of_partition.get(&key).cloned();
                told.unwrap_or(Err(ControlError::LeftOut))
            }));
        }
        answers
    }
}

impl ControlClient {
    fn commit_chunk(
        &mut self,
        positions: &[PartitionPosition],
        call: Call,
    ) -> Result<Answers, ControlError> {
        let named = positions
            .iter()
            .map(|((topic, partition), position)| {
                let topic = c_string("a topic name", topic.as_str())?;
                Ok((topic, *partition, *position))
            })
            .collect::<Result<Vec<(CString, Partition, KafkaPosition)>, NativeError>>()
            .map_err(ControlError::Refused)?;
        let answers = NativeQueue::new(&self.client);
        // SAFETY: client and queue are alive. The list is built, copied into the request and given
        // back here; a new element of it is alive until the next is added, and the name is copied
        // into it. There is no callback.
        let code = unsafe {
            let capacity = c_int::try_from(named.len()).unwrap_or(c_int::MAX);
            let list = sys::rd_kafka_topic_partition_list_new(capacity);
            for (topic, partition, position) in &named {
                let element =
                    sys::rd_kafka_topic_partition_list_add(list, topic.as_ptr(), partition.0);
                (*element).offset = i64::try_from(position.next.get()).unwrap_or(i64::MAX);
                if let Some(epoch) = position.leader_epoch {
                    sys::rd_kafka_topic_partition_set_leader_epoch(element, epoch.0);
                }
            }
            let code = sys::rd_kafka_commit_queue(
                self.client.raw(),
                list,
                answers.raw(),
                None,
                ptr::null_mut(),
            );
            sys::rd_kafka_topic_partition_list_destroy(list);
            code
        };
        if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(ControlError::Refused(NativeError::of(code)));
        }
        let event = self.await_event(&answers, call)?;
        let partitions = committed(&event);
        let error = event.error();
        // An answer that says nothing of any partition has failed as a whole.
        if error.code != 0 && partitions.values().all(Result::is_ok) {
            self.listen(Duration::ZERO);
            return Err(match self.failure(call, error) {
                ControlError::Refused(refused) => problem(refused),
                other => other,
            });
        }
        self.words = None;
        Ok(partitions)
    }
}

/// What became of the partitions of a request.
type Answers = BTreeMap<(String, Partition), Result<(), ControlError>>;

/// What `event`, the answer to the request, says.
fn committed(event: &NativeEvent) -> Answers {
    // SAFETY: the event is alive until the end of this function and holds all that is read here; the
    // count is that of the list.
    unsafe {
        let list = sys::rd_kafka_event_topic_partition_list(event.raw());
        let Some(list) = list.as_ref() else {
            return Answers::new();
        };
        let partitions = match usize::try_from(list.cnt) {
            Ok(count) if !list.elems.is_null() => slice::from_raw_parts(list.elems, count),
            _ => &[],
        };
        partitions
            .iter()
            .map(|told| {
                let key = (text_at(told.topic), Partition(told.partition));
                let answer = match told.err {
                    Code::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
                    code => Err(problem(NativeError::of(code))),
                };
                (key, answer)
            })
            .collect()
    }
}
