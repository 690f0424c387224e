//! Questions to a cluster, and offsets that it keeps, on a client that reads nothing.
//!
//! On a client that reads, such questions would wait behind its long polls. A control client is of
//! the producer kind, so it has no group, and it never creates a topic by asking for it. What a group
//! has committed is asked on a [`GroupClient`], which has one and never joins it.

mod commit;
mod committed;
mod describe;
mod offsets;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka_sys as sys;
use rdkafka_sys::rd_kafka_resp_err_t as Code;

pub(crate) use self::commit::{CommitClient, PartitionPosition};
pub(crate) use self::committed::{CommittedAnswer, GroupClient};
pub(crate) use self::describe::{FoundTopic, TopicAnswer};
pub(crate) use self::offsets::{Isolation, OffsetAnswer, Place, TopicPartition};
use super::client::{ClientKind, NativeClient, NativeError};
use super::queue::{NativeEvent, NativeQueue, Said};
use super::text_at;
use crate::metadata::secret::ResolvedProperties;
use crate::model::KafkaClusterId;

/// Properties of a control client that nobody can set otherwise.
const FORCED: [(&str, &str); 2] = [
    // The client's default is to create a topic that is asked for and missing.
    ("allow.auto.create.topics", "false"),
    // Statistics that nobody takes off the queue pile up.
    ("statistics.interval.ms", "0"),
];

/// Properties of a control client that the user's come on top of.
const DEFAULTS: [(&str, &str); 4] = [
    ("client.id", "timely-kafka-control"),
    ("enable.metrics.push", "false"),
    ("reconnect.backoff.max.ms", "2000"),
    // A hung broker is silent for so long; the client's own default is a minute.
    ("socket.timeout.ms", "10000"),
];

/// How long all brokers have to be down before a client is taken for one that reaches nobody: a call is given up
/// then, and a client that reads nothing.
///
/// A name with two addresses, of which one is refused, passes through that state at every start.
pub(crate) const DOWN_FOR: Duration = Duration::from_secs(1);

/// How often [`ControlClient::attend`] is to be called at least.
///
/// The client says at most some dozens of things a second, each of some hundred bytes.
pub(crate) const ATTEND_EVERY: Duration = Duration::from_secs(10);

/// How long one step of waiting is, so that what the client says meanwhile is heard.
const STEP: Duration = Duration::from_millis(100);

/// How long after a complaint a call ends that is put to one broker: of two addresses of a broker, one may refuse.
const COMPLAINED_FOR: Duration = Duration::from_millis(200);

/// Why a question to a cluster has no answer. It never means that there is nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ControlError {
    /// No broker can be reached.
    #[error("{words}")]
    Unreachable {
        /// The best cause that the client has told, in its words.
        words: String,
    },
    /// The brokers accept connections, or at least do not refuse them, and say nothing.
    #[error("no answer in {} ms{}", waited.as_millis(), heard(words.as_deref()))]
    TimedOut {
        /// How long the answer was waited for.
        waited: Duration,
        /// What the client has told meanwhile.
        words: Option<String>,
    },
    /// The topic does not exist.
    #[error("it does not exist")]
    UnknownTopic,
    /// A list of all topics does not have it: it does not exist, or its existence may not be seen.
    #[error("it is not among the topics of the cluster")]
    NotListed,
    /// The answer says nothing about what was asked.
    #[error("the answer of the cluster leaves it out")]
    LeftOut,
    /// The client or the cluster refused, in its words.
    #[error(transparent)]
    Refused(NativeError),
}

fn heard(words: Option<&str>) -> String {
    words.map_or_else(String::new, |words| format!(" ({words})"))
}

/// How much a line of the client says about a cause; the greater the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Telling {
    /// That all brokers are down says that, not why.
    Down,
    /// It was told before this call, since when the cluster has not answered.
    Before,
    /// Some causes are told in log lines only.
    Log,
    /// A connection or a name failed.
    Connection,
    /// A certificate or a password was not accepted; a failing connection follows from it.
    Security,
}

