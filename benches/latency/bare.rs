//! Reading by librdkafka's callback call, which has no safe face outside the crate.
#![expect(
    unsafe_code,
    reason = "the bare loop is what the source is compared with; each block says why it is sound"
)]

use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use rdkafka_sys as sys;
use rdkafka_sys::rd_kafka_resp_err_t as Code;

use crate::measurement::{Measurement, Recorder, now};
use crate::{Arguments, HUGE, NAME, Outcome, source};

/// How long one call waits for records.
const WAIT_MS: i32 = 100;

/// What the callback has: where records are counted, and the first error.
type State = (Recorder, Result<(), i32>);

/// Partitions of a topic, and where they are read from.
type Read = (&'static str, i32, Offset);

/// Measures what the callback sees. Each cluster has a client and a thread.
pub(crate) fn measure(arguments: &Arguments, servers: &str) -> Outcome<Measurement> {
    let topic = (NAME, arguments.partitions, Offset::End);
    let huge = (HUGE, 1, Offset::Beginning);
    match arguments.huge.first() {
        None => Client::new(arguments, servers, 1)?.read(&[topic], Recorder::is_done),
        Some(with_huge) if with_huge == servers => {
            Client::new(arguments, servers, 1)?.read(&[topic, huge], Recorder::is_done)
        }
        Some(with_huge) => {
            let clients = [servers, with_huge].map(|servers| Client::new(arguments, servers, 2));
            let [client, other] = clients;
            let (client, other) = (client?, other?);
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let read = other.read(&[huge], |_| over.load(Ordering::Relaxed));
                    read.map_err(|error| error.to_string())
                });
                let measured = client.read(&[topic], Recorder::is_done);
                over.store(true, Ordering::Relaxed);
                let other = other.join().map_err(|_| "a thread panicked")??;
                Ok(measured?.with(&other))
            })
        }
    }
}

/// A client, and where what it reads is counted.
struct Client {
    consumer: BaseConsumer,
    recorder: Recorder,
}

impl Client {
    /// One of so many `clients`.
    fn new(arguments: &Arguments, servers: &str, clients: usize) -> Outcome<Self> {
        let properties = source::describe(arguments, servers)?
            .build()?
            .client_properties(&source::cluster(servers), clients);
        let mut config = ClientConfig::new();
        for (name, value) in properties.iter() {
            config.set(name, value);
        }
        Ok(Self {
            consumer: config.create()?,
            recorder: Recorder::new(arguments)?,
        })
    }

    /// Reads until it is over.
    fn read(self, topics: &[Read], is_over: impl Fn(&Recorder) -> bool) -> Outcome<Measurement> {
        let Self { consumer, recorder } = self;
        let mut list = TopicPartitionList::new();
        let client = consumer.client().native_ptr();
        // SAFETY: the client is alive.
        let queue = unsafe { sys::rd_kafka_queue_new(client) };
        for (name, partitions, offset) in topics {
            let topic = CString::new(*name)?;
            for partition in 0..*partitions {
                list.add_partition_offset(name, partition, *offset)?;
                // SAFETY: the client is alive. The reference to the partition's queue is given back at once;
                // what it forwards to is kept with it.
                unsafe {
                    let of_partition =
                        sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition);
                    sys::rd_kafka_queue_forward(of_partition, queue);
                    sys::rd_kafka_queue_destroy(of_partition);
                }
            }
        }
        consumer.assign(&list)?;
        let mut state: State = (recorder, Ok(()));
        while state.1.is_ok() && !is_over(&state.0) {
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
}

/// What the callback call calls.
///
/// # Safety
///
/// `message` is alive, and `state` is what `Client::read` passes.
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
