//! Mistakes in client properties.

use super::refused;

#[test]
fn a_cluster_without_brokers_is_refused() {
    assert_eq!(
        refused(
            "yaml",
            r"clusters:
  east:
    properties: { client.id: a }
  west:
    properties:
streams: {}
"
        ),
        r"2 mistakes
  line 3, column 5: clusters.east.properties: 'bootstrap.servers' is missing; expected the addresses of brokers
  line 5, column 5: clusters.west.properties: found nothing; expected a map of client properties"
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {
  "east": {"properties": {"client.id": "a"}},
  "west": {"properties": null}},
 "streams": {}}"#
        ),
        r"2 mistakes
  line 2, column 12: clusters.east.properties: 'bootstrap.servers' is missing; expected the addresses of brokers
  line 3, column 12: clusters.west.properties: found nothing; expected a map of client properties"
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters.east.properties]
client.id = "a"
[clusters.west]
properties = []
[streams]
"#
        ),
        r"2 mistakes
  line 1, column 16: clusters.east.properties: 'bootstrap.servers' is missing; expected the addresses of brokers
  line 4, column 14: clusters.west.properties: found a list; expected a map of client properties"
    );
}

#[test]
fn a_port_that_cannot_be_is_refused() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  east:
    properties: { bootstrap.servers: "a:70000, [::1]:9092, b, c:x, [::1]:0," }
streams: {}
"#
        ),
        r#"4 mistakes
  line 3, column 38: clusters.east.properties."bootstrap.servers": address 'a:70000' has the port '70000'; expected 'host:port' with a port from 1 to 65535
  line 3, column 38: clusters.east.properties."bootstrap.servers": address 'c:x' has the port 'x'; expected 'host:port' with a port from 1 to 65535
  line 3, column 38: clusters.east.properties."bootstrap.servers": address '[::1]:0' has the port '0'; expected 'host:port' with a port from 1 to 65535
  line 3, column 38: clusters.east.properties."bootstrap.servers": address is empty; expected 'host:port' with a port from 1 to 65535"#
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {"east": {"properties": {
  "bootstrap.servers": "a:70000, [::1]:9092, b, c:x, [::1]:0,"}}},
 "streams": {}}"#
        ),
        r#"4 mistakes
  line 2, column 24: clusters.east.properties."bootstrap.servers": address 'a:70000' has the port '70000'; expected 'host:port' with a port from 1 to 65535
  line 2, column 24: clusters.east.properties."bootstrap.servers": address 'c:x' has the port 'x'; expected 'host:port' with a port from 1 to 65535
  line 2, column 24: clusters.east.properties."bootstrap.servers": address '[::1]:0' has the port '0'; expected 'host:port' with a port from 1 to 65535
  line 2, column 24: clusters.east.properties."bootstrap.servers": address is empty; expected 'host:port' with a port from 1 to 65535"#
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters.east.properties]
bootstrap.servers = "a:70000, [::1]:9092, b, c:x, [::1]:0,"
[streams]
"#
        ),
        r#"4 mistakes
  line 2, column 21: clusters.east.properties."bootstrap.servers": address 'a:70000' has the port '70000'; expected 'host:port' with a port from 1 to 65535
  line 2, column 21: clusters.east.properties."bootstrap.servers": address 'c:x' has the port 'x'; expected 'host:port' with a port from 1 to 65535
  line 2, column 21: clusters.east.properties."bootstrap.servers": address '[::1]:0' has the port '0'; expected 'host:port' with a port from 1 to 65535
  line 2, column 21: clusters.east.properties."bootstrap.servers": address is empty; expected 'host:port' with a port from 1 to 65535"#
    );
}

#[test]
fn an_unknown_client_property_is_refused_with_the_nearest_name() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  east:
    properties:
      bootstrap.servers: "127.0.0.1:1"
      fetch.min.byte: 1
      security_protocol: ssl
streams: {}
"#
        ),
        r#"2 mistakes
  line 5, column 7: clusters.east.properties."fetch.min.byte": unknown client property; expected one of librdkafka's; did you mean 'fetch.min.bytes'?
  line 6, column 7: clusters.east.properties.security_protocol: unknown client property; expected one of librdkafka's; did you mean 'security.protocol'?"#
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {"east": {"properties": {
  "bootstrap.servers": "127.0.0.1:1",
  "fetch.min.byte": 1,
  "security_protocol": "ssl"}}},
 "streams": {}}"#
        ),
        r#"2 mistakes
  line 3, column 3: clusters.east.properties."fetch.min.byte": unknown client property; expected one of librdkafka's; did you mean 'fetch.min.bytes'?
  line 4, column 3: clusters.east.properties.security_protocol: unknown client property; expected one of librdkafka's; did you mean 'security.protocol'?"#
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters.east.properties]
bootstrap.servers = "127.0.0.1:1"
fetch.min.byte = 1
security_protocol = "ssl"
[streams]
"#
        ),
        r#"2 mistakes
  line 3, column 11: clusters.east.properties."fetch.min.byte": unknown client property; expected one of librdkafka's; did you mean 'fetch.min.bytes'?
  line 4, column 1: clusters.east.properties.security_protocol: unknown client property; expected one of librdkafka's; did you mean 'security.protocol'?"#
    );
}