/// A client of one cluster that asks and reads nothing.
///
/// Every call blocks, at most until its deadline, so it belongs on a thread of its own. Dropping it
/// does not block: the client ends on yet another thread.
#[derive(Debug)]
pub(crate) struct ControlClient {
    client: Arc<NativeClient>,
    /// Where the client says what goes wrong.
    main: NativeQueue,
    /// The most telling words since the last call began, or the last ones before if there are none.
    words: Option<(Telling, Reverse<String>)>,
    /// Since when all brokers are down in this call, as far as was heard.
    down_since: Option<Instant>,
    /// Since when the client has told of anything that failed, if no question was answered since.
    complained: Option<Instant>,
    /// Whether the cluster has answered anything yet.
    connected: bool,
    /// Whether the cluster's controller can be asked; `None` until it is found out.
    controller: Option<bool>,
}

impl ControlClient {
    /// A client with `properties`. It connects by itself, and says none of their secrets.
    ///
    /// # Errors
    ///
    /// If a property is unknown or its value refused.
    pub(crate) fn new(properties: &ResolvedProperties) -> Result<Self, NativeError> {
        Self::of_kind(ClientKind::Producer, properties, &[])
    }

    /// A client that has `group`, and never joins it.
    fn of_group(properties: &ResolvedProperties, group: &str) -> Result<Self, NativeError> {
        let of_group = [("group.id", group), ("enable.auto.commit", "false")];
        let client = Self::of_kind(ClientKind::Consumer, properties, &of_group)?;
        // What such a client has to say arrives on another queue than that of one without a group.
        if let Some(queue) = NativeQueue::consumer(&client.client) {
            queue.forward(&client.main);
        }
        Ok(client)
    }

    /// A client of a kind, with `forced` on top of its properties.
    fn of_kind(
        kind: ClientKind,
        properties: &ResolvedProperties,
        forced: &[(&str, &str)],
    ) -> Result<Self, NativeError> {
        let all = DEFAULTS.into_iter().chain(properties.iter()).chain(FORCED);
        let all = all.chain(forced.iter().copied());
        let client = NativeClient::new(kind, all, properties.mask())?;
        Ok(Self {
            main: NativeQueue::main(&client),
            client,
            words: None,
            complained: None,
            down_since: None,
            connected: false,
            controller: None,
        })
    }

    /// Takes what the client says off its queue, which grows while nobody asks anything.
    pub(crate) fn attend(&mut self) {
        self.listen(Duration::ZERO);
    }

    /// Whether the client has told of anything that failed since a question was answered, so that it should be
    /// given up for another one.
    ///
    /// A question that is put to one broker has it connected as soon as it refuses, and again, thousands of times a
    /// second, until the question's deadline (librdkafka 2.12). A client that is new asks whoever is there first.
    pub(crate) fn has_complained(&mut self) -> bool {
        self.attend();
        self.complained.is_some()
    }

