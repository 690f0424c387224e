//! Queues of a client, and the events on them.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use rdkafka_sys as sys;

use super::client::{NativeClient, NativeError};
use super::text_at;

/// What is called when something comes to a queue that is empty, on a thread of librdkafka's and with the queue
/// locked: it is quick, waits for nobody who may want that lock, and does not panic, which would end the process.
pub(crate) type OnFilled = Box<dyn Fn() + Send + Sync>;

/// A queue of a client.
///
/// # Invariants
///
/// The queue is destroyed before its client, which it keeps alive.
pub(crate) struct NativeQueue {
    raw: NonNull<sys::rd_kafka_queue_t>,
    client: Arc<NativeClient>,
    /// What the queue calls, which outlives it.
    on_filled: Option<Arc<OnFilled>>,
}

impl fmt::Debug for NativeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeQueue")
            .field("raw", &self.raw)
            .finish_non_exhaustive()
    }
}

/// Calls what is to be called when a queue is filled.
///
/// # Safety
///
/// `on_filled` points to an [`OnFilled`] that lives during the call.
unsafe extern "C" fn filled(_client: *mut sys::rd_kafka_t, on_filled: *mut c_void) {
    // SAFETY: the caller promises it.
    let on_filled = unsafe { &*on_filled.cast::<OnFilled>() };
    on_filled();
}

// SAFETY: librdkafka's queues are locked inside and made to be used from any thread.
unsafe impl Send for NativeQueue {}
// SAFETY: as above.
unsafe impl Sync for NativeQueue {}

impl NativeQueue {
    /// A queue of its own, for answers or forwarded partitions.
    pub(crate) fn new(client: &Arc<NativeClient>) -> Self {
        // SAFETY: the client is alive; the queue is ours.
        let raw = unsafe { sys::rd_kafka_queue_new(client.raw()) };
        Self::of(client, raw).expect("librdkafka ends the process when memory is out")
    }

    /// The queue on which errors and log lines of the client arrive.
    pub(crate) fn main(client: &Arc<NativeClient>) -> Self {
        // SAFETY: the client is alive; this is a new reference, which is ours.
        let raw = unsafe { sys::rd_kafka_queue_get_main(client.raw()) };
        Self::of(client, raw).expect("every client has a main queue")
    }

    /// The queue of a consumer that gets what belongs to no forwarded partition.
    pub(crate) fn consumer(client: &Arc<NativeClient>) -> Option<Self> {
        // SAFETY: the client is alive; this is a new reference, which is ours.
        let raw = unsafe { sys::rd_kafka_queue_get_consumer(client.raw()) };
        Self::of(client, raw)
    }

    /// A queue of its own that calls `on_filled` whenever something comes to it while it is empty.
    ///
    /// Each time: librdkafka remembers nothing of what it has called. What is consumed and not taken is put back,
    /// and comes to the queue as well.
    pub(crate) fn telling(client: &Arc<NativeClient>, on_filled: OnFilled) -> Self {
        let mut queue = Self::new(client);
        let on_filled = Arc::new(on_filled);
        let opaque = Arc::as_ptr(&on_filled).cast_mut().cast();
        // SAFETY: the queue is alive. What it calls lives, at this address, until the queue is told to call nothing
        // any more, which is before it is dropped; it is shared only, as its type allows between threads.
        unsafe { sys::rd_kafka_queue_cb_event_enable(queue.raw(), Some(filled), opaque) };
        queue.on_filled = Some(on_filled);
        queue
    }

    pub(super) fn of(client: &Arc<NativeClient>, raw: *mut sys::rd_kafka_queue_t) -> Option<Self> {
        Some(Self {
            raw: NonNull::new(raw)?,
            client: Arc::clone(client),
            on_filled: None,
        })
    }

    /// Lets everything that comes to this queue, and is on it, go to `target` instead.
    pub(super) fn forward(&self, target: &Self) {
        // SAFETY: both queues are alive; librdkafka holds the target as long as it needs it.
        unsafe { sys::rd_kafka_queue_forward(self.raw(), target.raw()) };
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_queue_t {
        self.raw.as_ptr()
    }

    /// Whether nothing is on the queue.
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: the queue is alive.
        unsafe { sys::rd_kafka_queue_length(self.raw()) == 0 }
    }

    /// The client of the queue.
    pub(crate) fn client(&self) -> &Arc<NativeClient> {
        &self.client
    }

    /// The next event, waited for at most `wait`.
    pub(crate) fn poll(&self, wait: Duration) -> Option<NativeEvent> {
        let millis = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is alive; the event is ours.
        let raw = NonNull::new(unsafe { sys::rd_kafka_queue_poll(self.raw(), millis) })?;
        Some(NativeEvent {
            raw,
            client: Arc::clone(&self.client),
        })
    }
}

