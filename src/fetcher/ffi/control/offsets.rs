//! Where partitions begin and end, and where records of a time are.

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
use crate::model::{KafkaPosition, LeaderEpoch, Offset, Partition, TopicName};

/// The greatest number of partitions in one question.
///
/// The client's cost grows with the square: 7 ms of CPU for 1,000 partitions, 550 ms for 10,000.
pub(super) const CHUNK: usize = 1_000;

/// The offset in the answer about a time since which there is no record.
const NO_RECORD: i64 = -1;

/// Whether an open transaction hides the end of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// The end is the last stable offset.
    Committed,
    /// The end is the high watermark.
    Uncommitted,
}

/// Which offset of a partition is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// That of the first record that is still there.
    Beginning,
    /// The one after the last record.
    End,
    /// That of the first record whose record time is at least so many milliseconds.
    Since(u64),
}

impl Place {
    /// How librdkafka spells it.
    fn spelled(self) -> i64 {
        match self {
            Self::Beginning => i64::from(sys::RD_KAFKA_OFFSET_BEGINNING),
            Self::End => i64::from(sys::RD_KAFKA_OFFSET_END),
            Self::Since(millis) => i64::try_from(millis).unwrap_or(i64::MAX),
        }
    }
}

/// A partition of a topic.
pub(crate) type TopicPartition = (TopicName, Partition);

/// What a cluster says about one partition; `None` if it has no record since the time.
pub(crate) type OffsetAnswer = Result<Option<KafkaPosition>, ControlError>;

impl ControlClient {
    /// The asked offset of each partition, which is named once; one answer for each, in order.
    ///
    /// The leader epoch of a position is that of the partition's first record or, at its end, of
    /// its last one: a partition that is cut off before the position can be told from it.
    pub(crate) fn list_offsets(
        &mut self,
        questions: &[(TopicPartition, Place)],
        isolation: Isolation,
        timeout: Duration,
    ) -> Vec<OffsetAnswer> {
        let call = self.begin(timeout);
        let mut answers = Vec::with_capacity(questions.len());
        for chunk in questions.chunks(CHUNK) {
            let asked = self
                .connect(call)
                .and_then(|()| self.ask_offsets(chunk, isolation, call));
            answers.extend(chunk.iter().map(|((topic, partition), place)| {
                let told = asked.as_ref().map_err(Clone::clone)?;
                let told = told.get(&(topic.as_str().to_owned(), *partition));
                told.ok_or(ControlError::LeftOut)?.position(*place)
            }));
        }
        answers
    }

    fn ask_offsets(
        &mut self,
        questions: &[(TopicPartition, Place)],
        isolation: Isolation,
        call: Call,
    ) -> Result<BTreeMap<(String, Partition), Told>, ControlError> {
        let named = questions
            .iter()
            .map(|((topic, partition), place)| {
                let topic = c_string("a topic name", topic.as_str())?;
                Ok((topic, *partition, place.spelled()))
            })
            .collect::<Result<Vec<(CString, Partition, i64)>, NativeError>>()
            .map_err(ControlError::Refused)?;
        let answers = NativeQueue::new(&self.client);
        let options = self.options(
            sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS,
            call,
        );
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
            for (topic, partition, offset) in &named {
                let element =
                    sys::rd_kafka_topic_partition_list_add(list, topic.as_ptr(), partition.0);
                (*element).offset = *offset;
            }
            sys::rd_kafka_ListOffsets(self.client.raw(), list, options.0, answers.raw());
            sys::rd_kafka_topic_partition_list_destroy(list);
        }
        let event = self.answer(&answers, call)?;
        Ok(told(&event))
    }
}

/// What an answer says of one partition.
struct Told {
    error: Code,
    offset: i64,
    /// The record time of the record at the offset, if the question was for a time.
    record_time: i64,
    leader_epoch: i32,
}

impl Told {
    /// The position that it is of `place`.
    ///
    /// A partition whose leader was not asked comes back as it was put into the question, without
    /// an error. Then its offset is one of librdkafka's negative ones, or the time itself, and no
    /// record time comes with it.
    fn position(&self, place: Place) -> OffsetAnswer {
        if self.error != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(ControlError::Refused(NativeError::of(self.error)));
        }
        match place {
            Place::Since(_) if self.offset == NO_RECORD => return Ok(None),
            Place::Since(_) if self.record_time < place.spelled() => {
                return Err(ControlError::LeftOut);
            }
            Place::Beginning | Place::End | Place::Since(_) => {}
        }
        let offset = u64::try_from(self.offset).map_err(|_| ControlError::LeftOut)?;
        Ok(Some(KafkaPosition {
            next: Offset::new(offset),
            leader_epoch: (self.leader_epoch >= 0).then_some(LeaderEpoch(self.leader_epoch)),
        }))
    }
}

/// What `event`, the answer to the question for offsets, says.
fn told(event: &NativeEvent) -> BTreeMap<(String, Partition), Told> {
    let mut count = 0;
    // SAFETY: the event is alive until the end of this function and holds all that is read here;
    // the count is that of the list.
    unsafe {
        let result = sys::rd_kafka_event_ListOffsets_result(event.raw());
        if result.is_null() {
            return BTreeMap::new();
        }
        let infos = sys::rd_kafka_ListOffsets_result_infos(result, &raw mut count);
        if infos.is_null() {
            return BTreeMap::new();
        }
        slice::from_raw_parts(infos, count)
            .iter()
            .map(|info| {
                let partition = sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*info);
                let key = (
                    text_at((*partition).topic),
                    Partition((*partition).partition),
                );
                let told = Told {
                    error: (*partition).err,
                    offset: (*partition).offset,
                    record_time: sys::rd_kafka_ListOffsetsResultInfo_timestamp(*info),
                    leader_epoch: sys::rd_kafka_topic_partition_get_leader_epoch(partition),
                };
                (key, told)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(offset: i64, record_time: i64) -> Told {
        Told {
            error: Code::RD_KAFKA_RESP_ERR_NO_ERROR,
            offset,
            record_time,
            leader_epoch: -1,
        }
    }

    /// What was not answered comes back as it was asked: the time would pass for an offset.
    #[test]
    fn a_time_is_never_taken_for_an_offset() {
        let since = Place::Since(1_700_000_000_000);

        assert_eq!(
            told(1_700_000_000_000, -1).position(since),
            Err(ControlError::LeftOut)
        );
        assert_eq!(told(-1, -1).position(since), Ok(None));
        assert_eq!(
            told(7, 1_700_000_000_001).position(since),
            Ok(Some(KafkaPosition::at(Offset::new(7))))
        );
        assert_eq!(
            told(-1, -1).position(Place::End),
            Err(ControlError::LeftOut)
        );
    }
}