#[test]
fn a_client_property_of_the_source_is_refused_with_the_reason() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  east:
    properties:
      bootstrap.servers: "127.0.0.1:1"
      auto.offset.reset: latest
      enable.auto.commit: true
      metadata.broker.list: a
streams: {}
"#
        ),
        r#"3 mistakes
  line 5, column 7: clusters.east.properties."auto.offset.reset": cannot be set: positions come from the source's log and the starting rule of the stream
  line 6, column 7: clusters.east.properties."enable.auto.commit": cannot be set: positions are kept in the source's own log, and nothing is committed to Kafka
  line 7, column 7: clusters.east.properties."metadata.broker.list": cannot be set: it is another name of bootstrap.servers; write that one"#
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {"east": {"properties": {
  "bootstrap.servers": "127.0.0.1:1",
  "auto.offset.reset": "latest",
  "enable.auto.commit": true,
  "metadata.broker.list": "a"}}},
 "streams": {}}"#
        ),
        r#"3 mistakes
  line 3, column 3: clusters.east.properties."auto.offset.reset": cannot be set: positions come from the source's log and the starting rule of the stream
  line 4, column 3: clusters.east.properties."enable.auto.commit": cannot be set: positions are kept in the source's own log, and nothing is committed to Kafka
  line 5, column 3: clusters.east.properties."metadata.broker.list": cannot be set: it is another name of bootstrap.servers; write that one"#
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters.east.properties]
bootstrap.servers = "127.0.0.1:1"
auto.offset.reset = "latest"
enable.auto.commit = true
metadata.broker.list = "a"
[streams]
"#
        ),
        r#"3 mistakes
  line 3, column 13: clusters.east.properties."auto.offset.reset": cannot be set: positions come from the source's log and the starting rule of the stream
  line 4, column 13: clusters.east.properties."enable.auto.commit": cannot be set: positions are kept in the source's own log, and nothing is committed to Kafka
  line 5, column 17: clusters.east.properties."metadata.broker.list": cannot be set: it is another name of bootstrap.servers; write that one"#
    );
}

#[test]
fn a_client_property_that_is_no_text_is_refused() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  east:
    properties:
      bootstrap.servers: "127.0.0.1:1"
      client.id:
      client.rack: [a]
      debug: {}
streams: {}
"#
        ),
        r#"3 mistakes
  line 5, column 7: clusters.east.properties."client.id": found nothing; expected a text, number or boolean
  line 6, column 7: clusters.east.properties."client.rack": found a list; expected a text, number or boolean
  line 7, column 7: clusters.east.properties.debug: found a map; expected a text, number or boolean"#
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {"east": {"properties": {
  "bootstrap.servers": "127.0.0.1:1",
  "client.id": null,
  "client.rack": ["a"],
  "debug": {}}}},
 "streams": {}}"#
        ),
        r#"3 mistakes
  line 3, column 3: clusters.east.properties."client.id": found nothing; expected a text, number or boolean
  line 4, column 3: clusters.east.properties."client.rack": found a list; expected a text, number or boolean
  line 5, column 3: clusters.east.properties.debug: found a map; expected a text, number or boolean"#
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters.east.properties]
bootstrap.servers = "127.0.0.1:1"
client.rack = ["a"]
debug = {}
[streams]
"#
        ),
        r#"2 mistakes
  line 3, column 8: clusters.east.properties."client.rack": found a list; expected a text, number or boolean
  line 4, column 1: clusters.east.properties.debug: found a map; expected a text, number or boolean"#
    );
}

#[test]
fn a_malformed_reference_is_refused_without_its_value() {
    assert_eq!(
        refused(
            "yaml",
            r#"clusters:
  east:
    properties:
      bootstrap.servers: "127.0.0.1:1"
      sasl.password: "hunter2${A"
      ssl.key.password: "${vault:hunter2}"
streams: {}
"#
        ),
        r#"2 mistakes
  line 5, column 22: clusters.east.properties."sasl.password": reference at character 8 has no closing '}'; write '$${' for the text '${'
  line 6, column 25: clusters.east.properties."ssl.key.password": reference at character 1 is not one; expected '${NAME}' for an environment variable, '${file:/path}' for a file, or '$${' for the text '${'"#
    );
    assert_eq!(
        refused(
            "json",
            r#"{"clusters": {"east": {"properties": {
  "bootstrap.servers": "127.0.0.1:1",
  "sasl.password": "hunter2${A",
  "ssl.key.password": "${vault:hunter2}"}}},
 "streams": {}}"#
        ),
        r#"2 mistakes
  line 3, column 20: clusters.east.properties."sasl.password": reference at character 8 has no closing '}'; write '$${' for the text '${'
  line 4, column 23: clusters.east.properties."ssl.key.password": reference at character 1 is not one; expected '${NAME}' for an environment variable, '${file:/path}' for a file, or '$${' for the text '${'"#
    );
    assert_eq!(
        refused(
            "toml",
            r#"[clusters.east.properties]
bootstrap.servers = "127.0.0.1:1"
sasl.password = "hunter2${A"
ssl.key.password = "${vault:hunter2}"
[streams]
"#
        ),
        r#"2 mistakes
  line 3, column 17: clusters.east.properties."sasl.password": reference at character 8 has no closing '}'; write '$${' for the text '${'
  line 4, column 20: clusters.east.properties."ssl.key.password": reference at character 1 is not one; expected '${NAME}' for an environment variable, '${file:/path}' for a file, or '$${' for the text '${'"#
    );
}
