//! Reading by librdkafka's callback call, which has no safe face outside the crate.
#![expect(
    unsafe_code,
    reason = "the bare loop is what the source is compared with; each block says why it is sound"
)]

use std::ffi::{CString, c_void};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use rdkafka_sys as sys;
use rdkafka_sys::rd_kafka_resp_err_t as Code;

use crate::measurement::{Measurement, Recorder, now};
use crate::{Arguments, NAME, Outcome, source};

/// How long one call waits for records.
const WAIT_MS: i32 = 100;

/// What the callback has: where records are counted, and the first error.
type State = (Recorder, Result<(), i32>);

/// Measures what the callback sees.
pub(crate) fn measure(arguments: &Arguments, servers: &str) -> Outcome<Measurement> {
    let properties = source::describe(servers)?
        .build()?
        .client_properties(&source::cluster(servers), 1);
    let mut config = ClientConfig::new();
    for (name, value) in properties.iter() {
        config.set(name, value);
    }
    let consumer: BaseConsumer = config.create()?;
    let mut list = TopicPartitionList::new();
    for partition in 0..arguments.partitions {
        list.add_partition_offset(NAME, partition, Offset::End)?;
    }
    let client = consumer.client().native_ptr();
    let topic = CString::new(NAME)?;
    // SAFETY: the client is alive. The references to the partitions' queues are given back at once;
    // what they forward to is kept with them.
    let queue = unsafe {
        let queue = sys::rd_kafka_queue_new(client);
        for partition in 0..arguments.partitions {
            let of_partition = sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition);
            sys::rd_kafka_queue_forward(of_partition, queue);
            sys::rd_kafka_queue_destroy(of_partition);
        }
        queue
    };
    consumer.assign(&list)?;
    let mut state: State = (Recorder::new(arguments)?, Ok(()));
    while state.1.is_ok() && !state.0.is_done() {
        // SAFETY: the queue is alive; the state outlives the call and is used by nobody else.
        unsafe {
            let state = (&raw mut state).cast();
            sys::rd_kafka_consume_callback_queue(queue, WAIT_MS, Some(take), state);
        }
    }
    // SAFETY: ours, given up once, while the client is alive.
    unsafe { sys::rd_kafka_queue_destroy(queue) };
    state.1.map_err(|code| format!("error {code}"))?;
    state.0.stop()
}

/// What the callback call calls.
///
/// # Safety
///
/// `message` is alive, and `state` is what `measure` passes.
unsafe extern "C" fn take(message: *mut sys::rd_kafka_message_t, state: *mut c_void) {
    // SAFETY: the caller promises both. The code is read as a number, since the enum need not have it; a
    // value is as long as the message says, and is lent for the duration of this call.
    unsafe {
        let (recorder, outcome) = &mut *state.cast::<State>();
        let code = (&raw const (*message).err).cast::<i32>().read();
        if code == 0 {
            let value = std::slice::from_raw_parts((*message).payload.cast::<u8>(), (*message).len);
            recorder.emitted(value, now());
        } else if code != Code::RD_KAFKA_RESP_ERR__PARTITION_EOF as i32 {
            *outcome = Err(code);
        }
    }
}
