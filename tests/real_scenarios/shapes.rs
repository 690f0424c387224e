//! Records come through as they were written: sizes, nulls, headers, times, codecs; and what is
//! damaged on a broker's disk does not come through at all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::Trial;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{ClientProperties, KafkaStream, StreamsMetadata};
use timely_kafka::records::RecordTimeType;
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::operators::Inspect;
use timely_kafka::{BatchStream, FailureKind, HealthStatus, KafkaSource, Record, Subscription};

use super::Real;
use crate::kafka::RealKafka;
use crate::scenario::{Backend, Brokers, Described, World};

/// Guards against hangs only.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ten times what librdkafka fetches of a partition at once, and Kafka takes in one batch.
const LARGE: usize = 10 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    vec![
        trial("large_and_empty_and_null_records_come_as_they_are", sizes),
        trial("times_come_as_they_are_with_their_type", times),
        trial("each_codec_is_read", codecs),
        trial(
            "a_corrupt_batch_is_never_read_and_stops_its_split_alone",
            corrupt,
        ),
    ]
}

fn producer(kafka: &RealKafka, settings: &[(&str, &str)]) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.bootstrap("a"));
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config.create().unwrap()
}

fn send(producer: &BaseProducer, record: BaseRecord<'_, [u8], [u8]>) {
    producer.send(record).map_err(|(error, _)| error).unwrap();
}

/// Reads `count` records of `topics`, and gives them by topic, in the order of their offsets.
fn read(kafka: &RealKafka, topics: &[&str], count: usize) -> BTreeMap<String, Vec<Record>> {
    let properties = ClientProperties::new().with("bootstrap.servers", &kafka.bootstrap("a"));
    let stream = KafkaStream::new()
        .with_topics("a", topics.iter().copied())
        .unwrap();
    let metadata = StreamsMetadata::new()
        .with_cluster("a", properties)
        .and_then(|metadata| metadata.with_stream("all", stream))
        .unwrap();
    let source = KafkaSource::builder()
        .metadata(FixedMetadataService::new(metadata))
        .subscribe(Subscription::streams(["all"]))
        .tick_interval(Duration::from_millis(10))
        .build()
        .unwrap();
    let records: Arc<Mutex<Vec<Record>>> = Arc::default();
    let seen = Arc::clone(&records);
    let guards = timely_kafka::execute(Config::thread(), move |worker| {
        let (control, seen) = (source.control(), Arc::clone(&seen));
        worker.dataflow(|scope| {
            let read = source.read(scope).batches.records();
            read.inspect(move |record| {
                let mut seen = seen.lock().unwrap();
                seen.push(record.clone());
                if seen.len() == count {
                    control.stop();
                }
            });
        });
    });
    drop(guards.unwrap());
    let mut records = std::mem::take(&mut *records.lock().unwrap());
    assert_eq!(records.len(), count);
    records.sort_by_key(|record| record.offset);
    let mut by_topic: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for record in records {
        let topic = record.split.topic.as_str().to_owned();
        by_topic.entry(topic).or_default().push(record);
    }
    by_topic
}

/// Bytes that no codec makes shorter.
fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        // Marsaglia's xorshift with a multiplication.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..count.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(count);
    bytes
}

/// A key, a value, and how many headers.
type Written<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, usize);

