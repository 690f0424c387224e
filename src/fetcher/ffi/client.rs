//! The lifetime of a librdkafka client.

use std::ffi::c_char;
use std::fmt::{self, Display};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use rdkafka_sys as sys;
use sys::rd_kafka_resp_err_t as Code;

use super::{c_string, text_at};

/// How long closing is waited for before the client is given up as leaked.
pub(crate) const CLOSE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Clients that were made and whose destruction is not over.
static CLIENTS_OPEN: AtomicUsize = AtomicUsize::new(0);

/// The size of the buffers that librdkafka writes its words to.
const MESSAGE_BYTES_MAX: usize = 512;

/// A failure in the words of librdkafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct NativeError {
    /// The number of the error, as in Kafka's protocol if it is positive.
    pub(crate) code: i32,
    /// librdkafka's name of the code, for example `_TRANSPORT`.
    pub(crate) name: String,
    /// What happened.
    pub(crate) message: String,
    /// The client property at fault, if it was one.
    pub(crate) property: Option<String>,
}

impl NativeError {
    /// An error with librdkafka's code and words.
    pub(super) fn new(code: Code, message: String) -> Self {
        // SAFETY: both take any code and return a string that is never freed.
        let (name, words) = unsafe {
            (
                text_at(sys::rd_kafka_err2name(code)),
                text_at(sys::rd_kafka_err2str(code)),
            )
        };
        Self {
            code: code as i32,
            name,
            message: if message.is_empty() { words } else { message },
            property: None,
        }
    }

    /// The error of a number, which may be one that this librdkafka has no name for.
    pub(super) fn from_number(code: i32, message: String) -> Self {
        match Code::try_from(code) {
            Ok(code) => Self::new(code, message),
            Err(_) => Self {
                code,
                name: format!("ERROR_{code}"),
                message,
                property: None,
            },
        }
    }

    /// An argument that librdkafka cannot take.
    pub(super) fn invalid(message: String) -> Self {
        Self::new(Code::RD_KAFKA_RESP_ERR__INVALID_ARG, message)
    }

    /// Takes the error out of `error`, if there is one.
    ///
    /// # Safety
    ///
    /// `error` is null, or owned by the caller, who gives it away.
    pub(super) unsafe fn take(error: *mut sys::rd_kafka_error_t) -> Result<(), Self> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: not null, and alive until it is destroyed below, once.
        unsafe {
            let taken = Self::new(
                sys::rd_kafka_error_code(error),
                text_at(sys::rd_kafka_error_string(error)),
            );
            sys::rd_kafka_error_destroy(error);
            Err(taken)
        }
    }
}

/// What a client can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// Reads partitions.
    Consumer,
    /// Writes, or only asks: it needs no group.
    Producer,
}

impl Display for ClientKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Consumer => "consumer",
            Self::Producer => "producer",
        })
    }
}

/// A librdkafka client.
///
/// Errors and log lines of the client arrive as events on its
/// [main queue](super::NativeQueue::main), which has to be polled: what nobody polls piles up.
///
/// # Invariants
///
/// * The pointer is valid as long as the value lives. Queues and handles of the client hold an
///   `Arc` of it, so it outlives them.
/// * Destruction may block for as long as brokers hang, so it runs on a thread of its own.
#[derive(Debug)]
pub(crate) struct NativeClient {
    raw: NonNull<sys::rd_kafka_t>,
    /// Disconnected when the destruction is over.
    destroyed: Receiver<()>,
    /// Goes to the destroying thread.
    destroying: Option<Sender<()>>,
}

// SAFETY: librdkafka's client is made to be used from any number of threads at once; every call
// made through this type is one that it documents as such. Destruction happens once, when the last
// owner is gone.
unsafe impl Send for NativeClient {}
// SAFETY: as above.
unsafe impl Sync for NativeClient {}

impl NativeClient {
    /// Makes a client. It connects by itself, later.
    ///
    /// # Errors
    ///
    /// If a property is unknown or its value is refused, or if the client cannot be made of them.
    pub(crate) fn new<'a>(
        kind: ClientKind,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Arc<Self>, NativeError> {
        let mut configuration = Configuration::new();
        for (name, value) in properties {
            configuration.set(name, value)?;
        }
        // Some causes are told in log lines only, so the log comes as events too.
        configuration.set("log.queue", "true")?;
        let raw = configuration.into_client(kind)?;
        CLIENTS_OPEN.fetch_add(1, Ordering::Relaxed);
        let (destroying, destroyed) = bounded(0);
        let client = Self {
            raw,
            destroyed,
            destroying: Some(destroying),
        };
        // SAFETY: the client is alive; null stands for its main queue.
        let code = unsafe { sys::rd_kafka_set_log_queue(client.raw(), std::ptr::null_mut()) };
        if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(NativeError::new(code, String::new()));
        }
        Ok(Arc::new(client))
    }

    /// The client, for calls that can be made from any thread.
    pub(super) fn raw(&self) -> *mut sys::rd_kafka_t {
        self.raw.as_ptr()
    }

    /// Gives this owner's hold up and says when the client is gone, which needs all owners to do so.
    pub(crate) fn close(self: Arc<Self>) -> Closing {
        Closing {
            destroyed: self.destroyed.clone(),
        }
    }

    /// How many clients of this process are open or could not be closed yet.
    #[cfg(test)]
    pub(crate) fn open_count() -> usize {
        CLIENTS_OPEN.load(Ordering::Relaxed)
    }
}

