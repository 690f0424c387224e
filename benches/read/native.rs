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

/// The size of the buffer that values are copied into.
const COPIED_BYTES: usize = 256 * 1024;

/// The code of the end of a partition.
const END: i32 = Code::RD_KAFKA_RESP_ERR__PARTITION_EOF as i32;

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
        self.read_in_batches(content, meter, |message, _| {
            // SAFETY: it came of a batch call, and is given back once, before its client goes.
            unsafe { sys::rd_kafka_message_destroy(message) };
        })
    }

    /// Reads by the batch call, and gives messages back when those that are kept have `most` bytes of values.
    pub(crate) fn read_kept(
        &self,
        content: Content,
        meter: &mut Meter,
        most: usize,
    ) -> Outcome<()> {
        let mut kept = Kept::default();
        self.read_in_batches(content, meter, |message, bytes| {
            kept.messages.push(message);
            kept.bytes += bytes;
            if kept.bytes >= most {
                kept.give_back();
            }
        })
    }

    /// Counts what the batch call gives, and has `dispose` of each message and the bytes of its value.
    fn read_in_batches(
        &self,
        content: Content,
        meter: &mut Meter,
        mut dispose: impl FnMut(*mut sys::rd_kafka_message_t, usize),
    ) -> Outcome<()> {
        let mut batch = [ptr::null_mut::<sys::rd_kafka_message_t>(); BATCH];
        while !meter.is_done() {
            // SAFETY: the queue is alive, and the length is that of the array.
            let count = unsafe {
                sys::rd_kafka_consume_batch_queue(self.raw, WAIT_MS, batch.as_mut_ptr(), BATCH)
            };
            let mut outcome = Ok(());
            for message in &batch[..usize::try_from(count)?] {
                // SAFETY: the call wrote `count` messages, which are ours until they are given back.
                let counted = count_value(unsafe { value_of(*message) }, content, meter);
                dispose(*message, *counted.as_ref().unwrap_or(&0));
                if let Err(code) = counted {
                    outcome = Err(format!("error {code}"));
                }
            }
            outcome?;
        }
        Ok(())
    }

    /// Reads by the callback call.
    pub(crate) fn read_callbacks(&self, content: Content, meter: &mut Meter) -> Outcome<()> {
        self.read_in_callbacks(meter, |meter, value| count_value(value, content, meter))
    }

    /// Reads by the callback call, and copies each value into a buffer, which is used again when it is full.
    pub(crate) fn read_copies(&self, content: Content, meter: &mut Meter) -> Outcome<()> {
        let mut buffer = Vec::with_capacity(COPIED_BYTES);
        self.read_in_callbacks(meter, |meter, value| {
            if let Ok(Some(value)) = value {
                if buffer.len() + value.len() > COPIED_BYTES {
                    buffer.clear();
                }
                buffer.extend_from_slice(value);
            }
            count_value(value, content, meter)
        })
    }

    /// Calls `take` with what the callback call gives.
    fn read_in_callbacks<T: Take>(&self, meter: &mut Meter, take: T) -> Outcome<()> {
        let mut taking = Taking {
            take,
            meter,
            outcome: Ok(()),
        };
        while !taking.meter.is_done() && taking.outcome.is_ok() {
            // SAFETY: the queue is alive; the state is of the type that the callback expects, outlives the
            // call and is used by nobody else.
            unsafe {
                sys::rd_kafka_consume_callback_queue(
                    self.raw,
                    WAIT_MS,
                    Some(take_message::<T>),
                    (&raw mut taking).cast(),
                );
            }
        }
        taking
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

/// Messages that are not given back yet.
#[derive(Default)]
struct Kept {
    messages: Vec<*mut sys::rd_kafka_message_t>,
    /// The bytes of their values.
    bytes: usize,
}

impl Kept {
    fn give_back(&mut self) {
        for message in self.messages.drain(..) {
            // SAFETY: it came of a batch call, and is given back once, before its client goes.
            unsafe { sys::rd_kafka_message_destroy(message) };
        }
        self.bytes = 0;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// What takes the value of a message, nothing at the end of a partition.
trait Take: FnMut(&mut Meter, Result<Option<&[u8]>, i32>) -> Result<usize, i32> {}

impl<F: FnMut(&mut Meter, Result<Option<&[u8]>, i32>) -> Result<usize, i32>> Take for F {}

/// What a callback finds behind its opaque pointer.
struct Taking<'a, T> {
    take: T,
    meter: &'a mut Meter,
    outcome: Result<(), i32>,
}

/// What the callback call calls.
///
/// # Safety
///
/// `message` is alive, and `state` is what `read_in_callbacks` passes.
unsafe extern "C" fn take_message<T: Take>(
    message: *mut sys::rd_kafka_message_t,
    state: *mut c_void,
) {
    // SAFETY: the caller promises it.
    let taking = unsafe { &mut *state.cast::<Taking<'_, T>>() };
    // SAFETY: the message is lent for the duration of this call.
    let value = unsafe { value_of(message) };
    if let Err(code) = (taking.take)(taking.meter, value) {
        taking.outcome = Err(code);
    }
}

/// The value of a message, empty if it is null, or nothing if it is the end of a partition.
///
/// # Safety
///
/// `message` is alive for `'a`.
#[inline]
unsafe fn value_of<'a>(message: *mut sys::rd_kafka_message_t) -> Result<Option<&'a [u8]>, i32> {
    // SAFETY: the message is alive. The code is read as a number, since the enum need not have it.
    let (code, value, length) = unsafe {
        (
            (&raw const (*message).err).cast::<i32>().read(),
            (*message).payload.cast::<u8>(),
            (*message).len,
        )
    };
    match code {
        0 if value.is_null() => Ok(Some(&[])),
        // SAFETY: librdkafka gives pointer and length of the value of a message that is alive.
        0 => Ok(Some(unsafe { std::slice::from_raw_parts(value, length) })),
        END => Ok(None),
        code => Err(code),
    }
}

/// Counts a value, and says how many bytes it has.
#[inline]
fn count_value(
    value: Result<Option<&[u8]>, i32>,
    content: Content,
    meter: &mut Meter,
) -> Result<usize, i32> {
    let Some(value) = value? else {
        return Ok(0);
    };
    let bytes = content.take(value);
    meter.records(1, bytes);
    Ok(bytes)
}
