//! The properties of the clients: ours, the source's and the cluster's.
//!
//! One rule holds for every client: what the source says overrides the defaults, what the cluster
//! says overrides both, and what correctness hangs on overrides all.

use crate::memory::{ClientShare, MemoryBudget, Sharers};
use crate::model::ClientProperties;

/// How long an empty fetch waits at the broker, in milliseconds: how long a partition that is added
/// waits behind it.
const FETCH_WAIT_MAX_MS: &str = "100";

/// What every client starts from.
const COMMON: &[(&str, &str)] = &[
    ("enable.metrics.push", "false"),
    // The default of ten seconds makes an outage that long longer.
    ("reconnect.backoff.max.ms", "2000"),
    ("socket.keepalive.enable", "true"),
    // The default of a minute is how long a broker that hangs stays unnoticed.
    ("socket.timeout.ms", "10000"),
    ("topic.metadata.propagation.max.ms", "10000"),
    ("topic.metadata.refresh.interval.ms", "30000"),
];

/// What a client that reads starts from, besides.
const DATA: &[(&str, &str)] = &[
    ("allow.auto.create.topics", "false"),
    ("check.crcs", "true"),
    ("fetch.min.bytes", "1"),
    ("fetch.wait.max.ms", FETCH_WAIT_MAX_MS),
    ("isolation.level", "read_committed"),
];

/// How long each broker of a client whose queue is full waits before it looks again, in milliseconds, at least and at
/// most: a fourth for each client that there is, since the more share the cores, the later each has its turn. The
/// default of a second cuts a reader that pauses now and then to a sixth.
const QUEUE_BACKOFF_MS: (usize, usize) = (5, 100);
const CLIENTS_A_MS: usize = 4;

/// What a client that reads cannot do without.
const DATA_FIXED: &[(&str, &str)] = &[
    // Offsets are kept in the binding log and committed, if at all, after they are durable.
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // Any other value reads on somewhere else and says nothing.
    ("auto.offset.reset", "error"),
    // Transaction markers and compacted tails show no record; the end of the partition does.
    ("enable.partition.eof", "true"),
    // Membership is never used, and a static one could be fenced.
    ("group.instance.id", ""),
];

/// What the clients of one source have in common.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The name of the source, part of its group and client ids.
    pub(crate) source: String,
    /// The source's own properties, below those of a cluster.
    pub(crate) properties: ClientProperties,
    /// What says how much a client may fetch.
    pub(crate) memory: MemoryBudget,
}

/// The bytes of a share for which one message may be queued. librdkafka takes some 450 bytes for a message
/// besides its content, and counts none of them.
const SHARE_A_MESSAGE: usize = 128;

/// The property that says how much a fetch may bring, and one that librdkafka does not let be more.
const FETCH_MAX: &str = "fetch.max.bytes";
const MESSAGE_MAX: &str = "message.max.bytes";

/// What the latter is by default.
const MESSAGE_BYTES: u64 = 1_000_000;

impl Settings {
    /// The properties of a client that reads, one of `sharers`, and the names of those that `cluster`
    /// or the source sets to something else than the source can work with.
    pub(crate) fn data(
        &self,
        cluster: &ClientProperties,
        sharers: Sharers,
    ) -> (ClientProperties, Vec<String>) {
        let ClientShare {
            queued_bytes,
            fetch_bytes,
        } = self.memory.of_client(sharers);
        let mut defaults = self.common();
        for (name, value) in DATA {
            defaults.set(name, value);
        }
        // Manual assignment needs a group id too; nobody joins the group.
        defaults.set("group.id", &format!("timely-kafka-{}", self.source));
        let kbytes = queued_bytes >> 10;
        defaults.set("queued.max.messages.kbytes", &kbytes.to_string());
        let (least, most) = QUEUE_BACKOFF_MS;
        let backoff = (sharers.clients / CLIENTS_A_MS).clamp(least, most);
        defaults.set("fetch.queue.backoff.ms", &backoff.to_string());
        let messages = queued_bytes / SHARE_A_MESSAGE;
        defaults.set("queued.min.messages", &messages.to_string());
        // Whether there is room is looked at before a fetch, so that each broker can bring one more than
        // there is.
        defaults.set(FETCH_MAX, &fetch_bytes.to_string());
        // Partitions have the first turn in turn. One that has much leaves the rest of a fetch to those
        // behind it.
        defaults.set("fetch.message.max.bytes", &(fetch_bytes / 2).to_string());
        let mut all = defaults
            .overridden_by(&self.properties)
            .overridden_by(cluster);
        // It says how large a message may be that is written, which nothing is, and librdkafka refuses one
        // that is larger than a fetch.
        if let Some(fetch) = all.value(FETCH_MAX).map(str::to_owned) {
            let number = |text: &str| text.trim().parse::<u64>().ok();
            let message = all.value(MESSAGE_MAX).map_or(Some(MESSAGE_BYTES), number);
            if number(&fetch).is_some_and(|fetch| message.is_some_and(|message| fetch < message)) {
                all.set(MESSAGE_MAX, &fetch);
            }
        }
        let mut refused = Vec::new();
        for (name, value) in DATA_FIXED {
            if all.value(name).is_some_and(|asked| asked != *value) {
                refused.push((*name).to_owned());
            }
            if value.is_empty() {
                all = without(&all, name);
            } else {
                all.set(name, value);
            }
        }
        (all, refused)
    }

