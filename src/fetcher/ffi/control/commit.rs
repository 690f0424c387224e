//! Writes the offsets of a group that has no members.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::slice;
use std::time::Duration;

use rdkafka_sys as sys;
use rdkafka_sys::rd_kafka_resp_err_t as Code;

use super::describe::problem;
use super::{Call, ControlClient, ControlError};
use crate::fetcher::ffi::client::NativeError;
use crate::fetcher::ffi::queue::{NativeEvent, NativeQueue};
use crate::fetcher::ffi::{c_string, text_at};
use crate::model::{KafkaPosition, Partition, TopicName};

/// The greatest number of partitions in one request.
const CHUNK: usize = 1_000;

/// The position of one partition.
pub(crate) type PartitionPosition = ((TopicName, Partition), KafkaPosition);

impl ControlClient {
    /// Commits `positions`, each partition named once, as those of `group`; one answer for each, in
    /// order.
    ///
    /// The group is not joined, and a cluster refuses if somebody else has.
    pub(crate) fn commit(
        &mut self,
        group: &str,
        positions: &[PartitionPosition],
        timeout: Duration,
    ) -> Vec<Result<(), ControlError>> {
        let call = self.begin(timeout);
        let mut answers = Vec::with_capacity(positions.len());
        for chunk in positions.chunks(CHUNK) {
            let committed = self
                .connect(call)
                .and_then(|()| self.alter_offsets(group, chunk, call));
            answers.extend(chunk.iter().map(|((topic, partition), _)| {
                let of_partition = committed.as_ref().map_err(Clone::clone)?;
                let key = (topic.as_str().to_owned(), *partition);
                let told = of_partition.get(&key).cloned();
                told.unwrap_or(Err(ControlError::LeftOut))
            }));
        }
        answers
    }

    fn alter_offsets(
        &mut self,
        group: &str,
        positions: &[PartitionPosition],
        call: Call,
    ) -> Result<Answers, ControlError> {
        let refused = ControlError::Refused;
        let group = c_string("a group", group).map_err(refused)?;
        let named = positions
            .iter()
            .map(|((topic, partition), position)| {
                let topic = c_string("a topic name", topic.as_str())?;
                Ok((topic, *partition, *position))
            })
            .collect::<Result<Vec<(CString, Partition, KafkaPosition)>, NativeError>>()
            .map_err(refused)?;
        let answers = NativeQueue::new(&self.client);
        let options = self.options(
            sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS,
            call,
        );
        // SAFETY: client, options and queue are alive. The list is built, copied into the request
        // and given back here, and so is the request, of which there is one; a new element of the
        // list is alive until the next is added, and the name is copied into it.
        unsafe {
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
            let mut request = sys::rd_kafka_AlterConsumerGroupOffsets_new(group.as_ptr(), list);
            sys::rd_kafka_topic_partition_list_destroy(list);
            sys::rd_kafka_AlterConsumerGroupOffsets(
                self.client.raw(),
                &raw mut request,
                1,
                options.0,
                answers.raw(),
            );
            sys::rd_kafka_AlterConsumerGroupOffsets_destroy(request);
        }
        let event = self.answer(&answers, call)?;
        committed(&event)
    }
}

/// What became of the partitions of a request.
type Answers = BTreeMap<(String, Partition), Result<(), ControlError>>;

/// What `event`, the answer to the request, says.
fn committed(event: &NativeEvent) -> Result<Answers, ControlError> {
    let mut count = 0;
    // SAFETY: the event is alive until the end of this function and holds all that is read here;
    // counts are those of their lists, and there is one result a group, of which there is one.
    unsafe {
        let result = sys::rd_kafka_event_AlterConsumerGroupOffsets_result(event.raw());
        if result.is_null() {
            return Err(ControlError::LeftOut);
        }
        let groups = sys::rd_kafka_AlterConsumerGroupOffsets_result_groups(result, &raw mut count);
        if groups.is_null() || count == 0 {
            return Err(ControlError::LeftOut);
        }
        let error = sys::rd_kafka_group_result_error(*groups);
        if !error.is_null() {
            let code = sys::rd_kafka_error_code(error);
            let error = event
                .client()
                .error(code, sys::rd_kafka_error_string(error));
            return Err(ControlError::Refused(error));
        }
        let list = sys::rd_kafka_group_result_partitions(*groups);
        let Some(list) = list.as_ref() else {
            return Err(ControlError::LeftOut);
        };
        let partitions = match usize::try_from(list.cnt) {
            Ok(named) if !list.elems.is_null() => slice::from_raw_parts(list.elems, named),
            _ => &[],
        };
        Ok(partitions
            .iter()
            .map(|told| {
                let key = (text_at(told.topic), Partition(told.partition));
                let answer = match told.err {
                    Code::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
                    code => Err(problem(NativeError::of(code))),
                };
                (key, answer)
            })
            .collect())
    }
}
