//! Calls of librdkafka that have no safe face outside the crate.
#![expect(
    unsafe_code,
    reason = "the bare loops are what the source is compared with; each block says why it is sound"
)]

use std::ffi::{CString, c_void};
use std::ptr;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka_sys as sys;
use rdkafka_sys::rd_kafka_resp_err_t as Code;

use crate::Outcome;
use crate::content::Content;
use crate::meter::Meter;

/// How long one call waits for records.
const WAIT_MS: i32 = 100;

/// The most records of one batch call.
const BATCH: usize = 1_000;

/// One queue that the partitions of a consumer are forwarded to.
pub(crate) struct Queue<'a> {
    raw: *mut sys::rd_kafka_queue_t,
    _consumer: &'a BaseConsumer,
}

impl<'a> Queue<'a> {
    /// A queue for the first `partitions` partitions of `topic`, which are not assigned yet.
    pub(crate) fn of(consumer: &'a BaseConsumer, topic: &str, partitions: i32) -> Outcome<Self> {
        let topic = CString::new(topic)?;
        let client = consumer.client().native_ptr();
        // SAFETY: the client is alive for as long as the consumer is lent. The references to the
        // partitions' queues are given back at once; what they forward to is kept with them.
        let raw = unsafe {
            let raw = sys::rd_kafka_queue_new(client);
            for partition in 0..partitions {
                let queue = sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition);
                sys::rd_kafka_queue_forward(queue, raw);
                sys::rd_kafka_queue_destroy(queue);
            }
            raw
        };
        Ok(Self {
            raw,
            _consumer: consumer,
        })
    }

    /// Reads by the batch call.
    pub(crate) fn read_batches(&self, content: Content, meter: &mut Meter) -> Outcome<()> {
        let mut batch = [ptr::null_mut::<sys::rd_kafka_message_t>(); BATCH];
        while !meter.is_done() {
            // SAFETY: the queue is alive, and the length is that of the array.
            let count = unsafe {
                sys::rd_kafka_consume_batch_queue(self.raw, WAIT_MS, batch.as_mut_ptr(), BATCH)
            };
            for message in &batch[..usize::try_from(count)?] {
                // SAFETY: the call wrote `count` messages, each of which is given back once.
                let counted = unsafe {
                    let counted = count_message(*message, content, meter);
                    sys::rd_kafka_message_destroy(*message);
                    counted
                };
                counted.map_err(|code| format!("error {code}"))?;
            }
        }
        Ok(())
    }

    /// Reads by the callback call.
    pub(crate) fn read_callbacks(&self, content: Content, meter: &mut Meter) -> Outcome<()> {
        let mut counting = Counting {
            content,
            meter,
            outcome: Ok(()),
        };
        while !counting.meter.is_done() && counting.outcome.is_ok() {
            // SAFETY: the queue is alive; the state outlives the call and is used by nobody else.
            unsafe {
                sys::rd_kafka_consume_callback_queue(
                    self.raw,
                    WAIT_MS,
                    Some(take),
                    (&raw mut counting).cast(),
                );
            }
        }
        counting
            .outcome
            .map_err(|code| format!("error {code}").into())
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        // SAFETY: ours, given up once, while the client is alive.
        unsafe { sys::rd_kafka_queue_destroy(self.raw) };
    }
}

/// What a callback finds behind its opaque pointer.
struct Counting<'a> {
    content: Content,
    meter: &'a mut Meter,
    outcome: Result<(), i32>,
}

/// What the callback call calls.
///
/// # Safety
///
/// `message` is alive, and `state` is what `read_callbacks` passes.
unsafe extern "C" fn take(message: *mut sys::rd_kafka_message_t, state: *mut c_void) {
    // SAFETY: the caller promises it.
    let counting = unsafe { &mut *state.cast::<Counting<'_>>() };
    // SAFETY: the message is lent for the duration of this call.
    if let Err(code) = unsafe { count_message(message, counting.content, counting.meter) } {
        counting.outcome = Err(code);
    }
}

/// Counts a message, unless it is the end of a partition.
///
/// # Safety
///
/// `message` is alive.
#[inline]
unsafe fn count_message(
    message: *mut sys::rd_kafka_message_t,
    content: Content,
    meter: &mut Meter,
) -> Result<(), i32> {
    // SAFETY: the message is alive. The code is read as a number, since the enum need not have it.
    let (code, value, length) = unsafe {
        (
            (&raw const (*message).err).cast::<i32>().read(),
            (*message).payload.cast::<u8>(),
            (*message).len,
        )
    };
    if code == 0 {
        let bytes = if value.is_null() {
            0
        } else {
            // SAFETY: librdkafka gives pointer and length of the value of a message that is alive.
            content.take(unsafe { std::slice::from_raw_parts(value, length) })
        };
        meter.records(1, bytes);
    } else if code != Code::RD_KAFKA_RESP_ERR__PARTITION_EOF as i32 {
        return Err(code);
    }
    Ok(())
}
