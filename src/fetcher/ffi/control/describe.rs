//! Which partitions topics have, and who the topics are.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::ptr;
use std::slice;
use std::time::Duration;

use rdkafka_sys as sys;
use rdkafka_sys::rd_kafka_resp_err_t as Code;

use super::{Call, ControlClient, ControlError, millis};
use crate::fetcher::ffi::client::NativeError;
use crate::fetcher::ffi::queue::{NativeEvent, NativeQueue};
use crate::fetcher::ffi::{c_string, text_at};
use crate::model::{Partition, TopicId, TopicName};

/// What a cluster says about one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicAnswer {
    /// The topic that was asked for.
    pub(crate) topic: TopicName,
    /// What it is, or why that is not known.
    pub(crate) found: Result<FoundTopic, ControlError>,
}

/// A topic that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundTopic {
    /// Its partitions, in their order.
    pub(crate) partitions: Vec<Partition>,
    /// Its id; `None` if the cluster does not tell.
    pub(crate) id: Option<TopicId>,
}

/// All that a broker knows.
struct Listing {
    brokers: Vec<i32>,
    topics: BTreeMap<String, Result<FoundTopic, ControlError>>,
}

impl ControlClient {
    /// Which partitions `topics` have, one answer for each, in any order.
    ///
    /// The question with ids can be put to the controller only, and waits for one until its
    /// deadline. So it is found out first, by what any broker lists, whether the controller is a
    /// broker that can be reached. Where it is not, the list itself is the answer, without ids. Soon after the
    /// client tells of anything that failed, there is no more waiting for the controller.
    ///
    /// # Errors
    ///
    /// If the cluster as a whole does not answer.
    pub(crate) fn describe_topics(
        &mut self,
        topics: &[TopicName],
        timeout: Duration,
    ) -> Result<Vec<TopicAnswer>, ControlError> {
        if topics.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.begin(timeout);
        self.connect(call)?;
        if self.controller != Some(true) {
            let listing = self.list(call)?;
            // SAFETY: the client is alive; nothing is waited for.
            let controller = unsafe { sys::rd_kafka_controllerid(self.client.raw(), 0) };
            let reachable = listing.brokers.contains(&controller);
            self.controller = Some(reachable);
            if !reachable {
                return Ok(chosen(topics, listing.topics));
            }
        }
        // See `has_complained`. What was told before the list is about others; what was told after it, and before
        // this call, is not told again.
        let described = self.ask_controller(topics, call.to_complaint());
        if described.is_err() {
            // It may have gone: look before it is asked again.
            self.controller = None;
        }
        Ok(chosen(topics, described?))
    }

    /// Asks any broker for all that it knows, so that what the client knows of the cluster is of the one
    /// that it reaches now.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer.
    pub(crate) fn refresh(&mut self, timeout: Duration) -> Result<(), ControlError> {
        let call = self.begin(timeout);
        self.list(call).map(drop)
    }

    fn ask_controller(
        &mut self,
        topics: &[TopicName],
        call: Call,
    ) -> Result<BTreeMap<String, Result<FoundTopic, ControlError>>, ControlError> {
        let names = topics
            .iter()
            .map(|topic| c_string("a topic name", topic.as_str()))
            .collect::<Result<Vec<CString>, NativeError>>()
            .map_err(ControlError::Refused)?;
        let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let answers = NativeQueue::new(&self.client);
        let options = self.options(
            sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            call,
        );
        // SAFETY: client, options and queue are alive. The names live until they are copied into
        // the collection, which is copied into the question and given back once.
        unsafe {
            let collection =
                sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
            sys::rd_kafka_DescribeTopics(self.client.raw(), collection, options.0, answers.raw());
            sys::rd_kafka_TopicCollection_destroy(collection);
        }
        let event = self.answer(&answers, call)?;
        Ok(described(&event))
    }

    /// All topics and brokers, by any broker.
    fn list(&mut self, call: Call) -> Result<Listing, ControlError> {
        // The call cannot be interrupted, so it is made in attempts, each longer than the one
        // before: what the client says is heard between them, and a slow broker gets its time.
        let mut wait = Duration::from_millis(500);
        loop {
            let mut raw: *const sys::rd_kafka_metadata = ptr::null();
            // SAFETY: the client is alive; no topic is singled out.
            let code = unsafe {
                sys::rd_kafka_metadata(
                    self.client.raw(),
                    1,
                    ptr::null_mut(),
                    &raw mut raw,
                    millis(call.left().min(wait)),
                )
            };
            if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                // SAFETY: the answer is there when the call succeeds; it is ours and given back
                // once, after it was read.
                unsafe {
                    let listing = listing(&*raw);
                    sys::rd_kafka_metadata_destroy(raw);
                    self.answered();
                    return Ok(listing);
                }
            }
            self.still_worth_waiting(call)?;
            if !matches!(
                code,
                Code::RD_KAFKA_RESP_ERR__TIMED_OUT | Code::RD_KAFKA_RESP_ERR__TRANSPORT
            ) {
                let error = NativeError::of(code);
                return Err(self.failure(call, error));
            }
            // A broken connection is told at once, and would be asked again at once.
            self.listen(call.step());
            wait *= 2;
        }
    }
}

