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
use crate::metadata::mask::Mask;

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
    /// The error of a code, in the words that librdkafka has for it.
    pub(super) fn of(code: Code) -> Self {
        Self::new(code, String::new())
    }

    /// An error with librdkafka's code and words, which the client's [`Mask`] has been over.
    fn new(code: Code, message: String) -> Self {
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

    /// An argument that librdkafka cannot take.
    pub(super) fn invalid(message: String) -> Self {
        Self::new(Code::RD_KAFKA_RESP_ERR__INVALID_ARG, message)
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
/// * No text of librdkafka's leaves this module but through [`words`](Self::words), which hides the
///   client's secrets.
pub(crate) struct NativeClient {
    raw: NonNull<sys::rd_kafka_t>,
    /// Disconnected when the destruction is over.
    destroyed: Receiver<()>,
    /// Goes to the destroying thread.
    destroying: Option<Sender<()>>,
    mask: Mask,
}

impl fmt::Debug for NativeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeClient")
            .field("raw", &self.raw)
            .finish_non_exhaustive()
    }
}

// SAFETY: librdkafka's client is made to be used from any number of threads at once; every call
// made through this type is one that it documents as such. Destruction happens once, when the last
// owner is gone.
unsafe impl Send for NativeClient {}
// SAFETY: as above.
unsafe impl Sync for NativeClient {}

impl NativeClient {
    /// Makes a client. It connects by itself, later. Whatever it says passes `mask`.
    ///
    /// # Errors
    ///
    /// If a property is unknown or its value is refused, or if the client cannot be made of them.
    pub(crate) fn new<'a>(
        kind: ClientKind,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
        mask: &Mask,
    ) -> Result<Arc<Self>, NativeError> {
        let mut configuration = Configuration::new(mask);
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
            mask: mask.clone(),
        };
        // SAFETY: the client is alive; null stands for its main queue.
        let code = unsafe { sys::rd_kafka_set_log_queue(client.raw(), std::ptr::null_mut()) };
        if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(NativeError::of(code));
        }
        Ok(Arc::new(client))
    }

    /// Whether the cluster has ever answered. Every one tells a controller, if only that there is none; not every one
    /// an id.
    pub(crate) fn has_answered(&self) -> bool {
        // SAFETY: the client is alive, and neither call waits; the text is ours and given back once.
        unsafe {
            let id = sys::rd_kafka_clusterid(self.raw(), 0);
            if !id.is_null() {
                sys::rd_kafka_mem_free(self.raw(), id.cast());
            }
            !id.is_null() || sys::rd_kafka_controllerid(self.raw(), 0) != -1
        }
    }

    /// What librdkafka says at `text`, without the client's secrets.
    ///
    /// # Safety
    ///
    /// As for [`text_at`].
    pub(super) unsafe fn words(&self, text: *const c_char) -> String {
        // SAFETY: the caller's promise.
        self.mask.hide(&unsafe { text_at(text) })
    }

    /// The error of a code, in the words at `text`, if there are any.
    ///
    /// # Safety
    ///
    /// As for [`text_at`].
    pub(super) unsafe fn error(&self, code: Code, text: *const c_char) -> NativeError {
        // SAFETY: the caller's promise.
        NativeError::new(code, unsafe { self.words(text) })
    }

    /// The error of a number, which may be one that this librdkafka has no name for.
    ///
    /// # Safety
    ///
    /// As for [`text_at`].
    pub(super) unsafe fn error_of_number(&self, code: i32, text: *const c_char) -> NativeError {
        // SAFETY: the caller's promise.
        let message = unsafe { self.words(text) };
        match Code::try_from(code) {
            Ok(code) => NativeError::new(code, message),
            Err(_) => NativeError {
                code,
                name: format!("ERROR_{code}"),
                message,
                property: None,
            },
        }
    }

    /// Takes the error out of `error`, if there is one.
    ///
    /// # Safety
    ///
    /// `error` is null, or owned by the caller, who gives it away.
    pub(super) unsafe fn take(&self, error: *mut sys::rd_kafka_error_t) -> Result<(), NativeError> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: not null, and alive until it is destroyed below, once.
        unsafe {
            let taken = self.error(
                sys::rd_kafka_error_code(error),
                sys::rd_kafka_error_string(error),
            );
            sys::rd_kafka_error_destroy(error);
            Err(taken)
        }
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
    /// cannot end. It stays in `NativeClient::open_count` until it is gone.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        self.destroyed.recv_deadline(deadline) == Err(RecvTimeoutError::Disconnected)
    }
}

