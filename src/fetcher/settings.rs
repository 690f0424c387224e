//! The properties of the clients: ours, the source's and the cluster's.
//!
//! One rule holds for every client: what the source says overrides the defaults, what the cluster
//! says overrides both, and what correctness hangs on overrides all.

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
    // The default of a second cuts a reader that pauses now and then to a sixth.
    ("fetch.queue.backoff.ms", "5"),
    ("fetch.wait.max.ms", FETCH_WAIT_MAX_MS),
    ("isolation.level", "read_committed"),
];

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
    /// How many bytes all clients together may have fetched that nobody took yet, as they are on the
    /// wire. Each has its share, and at least 1 MiB.
    pub(crate) queued_bytes_max: usize,
}

/// The least share of a client: below it a batch of Kafka's default size is fetched in several turns.
const QUEUED_BYTES_MIN: usize = 1 << 20;

/// The greatest share of a client: what is on a queue is taken off it in one go, on a timely thread.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// The bytes of a share for which one message may be queued. librdkafka takes some 450 bytes for a message
/// besides its content, and counts none of them.
const SHARE_A_MESSAGE: usize = 128;

/// What a fetch may bring, unless one batch of Kafka's is more.
const FETCH_BYTES_MAX: usize = 2 << 20;

impl Settings {
    /// The properties of a client that reads, one of `clients`, and the names of those that `cluster`
    /// or the source sets to something else than the source can work with.
    pub(crate) fn data(
        &self,
        cluster: &ClientProperties,
        clients: usize,
    ) -> (ClientProperties, Vec<String>) {
        let share =
            (self.queued_bytes_max / clients.max(1)).clamp(QUEUED_BYTES_MIN, QUEUED_BYTES_MAX);
        let mut defaults = self.common();
        for (name, value) in DATA {
            defaults.set(name, value);
        }
        // Manual assignment needs a group id too; nobody joins the group.
        defaults.set("group.id", &format!("timely-kafka-{}", self.source));
        defaults.set("queued.max.messages.kbytes", &(share >> 10).to_string());
        let messages = share / SHARE_A_MESSAGE;
        defaults.set("queued.min.messages", &messages.to_string());
        // Whether there is room is looked at before a fetch, so that each broker can bring one more than
        // there is.
        defaults.set("fetch.max.bytes", &FETCH_BYTES_MAX.to_string());
        let mut all = defaults
            .overridden_by(&self.properties)
            .overridden_by(cluster);
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
            queued_bytes_max: 16 << 20,
        }
    }

    #[test]
    fn the_cluster_overrides_the_source_and_the_source_the_defaults() {
        let cluster = ClientProperties::new().with("fetch.wait.max.ms", "10");

        let (data, refused) = settings().data(&cluster, 1);

        assert_eq!(data.value("fetch.wait.max.ms"), Some("10"));
        assert_eq!(data.value("client.id"), Some("of-the-source"));
        assert_eq!(data.value("group.id"), Some("timely-kafka-orders"));
        assert_eq!(data.value("queued.max.messages.kbytes"), Some("4096"));
        assert_eq!(refused, Vec::<String>::new());
    }

    /// Every client had what was meant for all.
    #[test]
    fn clients_share_what_may_be_fetched_and_each_has_a_mebibyte() {
        let kbytes = |clients| {
            let (data, _) = settings().data(&ClientProperties::new(), clients);
            data.value("queued.max.messages.kbytes").map(str::to_owned)
        };

        assert_eq!(kbytes(4).as_deref(), Some("4096"));
        assert_eq!(kbytes(50).as_deref(), Some("1024"));
    }

    #[test]
    fn what_correctness_hangs_on_is_not_overridden() {
        let cluster = ClientProperties::new()
            .with("auto.offset.reset", "latest")
            .with("group.instance.id", "a");

        let (data, refused) = settings().data(&cluster, 1);

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
