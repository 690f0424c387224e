//! Where partitions begin and end.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::slice;
use std::time::Duration;

use rdkafka_sys as sys;
use rdkafka_sys::rd_kafka_resp_err_t as Code;

use super::{Call, ControlClient, ControlError};
use crate::fetcher::ffi::client::NativeError;
use crate::fetcher::ffi::queue::{NativeEvent, NativeQueue};
use crate::fetcher::ffi::{c_string, text_at};
use crate::model::{KafkaPosition, LeaderEpoch, Offset, Partition, StartAt, TopicName};

/// The greatest number of partitions in one question.
///
/// The client's cost grows with the square: 7 ms of CPU for 1,000 partitions, 550 ms for 10,000.
const CHUNK: usize = 1_000;

/// Whether an open transaction hides the end of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// The end is the last stable offset.
    Committed,
    /// The end is the high watermark.
    Uncommitted,
}

/// What a cluster says about one partition.
pub(crate) type OffsetAnswer = ((TopicName, Partition), Result<KafkaPosition, ControlError>);

impl ControlClient {
    /// Where `partitions`, each of them named once, begin or end; one answer for each, in order.
    ///
    /// The leader epoch of a position is that of the partition's first record or, at its end, of
    /// its last one: a partition that is cut off before the position can be told from it.
    pub(crate) fn list_offsets(
        &mut self,
        partitions: &[(TopicName, Partition)],
        at: StartAt,
        isolation: Isolation,
        timeout: Duration,
    ) -> Vec<OffsetAnswer> {
        let call = self.begin(timeout);
        let mut answers = Vec::with_capacity(partitions.len());
        for chunk in partitions.chunks(CHUNK) {
            let asked = self
                .connect(call)
                .and_then(|()| self.ask_offsets(chunk, at, isolation, call));
            answers.extend(chunk.iter().map(|partition| {
                let answer = match &asked {
                    Ok(known) => known
                        .get(&(partition.0.as_str().to_owned(), partition.1))
                        .cloned()
                        .unwrap_or(Err(ControlError::LeftOut)),
                    Err(error) => Err(error.clone()),
                };
                (partition.clone(), answer)
            }));
        }
        answers
    }

    fn ask_offsets(
        &mut self,
        partitions: &[(TopicName, Partition)],
        at: StartAt,
        isolation: Isolation,
        call: Call,
    ) -> Result<Answers, ControlError> {
        let named = partitions
            .iter()
            .map(|(topic, partition)| Ok((c_string("a topic name", topic.as_str())?, *partition)))
            .collect::<Result<Vec<(CString, Partition)>, NativeError>>()
            .map_err(ControlError::Refused)?;
        let answers = NativeQueue::new(&self.client);
        let options = self.options(
            sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS,
            call,
        );
        let offset = match at {
            StartAt::Earliest => i64::from(sys::RD_KAFKA_OFFSET_BEGINNING),
            StartAt::Latest => i64::from(sys::RD_KAFKA_OFFSET_END),
        };
        let level = match isolation {
            Isolation::Committed => {
                sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED
            }
            Isolation::Uncommitted => {
                sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED
            }
        };
        // SAFETY: client, options and queue are alive. The list is built, copied into the question
        // and given back here; a new element of it is alive until the next is added, and the name
        // is copied into it.
        unsafe {
            self.client
                .take(sys::rd_kafka_AdminOptions_set_isolation_level(
                    options.0, level,
                ))
                .map_err(ControlError::Refused)?;
            let capacity = c_int::try_from(named.len()).unwrap_or(c_int::MAX);
            let list = sys::rd_kafka_topic_partition_list_new(capacity);
            for (topic, partition) in &named {
                let element =
                    sys::rd_kafka_topic_partition_list_add(list, topic.as_ptr(), partition.0);
                (*element).offset = offset;
            }
            sys::rd_kafka_ListOffsets(self.client.raw(), list, options.0, answers.raw());
            sys::rd_kafka_topic_partition_list_destroy(list);
        }
        let event = self.answer(&answers, call)?;
        Ok(positions(&event))
    }
}

/// What is known of the partitions that were asked for.
type Answers = BTreeMap<(String, Partition), Result<KafkaPosition, ControlError>>;

/// What `event`, the answer to the question for offsets, says.
fn positions(event: &NativeEvent) -> Answers {
    let mut count = 0;
    // SAFETY: the event is alive until the end of this function and holds all that is read here;
    // the count is that of the list.
    unsafe {
        let result = sys::rd_kafka_event_ListOffsets_result(event.raw());
        if result.is_null() {
            return Answers::new();
        }
        let infos = sys::rd_kafka_ListOffsets_result_infos(result, &raw mut count);
        if infos.is_null() {
            return Answers::new();
        }
        slice::from_raw_parts(infos, count)
            .iter()
            .map(|info| {
                let told = sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*info);
                let epoch = sys::rd_kafka_topic_partition_get_leader_epoch(told);
                let key = (text_at((*told).topic), Partition((*told).partition));
                (key, position((*told).err, (*told).offset, epoch))
            })
            .collect()
    }
}

/// The position that the answer about one partition stands for.
fn position(code: Code, offset: i64, epoch: i32) -> Result<KafkaPosition, ControlError> {
    if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Err(ControlError::Refused(NativeError::of(code)));
    }
    // A partition whose leader was not asked comes back as it was put into the question, without
    // an error: a negative offset is no answer.
    let offset = u64::try_from(offset).map_err(|_| ControlError::LeftOut)?;
    Ok(KafkaPosition {
        next: Offset::new(offset),
        leader_epoch: (epoch >= 0).then_some(LeaderEpoch(epoch)),
    })
}
