//! Reads the request log of a broker.

use std::collections::BTreeMap;

use serde_json::Value;

/// One request of a client that a broker has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The broker's name of the kind of request, like `FETCH` or `API_VERSIONS`.
    pub(crate) api: String,
    /// The `client.id` of the client.
    pub(crate) client_id: String,
    /// The connection that it came over; each connection has its own.
    pub(crate) connection: String,
    /// What a `FETCH` asked for; empty for everything else.
    pub(crate) fetched: Vec<FetchedPartition>,
}

/// One partition that a `FETCH` asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchedPartition {
    /// The topic's name, or its id if the log has not told the name.
    pub(crate) topic: String,
    /// The partition.
    pub(crate) partition: i64,
    /// The offset to read from.
    pub(crate) offset: i64,
    /// How many bytes of records the answer had; none if the offset is at the high watermark, whatever the log says.
    pub(crate) bytes: i64,
}

/// The requests that came to the brokers of these addresses.
pub(crate) fn parse_log(text: &str, brokers: &[&str]) -> Vec<Request> {
    // Fetches name topics by their ids, which only answers about metadata can translate.
    let mut names = BTreeMap::new();
    let mut requests = Vec::new();
    for line in text.lines() {
        let Some((_, json)) = line.split_once("Completed request:") else {
            continue;
        };
        // The last line can be cut: the broker is still writing it.
        let Ok(entry) = serde_json::from_str::<Value>(json) else {
            continue;
        };
        learn_names(&entry, &mut names);
        let connection = entry["connection"].as_str().unwrap_or_default();
        let to_one = |broker: &&str| {
            connection
                .split_once('-')
                .is_some_and(|(to, _)| to == *broker)
        };
        if brokers.iter().any(to_one) {
            requests.push(parse_entry(&entry, connection, &names));
        }
    }
    requests
}

fn parse_entry(entry: &Value, connection: &str, names: &BTreeMap<String, String>) -> Request {
    let header = &entry["requestHeader"];
    let api = text(&header["requestApiKeyName"]);
    let fetched = if api == "FETCH" {
        let topics = items(&entry["request"]["topics"]);
        let answers = &entry["response"]["responses"];
        topics
            .flat_map(|topic| fetched_of(topic, answers, names))
            .collect()
    } else {
        Vec::new()
    };
    Request {
        api,
        client_id: text(&header["clientId"]),
        connection: connection.to_owned(),
        fetched,
    }
}

fn fetched_of(
    topic: &Value,
    answers: &Value,
    names: &BTreeMap<String, String>,
) -> Vec<FetchedPartition> {
    let id = text(&topic["topicId"]);
    let name = topic["topic"]
        .as_str()
        .map_or_else(|| names.get(&id).unwrap_or(&id).clone(), ToOwned::to_owned);
    let of = |partition: &Value| FetchedPartition {
        topic: name.clone(),
        partition: partition["partition"].as_i64().unwrap_or(-1),
        offset: partition["fetchOffset"].as_i64().unwrap_or(-1),
        bytes: answered_bytes(topic, partition, answers),
    };
    items(&topic["partitions"]).map(of).collect()
}

/// How many bytes of records `answers` have for one partition of a request.
///
/// Where it was asked from the high watermark on there is nothing to be read. The log tells a size for some of
/// these nevertheless, of what is being appended at that moment, and the client asks from there again.
fn answered_bytes(topic: &Value, partition: &Value, answers: &Value) -> i64 {
    let of_topic = items(answers).filter(|answer| {
        answer["topicId"] == topic["topicId"] && answer["topic"] == topic["topic"]
    });
    let partitions = of_topic.flat_map(|answer| items(&answer["partitions"]));
    partitions
        .filter(|answer| answer["partitionIndex"] == partition["partition"])
        .filter(|answer| answer["highWatermark"].as_i64() > partition["fetchOffset"].as_i64())
        .filter_map(|answer| answer["recordsSizeInBytes"].as_i64())
        .sum()
}

fn learn_names(entry: &Value, names: &mut BTreeMap<String, String>) {
    for topic in items(&entry["response"]["topics"]) {
        if let (Some(id), Some(name)) = (topic["topicId"].as_str(), topic["name"].as_str()) {
            names.insert(id.to_owned(), name.to_owned());
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