    /// The properties of a client that only asks.
    pub(crate) fn control(&self, cluster: &ClientProperties) -> ClientProperties {
        self.common()
            .overridden_by(&self.properties)
            .overridden_by(cluster)
    }

    fn common(&self) -> ClientProperties {
        COMMON.iter().fold(
            ClientProperties::new().with("client.id", &format!("timely-kafka-{}", self.source)),
            |properties, (name, value)| properties.with(name, value),
        )
    }
}

fn without(properties: &ClientProperties, name: &str) -> ClientProperties {
    properties
        .iter()
        .filter(|(other, _)| *other != name)
        .fold(ClientProperties::new(), |kept, (other, value)| {
            kept.with(other, value)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            source: "orders".to_owned(),
            properties: ClientProperties::new()
                .with("client.id", "of-the-source")
                .with("fetch.wait.max.ms", "20"),
            memory: MemoryBudget::new(256 << 20),
        }
    }

    #[test]
    fn the_cluster_overrides_the_source_and_the_source_the_defaults() {
        let cluster = ClientProperties::new().with("fetch.wait.max.ms", "10");

        let (data, refused) = settings().data(&cluster, Sharers::of_clients(1));

        assert_eq!(data.value("fetch.wait.max.ms"), Some("10"));
        assert_eq!(data.value("client.id"), Some("of-the-source"));
        assert_eq!(data.value("group.id"), Some("timely-kafka-orders"));
        assert_eq!(data.value("queued.max.messages.kbytes"), Some("4096"));
        assert_eq!(refused, Vec::<String>::new());
    }

    #[test]
    fn the_more_clients_there_are_the_longer_one_waits_for_room() {
        let backoff = |clients| {
            let sharers = Sharers::of_clients(clients);
            let (data, _) = settings().data(&ClientProperties::new(), sharers);
            data.value("fetch.queue.backoff.ms").map(str::to_owned)
        };

        let waits = [1, 20, 100, 10_000].map(backoff);

        assert_eq!(waits, ["5", "5", "25", "100"].map(|ms| Some(ms.to_owned())));
    }

    /// librdkafka refuses a client whose messages may be larger than a fetch.
    #[test]
    fn a_fetch_is_as_large_as_its_client_may_have_and_messages_are_no_larger() {
        let sizes = |cluster: &ClientProperties, clients| {
            let (data, _) = settings().data(cluster, Sharers::of_clients(clients));
            let names = [FETCH_MAX, MESSAGE_MAX, "fetch.message.max.bytes"];
            names.map(|name| data.value(name).map(str::to_owned))
        };
        let some = |bytes: u32| Some(bytes.to_string());

        let own = ClientProperties::new();
        assert_eq!(
            sizes(&own, 1),
            [some(1 << 19), some(1 << 19), some(1 << 18)]
        );
        let quarter = [some(1 << 17), some(1 << 17), some(1 << 16)];
        assert_eq!(sizes(&own, 4), quarter);
        let large = own.with(MESSAGE_MAX, "5000000");
        assert_eq!(sizes(&large, 4), quarter);
        let asked = large.with(FETCH_MAX, "9000000");
        let asked_for = [some(9_000_000), some(5_000_000), some(1 << 16)];
        assert_eq!(sizes(&asked, 4), asked_for);
    }

    #[test]
    fn what_correctness_hangs_on_is_not_overridden() {
        let cluster = ClientProperties::new()
            .with("auto.offset.reset", "latest")
            .with("group.instance.id", "a");

        let (data, refused) = settings().data(&cluster, Sharers::of_clients(1));

        assert_eq!(data.value("auto.offset.reset"), Some("error"));
        assert_eq!(data.value("group.instance.id"), None);
        assert_eq!(refused, ["auto.offset.reset", "group.instance.id"]);
    }

    #[test]
    fn a_control_client_has_no_group() {
        let control = settings().control(&ClientProperties::new().with("bootstrap.servers", "b"));

        assert_eq!(control.value("group.id"), None);
        assert_eq!(control.value("bootstrap.servers"), Some("b"));
        assert_eq!(control.value("socket.timeout.ms"), Some("10000"));
    }
}
