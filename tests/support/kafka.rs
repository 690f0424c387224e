//! Runs real Apache Kafka for one test, and tells what its brokers saw.
//!
//! Every [`RealKafka`] has clusters, ports and a folder of its own, so that tests run side by side.
//! Failures panic with what a person has to do: nothing is skipped because something is missing.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::Future;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{self, Command};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};
use tempfile::TempDir;

pub(crate) use requests::Request;
pub(crate) use requests::parse_log;

#[path = "kafka/requests.rs"]
mod requests;
#[path = "kafka/segments.rs"]
mod segments;

/// Guards against hangs only; everything here takes seconds at most.
const DEADLINE: Duration = Duration::from_secs(60);

/// Kafka clusters that end with this value, also when the test fails or its process is killed.
pub(crate) struct RealKafka {
    state: TempDir,
    clients: Mutex<BTreeMap<String, Clients>>,
}

/// What talks to one cluster on behalf of the test.
struct Clients {
    admin: AdminClient<DefaultClientContext>,
    /// Rebuilt when topics change, since a producer learns of new partitions only minutes later.
    producer: Option<BaseProducer<Deliveries>>,
}

impl RealKafka {
    /// Starts clusters of one broker, each in a process of its own.
    pub(crate) fn start(names: &[&str]) -> Self {
        Self::start_with(names, &[])
    }

    /// Starts clusters with further arguments of `scripts/kafka start`, like `--brokers 3`.
    pub(crate) fn start_with(names: &[&str], arguments: &[&str]) -> Self {
        Self::launch(names, &[&["--log-requests"], arguments].concat())
    }

    /// Starts clusters of one broker that do not tell what they see, for hours of work.
    pub(crate) fn start_quiet(names: &[&str]) -> Self {
        Self::launch(names, &[])
    }

    fn launch(names: &[&str], arguments: &[&str]) -> Self {
        let kafka = Self {
            state: tempfile::Builder::new()
                .prefix("timely-kafka-test-")
                .tempdir()
                .expect("the folder for temporary files is writable"),
            clients: Mutex::default(),
        };
        let owner = process::id().to_string();
        let mut command = vec!["start", "--exit-with", &owner];
        command.extend(arguments);
        command.extend(names);
        kafka.script(&command);
        kafka
    }

    /// The address for clients.
    pub(crate) fn bootstrap(&self, cluster: &str) -> String {
        self.script(&["bootstrap", cluster]).trim().to_owned()
    }

    /// Ends a cluster's brokers by SIGKILL.
    pub(crate) fn kill(&self, cluster: &str) {
        self.script(&["kill", cluster]);
    }

    /// Starts a cluster that was killed or stopped, with what it had stored.
    pub(crate) fn start_again(&self, cluster: &str) {
        self.script(&["start", cluster]);
    }

    /// Starts another cluster in the place of one, at its address.
    pub(crate) fn replace(&self, cluster: &str) {
        // First, so that they do not look for brokers that are gone.
        self.clients
            .lock()
            .expect("no test panics with the lock")
            .remove(cluster);
        let owner = process::id().to_string();
        self.script(&["replace", "--exit-with", &owner, cluster]);
    }

    /// Makes a cluster's brokers hang with their connections open.
    pub(crate) fn pause(&self, cluster: &str) {
        self.script(&["pause", cluster]);
    }

    /// Ends what [`RealKafka::pause`] began.
    pub(crate) fn resume(&self, cluster: &str) {
        self.script(&["resume", cluster]);
    }

    /// Creates a topic and waits until each of its partitions has a leader.
    pub(crate) fn create_topic(&self, cluster: &str, topic: &str, partitions: i32) {
        self.create_topic_with(cluster, topic, partitions, &[]);
    }