impl Drop for NativeClient {
    fn drop(&mut self) {
        /// The last hold on a client that nobody uses any more.
        struct Doomed(NonNull<sys::rd_kafka_t>);
        // SAFETY: a client can be destroyed on any thread but its own.
        unsafe impl Send for Doomed {}

        let (doomed, destroying) = (Doomed(self.raw), self.destroying.take());
        let destroy = move || {
            // Names the whole value: a closure takes fields on their own, and a pointer is not Send.
            let doomed: Doomed = doomed;
            // SAFETY: this was the last owner, and every queue and handle of the client is gone.
            // Leaving the group is skipped: there is none.
            unsafe {
                sys::rd_kafka_destroy_flags(
                    doomed.0.as_ptr(),
                    sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE,
                );
            }
            CLIENTS_OPEN.fetch_sub(1, Ordering::Relaxed);
            drop(destroying);
        };
        let spawned = thread::Builder::new()
            .name("kafka-close".to_owned())
            .spawn(destroy);
        if let Err(error) = spawned {
            // Counted by staying open. Destroying here could block a timely thread for ever.
            tracing::warn!(%error, "closing a Kafka client failed: no thread; it is left open");
        }
    }
}

/// The end of a client, as it can be waited for.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    destroyed: Receiver<()>,
}

impl Closing {
    /// Waits until the client is gone, or until `deadline`; says whether it is.
    ///
    /// A client that is not gone by then is left to itself: better a leak than a process that
    /// cannot end. It stays in [`NativeClient::open_count`] until it is gone.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        self.destroyed.recv_deadline(deadline) == Err(RecvTimeoutError::Disconnected)
    }
}

/// A configuration that no client was made of yet.
struct Configuration(Option<NonNull<sys::rd_kafka_conf_t>>);

impl Configuration {
    fn new() -> Self {
        // SAFETY: takes nothing; the result is ours.
        let raw = unsafe { sys::rd_kafka_conf_new() };
        Self(Some(
            NonNull::new(raw).expect("librdkafka ends the process when memory is out"),
        ))
    }

    fn raw(&self) -> *mut sys::rd_kafka_conf_t {
        self.0
            .expect("a configuration is used before a client is made of it")
            .as_ptr()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), NativeError> {
        let at_fault = |mut error: NativeError| {
            error.property = Some(name.to_owned());
            error
        };
        let c_name = c_string("the name of a client property", name).map_err(at_fault)?;
        let c_value =
            c_string(&format!("the value of client property '{name}'"), value).map_err(at_fault)?;
        let mut words: [c_char; MESSAGE_BYTES_MAX] = [0; MESSAGE_BYTES_MAX];
        // SAFETY: all pointers are valid during the call; the length is that of the buffer, which
        // librdkafka ends with NUL.
        let (result, message) = unsafe {
            let result = sys::rd_kafka_conf_set(
                self.raw(),
                c_name.as_ptr(),
                c_value.as_ptr(),
                words.as_mut_ptr(),
                words.len(),
            );
            (result, text_at(words.as_ptr()))
        };
        if result == sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK {
            return Ok(());
        }
        Err(at_fault(NativeError::invalid(format!(
            "client property '{name}' is refused: {message}"
        ))))
    }

    fn into_client(mut self, kind: ClientKind) -> Result<NonNull<sys::rd_kafka_t>, NativeError> {
        let native_kind = match kind {
            ClientKind::Consumer => sys::rd_kafka_type_t::RD_KAFKA_CONSUMER,
            ClientKind::Producer => sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
        };
        let mut words: [c_char; MESSAGE_BYTES_MAX] = [0; MESSAGE_BYTES_MAX];
        // SAFETY: the configuration is valid; the length is that of the buffer. Both flags are
        // events that the main queue can carry.
        let (client, code, message) = unsafe {
            sys::rd_kafka_conf_set_events(
                self.raw(),
                sys::RD_KAFKA_EVENT_ERROR | sys::RD_KAFKA_EVENT_LOG,
            );
            let client =
                sys::rd_kafka_new(native_kind, self.raw(), words.as_mut_ptr(), words.len());
            (client, sys::rd_kafka_last_error(), text_at(words.as_ptr()))
        };
        let Some(client) = NonNull::new(client) else {
            return Err(NativeError::new(
                code,
                format!("making a Kafka {kind} failed: {message}"),
            ));
        };
        // The client owns its configuration from here on.
        self.0 = None;
        Ok(client)
    }
}

impl Drop for Configuration {
    fn drop(&mut self) {
        if let Some(raw) = self.0 {
            // SAFETY: no client took it over.
            unsafe { sys::rd_kafka_conf_destroy(raw.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_property_is_refused_with_its_name() {
        let error = NativeClient::new(ClientKind::Consumer, [("bootstrap.server", "x")])
            .expect_err("there is no such property");

        assert_eq!(error.property.as_deref(), Some("bootstrap.server"));
        assert_eq!(
            error.to_string(),
            "client property 'bootstrap.server' is refused: \
             No such configuration property: \"bootstrap.server\""
        );
    }

    #[test]
    fn a_client_without_brokers_is_gone_within_the_bound() {
        let client = NativeClient::new(
            ClientKind::Consumer,
            [
                ("bootstrap.servers", "127.0.0.1:9"),
                ("group.id", "timely-kafka"),
            ],
        )
        .expect("the properties are right");

        let closing = client.close();

        assert!(closing.wait_until(Instant::now() + CLOSE_WAIT_MAX));
    }
}
