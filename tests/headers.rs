//! Headers come through whatever the batch of records looks like on the wire.
#![expect(clippy::unwrap_used, reason = "what fails fails the test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use timely_kafka::embedded::EmbeddedCluster;
use timely_kafka::metadata::FixedMetadataService;
use timely_kafka::model::{KafkaStream, StreamsMetadata};
use timely_kafka::timely::Config;
use timely_kafka::timely::dataflow::operators::Inspect;
use timely_kafka::{BatchStream, KafkaSource, Record, Subscription};

/// How batches are compressed.
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// Key and value of each record of a partition.
const PARTS: [(Option<&str>, Option<&str>); 5] = [
    (Some("k"), Some("value")),
    (None, Some("value")),
    (Some("k"), Some("")),
    (Some("k"), None),
    (None, None),
];

/// Guards against hangs only.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes each of [`PARTS`] without headers and then with one.
fn write(cluster: &EmbeddedCluster, topic: &str, codec: &str) {
    cluster.create_topic(topic, 1).unwrap();
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("compression.type", codec)
        .set("linger.ms", "50")
        .create()
        .unwrap();
    for (key, value) in PARTS {
        for has_header in [false, true] {
            let mut record = BaseRecord::<str, str>::to(topic).partition(0);
            record.key = key;
            record.payload = value;
            let header = Header {
                key: "trace",
                value: Some("7"),
            };
            record.headers = has_header.then(|| OwnedHeaders::new().insert(header));
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
    }
    producer.flush(PATIENCE).unwrap();
}

/// Reads as many records as there are.
fn read(cluster: &EmbeddedCluster) -> Vec<Record> {
    let stream = KafkaStream::new().with_topics("here", CODECS).unwrap();
    let metadata = StreamsMetadata::new()
        .with_cluster("here", cluster.client_properties())
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
    timely_kafka::execute(Config::thread(), move |worker| {
        let (control, seen) = (source.control(), Arc::clone(&seen));
        worker.dataflow(|scope| {
            source.read(scope).batches.records().inspect(move |record| {
                let mut seen = seen.lock().unwrap();
                seen.push(record.clone());
                if seen.len() == CODECS.len() * PARTS.len() * 2 {
                    control.stop();
                }
            });
        });
    })
    .unwrap();
    let mut records = std::mem::take(&mut *records.lock().unwrap());
    records.sort_by_key(|record| (record.split.clone(), record.offset));
    records
}

/// K9 and K11, as far as embedded clusters can show them.
#[test]
fn a_header_comes_through_whether_there_is_a_value_and_however_compressed() {
    let cluster = EmbeddedCluster::start().unwrap();
    for codec in CODECS {
        write(&cluster, codec, codec);
    }

    let records = read(&cluster);

    assert_eq!(records.len(), CODECS.len() * PARTS.len() * 2);
    for record in records {
        let index = usize::try_from(record.offset.get()).unwrap();
        let (key, value) = PARTS[index / 2];
        assert_eq!(record.key.as_deref(), key.map(str::as_bytes), "{record:?}");
        assert_eq!(
            record.value.as_deref(),
            value.map(str::as_bytes),
            "{record:?}"
        );
        let has_header = index % 2 == 1;
        assert_eq!(record.headers.len(), usize::from(has_header), "{record:?}");
        for (name, content) in &record.headers {
            assert_eq!(
                (name.as_ref(), content.as_deref()),
                (&b"trace"[..], Some(&b"7"[..]))
            );
        }
    }
}
