from __future__ import annotations

from dataclasses import fields

import pytest

from penstock.metadata.broker_config import _NAMES, BrokerConfig
from penstock.metadata.broker_config_definitions import BROKER_CONFIGS
from penstock.metadata.config_definition import ConfigError, names_without_effect
from penstock.metadata.listeners import Listener

# The lines that Apache Kafka's own example configuration for one combined node sets.
KAFKA_SERVER_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/var/lib/data
num.partitions=1
offsets.topic.replication.factor=1
log.retention.hours=168
log.segment.bytes=1073741824
"""


def test_a_broker_needs_no_configuration() -> None:
    config = BrokerConfig.load()
    assert config.node_id == 1
    assert config.listeners == config.advertised_listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.log_dirs == (".penstock/data",)
    assert config.num_partitions == 1
    assert config.auto_create_topics_enable is True
    assert config.socket_request_max_bytes == 104_857_600
    assert config.broker_rack is None
    assert config.without_effect == ()


def test_every_field_is_a_known_name_and_has_its_definitions_default() -> None:
    config = BrokerConfig.load()
    for field, name in _NAMES.items():
        assert getattr(config, field) == BROKER_CONFIGS[name].default_value()


def test_no_field_is_none_that_says_otherwise() -> None:
    config = BrokerConfig.load()
    optional = {field.name for field in fields(BrokerConfig) if "None" in str(field.type)}
    assert {name for name in (field.name for field in fields(config)) if getattr(config, name) is None} == optional


def test_kafkas_own_file_is_accepted_and_what_has_no_effect_is_named() -> None:
    config = BrokerConfig.load(properties_text=KAFKA_SERVER_PROPERTIES)
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert config.log_dirs == ("/var/lib/data",)
    assert config.without_effect == ("controller.quorum.bootstrap.servers",)
    unused = names_without_effect(config.layers.static, BROKER_CONFIGS)
    assert {"num.network.threads", "num.io.threads"} <= set(unused)


def test_environment_overrides_options_which_override_the_file() -> None:
    config = BrokerConfig.load(
        properties_text="num.partitions=2\nfetch.max.bytes=2000\nmessage.max.bytes=2",
        overrides=["num.partitions=3", "fetch.max.bytes=3000"],
        environment={
            "PENSTOCK_NUM_PARTITIONS": "4",
            "HOME": "/",
            "PENSTOCK_REQUIRE_ALL": "1",
            "PENSTOCK_LOG_LEVEL": "INFO",
        },
    )
    assert (config.num_partitions, config.fetch_max_bytes, config.message_max_bytes) == (4, 3000, 2)


def test_the_later_of_two_lines_wins() -> None:
    assert BrokerConfig.load(properties_text="num.partitions=2\nnum.partitions=5").num_partitions == 5


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"properties_text": "\nnum.partition=3"}, "conf:2: .*did you mean num.partitions"),
        ({"properties_text": "num.partitions=0"}, "conf:1: num.partitions: '0' is not accepted; .*at least 1"),
        ({"properties_text": "a=\\uXYZW"}, "conf:1: .*hexadecimal"),
        ({"properties_text": "ssl.engine.factory.class=x"}, "conf:1: ssl.engine.factory.class is not supported: .*TLS"),
        ({"properties_text": "listener.name.x.ssl.client.autth=none"}, "conf:1: .*did you mean ssl.client.auth"),
        ({"overrides": ["num.partitions"]}, "--set num.partitions: a value is missing"),
        ({"overrides": ["num.partitons=3"]}, "--set num.partitons=3: .*did you mean num.partitions"),
        ({"environment": {"PENSTOCK_NUM_PARTITION": "3"}}, "PENSTOCK_NUM_PARTITION: .*did you mean num.partitions"),
        ({"environment": {"PENSTOCK_NUM_PARTITIONS": "x"}}, "PENSTOCK_NUM_PARTITIONS: num.partitions: 'x'"),
        (
            {"overrides": ["listeners=SSL://:9092"]},
            "listeners: SSL: TLS needs a certificate; set ssl.keystore.location",
        ),
        ({"overrides": ["listeners=FOO://:9092"]}, "FOO has no protocol; add it to listener.security.protocol.map"),
        ({"overrides": ["listeners=localhost:9092"]}, "write it as PLAINTEXT://host:port"),
        ({"overrides": ["listeners=PLAINTEXT://:65536"]}, "write it as PLAINTEXT://host:port"),
        ({"overrides": ["listeners=PLAINTEXT://:1,PLAINTEXT://:2"]}, "used twice"),
        ({"overrides": ["listeners="]}, "no address for clients"),
        ({"overrides": ["controller.listener.names=PLAINTEXT"]}, "no address for clients"),
        (
            {
                "overrides": [
                    "advertised.listeners=OTHER://h:1",
                    "listener.security.protocol.map=OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                ]
            },
            "OTHER is not one of the names in listeners",
        ),
        (
            {"overrides": ["inter.broker.listener.name=OTHER"]},
            r"OTHER is not one of the names in listeners \(PLAINTEXT\)",
        ),
        (
            {
                "overrides": [
                    "listeners=A://h:1,B://g:1",
                    "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
                ]
            },
            "A://h:1 and B://g:1 use the same port",
        ),
        ({"overrides": ["listener.security.protocol.map=x"]}, "'x' is not a NAME:PROTOCOL pair"),
        ({"overrides": ["node.id=1", "broker.id=2"]}, "differ; remove broker.id"),
        ({"overrides": ["log.retention.ms=0"]}, "log.retention.ms: 0 is not accepted"),
        ({"overrides": ["log.roll.ms=0"]}, "log.roll.ms: 0 is not accepted"),
        (
            {"overrides": ["log.cleaner.min.compaction.lag.ms=9", "log.cleaner.max.compaction.lag.ms=8"]},
            "lower the one or raise the other",
        ),
    ],
)
def test_a_mistake_gets_one_line_with_the_place_the_key_and_the_remedy(
    sources: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        BrokerConfig.load(properties_name="conf", **sources)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_every_listener_is_advertised_by_its_name() -> None:
    config = BrokerConfig.load(
        overrides=[
            "listeners=A://:1,B://127.0.0.1:0,C://[::1]:1,D://:0",
            "advertised.listeners=D://d.example:4,A://a.example:0",
            "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,D:PLAINTEXT",
            "inter.broker.listener.name=b",
        ]
    )
    assert [listener.name for listener in config.listeners] == ["A", "B", "C", "D"]
    assert config.advertised_listeners == (
        Listener("A", "a.example", 0),
        Listener("B", "127.0.0.1", 0),
        Listener("C", "::1", 1),
        Listener("D", "d.example", 4),
    )
    assert config.inter_broker_listener_name == "B"


def test_listeners_may_have_names_of_their_own_and_ipv6_addresses() -> None:
    config = BrokerConfig.load(
        overrides=[
            "listeners=internal://[::1]:0,PLAINTEXT://0.0.0.0:9092",
            "listener.security.protocol.map=INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        ]
    )
    assert config.listeners == (Listener("INTERNAL", "::1", 0), Listener("PLAINTEXT", "0.0.0.0", 9092))
    assert str(config.listeners[0]) == "INTERNAL://[::1]:0"


def test_broker_id_is_the_older_name_of_node_id() -> None:
    assert BrokerConfig.load(overrides=["broker.id=7"]).node_id == 7
    assert BrokerConfig.load(overrides=["broker.id=7", "node.id=7"]).node_id == 7


def test_log_dir_counts_when_log_dirs_is_not_set() -> None:
    assert BrokerConfig.load(overrides=["log.dir=/a"]).log_dirs == ("/a",)
    assert BrokerConfig.load(overrides=["log.dir=/a", "log.dirs=/b,/c"]).log_dirs == ("/b", "/c")


def test_dynamic_settings_lie_over_static_ones() -> None:
    static = BrokerConfig.load(overrides=["message.max.bytes=1", "max.connections=1"])
    dynamic = static.with_dynamic(
        cluster_wide={"message.max.bytes": "2", "max.connections": "2"}, per_broker={"max.connections": "3"}
    )
    assert (dynamic.message_max_bytes, dynamic.max_connections) == (2, 3)
    assert static.message_max_bytes == 1
    assert dynamic.with_dynamic(cluster_wide={}, per_broker={}) == static
