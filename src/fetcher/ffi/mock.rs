//! A Kafka cluster in this process, by librdkafka's mock.
//!
//! The `rdkafka` crate has a type for it, but hides the pointer that request tracking and adding a
//! broker need.

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::time::Duration;

use rdkafka_sys as sys;
use rdkafka_sys::rd_kafka_resp_err_t as Code;

use super::text_at;

/// The broker that librdkafka's mock calls the controller, and does not make by itself.
///
/// A client that asks the controller waits until its deadline unless the broker is there.
const CONTROLLER: i32 = 0;

/// All brokers, in the mock's words.
const ALL: i32 = -1;

/// What a mock cluster did not do, in librdkafka's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MockRefusal(pub(crate) String);

/// A request that a broker of a mock cluster got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MockRequest {
    /// The broker's number.
    pub(crate) broker: i32,
    /// Kafka's number of the kind of request.
    pub(crate) api: i16,
    /// When it came, in microseconds of a clock that never goes back.
    pub(crate) micros: i64,
}

/// A cluster of mock brokers on the loopback interface.
#[derive(Debug)]
pub(crate) struct MockCluster {
    /// Carries the cluster's thread, and is used for nothing else.
    client: *mut sys::rd_kafka_t,
    cluster: *mut sys::rd_kafka_mock_cluster_t,
}

// SAFETY: both pointers are owned, and every function called on them only queues an operation for
// the cluster's own thread or holds the cluster's own lock.
unsafe impl Send for MockCluster {}
// SAFETY: as for `Send`; the functions may be called from several threads at once.
unsafe impl Sync for MockCluster {}

impl MockCluster {
    /// Starts a cluster of `brokers` brokers that lead partitions, and one controller.
    pub(crate) fn start(brokers: u16) -> Result<Self, MockRefusal> {
        let mut words: [c_char; 512] = [0; 512];
        // SAFETY: the new client owns the configuration; `words` outlives the call and its length
        // is passed.
        let client = unsafe {
            let configuration = sys::rd_kafka_conf_new();
            // What the mock logs about requests that it does not know is no news for anybody.
            sys::rd_kafka_conf_set_log_cb(configuration, None);
            sys::rd_kafka_new(
                sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
                configuration,
                words.as_mut_ptr(),
                words.len(),
            )
        };
        if client.is_null() {
            // SAFETY: librdkafka ends what it writes there by a zero.
            return Err(MockRefusal(unsafe { text_at(words.as_ptr()) }));
        }
        // SAFETY: the client lives until `drop`, which destroys the cluster first.
        let cluster = unsafe { sys::rd_kafka_mock_cluster_new(client, c_int::from(brokers)) };
        if cluster.is_null() {
            // SAFETY: the client was made above, and nothing else has it.
            unsafe { sys::rd_kafka_destroy(client) };
            return Err(MockRefusal(format!(
                "a cluster of {brokers} brokers could not be made"
            )));
        }
        let started = Self { client, cluster };
        // SAFETY: the cluster is alive.
        done(unsafe { sys::rd_kafka_mock_broker_add(cluster, CONTROLLER) })?;
        Ok(started)
    }

    /// Where clients find the brokers.
    pub(crate) fn bootstrap_servers(&self) -> String {
        // SAFETY: the cluster is alive, and so is its list, which ends by a zero and never changes.
        unsafe { text_at(sys::rd_kafka_mock_cluster_bootstraps(self.cluster)) }
    }

    /// Creates a topic.
    pub(crate) fn create_topic(&self, topic: &str, partitions: i32) -> Result<(), MockRefusal> {
        let topic = c_string(topic)?;
        // SAFETY: the cluster is alive; the name is copied before the call returns.
        done(unsafe {
            sys::rd_kafka_mock_topic_create(self.cluster, topic.as_ptr(), partitions, 1)
        })
    }

    /// Makes a topic answer `code` when it is asked for.
    pub(crate) fn set_topic_error(&self, topic: &str, code: Code) -> Result<(), MockRefusal> {
        let topic = c_string(topic)?;
        // SAFETY: the cluster is alive; the name is copied before the call returns.
        unsafe { sys::rd_kafka_mock_topic_set_error(self.cluster, topic.as_ptr(), code) };
        Ok(())
    }