    /// The same with settings of the topic.
    pub(crate) fn create_topic_with(
        &self,
        cluster: &str,
        topic: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) {
        self.administer(cluster, |admin| {
            let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(-1));
            for (name, value) in settings {
                new = new.set(name, value);
            }
            let results = block_on(admin.create_topics([&new], &options()));
            expect_done(
                results,
                &format!("cluster {cluster}: creating topic {topic}"),
            );
            await_partitions(admin, topic, partitions);
        });
    }

    /// Creates a topic of one partition on these brokers, of which the first leads it.
    pub(crate) fn create_topic_on(&self, cluster: &str, topic: &str, brokers: &[i32]) {
        self.administer(cluster, |admin| {
            let assignment = [brokers];
            let new = NewTopic::new(topic, 1, TopicReplication::Variable(&assignment));
            let results = block_on(admin.create_topics([&new], &options()));
            expect_done(
                results,
                &format!("cluster {cluster}: creating topic {topic}"),
            );
            await_partitions(admin, topic, 1);
        });
    }

    /// Grows a topic to so many partitions in all and waits until each has a leader.
    pub(crate) fn grow(&self, cluster: &str, topic: &str, partitions: i32) {
        self.administer(cluster, |admin| {
            let count = usize::try_from(partitions).expect("a count of partitions is positive");
            let new = NewPartitions::new(topic, count);
            let results = block_on(admin.create_partitions([&new], &options()));
            expect_done(
                results,
                &format!("cluster {cluster}: growing topic {topic}"),
            );
            await_partitions(admin, topic, partitions);
        });
    }

    /// Deletes the records of a partition before an offset.
    pub(crate) fn delete_records(&self, cluster: &str, topic: &str, partition: i32, before: i64) {
        self.administer(cluster, |admin| {
            let mut offsets = TopicPartitionList::new();
            offsets
                .add_partition_offset(topic, partition, Offset::Offset(before))
                .expect("the offset is one");
            let done = block_on(admin.delete_records(&offsets, &options()));
            done.unwrap_or_else(|error| {
                panic!("cluster {cluster}: deleting records of {topic}: {error}")
            });
        });
    }

    /// Deletes a topic and waits until the cluster does not know it.
    pub(crate) fn delete_topic(&self, cluster: &str, topic: &str) {
        self.administer(cluster, |admin| {
            let results = block_on(admin.delete_topics(&[topic], &options()));
            expect_done(
                results,
                &format!("cluster {cluster}: deleting topic {topic}"),
            );
            await_topic(admin, topic, |described| {
                let error = described.error().map(RDKafkaErrorCode::from);
                error == Some(RDKafkaErrorCode::UnknownTopicOrPartition)
            });
        });
    }

    /// Writes records without keys and waits until the cluster has acknowledged them.
    pub(crate) fn produce<V: AsRef<[u8]>>(
        &self,
        cluster: &str,
        topic: &str,
        partition: i32,
        values: impl IntoIterator<Item = V>,
    ) {
        let records = values.into_iter().map(|value| (None, value));
        self.produce_at(cluster, topic, partition, records);
    }

    /// The same with the record times of those that have one, in milliseconds since the epoch.
    pub(crate) fn produce_at<V: AsRef<[u8]>>(
        &self,
        cluster: &str,
        topic: &str,
        partition: i32,
        records: impl IntoIterator<Item = (Option<i64>, V)>,
    ) {
        let mut clients = self.clients.lock().expect("no test panics with the lock");
        let clients = self.clients_of(&mut clients, cluster);
        let producer = clients.producer.get_or_insert_with(|| {
            config(&self.bootstrap(cluster))
                .create_with_context(Deliveries::default())
                .expect("the settings of the producer are valid")
        });
        for (time, value) in records {
            let mut record = BaseRecord::<(), _>::to(topic)
                .partition(partition)
                .payload(value.as_ref());
            record.timestamp = time;
            while let Err((error, again)) = producer.send(record) {
                let full = RDKafkaErrorCode::QueueFull;
                assert_eq!(
                    error,
                    KafkaError::MessageProduction(full),
                    "{topic}/{partition}"
                );
                producer.poll(Duration::from_millis(100));
                record = again;
            }
        }
        producer
            .flush(DEADLINE)
            .expect("records are acknowledged in time");
        let failed = producer
            .context()
            .failed
            .lock()
            .expect("a callback does not panic")
            .take();
        assert_eq!(
            failed, None,
            "cluster {cluster}: writing to {topic}/{partition}"
        );
    }

    /// Changes bytes of a partition on the disks of its brokers, which go on serving it.
    pub(crate) fn overwrite(
        &self,
        cluster: &str,
        topic: &str,
        partition: i32,
        old: &[u8],
        new: &[u8],
    ) {
        assert_eq!(old.len(), new.len());
        let folder = self.state.path().join(cluster);
        let found = segments::overwrite(&folder, &format!("{topic}-{partition}"), old, new);
        assert!(found > 0, "no segment of {topic}/{partition} has the bytes");
    }

    /// What the brokers of a cluster have answered so far, in the order of their answers.
    ///
    /// A broker writes an entry just after it has answered, so a client can be ahead by one.
    pub(crate) fn requests(&self, cluster: &str) -> Vec<Request> {
        let bootstrap = self.bootstrap(cluster);
        let brokers: Vec<&str> = bootstrap.split(',').collect();
        let mut requests = Vec::new();
        for log in self.logs(cluster) {
            let text = fs::read_to_string(&log).expect("a broker's log is readable");
            requests.extend(parse_log(&text, &brokers));
        }
        requests
    }

    /// The connections on which a client has fetched so far, by its `client.id`.
    ///
    /// It may open others by and by, to ask for the coordinator of its group for example.
    pub(crate) fn connections(&self, cluster: &str, client_id: &str) -> BTreeSet<String> {
        let requests = self.requests(cluster).into_iter();
        let fetches =
            requests.filter(|request| request.client_id == client_id && request.api == "FETCH");
        fetches.map(|request| request.connection).collect()
    }

    /// The offsets that a client has fetched a partition from so far, in the order of the answers.
    ///
    /// A client that goes back, because it started over, shows as an offset below the one before.
    pub(crate) fn fetched_offsets(
        &self,
        cluster: &str,
        client_id: &str,
        topic: &str,
        partition: i64,
    ) -> Vec<i64> {
        let requests = self.requests(cluster).into_iter();
        let of_client = requests.filter(|request| request.client_id == client_id);
        let fetched = of_client.flat_map(|request| request.fetched);
        let of_partition = fetched.filter(|one| one.topic == topic && one.partition == partition);
        of_partition.map(|one| one.offset).collect()
    }

    /// The log files of a cluster's brokers. Those that share a process share a file.
    fn logs(&self, cluster: &str) -> BTreeSet<PathBuf> {
        let folder = self.state.path().join(cluster);
        let entries = fs::read_dir(&folder).expect("the cluster was started");
        entries
            .map(|entry| entry.expect("the folder is readable").path().join("log"))
            .filter_map(|log| log.canonicalize().ok())
            .collect()
    }

    fn administer(&self, cluster: &str, act: impl FnOnce(&AdminClient<DefaultClientContext>)) {
        let mut clients = self.clients.lock().expect("no test panics with the lock");
        let clients = self.clients_of(&mut clients, cluster);
        clients.producer = None;
        act(&clients.admin);
    }

    fn clients_of<'a>(
        &self,
        clients: &'a mut BTreeMap<String, Clients>,
        cluster: &str,
    ) -> &'a mut Clients {
        clients
            .entry(cluster.to_owned())
            .or_insert_with(|| Clients {
                admin: config(&self.bootstrap(cluster))
                    .create()
                    .expect("the settings of the admin client are valid"),
                producer: None,
            })
    }

    fn script(&self, arguments: &[&str]) -> String {
        self.try_script(arguments)
            .unwrap_or_else(|message| panic!("{message}"))
    }

    fn try_script(&self, arguments: &[&str]) -> Result<String, String> {
        self.script_reading("", arguments)
    }

    /// What `scripts/kafka` prints that reads `input`, or what it says when it fails.
    pub(crate) fn script_reading(&self, input: &str, arguments: &[&str]) -> Result<String, String> {
        let mut file = tempfile::tempfile().expect("the folder for temporary files is writable");
        file.write_all(input.as_bytes())
            .and_then(|()| file.rewind())
            .expect("the folder for temporary files has room");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/kafka");
        let shown = format!("scripts/kafka {}", arguments.join(" "));
        let output = Command::new(&script)
            .args(arguments)
            .env("TIMELY_KAFKA_STATE", self.state.path())
            .stdin(file)
            .output()
            .map_err(|error| {
                format!(
                    "{shown}: {error}; Python 3.9 or newer is needed: 'apt-get install python3'"
                )
            })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{shown}: {}\n{said}", output.status))
    }
}

