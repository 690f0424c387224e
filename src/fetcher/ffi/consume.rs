//! Takes records off a queue, in place.

use std::any::Any;
use std::ffi::{c_char, c_void};
use std::marker::PhantomData;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::sync::{Arc, LazyLock};

use rdkafka_sys as sys;
use sys::rd_kafka_resp_err_t as Code;

use super::client::{NativeClient, NativeError};
use super::{NativeQueue, c_string};
use crate::records::{RecordTime, RecordTimeType};

/// Which topic of its client a message is of, for as long as a [`NativeTopic`] of it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TopicKey(usize);

#[cfg(test)]
impl TopicKey {
    /// A key of no client's, for tests of what takes messages.
    pub(crate) fn numbered(number: usize) -> Self {
        Self(number)
    }
}

/// A hold on a topic, which keeps its [`TopicKey`] from being given to another one.
///
/// # Invariants
///
/// The hold ends before its client, which it keeps alive.
#[derive(Debug)]
pub(crate) struct NativeTopic {
    raw: NonNull<sys::rd_kafka_topic_t>,
    client: Arc<NativeClient>,
}

impl NativeTopic {
    /// Takes hold of a topic, which need not exist.
    ///
    /// # Errors
    ///
    /// In the words of librdkafka.
    pub(crate) fn new(client: &Arc<NativeClient>, topic: &str) -> Result<Self, NativeError> {
        let name = c_string("a topic name", topic)?;
        // SAFETY: the client is alive, the name is copied, and null asks for the defaults.
        let (raw, code) = unsafe {
            let raw = sys::rd_kafka_topic_new(client.raw(), name.as_ptr(), ptr::null_mut());
            (raw, sys::rd_kafka_last_error())
        };
        let raw = NonNull::new(raw).ok_or_else(|| NativeError::of(code))?;
        Ok(Self {
            raw,
            client: Arc::clone(client),
        })
    }

    /// How messages of the topic name it.
    pub(crate) fn key(&self) -> TopicKey {
        TopicKey(self.raw.as_ptr().addr())
    }

    /// The high watermark of a partition as the last answer to a fetch told it, without asking.
    pub(crate) fn high_watermark(&self, partition: i32) -> Option<i64> {
        // SAFETY: the topic is alive, and of this client.
        unsafe { high_watermark(&self.client, self.raw.as_ptr(), partition) }
    }
}

/// The high watermark of a partition as the last answer to a fetch told it, without asking.
///
/// # Safety
///
/// `topic` is alive during the call.
unsafe fn high_watermark(
    client: &NativeClient,
    topic: *mut sys::rd_kafka_topic_t,
    partition: i32,
) -> Option<i64> {
    let (mut low, mut high) = (0, i64::from(sys::RD_KAFKA_OFFSET_INVALID));
    // SAFETY: client and topic are alive, and so is the topic's name, which is null for none that is;
    // both offsets are ours to write.
    let code = unsafe {
        sys::rd_kafka_get_watermark_offsets(
            client.raw(),
            sys::rd_kafka_topic_name(topic),
            partition,
            &raw mut low,
            &raw mut high,
        )
    };
    // It is negative until there was an answer.
    (code == Code::RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0).then_some(high)
}

impl Drop for NativeTopic {
    fn drop(&mut self) {
        // SAFETY: this is our reference, given up once.
        unsafe { sys::rd_kafka_topic_destroy(self.raw.as_ptr()) };
    }
}

/// Whether a [`Receiver`] takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The next one, please.
    Continue,
    /// Enough; what is left stays on the queue, in order.
    Stop,
}

/// Takes what [`NativeQueue::consume`] finds.
pub(crate) trait Receiver {
    /// Takes a record.
    fn record(&mut self, topic: TopicKey, partition: i32, record: &NativeRecord<'_>) -> Flow;

    /// Takes note that there is nothing more to read in a partition before `next`, and where its high
    /// watermark is, if that is known.
    fn end(&mut self, topic: TopicKey, partition: i32, next: i64, high: Option<i64>) -> Flow;

    /// Takes note that a partition is not read on.
    fn failed(&mut self, topic: TopicKey, partition: i32, error: NativeError) -> Flow;
}

/// A record where librdkafka has it.
#[derive(Debug)]
pub(crate) struct NativeRecord<'a> {
    raw: *const sys::rd_kafka_message_t,
    /// The leader epoch it was written under, negative if the broker does not tell.
    leader_epoch: i32,
    /// It is only lent during the callback.
    lent: PhantomData<&'a sys::rd_kafka_message_t>,
}

