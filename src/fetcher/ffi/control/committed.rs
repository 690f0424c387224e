//! Which offsets a consumer group has committed.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::ptr::NonNull;
use std::slice;
use std::time::Duration;

use rdkafka_sys as sys;
use rdkafka_sys::rd_kafka_resp_err_t as Code;

use super::offsets::{CHUNK, TopicPartition};
use super::{Call, ControlClient, ControlError};
use crate::fetcher::ffi::client::NativeError;
use crate::fetcher::ffi::queue::{NativeEvent, NativeQueue};
use crate::fetcher::ffi::{c_string, text_at};
use crate::metadata::secret::ResolvedProperties;
use crate::model::{GroupId, KafkaPosition, LeaderEpoch, Offset, Partition};

/// What a cluster says about one partition; `None` if the group has committed no offset for it.
pub(crate) type CommittedAnswer = Result<Option<KafkaPosition>, ControlError>;

/// The offset in the answer about a partition for which none is committed.
const NONE_COMMITTED: i64 = sys::RD_KAFKA_OFFSET_INVALID as i64;

/// A client of one cluster that asks what one group has committed, and nothing else.
///
/// It is a consumer with the name of the group, and subscribes to nothing, so it never is a member.
/// On a client without a group librdkafka (2.12.1) follows a null pointer when the answer is one after which
/// it looks for the coordinator again, as when that has moved, and the process ends.
#[derive(Debug)]
pub(crate) struct GroupClient {
    control: ControlClient,
    group: CString,
}

impl GroupClient {
    /// A client with `properties`, for `group`.
    ///
    /// # Errors
    ///
    /// If a property is unknown or its value refused.
    pub(crate) fn new(
        properties: &ResolvedProperties,
        group: &GroupId,
    ) -> Result<Self, NativeError> {
        Ok(Self {
            control: ControlClient::of_group(properties, group.as_str())?,
            group: c_string("a group name", group.as_str())?,
        })
    }

    /// What the group has committed for `partitions`, each of them named once; one answer for each, in
    /// order.
    ///
    /// Offsets of a transaction that is still open are refused until it ends.
    pub(crate) fn committed(
        &mut self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Vec<CommittedAnswer> {
        let call = self.control.begin(timeout);
        let mut answers = Vec::with_capacity(partitions.len());
        for chunk in partitions.chunks(CHUNK) {
            let connected = self.control.connect(call);
            let asked = connected.and_then(|()| self.ask(chunk, call));
            answers.extend(chunk.iter().map(|(topic, partition)| {
                let told = asked.as_ref().map_err(Clone::clone)?;
                let told = told.get(&(topic.as_str().to_owned(), *partition));
                told.cloned().unwrap_or(Err(ControlError::LeftOut))
            }));
        }
        answers
    }

    fn ask(
        &mut self,
        partitions: &[TopicPartition],
        call: Call,
    ) -> Result<BTreeMap<(String, Partition), CommittedAnswer>, ControlError> {
        let named = partitions
            .iter()
            .map(|(topic, partition)| Ok((c_string("a topic name", topic.as_str())?, *partition)))
            .collect::<Result<Vec<_>, NativeError>>()
            .map_err(ControlError::Refused)?;
        let client = &self.control.client;
        let answers = NativeQueue::new(client);
        let options = self.control.options(
            sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS,
            call,
        );
        // SAFETY: client, options and queue are alive. The error is ours and given back once.
        unsafe {
            let refused = sys::rd_kafka_AdminOptions_set_require_stable_offsets(options.0, 1);
            client.take(refused).map_err(ControlError::Refused)?;
        }
        // SAFETY: the list is built, copied into the question and given back here, and so is the
        // question, which librdkafka copies too. Names are copied as they are added.
        unsafe {
            let capacity = c_int::try_from(named.len()).unwrap_or(c_int::MAX);
            let list = sys::rd_kafka_topic_partition_list_new(capacity);
            for (topic, partition) in &named {
                sys::rd_kafka_topic_partition_list_add(list, topic.as_ptr(), partition.0);
            }
            let mut question =
                sys::rd_kafka_ListConsumerGroupOffsets_new(self.group.as_ptr(), list);
            sys::rd_kafka_topic_partition_list_destroy(list);
            sys::rd_kafka_ListConsumerGroupOffsets(
                client.raw(),
                &raw mut question,
                1,
                options.0,
                answers.raw(),
            );
            sys::rd_kafka_ListConsumerGroupOffsets_destroy(question);
        }
        let event = self.control.answer(&answers, call)?;
        told(&event)
    }
}

/// What `event`, the answer to the question for committed offsets, says.
fn told(
    event: &NativeEvent,
) -> Result<BTreeMap<(String, Partition), CommittedAnswer>, ControlError> {
    let mut count = 0;
    // SAFETY: the event is alive until the end of this function and holds all that is read here;
    // counts are those of their lists.
    unsafe {
        let result = sys::rd_kafka_event_ListConsumerGroupOffsets_result(event.raw());
        if result.is_null() {
            return Err(ControlError::LeftOut);
        }
        let groups = sys::rd_kafka_ListConsumerGroupOffsets_result_groups(result, &raw mut count);
        // One group was asked for.
        let group = NonNull::new(groups).filter(|_| count == 1);
        let Some(group) = group else {
            return Err(ControlError::LeftOut);
        };
        let group = *group.as_ptr();
        let error = sys::rd_kafka_group_result_error(group);
        let code = sys::rd_kafka_error_code(error);
        if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            let words = sys::rd_kafka_error_string(error);
            return Err(ControlError::Refused(event.client().error(code, words)));
        }
        let list = sys::rd_kafka_group_result_partitions(group);
        let Some(list) = list.as_ref().filter(|list| !list.elems.is_null()) else {
            return Ok(BTreeMap::new());
        };
        let length = usize::try_from(list.cnt).unwrap_or_default();
        let all = slice::from_raw_parts(list.elems, length).iter();
        Ok(all
            .map(|element| {
                let key = (text_at(element.topic), Partition(element.partition));
                let epoch = sys::rd_kafka_topic_partition_get_leader_epoch(element);
                (key, committed(element.err, element.offset, epoch))
            })
            .collect())
    }
}

/// What the answer about one partition stands for.
fn committed(error: Code, offset: i64, epoch: i32) -> CommittedAnswer {
    if error != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Err(ControlError::Refused(NativeError::of(error)));
    }
    if offset == NONE_COMMITTED {
        return Ok(None);
    }
    let offset = u64::try_from(offset).map_err(|_| ControlError::LeftOut)?;
    Ok(Some(KafkaPosition {
        next: Offset::new(offset),
        leader_epoch: (epoch >= 0).then_some(LeaderEpoch(epoch)),
    }))
}