impl Drop for RealKafka {
    fn drop(&mut self) {
        // First, since clients of dead brokers take longer to close.
        if let Ok(clients) = self.clients.get_mut() {
            clients.clear();
        }
        let removed = self.try_script(&["remove"]);
        // A second panic would hide why the test failed; `--exit-with` removes what is left.
        if !thread::panicking() {
            removed.unwrap_or_else(|message| panic!("{message}"));
        }
    }
}

/// Keeps the first failure to deliver a record.
#[derive(Default)]
struct Deliveries {
    failed: Mutex<Option<String>>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        if let Err((error, _record)) = result {
            let mut failed = self.failed.lock().expect("nobody panics with the lock");
            failed.get_or_insert_with(|| error.to_string());
        }
    }
}

fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("client.id", "test-support")
        .set("linger.ms", "1")
        .set("message.timeout.ms", "30000")
        .set("reconnect.backoff.max.ms", "500");
    config
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(DEADLINE))
        .operation_timeout(Some(DEADLINE))
}

type TopicResults = Result<Vec<Result<String, (String, RDKafkaErrorCode)>>, KafkaError>;

fn expect_done(results: TopicResults, what: &str) {
    let results = results.unwrap_or_else(|error| panic!("{what}: {error}"));
    for result in results {
        result.unwrap_or_else(|(_topic, error)| panic!("{what}: {error}"));
    }
}

fn await_partitions(admin: &AdminClient<DefaultClientContext>, topic: &str, count: i32) {
    await_topic(admin, topic, |described| {
        let led = described
            .partitions()
            .iter()
            .filter(|one| one.leader() >= 0);
        i32::try_from(led.count()) == Ok(count)
    });
}

/// Asks about a topic until it is as wanted. The round trip to the broker paces the loop.
fn await_topic(
    admin: &AdminClient<DefaultClientContext>,
    topic: &str,
    wanted: impl Fn(&MetadataTopic) -> bool,
) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let metadata = admin.inner().fetch_metadata(Some(topic), DEADLINE);
        let metadata = metadata.unwrap_or_else(|error| panic!("describing topic {topic}: {error}"));
        if metadata.topics().iter().any(&wanted) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "topic {topic} did not become as wanted in time"
        );
    }
}

/// Waits for a future whose work is done by another thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