/// Whether this librdkafka is the one that is known to lend values where it read them. Another one,
/// which can be linked instead, is asked for the headers of every record.
static VALUES_IN_PLACE: LazyLock<bool> = LazyLock::new(|| {
    const KNOWN: i32 = 0x020c_01ff; // 2.12.1
    // SAFETY: takes nothing and returns a number.
    let linked = unsafe { sys::rd_kafka_version() };
    linked == KNOWN
});

impl<'a> NativeRecord<'a> {
    /// # Safety
    ///
    /// `raw` is a message that is alive for `'a` and carries no error.
    unsafe fn new(raw: *const sys::rd_kafka_message_t) -> Self {
        Self {
            raw,
            // SAFETY: the message is alive.
            leader_epoch: unsafe { sys::rd_kafka_message_leader_epoch(raw) },
            lent: PhantomData,
        }
    }

    /// Its offset.
    #[inline]
    pub(crate) fn offset(&self) -> i64 {
        // SAFETY: the message is alive for as long as `self` is lent.
        unsafe { (*self.raw).offset }
    }

    /// Its key.
    #[inline]
    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: as above; librdkafka gives pointer and length of one part of the message.
        unsafe { slice((*self.raw).key, (*self.raw).key_len) }
    }

    /// Its value.
    #[inline]
    pub(crate) fn value(&self) -> Option<&'a [u8]> {
        // SAFETY: as above.
        unsafe { slice((*self.raw).payload, (*self.raw).len) }
    }

    /// The leader epoch it was written under, if the broker tells.
    #[inline]
    pub(crate) fn leader_epoch(&self) -> Option<i32> {
        (self.leader_epoch >= 0).then_some(self.leader_epoch)
    }

    /// Its timestamp.
    #[inline]
    pub(crate) fn time(&self) -> RecordTime {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive, and the kind is ours to write.
        let millis = unsafe { sys::rd_kafka_message_timestamp(self.raw, &raw mut kind) };
        let kind = match kind {
            sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_CREATE_TIME => {
                RecordTimeType::Create
            }
            sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => {
                RecordTimeType::LogAppend
            }
            sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => {
                return RecordTime::NOT_AVAILABLE;
            }
        };
        RecordTime { millis, kind }
    }

    /// Whether it is certain that there are no headers.
    ///
    /// To be asked for the headers of a record that has none costs librdkafka more than all the rest
    /// of it: it makes a buffer to read their count from. The count is looked at here instead, where
    /// Kafka's format has it: in the byte behind the value, zero if there are no headers.
    #[inline]
    fn has_no_headers(&self) -> bool {
        // Only the format that has headers has leader epochs.
        let has_count = self.leader_epoch >= 0 && *VALUES_IN_PLACE;
        // SAFETY: the message is alive, and librdkafka lends a value that is not empty where it read
        // it. (One that is empty lies elsewhere.) In the format of this record the count of headers
        // follows, so the byte behind the value is one of the same buffer. librdkafka does not look
        // whether it is there; brokers do, and take no record that ends before it.
        unsafe {
            let length = (*self.raw).len;
            has_count && length > 0 && *(*self.raw).payload.cast::<u8>().add(length) == 0
        }
    }

    /// Calls `visit` with each header, in their order.
    #[inline]
    pub(crate) fn for_each_header(&self, visit: impl FnMut(&'a [u8], Option<&'a [u8]>)) {
        if !self.has_no_headers() {
            self.visit_headers(visit);
        }
    }

    #[inline(never)]
    fn visit_headers(&self, mut visit: impl FnMut(&'a [u8], Option<&'a [u8]>)) {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is alive. Headers are parsed at the first call and then belong to it.
        let parsed = unsafe { sys::rd_kafka_message_headers(self.raw, &raw mut headers) };
        if parsed != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return;
        }
        for index in 0.. {
            let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
            // SAFETY: the headers live as long as the message; an index past the last is answered
            // by an error, before anything is written.
            unsafe {
                let code = sys::rd_kafka_header_get_all(
                    headers,
                    index,
                    &raw mut name,
                    &raw mut value,
                    &raw mut length,
                );
                if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                    return;
                }
                visit(
                    std::ffi::CStr::from_ptr(name).to_bytes(),
                    slice(value, length),
                );
            }
        }
    }
}