/// A configuration that no client was made of yet.
struct Configuration<'a> {
    raw: Option<NonNull<sys::rd_kafka_conf_t>>,
    mask: &'a Mask,
}

impl<'a> Configuration<'a> {
    fn new(mask: &'a Mask) -> Self {
        // SAFETY: takes nothing; the result is ours.
        let raw = unsafe { sys::rd_kafka_conf_new() };
        Self {
            raw: Some(NonNull::new(raw).expect("librdkafka ends the process when memory is out")),
            mask,
        }
    }

    fn raw(&self) -> *mut sys::rd_kafka_conf_t {
        self.raw
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
        let message = self.mask.hide(message.trim_end());
        let refused = match result {
            sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK => return Ok(()),
            sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_INVALID if !self.mask.covers(name) => {
                format!("client property '{name}' is refused with the value '{value}': {message}")
            }
            _ => format!("client property '{name}' is refused: {message}"),
        };
        Err(at_fault(NativeError::invalid(refused)))
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
                format!("making a Kafka {kind} failed: {}", self.mask.hide(&message)),
            ));
        };
        // The client owns its configuration from here on.
        self.raw = None;
        Ok(client)
    }
}

impl Drop for Configuration<'_> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw {
            // SAFETY: no client took it over.
            unsafe { sys::rd_kafka_conf_destroy(raw.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::NativeQueue;
    use super::*;
    use crate::metadata::secret::resolve;
    use crate::model::ClientProperties;

    fn refused(name: &str, value: &str, mask: &Mask) -> NativeError {
        NativeClient::new(ClientKind::Consumer, [(name, value)], mask)
            .expect_err("librdkafka does not take it")
    }

    /// What librdkafka says of a number does not say which.
    #[test]
    fn a_refused_value_is_shown() {
        let nothing = Mask::default();

        assert_eq!(
            refused("fetch.min.bytes", "many", &nothing).to_string(),
            "client property 'fetch.min.bytes' is refused with the value 'many': \
             Invalid value for configuration property \"fetch.min.bytes\""
        );
        let beyond = refused("fetch.min.bytes", "-1", &nothing).to_string();
        assert!(beyond.contains("allowed range 1..100000000"), "{beyond}");
        assert_eq!(beyond, beyond.trim());
    }

    #[test]
    fn a_refused_value_that_may_be_a_secret_is_not_shown() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, "hunter2secret").unwrap();
        let reference = format!("${{file:{}}}", path.display());
        for name in ["security.protocol", "debug", "fetch.min.bytes"] {
            let resolved = resolve(&ClientProperties::new().with(name, &reference)).unwrap();

            let error = refused(name, "hunter2secret", resolved.mask());

            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
            assert!(error.message.contains(name), "{error}");
        }
    }

    /// librdkafka repeats what it does not understand in events and in its log.
    #[test]
    fn no_secret_is_in_what_a_client_says() {
        let properties = ClientProperties::new()
            .with("bootstrap.servers", "127.0.0.1:9")
            .with("group.id", "g")
            .with("security.protocol", "SASL_PLAINTEXT")
            .with("sasl.mechanism", "OAUTHBEARER")
            .with("enable.sasl.oauthbearer.unsecure.jwt", "true")
            .with("sasl.oauthbearer.config", "principal=a hunter2secret");
        let resolved = resolve(&properties).unwrap();
        let client =
            NativeClient::new(ClientKind::Consumer, resolved.iter(), resolved.mask()).unwrap();
        let (queue, deadline) = (
            NativeQueue::main(&client),
            Instant::now() + Duration::from_secs(60),
        );

        let mut said = String::new();
        while !said.contains("beginning at") && Instant::now() < deadline {
            let event = queue.poll(Duration::from_millis(100));
            said.extend(event.iter().map(|event| format!("{:?}", event.said())));
        }

        assert!(said.contains("beginning at: ***"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }

    #[test]
    fn an_unknown_property_is_refused_with_its_name() {
        let error = refused("bootstrap.server", "x", &Mask::default());

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
            &Mask::default(),
        )
        .expect("the properties are right");

        let closing = client.close();

        assert!(closing.wait_until(Instant::now() + CLOSE_WAIT_MAX));
    }
}
