//! A record as one line of JSON.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use timely_kafka::records::{Record, RecordTimeType};

/// The fields in the order in which they are printed.
#[derive(Serialize)]
struct Line<'a> {
    cluster: &'a str,
    topic: &'a str,
    partition: i32,
    offset: u64,
    time: Option<i64>,
    time_type: &'static str,
    key: Option<String>,
    value: Option<String>,
    /// Of the key and the value both; without it both are text.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    headers: Vec<(String, HeaderValue)>,
    tick: u64,
}

/// Null, text, or an object: the encoding of one header says nothing about others.
#[derive(Serialize)]
#[serde(untagged)]
enum HeaderValue {
    Null,
    Text(String),
    Encoded {
        encoding: &'static str,
        value: String,
    },
}

const BASE64: &str = "base64";

pub(crate) fn write(output: &mut impl Write, record: &Record, tick: u64) -> io::Result<()> {
    let text = [&record.key, &record.value]
        .into_iter()
        .flatten()
        .all(|bytes| str::from_utf8(bytes).is_ok());
    let show = |bytes: &Bytes| {
        if text {
            String::from_utf8_lossy(bytes).into_owned()
        } else {
            STANDARD.encode(bytes)
        }
    };
    let (time, time_type) = match record.record_time.kind {
        RecordTimeType::Create => (Some(record.record_time.millis), "CreateTime"),
        RecordTimeType::LogAppend => (Some(record.record_time.millis), "LogAppendTime"),
        RecordTimeType::NotAvailable => (None, "NoTimestampType"),
    };
    let headers = record.headers.iter();
    let line = Line {
        cluster: record.split.cluster.as_str(),
        topic: record.split.topic.as_str(),
        partition: record.split.partition.0,
        offset: record.offset.get(),
        time,
        time_type,
        key: record.key.as_ref().map(show),
        value: record.value.as_ref().map(show),
        encoding: (!text).then_some(BASE64),
        headers: headers
            .map(|(name, value)| {
                (
                    String::from_utf8_lossy(name).into_owned(),
                    header(value.as_deref()),
                )
            })
            .collect(),
        tick,
    };
    serde_json::to_writer(&mut *output, &line)?;
    output.write_all(b"\n")
}

fn header(value: Option<&[u8]>) -> HeaderValue {
    match value.map(|bytes| (bytes, str::from_utf8(bytes))) {
        None => HeaderValue::Null,
        Some((_, Ok(text))) => HeaderValue::Text(text.to_owned()),
        Some((bytes, Err(_))) => HeaderValue::Encoded {
            encoding: BASE64,
            value: STANDARD.encode(bytes),
        },
    }
}
