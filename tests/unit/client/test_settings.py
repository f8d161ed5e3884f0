"""Client settings in Kafka's names: their translation to librdkafka, and error messages."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest

from penstock.client.setting_definitions import CONSUMER, LIBRDKAFKA_ONLY, PRODUCER, UNSUPPORTED, Definition
from penstock.client.settings import admin_settings, consumer_settings, is_cooperative, producer_settings
from penstock.core.errors import InvalidClientSetting

SERVERS = {"bootstrap.servers": "localhost:9092"}


def test_kafkas_names_become_librdkafkas() -> None:
    settings = producer_settings(
        {
            **SERVERS,
            "buffer.memory": 65_537,
            "max.request.size": 5_000,
            "receive.buffer.bytes": 4096,
            "request.timeout.ms": 7_000,
            "linger.ms": "2.5",
        }
    ).librdkafka
    assert settings["queue.buffering.max.kbytes"] == 65
    assert settings["message.max.bytes"] == 5_000
    assert settings["socket.receive.buffer.bytes"] == 4096
    assert (settings["request.timeout.ms"], settings["socket.timeout.ms"]) == (7_000, 7_000)
    assert settings["linger.ms"] == 2.5
    assert not {"buffer.memory", "max.request.size", "max.block.ms"} & set(settings)


def test_defaults_are_kafkas_where_librdkafkas_are_others() -> None:
    producer = producer_settings(SERVERS).librdkafka
    assert producer["enable.idempotence"] is True
    assert producer["batch.size"] == 16_384
    assert producer["delivery.timeout.ms"] == 120_000
    assert producer["queue.buffering.max.kbytes"] == 32_768
    consumer = consumer_settings(SERVERS).librdkafka
    assert consumer["isolation.level"] == "read_uncommitted"
    assert consumer["auto.offset.reset"] == "latest"
    assert consumer["session.timeout.ms"] == 45_000


PLAUSIBLE: dict[str, Any] = {
    "fetch.max.bytes": 52_428_800,
    "max.poll.interval.ms": 300_000,
    "partition.assignment.strategy": "roundrobin",
    "reconnect.backoff.max.ms": 10_000,
    "request.timeout.ms": 30_000,
    "security.protocol": "PLAINTEXT",
    "ssl.endpoint.identification.algorithm": "https",
    "sasl.mechanism": "PLAIN",
}
# Certificates and key stores are read when a client is made; there are none here.
FILES = frozenset(name for name in PRODUCER if name.startswith(("ssl.keystore", "ssl.truststore", "ssl.cipher")))


def plausible(name: str, definition: Definition) -> Any:
    if name in PLAUSIBLE:
        return PLAUSIBLE[name]
    for value in (definition.default, *definition.choices[:1], definition.minimum):
        if value is not None:
            return value
    return True if definition.kind is bool else "name"


@pytest.mark.parametrize("name", sorted({*PRODUCER, *CONSUMER} - FILES - {"bootstrap.servers"}))
def test_librdkafka_knows_what_it_is_told(name: str) -> None:
    """Every setting, with a plausible value, at the real library."""
    needed: dict[str, Any] = {}
    if name.endswith(".level") and name.startswith("compression"):
        needed["compression.type"] = name.split(".")[1]
    if name == "group.remote.assignor":
        needed["group.protocol"] = "consumer"
    if name in PRODUCER:
        config = {**SERVERS, **needed, name: plausible(name, PRODUCER[name])}
        confluent_kafka.Producer(dict(producer_settings(config).librdkafka))
    if name in CONSUMER:
        config = {**SERVERS, **needed, name: plausible(name, CONSUMER[name])}
        confluent_kafka.Consumer({"group.id": "g", **consumer_settings(config).librdkafka}).close()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("linger_ms", "linger.ms"), ("lingr.ms", "linger.ms"), ("Acks", "acks"), ("bach.size", "batch.size")],
)
def test_a_typo_is_answered_with_the_nearest_name(name: str, nearest: str) -> None:
    with pytest.raises(
        InvalidClientSetting, match=f"'{name}' is not a setting of a producer; did you mean '{nearest}'"
    ):
        producer_settings({**SERVERS, name: 1})


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "a:b:c"}, "bootstrap.servers: 'a:b:c' is not HOST:PORT"),
        ({**SERVERS, "acks": 2}, "acks=2: expected one of all, -1, 0, 1"),
        ({**SERVERS, "retries": "many"}, "retries='many': expected a whole number"),
        ({**SERVERS, "retries": True}, "retries=True: expected a number"),
        ({**SERVERS, "linger.ms": -1}, "linger.ms=-1: must be at least 0"),
        ({**SERVERS, "enable.idempotence": "yes"}, "expected true or false"),
        ({**SERVERS, "client.id": None}, "expected text"),
        ({**SERVERS, "queue.buffering.max.ms": 1}, "is librdkafka's name; Kafka's is linger.ms"),
        ({**SERVERS, "key.serializer": "x"}, "pass key_serializer="),
        ({**SERVERS, "group.id": "x"}, "group.id is not a setting of a producer"),
        ({**SERVERS, "nothing.like.it": "x"}, "'nothing.like.it' is not a setting of a producer"),
        ({**SERVERS, "compression.gzip.level": 3}, "compression.gzip.level requires compression.type=gzip"),
        ({**SERVERS, "acks": 1, "enable.idempotence": True}, "enable.idempotence cannot be used with acks=1"),
        (
            {**SERVERS, "transactional.id": "t", "enable.idempotence": False},
            "transactional.id cannot be used with enable.idempotence=false",
        ),
        (dict([*SERVERS.items(), (5, "x")]), "the name of a setting must be a string"),
        ("localhost:9092", "must be a dictionary, not str"),
    ],
)
def test_a_mistake_is_one_line(config: Any, reason: str) -> None:
    with pytest.raises(InvalidClientSetting) as mistake:
        producer_settings(config)
    assert reason in str(mistake.value)
    assert "\n" not in str(mistake.value)


def test_what_contradicts_idempotence_turns_its_default_off() -> None:
    assert producer_settings({**SERVERS, "acks": "1"}).librdkafka["enable.idempotence"] is False
    assert producer_settings({**SERVERS, "retries": 0}).librdkafka["enable.idempotence"] is False


def test_a_transaction_bounds_the_delivery_of_its_records() -> None:
    settings = producer_settings({**SERVERS, "transactional.id": "t", "transaction.timeout.ms": 9_000})
    assert settings.librdkafka["delivery.timeout.ms"] == 9_000


def test_the_group_protocols() -> None:
    classic = consumer_settings({**SERVERS, "partition.assignment.strategy": "cooperative-sticky"})
    assert is_cooperative(classic)
    assert not is_cooperative(consumer_settings(SERVERS))
    java = "org.apache.kafka.clients.consumer.RoundRobinAssignor"
    spelled = consumer_settings({**SERVERS, "partition.assignment.strategy": [java, "range"]})
    assert spelled.librdkafka["partition.assignment.strategy"] == "roundrobin,range"
    new = consumer_settings({**SERVERS, "group.protocol": "CONSUMER", "group.remote.assignor": "range"})
    assert is_cooperative(new)
    assert not {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"} & set(new.librdkafka)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"group.protocol": "consumer", "session.timeout.ms": 6000}, "the broker decides it"),
        ({"group.remote.assignor": "range"}, "group.remote.assignor requires group.protocol=consumer"),
        ({"partition.assignment.strategy": "fair"}, "expected range, roundrobin, cooperative-sticky"),
        ({"partition.assignment.strategy": "range,cooperative-sticky"}, "cannot be combined with other assignors"),
        ({"auto.offset.reset": "middle"}, "expected one of earliest, latest, none"),
        ({"fetch.wait.max.ms": 5}, "Kafka's is fetch.max.wait.ms"),
    ],
)
def test_mistakes_of_a_consumer(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidClientSetting, match=reason):
        consumer_settings({**SERVERS, **config})


def test_none_is_librdkafkas_error() -> None:
    assert consumer_settings({**SERVERS, "auto.offset.reset": "none"}).librdkafka["auto.offset.reset"] == "error"


def test_an_admin_client_takes_what_every_client_takes() -> None:
    assert admin_settings({**SERVERS, "request.timeout.ms": 1}).librdkafka["socket.timeout.ms"] == 1
    with pytest.raises(InvalidClientSetting, match=r"linger\.ms is not a setting of an admin client"):
        admin_settings({**SERVERS, "linger.ms": 1})


def test_no_name_is_in_two_tables() -> None:
    known = set(PRODUCER) | set(CONSUMER)
    assert not known & LIBRDKAFKA_ONLY
    assert not known & set(UNSUPPORTED)
    assert not LIBRDKAFKA_ONLY & set(UNSUPPORTED)


def test_a_transactional_producer_does_not_rebootstrap_by_default() -> None:
    transactional = {**SERVERS, "transactional.id": "t"}
    assert producer_settings(transactional).librdkafka["metadata.recovery.strategy"] == "none"
    told = producer_settings({**transactional, "metadata.recovery.strategy": "rebootstrap"})
    assert told.librdkafka["metadata.recovery.strategy"] == "rebootstrap"
    assert "metadata.recovery.strategy" not in producer_settings(SERVERS).librdkafka
