//! What writes records at a rate and leaves the machine to what reads them, for the benchmarks that include
//! this file.
//!
//! A producer takes some 400 ns of CPU a record, which leaves little of two cores at a million records a
//! second. Here one batch is prepared, and sent to each partition as it is: a record costs the 60 ns that
//! the system takes to send 100 bytes.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use rdkafka::ClientConfig;
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::producer::{BaseProducer, Producer};

use crate::batch::Batch;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The request, and its version: the first that takes batches of format 2.
const PRODUCE: i16 = 0;
const VERSION: i16 = 3;

/// The bytes of a partition in an answer: its number, an error, an offset, and a time.
const ANSWERED_BYTES: usize = 22;

/// The bytes of a string's length, and of an array's.
const STRING_BYTES: usize = 2;
const ARRAY_BYTES: usize = 4;

/// Guards against hangs only.
const DEADLINE: Duration = Duration::from_secs(30);

/// What is later than that is left out: to write it in a burst would tell nothing of the rate.
const LATE_MAX: Duration = Duration::from_secs(1);

/// How much is written when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The records a second, of all partitions.
    pub(crate) rate: u64,
    /// To how many partitions a batch is written at once.
    pub(crate) partitions: usize,
}

/// Writes batches of one size to the partitions of a topic in turn.
#[derive(Debug)]
pub(crate) struct Writer {
    topic: String,
    batch: Batch,
    records: usize,
    brokers: Vec<Broker>,
    /// The broker of each partition, by its place among them.
    leaders: Vec<usize>,
    next: usize,
}

impl Writer {
    /// Connects to the brokers that lead the partitions of a topic. A batch has so many records, with values
    /// of `size` bytes that begin with the time.
    pub(crate) fn connect(
        servers: &str,
        topic: &str,
        partitions: i32,
        (records, size): (usize, usize),
    ) -> Outcome<Self> {
        let metadata = await_leaders(servers, topic, partitions)?;
        let mut places = BTreeMap::new();
        let mut brokers = Vec::new();
        for broker in metadata.brokers() {
            let port = u16::try_from(broker.port())?;
            let stream = TcpStream::connect((broker.host(), port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(DEADLINE))?;
            places.insert(broker.id(), brokers.len());
            brokers.push(Broker {
                stream,
                partitions: Vec::new(),
            });
        }
        let mut by_number: Vec<_> = metadata.topics()[0].partitions().iter().collect();
        by_number.sort_by_key(|partition| partition.id());
        let leaders = by_number
            .into_iter()
            .map(|one| places.get(&one.leader()).copied());
        let leaders: Option<Vec<usize>> = leaders.collect();
        Ok(Self {
            topic: topic.to_owned(),
            batch: Batch::new(records, size)?,
            records,
            brokers,
            leaders: leaders.ok_or("a broker is not known that leads a partition")?,
            next: 0,
        })
    }

    /// Writes so many records as fast as they are taken, or some more.
    pub(crate) fn fill(&mut self, records: usize) -> Outcome<()> {
        for _ in 0..records.div_ceil(self.records * self.leaders.len()) {
            self.write(self.leaders.len())?;
        }
        Ok(())
    }

    /// Writes at a pace until it is told to stop, or nobody is left who could. `late` becomes how many
    /// microseconds it was behind at most, if that is more.
    pub(crate) fn run(&mut self, pace: Pace, stop: &Receiver<()>, late: &AtomicU64) -> Outcome<()> {
        let records = u64::try_from(self.records * pace.partitions)?;
        let every = Duration::from_nanos(records * 1_000_000_000 / pace.rate);
        let mut due = Instant::now();
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            if stop.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return Ok(());
            }
            let behind = due.elapsed();
            late.fetch_max(u64::try_from(behind.as_micros())?, Ordering::Relaxed);
            if behind > LATE_MAX {
                due = Instant::now();
            }
            self.write(pace.partitions)?;
            due += every;
        }
    }

    /// Writes a batch to each of the next so many partitions, and hears that all are there.
    fn write(&mut self, partitions: usize) -> Outcome<()> {
        for _ in 0..partitions {
            let broker = &mut self.brokers[self.leaders[self.next]];
            broker.partitions.push(i32::try_from(self.next)?);
            self.next = (self.next + 1) % self.leaders.len();
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        self.batch.stamp(u64::try_from(now.as_nanos())?);
        for broker in &mut self.brokers {
            broker.ask(&self.topic, self.batch.bytes())?;
        }
        for broker in &mut self.brokers {
            broker.hear(&self.topic)?;
        }
        Ok(())
    }
}