impl Drop for NativeQueue {
    fn drop(&mut self) {
        // SAFETY: this is our reference, given up once. Partitions may hold the queue a little
        // longer, so it is told first to call nothing: it waits for a call that is under way, with its lock.
        unsafe {
            if self.on_filled.is_some() {
                sys::rd_kafka_queue_cb_event_enable(self.raw(), None, ptr::null_mut());
            }
            sys::rd_kafka_queue_destroy(self.raw());
        }
    }
}

/// An event that was taken off a queue.
///
/// # Invariants
///
/// The event is destroyed before its client, which it keeps alive.
#[derive(Debug)]
pub(crate) struct NativeEvent {
    raw: NonNull<sys::rd_kafka_event_t>,
    client: Arc<NativeClient>,
}

// SAFETY: an event is owned by whoever took it off its queue and tied to no thread.
unsafe impl Send for NativeEvent {}

/// What a client says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Something failed.
    Error(NativeError),
    /// A line of its log.
    Log {
        /// The severity, as in syslog: 3 is an error, 4 a warning, 6 information.
        level: i32,
        /// What part of the client speaks, for example `FAIL`.
        facility: String,
        /// The line.
        message: String,
    },
}

impl NativeEvent {
    pub(super) fn raw(&self) -> *mut sys::rd_kafka_event_t {
        self.raw.as_ptr()
    }

    /// The client that the event is of.
    pub(super) fn client(&self) -> &NativeClient {
        &self.client
    }

    /// What the client says, if this event is an error or a log line.
    pub(crate) fn said(&self) -> Option<Said> {
        // SAFETY: the event is alive.
        match unsafe { sys::rd_kafka_event_type(self.raw()) } {
            sys::RD_KAFKA_EVENT_ERROR => {
                let mut error = self.error();
                error.message = without_count(&error.message);
                Some(Said::Error(error))
            }
            sys::RD_KAFKA_EVENT_LOG => {
                let (mut facility, mut message): (*const c_char, *const c_char) =
                    (ptr::null(), ptr::null());
                let mut level: c_int = 0;
                // SAFETY: the event is alive and a log line; the strings live as long as it does.
                unsafe {
                    sys::rd_kafka_event_log(
                        self.raw(),
                        &raw mut facility,
                        &raw mut message,
                        &raw mut level,
                    );
                    Some(Said::Log {
                        level,
                        facility: text_at(facility),
                        message: self.client.words(message),
                    })
                }
            }
            _ => None,
        }
    }

    /// The topic and partition that the event is about, if it is about one: an error of it, or a
    /// record of it that went astray.
    pub(crate) fn partition(&self) -> Option<(String, i32)> {
        // SAFETY: the event is alive; messages and their topics live as long as it does, and the
        // partition that comes back of an error is ours.
        unsafe {
            if sys::rd_kafka_event_type(self.raw()) == sys::RD_KAFKA_EVENT_FETCH {
                let message = sys::rd_kafka_event_message_next(self.raw());
                if message.is_null() || (*message).rkt.is_null() {
                    return None;
                }
                let topic = text_at(sys::rd_kafka_topic_name((*message).rkt));
                return Some((topic, (*message).partition));
            }
            let partition = sys::rd_kafka_event_topic_partition(self.raw());
            if partition.is_null() {
                return None;
            }
            let named = (text_at((*partition).topic), (*partition).partition);
            sys::rd_kafka_topic_partition_destroy(partition);
            Some(named)
        }
    }

    /// The error that the event carries; its code is zero if it carries none.
    pub(crate) fn error(&self) -> NativeError {
        // SAFETY: the event is alive; the text lives as long as it does.
        unsafe {
            self.client.error(
                sys::rd_kafka_event_error(self.raw()),
                sys::rd_kafka_event_error_string(self.raw()),
            )
        }
    }
}

impl Drop for NativeEvent {
    fn drop(&mut self) {
        // SAFETY: the event is ours, destroyed once.
        unsafe { sys::rd_kafka_event_destroy(self.raw()) };
    }
}

/// An error without how often it was not told: librdkafka tells the same one again and again, and
/// adds ", 3 identical error(s) suppressed" in the brackets at its end.
fn without_count(message: &str) -> String {
    let counted = message.strip_suffix(" identical error(s) suppressed)");
    match counted.and_then(|start| start.rsplit_once(", ")) {
        Some((start, count)) if count.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{start})")
        }
        Some(_) | None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_is_told_again_reads_as_it_did_the_first_time() {
        let first = "10.0.0.1:9092/1: Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT)";
        let again = "10.0.0.1:9092/1: Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT, 1 identical error(s) suppressed)";

        assert_eq!(without_count(again), first);
        assert_eq!(without_count(first), first);
    }
}