/// The bytes at `start`, or `None` if it is null: Kafka tells null from empty.
///
/// # Safety
///
/// `start` is null, or points to `length` bytes that live for `'a`.
unsafe fn slice<'a>(start: *const c_void, length: usize) -> Option<&'a [u8]> {
    if start.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller promises the rest.
    Some(unsafe { std::slice::from_raw_parts(start.cast(), length) })
}

/// What a callback finds behind its opaque pointer.
struct Consumption<'a, R> {
    receiver: &'a mut R,
    client: &'a NativeClient,
    stopped: bool,
    /// A panic may not unwind through librdkafka; it is carried around it.
    panicked: Option<Box<dyn Any + Send>>,
}

impl NativeQueue {
    /// Hands what is on the queue to `receiver`, without waiting, until it is empty or the receiver
    /// has enough; says which.
    ///
    /// Only partitions may be forwarded to the queue.
    ///
    /// # Panics
    ///
    /// If `receiver` does.
    pub(crate) fn consume<R: Receiver>(&self, receiver: &mut R) -> Flow {
        let mut consumption = Consumption {
            receiver,
            client: self.client(),
            stopped: false,
            panicked: None,
        };
        // SAFETY: the queue is alive and carries only what partitions give. The callback gets the
        // address of a value that outlives the call and is used by nobody else meanwhile, of the
        // very type that it was made for.
        unsafe {
            sys::rd_kafka_consume_callback_queue(
                self.raw(),
                0,
                Some(take::<R>),
                (&raw mut consumption).cast(),
            );
        }
        if let Some(panicked) = consumption.panicked {
            panic::resume_unwind(panicked);
        }
        if consumption.stopped {
            Flow::Stop
        } else {
            Flow::Continue
        }
    }
}

/// Called by librdkafka for each message.
///
/// # Safety
///
/// `message` is alive during the call, and `opaque` is what [`NativeQueue::consume`] passed with this
/// very callback.
unsafe extern "C" fn take<R: Receiver>(message: *mut sys::rd_kafka_message_t, opaque: *mut c_void) {
    // SAFETY: `consume` passed this value, and librdkafka calls from within that call only.
    let consumption = unsafe { &mut *opaque.cast::<Consumption<'_, R>>() };
    let (receiver, client) = (&mut *consumption.receiver, consumption.client);
    // SAFETY: librdkafka lends the message for the duration of this call.
    let taken = panic::catch_unwind(AssertUnwindSafe(|| unsafe {
        hand_over(message, receiver, client)
    }));
    match taken {
        Ok(Flow::Continue) => {}
        Ok(Flow::Stop) => consumption.stopped = true,
        Err(panicked) => consumption.panicked = Some(panicked),
    }
    if consumption.stopped || consumption.panicked.is_some() {
        // SAFETY: sets a flag of this thread, which the queue looks at after this callback.
        unsafe { sys::rd_kafka_yield(consumption.client.raw()) };
    }
}

/// Tells what `message` is and gives it to `receiver`.
///
/// # Safety
///
/// `message` is alive during the call.
unsafe fn hand_over<R: Receiver>(
    message: *mut sys::rd_kafka_message_t,
    receiver: &mut R,
    client: &NativeClient,
) -> Flow {
    const EOF: i32 = Code::RD_KAFKA_RESP_ERR__PARTITION_EOF as i32;

    // SAFETY: the message is alive. The code is read as a number, because a broker may send one that
    // the enum does not have.
    let (code, topic, partition, offset) = unsafe {
        (
            (&raw const (*message).err).cast::<i32>().read(),
            TopicKey((*message).rkt.addr()),
            (*message).partition,
            (*message).offset,
        )
    };
    match code {
        0 => {
            // SAFETY: the message is alive during the call, and has no error.
            let record = unsafe { NativeRecord::new(message) };
            receiver.record(topic, partition, &record)
        }
        EOF => {
            // SAFETY: the message holds its topic, and both are alive.
            let high = unsafe { high_watermark(client, (*message).rkt, partition) };
            receiver.end(topic, partition, offset, high)
        }
        code => {
            // SAFETY: what carries an error has its text, which ends in NUL, as its payload.
            let error =
                unsafe { client.error_of_number(code, (*message).payload.cast::<c_char>()) };
            receiver.failed(topic, partition, error)
        }
    }
}
