//! The list of client properties against the librdkafka that is linked.

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;
use rdkafka::util::get_rdkafka_version;

const LIST: &str = include_str!("../src/metadata/properties.txt");

#[test]
fn the_list_is_that_of_the_linked_librdkafka() {
    let (_, version) = get_rdkafka_version();
    let first = LIST.lines().next().unwrap();

    assert!(
        first.contains(&format!("librdkafka {version},")),
        "librdkafka is {version}: write the list afresh after its CONFIGURATION.md"
    );
}

#[test]
fn librdkafka_knows_every_property_of_the_list() {
    let names = LIST.lines().filter_map(|line| line.split_once(' '));
    let settable = names.filter(|(scope, _)| ["C", "P", "*"].contains(scope));

    let unknown: Vec<_> = settable.filter(|(_, name)| is_unknown(name)).collect();

    assert!(is_unknown("no.such.property"));
    assert_eq!(unknown, []);
}

/// Whether librdkafka says that there is no such property, whatever it says about the value.
fn is_unknown(name: &str) -> bool {
    let made = ClientConfig::new().set(name, "1").create_native_config();
    let Err(KafkaError::ClientConfig(result, ..)) = made else {
        return false;
    };
    result == RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN
}