/// K9.
fn sizes() {
    let kafka = RealKafka::start(&["a"]);
    let most = (LARGE + (1 << 20)).to_string();
    kafka.create_topic_with("a", "sizes", 1, &[("max.message.bytes", &most)]);
    let producer = producer(
        &kafka,
        &[
            ("message.max.bytes", &most),
            ("batch.size", &most),
            ("linger.ms", "1000"),
        ],
    );
    let one = noise(LARGE, 1);
    // One batch of ten megabytes.
    let many: Vec<_> = (0..1_024)
        .map(|seed| noise(LARGE / 1_024, seed + 2))
        .collect();
    let mut written: Vec<Written<'_>> = vec![
        (Some(b"large"), Some(&one), 0),
        (None, Some(b"no key"), 0),
        (Some(b""), Some(b""), 0),
        (Some(b"tombstone"), None, 0),
        (None, None, 0),
        (Some(b"headers"), Some(b"1,000"), 1_000),
    ];
    written.extend(many.iter().map(|value| (None, Some(value.as_slice()), 0)));
    for (at, (key, value, headers)) in written.iter().enumerate() {
        let mut record = BaseRecord::to("sizes").partition(0);
        (record.key, record.payload) = (*key, *value);
        if *headers > 0 {
            // Each key comes several times, each third value is null, and some are empty.
            let all = (0..*headers).fold(OwnedHeaders::new(), |all, number| {
                let (name, content) = header(number);
                all.insert(Header {
                    key: &name,
                    value: content.as_ref(),
                })
            });
            record = record.headers(all);
        }
        send(&producer, record);
        if at < 6 {
            producer.flush(PATIENCE).unwrap();
        }
    }
    producer.flush(PATIENCE).unwrap();

    let read = read(&kafka, &["sizes"], written.len());

    for ((key, value, headers), record) in written.iter().zip(&read["sizes"]) {
        assert!(record.key.as_deref() == *key, "{:?}", record.key);
        // Not printed: ten megabytes.
        assert!(
            record.value.as_deref() == *value,
            "offset {}",
            record.offset.get()
        );
        let expected: Vec<_> = (0..*headers).map(header).collect();
        let found = record.headers.iter().map(|(name, content)| {
            let name = String::from_utf8(name.to_vec()).unwrap();
            (name, content.as_ref().map(|content| content.to_vec()))
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}

fn header(number: usize) -> (String, Option<Vec<u8>>) {
    let value = match number % 3 {
        0 => None,
        1 => Some(Vec::new()),
        _ => Some(number.to_string().into_bytes()),
    };
    (format!("key {}", number % 100), value)
}

/// K10.
fn times() {
    let kafka = RealKafka::start(&["a"]);
    let most = i64::MAX.to_string();
    let of_producer = [("message.timestamp.after.max.ms", most.as_str())];
    kafka.create_topic_with("a", "of-producer", 1, &of_producer);
    let of_broker = [("message.timestamp.type", "LogAppendTime")];
    kafka.create_topic_with("a", "of-broker", 1, &of_broker);
    let producer = producer(&kafka, &[("linger.ms", "0")]);
    // None, the year 2286, then back to 1970 by steps.
    let written = [-1, 9_999_999_999_999, 1_000, 999, 1];
    for topic in ["of-producer", "of-broker"] {
        for time in written {
            let record = BaseRecord::to(topic).partition(0).payload(b"x".as_slice());
            send(&producer, record.timestamp(time));
            producer.flush(PATIENCE).unwrap();
        }
        // All in one batch, too.
        for time in written {
            let record = BaseRecord::to(topic).partition(0).payload(b"x".as_slice());
            send(&producer, record.timestamp(time));
        }
        producer.flush(PATIENCE).unwrap();
    }

    let read = read(&kafka, &["of-producer", "of-broker"], 4 * written.len());

    let told: Vec<_> = read["of-producer"]
        .iter()
        .map(|record| (record.record_time.millis, record.record_time.kind))
        .collect();
    let twice = written.iter().chain(&written);
    let expected: Vec<_> = twice.map(|time| (*time, RecordTimeType::Create)).collect();
    assert_eq!(told, expected);
    for record in &read["of-broker"] {
        assert_eq!(record.record_time.kind, RecordTimeType::LogAppend);
        assert!(record.record_time.millis > 1_600_000_000_000, "{record:?}");
    }
}

/// K11. Formats 0 and 1 of messages are served by no broker of version 4 (KIP-724).
fn codecs() {
    let kafka = RealKafka::start(&["a"]);
    let codecs = ["none", "gzip", "snappy", "lz4", "zstd"];
    let value = |codec: &str, number: usize| format!("{codec} {number} ").repeat(100);
    for codec in codecs {
        kafka.create_topic("a", codec, 1);
        let producer = producer(&kafka, &[("compression.type", codec), ("linger.ms", "20")]);
        for number in 0..1_000 {
            let value = value(codec, number);
            let record = BaseRecord::to(codec).partition(0);
            send(&producer, record.payload(value.as_bytes()));
        }
        producer.flush(PATIENCE).unwrap();
    }

    let read = read(&kafka, &codecs, 5 * 1_000);

    for codec in codecs {
        for (number, record) in read[codec].iter().enumerate() {
            let expected = value(codec, number);
            assert!(
                record.value.as_deref() == Some(expected.as_bytes()),
                "{record:?}"
            );
        }
    }
}

/// K12. Without `check.crcs` among the client's properties the damaged record is read.
fn corrupt() {
    let world = World::new(Real(RealKafka::start(&["a"])));
    world.brokers.create_topic("a", "orders", 2);
    world.brokers.write("a", "orders", 0, &[0, 1, 2]);
    world.brokers.write("a", "orders", 0, &[77_777_777]);
    world.brokers.write("a", "orders", 0, &[3, 4]);
    world.brokers.write("a", "orders", 1, &[10, 11]);
    let kafka = &world.brokers.0;
    kafka.overwrite("a", "orders", 0, b"77777777", b"77777778");
    world.publish(&Described::orders(&["a"]));

    let run = world.run(&world.plan(), Backend::Threads(2));
    run.settle(5);
    run.wait("the split is given up", |state| {
        state.health.iter().any(|health| {
            health.subject == "split a/orders/0"
                && health.message.contains("CRC32C")
                && health.status == HealthStatus::Failing(FailureKind::Definite)
        })
    });
    run.observed.with(|state| {
        let [(_, error)] = &state.errors[..] else {
            panic!("one error: {:?}", state.errors);
        };
        assert_eq!(error.position.next.get(), 3);
    });
    world.brokers.write("a", "orders", 1, &[12]);
    run.settle(6);

    run.end().with(|state| {
        assert_eq!(
            state.bound_to("a", "orders", 0),
            Some(3),
            "before the damage"
        );
        let mut numbers: Vec<_> = state.rows.iter().map(|row| row.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 10, 11, 12]);
    });
}