    /// Makes the next requests of the kind `api` fail, one for each of `codes`.
    pub(crate) fn push_errors(&self, api: i16, codes: &[Code]) {
        // SAFETY: the cluster is alive; the codes are copied before the call returns.
        unsafe {
            sys::rd_kafka_mock_push_request_errors_array(
                self.cluster,
                api,
                codes.len(),
                codes.as_ptr(),
            );
        }
    }

    /// Drops the failures that [`push_errors`](Self::push_errors) left.
    pub(crate) fn clear_errors(&self, api: i16) {
        // SAFETY: the cluster is alive.
        unsafe { sys::rd_kafka_mock_clear_request_errors(self.cluster, api) };
    }

    /// Cuts all connections of all brokers and refuses new ones.
    pub(crate) fn set_down(&self) -> Result<(), MockRefusal> {
        // SAFETY: the cluster is alive.
        done(unsafe { sys::rd_kafka_mock_broker_set_down(self.cluster, ALL) })
    }

    /// Cuts all connections of the controller, broker 0, and refuses new ones. The others do not list it then.
    #[cfg(test)]
    pub(crate) fn set_controller_down(&self) -> Result<(), MockRefusal> {
        // SAFETY: the cluster is alive.
        done(unsafe { sys::rd_kafka_mock_broker_set_down(self.cluster, 0) })
    }

    /// Accepts connections again.
    pub(crate) fn set_up(&self) -> Result<(), MockRefusal> {
        // SAFETY: the cluster is alive.
        done(unsafe { sys::rd_kafka_mock_broker_set_up(self.cluster, ALL) })
    }

    /// Holds every answer of every broker back for `delay`.
    pub(crate) fn set_delay(&self, delay: Duration) -> Result<(), MockRefusal> {
        let millis = c_int::try_from(delay.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: the cluster is alive.
        done(unsafe { sys::rd_kafka_mock_broker_set_rtt(self.cluster, ALL, millis) })
    }

    /// Writes down every request from here on, and forgets the earlier ones.
    pub(crate) fn track(&self) {
        // SAFETY: the cluster is alive.
        unsafe { sys::rd_kafka_mock_start_request_tracking(self.cluster) };
    }

    /// The requests since [`track`](Self::track), in the order they came.
    pub(crate) fn requests(&self) -> Vec<MockRequest> {
        let mut count = 0;
        // SAFETY: the cluster is alive; the list is a copy that belongs to the caller, `count`
        // pointers to requests, and is given back below. It is null if there is none.
        unsafe {
            let list = sys::rd_kafka_mock_get_requests(self.cluster, &raw mut count);
            if list.is_null() {
                return Vec::new();
            }
            let requests = std::slice::from_raw_parts(list, count)
                .iter()
                .map(|request| MockRequest {
                    broker: sys::rd_kafka_mock_request_id(*request),
                    api: sys::rd_kafka_mock_request_api_key(*request),
                    micros: sys::rd_kafka_mock_request_timestamp(*request),
                })
                .collect();
            sys::rd_kafka_mock_request_destroy_array(list, count);
            requests
        }
    }
}

impl Drop for MockCluster {
    fn drop(&mut self) {
        // SAFETY: nobody has the pointers any more; the cluster goes before the client that
        // carries its thread.
        unsafe {
            sys::rd_kafka_mock_cluster_destroy(self.cluster);
            sys::rd_kafka_destroy(self.client);
        }
        self.cluster = ptr::null_mut();
        self.client = ptr::null_mut();
    }
}

/// The failure that `code` stands for.
fn done(code: Code) -> Result<(), MockRefusal> {
    if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Ok(());
    }
    // SAFETY: librdkafka has a text for every code, which lives as long as the process.
    Err(MockRefusal(unsafe { text_at(sys::rd_kafka_err2str(code)) }))
}

fn c_string(name: &str) -> Result<CString, MockRefusal> {
    CString::new(name).map_err(|error| MockRefusal(error.to_string()))
}