/// A connection to a broker.
#[derive(Debug)]
struct Broker {
    stream: TcpStream,
    /// The partitions that are written to at once.
    partitions: Vec<i32>,
}

impl Broker {
    /// Sends the batch for each of the partitions.
    fn ask(&mut self, topic: &str, batch: &[u8]) -> Outcome<()> {
        if self.partitions.is_empty() {
            return Ok(());
        }
        let mut head = Vec::new();
        head.extend(PRODUCE.to_be_bytes());
        head.extend(VERSION.to_be_bytes());
        head.extend(0_i32.to_be_bytes()); // one request is under way
        push_string(&mut head, "writer")?;
        head.extend((-1_i16).to_be_bytes()); // no transaction
        head.extend(1_i16.to_be_bytes()); // the leader has it
        head.extend(i32::try_from(DEADLINE.as_millis())?.to_be_bytes());
        head.extend(1_i32.to_be_bytes()); // one topic
        push_string(&mut head, topic)?;
        head.extend(i32::try_from(self.partitions.len())?.to_be_bytes());

        let length = i32::try_from(batch.len())?.to_be_bytes();
        let heads = self.partitions.iter().map(|partition| {
            let [a, b, c, d] = partition.to_be_bytes();
            let [e, f, g, h] = length;
            [a, b, c, d, e, f, g, h]
        });
        let heads: Vec<_> = heads.collect();
        let bytes = head.len() + heads.len() * (heads[0].len() + batch.len());
        let size = i32::try_from(bytes)?.to_be_bytes();
        let mut parts = vec![IoSlice::new(&size), IoSlice::new(&head)];
        for of_partition in &heads {
            parts.extend([IoSlice::new(of_partition), IoSlice::new(batch)]);
        }
        let mut rest = parts.as_mut_slice();
        while !rest.is_empty() {
            let written = self.stream.write_vectored(rest)?;
            if written == 0 {
                return Err("a broker takes nothing any more".into());
            }
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(())
    }

    /// Reads that the partitions have it.
    fn hear(&mut self, topic: &str) -> Outcome<()> {
        if self.partitions.is_empty() {
            return Ok(());
        }
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        let mut answer = vec![0; usize::try_from(i32::from_be_bytes(size))?];
        self.stream.read_exact(&mut answer)?;
        // The number of the request, the topics, the name of one, and its partitions.
        let first = 4 + ARRAY_BYTES + STRING_BYTES + topic.len() + ARRAY_BYTES;
        let (all, _) = answer
            .get(first..)
            .unwrap_or_default()
            .as_chunks::<ANSWERED_BYTES>();
        if all.len() < self.partitions.len() {
            return Err("a broker does not say what it has".into());
        }
        for (partition, answered) in self.partitions.drain(..).zip(all) {
            let error = i16::from_be_bytes([answered[4], answered[5]]);
            if error != 0 {
                return Err(format!("{topic}/{partition} does not take a batch: {error}").into());
            }
        }
        Ok(())
    }
}

fn push_string(bytes: &mut Vec<u8>, text: &str) -> Outcome<()> {
    bytes.extend(i16::try_from(text.len())?.to_be_bytes());
    bytes.extend(text.as_bytes());
    Ok(())
}

/// What a cluster says of a topic once all its partitions have leaders.
pub(crate) fn await_leaders(servers: &str, topic: &str, partitions: i32) -> Outcome<Metadata> {
    let client: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("enable.metrics.push", "false")
        .create()?;
    let deadline = Instant::now() + DEADLINE;
    let (_sender, never) = mpsc::channel::<()>();
    loop {
        let metadata = client.client().fetch_metadata(Some(topic), DEADLINE)?;
        let all = metadata.topics().iter().flat_map(MetadataTopic::partitions);
        let led = all.filter(|partition| partition.leader() >= 0).count();
        if led == usize::try_from(partitions)? {
            return Ok(metadata);
        }
        if Instant::now() >= deadline {
            return Err(format!("{led} of {partitions} partitions of {topic} have leaders").into());
        }
        never.recv_timeout(Duration::from_millis(20)).ok();
    }
}