    /// The id that the cluster has given itself, by its latest answer to any question; `None` if it
    /// has none.
    ///
    /// # Errors
    ///
    /// If the cluster has not answered anything yet and does not in `timeout`.
    pub(crate) fn cluster_id(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<KafkaClusterId>, ControlError> {
        let call = self.begin(timeout);
        self.connect(call)?;
        Ok(self.known_cluster_id(Duration::ZERO))
    }

    /// The id of the cluster, once an answer of it is there, waited for at most `wait`.
    fn known_cluster_id(&self, wait: Duration) -> Option<KafkaClusterId> {
        // SAFETY: the client is alive; the text is ours, ends by NUL, and is given back once.
        unsafe {
            let text = sys::rd_kafka_clusterid(self.client.raw(), millis(wait));
            if text.is_null() {
                return None;
            }
            let id = KafkaClusterId(text_at(text));
            sys::rd_kafka_mem_free(self.client.raw(), text.cast::<c_void>());
            Some(id)
        }
    }

    /// Waits until the cluster has answered anything.
    fn connect(&mut self, call: Call) -> Result<(), ControlError> {
        while !self.connected {
            let asked = Instant::now();
            // SAFETY: the client is alive.
            unsafe { sys::rd_kafka_controllerid(self.client.raw(), millis(call.step())) };
            self.connected = self.client.has_answered();
            if !self.connected {
                // A cluster that has answered without either is not waited for inside the call.
                self.listen(call.step().saturating_sub(asked.elapsed()));
                self.still_worth_waiting(call)?;
            }
        }
        Ok(())
    }

    /// Begins a call: what was said before is no news about it.
    fn begin(&mut self, timeout: Duration) -> Call {
        let now = Instant::now();
        self.listen(Duration::ZERO);
        // A client that cannot connect tells why at its first attempts, and later only that it is
        // so. Until the cluster answers, the last cause is what a person has to know; any other one
        // that is told in this call replaces it.
        if let Some((telling, _)) = &mut self.words {
            *telling = Telling::Before.min(*telling);
        }
        self.down_since = None;
        Call {
            began: now,
            deadline: now + timeout,
            ends_by_complaint: false,
        }
    }

    /// Takes what the client says off its queue, which is waited for at most `wait`.
    ///
    /// The client says at most some dozens of things a second, so this ends.
    fn listen(&mut self, wait: Duration) {
        let mut next = self.main.poll(wait);
        while let Some(event) = next {
            next = self.main.poll(Duration::ZERO);
            let Some((telling, words)) = event.said().and_then(cause) else {
                continue;
            };
            self.complained.get_or_insert_with(Instant::now);
            if telling == Telling::Down {
                self.down_since.get_or_insert_with(Instant::now);
            }
            // Of two that tell as much always the same one, whichever broker was tried first.
            let words = (telling, Reverse(words));
            if self.words.as_ref().is_none_or(|before| *before < words) {
                self.words = Some(words);
            }
        }
    }

    /// Waits for the answer to a question, which comes on `answers`.
    fn answer(&mut self, answers: &NativeQueue, call: Call) -> Result<NativeEvent, ControlError> {
        let event = self.await_event(answers, call)?;
        let error = event.error();
        if error.code == 0 {
            self.answered();
            return Ok(event);
        }
        self.listen(Duration::ZERO);
        Err(self.failure(call, error))
    }

    /// What was told of anything that failed is over, be it heard or not.
    fn answered(&mut self) {
        self.listen(Duration::ZERO);
        self.words = None;
        self.complained = None;
    }

    /// Waits for the answer to a question, whatever it says.
    fn await_event(
        &mut self,
        answers: &NativeQueue,
        call: Call,
    ) -> Result<NativeEvent, ControlError> {
        loop {
            if let Some(event) = answers.poll(call.step()) {
                return Ok(event);
            }
            self.still_worth_waiting(call)?;
        }
    }

    /// Hears what the client says, and fails the call if it is over or hopeless.
    fn still_worth_waiting(&mut self, call: Call) -> Result<(), ControlError> {
        self.listen(Duration::ZERO);
        let now = Instant::now();
        let since = |since: Option<Instant>| since.map(|since| now.duration_since(since));
        let is_down = since(self.down_since).is_some_and(|down| down >= DOWN_FOR);
        let is_failing = since(self.complained).is_some_and(|failing| failing >= COMPLAINED_FOR);
        if is_down || call.ends_by_complaint && is_failing {
            return Err(self.unreachable());
        }
        if now >= call.deadline {
            return Err(self.timed_out(call));
        }
        Ok(())
    }

    fn unreachable(&self) -> ControlError {
        ControlError::Unreachable {
            words: self.words.as_ref().map_or_else(
                || "no broker can be reached".to_owned(),
                |(_, Reverse(words))| words.clone(),
            ),
        }
    }

    fn timed_out(&self, call: Call) -> ControlError {
        // All brokers down until the deadline: the cause is known, whatever the deadline.
        if self.down_since.is_some() {
            return self.unreachable();
        }
        ControlError::TimedOut {
            waited: call.deadline.duration_since(call.began),
            words: self.words.as_ref().map(|(_, Reverse(words))| words.clone()),
        }
    }

    /// What `error` means for a whole call.
    fn failure(&mut self, call: Call, error: NativeError) -> ControlError {
        const TIMED_OUT: i32 = Code::RD_KAFKA_RESP_ERR__TIMED_OUT as i32;
        const TIMED_OUT_IN_QUEUE: i32 = Code::RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE as i32;
        const TRANSPORT: i32 = Code::RD_KAFKA_RESP_ERR__TRANSPORT as i32;
        const DOWN: i32 = Code::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN as i32;
        // librdkafka gave up the broker that was asked, which it does with one that is down if it knows another name
        // of it. Nobody has refused anything.
        const BROKER_GIVEN_UP: i32 = Code::RD_KAFKA_RESP_ERR__DESTROY_BROKER as i32;
        match error.code {
            BROKER_GIVEN_UP => {
                self.complained.get_or_insert_with(Instant::now);
                self.unreachable()
            }
            TIMED_OUT | TIMED_OUT_IN_QUEUE => self.timed_out(call),
            TRANSPORT | DOWN if self.words.is_some() => self.unreachable(),
            _ => ControlError::Refused(error),
        }
    }

    /// Options of a question of the kind `operation`, which ends when the call does.
    fn options(&self, operation: sys::rd_kafka_admin_op_t, call: Call) -> AdminOptions {
        let mut words: [c_char; 512] = [0; 512];
        // SAFETY: the client is alive; the buffer's length is passed. A refused time-out leaves the
        // client's default, and the call's own deadline is kept in any case.
        unsafe {
            let options = sys::rd_kafka_AdminOptions_new(self.client.raw(), operation);
            sys::rd_kafka_AdminOptions_set_request_timeout(
                options,
                millis(call.left()).max(1),
                words.as_mut_ptr(),
                words.len(),
            );
            AdminOptions(options)
        }
    }
}

/// One call, from its beginning to its deadline.
#[derive(Clone, Copy, Debug)]
struct Call {
    began: Instant,
    deadline: Instant,
    /// Whether it is over soon after the client tells of anything that failed.
    ends_by_complaint: bool,
}

impl Call {
    fn left(self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn step(self) -> Duration {
        self.left().min(STEP)
    }

    /// The rest of it, which is over soon after the client tells of anything that failed.
    fn to_complaint(self) -> Self {
        Self {
            ends_by_complaint: true,
            ..self
        }
    }
}

/// Options of one question, given back when dropped.
struct AdminOptions(*mut sys::rd_kafka_AdminOptions_t);

impl Drop for AdminOptions {
    fn drop(&mut self) {
        // SAFETY: the options are ours and given back once; questions have copied them.
        unsafe { sys::rd_kafka_AdminOptions_destroy(self.0) };
    }
}

/// What a line says about why a cluster cannot be asked, if anything.
fn cause(said: Said) -> Option<(Telling, String)> {
    match said {
        Said::Error(error) => {
            let telling = match error.name.as_str() {
                "_SSL" | "_AUTHENTICATION" => Telling::Security,
                "_ALL_BROKERS_DOWN" => Telling::Down,
                _ => Telling::Connection,
            };
            Some((telling, error.message))
        }
        Said::Log {
            facility, message, ..
        } => {
            // What the client says about unused properties is no cause.
            let is_cause = matches!(facility.as_str(), "FAIL" | "REQTMOUT" | "CLUSTERID");
            is_cause.then(|| (Telling::Log, without_thread(&message).to_owned()))
        }
    }
}

/// A log line without the name of the client's thread, which it begins with.
fn without_thread(line: &str) -> &str {
    match line
        .strip_prefix("[thrd:")
        .and_then(|l| l.split_once("]: "))
    {
        Some((_, rest)) => rest,
        None => line,
    }
}

fn millis(duration: Duration) -> c_int {
    c_int::try_from(duration.as_millis()).unwrap_or(c_int::MAX)
}