/// The answers to what was asked.
fn chosen(
    topics: &[TopicName],
    mut answers: BTreeMap<String, Result<FoundTopic, ControlError>>,
) -> Vec<TopicAnswer> {
    topics
        .iter()
        .map(|topic| TopicAnswer {
            topic: topic.clone(),
            found: answers
                .remove(topic.as_str())
                // Brokers hide the topics that a client may not describe, so this is no deletion.
                .unwrap_or(Err(ControlError::NotListed)),
        })
        .collect()
}

/// What `metadata` says.
///
/// # Safety
///
/// `metadata` is an answer of librdkafka: its counts are those of its lists.
unsafe fn listing(metadata: &sys::rd_kafka_metadata) -> Listing {
    // SAFETY: the caller's promise, for every list in it.
    unsafe {
        Listing {
            brokers: list(metadata.brokers, metadata.broker_cnt)
                .iter()
                .map(|broker| broker.id)
                .collect(),
            topics: list(metadata.topics, metadata.topic_cnt)
                .iter()
                .map(|topic| {
                    let found = match topic.err {
                        Code::RD_KAFKA_RESP_ERR_NO_ERROR => {
                            let partitions = list(topic.partitions, topic.partition_cnt).iter();
                            Ok(FoundTopic {
                                partitions: in_order(partitions.map(|partition| partition.id)),
                                id: None,
                            })
                        }
                        code => Err(problem(NativeError::of(code))),
                    };
                    (text_at(topic.topic), found)
                })
                .collect(),
        }
    }
}

/// What `event`, the answer to the question for topics, says.
fn described(event: &NativeEvent) -> BTreeMap<String, Result<FoundTopic, ControlError>> {
    let mut count = 0;
    // SAFETY: the event is alive until the end of this function and holds all that is read here;
    // counts are those of their lists, and null lists have the count zero.
    unsafe {
        let result = sys::rd_kafka_event_DescribeTopics_result(event.raw());
        if result.is_null() {
            return BTreeMap::new();
        }
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        pointers(topics, count)
            .iter()
            .map(|topic| {
                let name = text_at(sys::rd_kafka_TopicDescription_name(*topic));
                let error = sys::rd_kafka_TopicDescription_error(*topic);
                let code = sys::rd_kafka_error_code(error);
                if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                    let error = event
                        .client()
                        .error(code, sys::rd_kafka_error_string(error));
                    return (name, Err(problem(error)));
                }
                let mut partition_count = 0;
                let partitions =
                    sys::rd_kafka_TopicDescription_partitions(*topic, &raw mut partition_count);
                let numbers = pointers(partitions, partition_count)
                    .iter()
                    .map(|partition| sys::rd_kafka_TopicPartitionInfo_partition(*partition));
                let found = FoundTopic {
                    partitions: in_order(numbers),
                    id: topic_id(sys::rd_kafka_TopicDescription_topic_id(*topic)),
                };
                (name, Ok(found))
            })
            .collect()
    }
}

/// The 128 bits of a topic's id; zero is Kafka's "none".
///
/// # Safety
///
/// `id` is null or alive.
unsafe fn topic_id(id: *const sys::rd_kafka_Uuid_t) -> Option<TopicId> {
    if id.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller promises the rest.
    let (most, least) = unsafe {
        (
            sys::rd_kafka_Uuid_most_significant_bits(id).cast_unsigned(),
            sys::rd_kafka_Uuid_least_significant_bits(id).cast_unsigned(),
        )
    };
    let bits = u128::from(most) << 64 | u128::from(least);
    (bits != 0).then_some(TopicId(bits))
}

/// What an error about one topic means.
pub(super) fn problem(error: NativeError) -> ControlError {
    if error.code == Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART as i32 {
        ControlError::UnknownTopic
    } else {
        ControlError::Refused(error)
    }
}

fn in_order(numbers: impl Iterator<Item = i32>) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = numbers.map(Partition).collect();
    partitions.sort_unstable();
    partitions
}

/// The list of `count` values at `first`.
///
/// # Safety
///
/// There are as many, alive for `'a`, unless `first` is null or `count` is not positive.
unsafe fn list<'a, T>(first: *const T, count: i32) -> &'a [T] {
    match usize::try_from(count) {
        // SAFETY: the caller's promise.
        Ok(count) if !first.is_null() => unsafe { slice::from_raw_parts(first, count) },
        _ => &[],
    }
}

/// The list of `count` pointers at `first`.
///
/// # Safety
///
/// There are as many, alive for `'a`, unless `first` is null.
unsafe fn pointers<'a, T>(first: *mut *const T, count: usize) -> &'a [*const T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(first, count) }
}
