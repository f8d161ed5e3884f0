from __future__ import annotations

import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.runtime.client_settings import WorkerProperties, without_effect

WORKER = WorkerProperties(
    {
        "bootstrap.servers": "one:9092",
        "group.id": "workers",
        "consumer.client.id": "reader",
        "consumer.fetch.max.wait.ms": "77",
        "producer.compression.type": "lz4",
    }
)


def test_the_connector_wins_over_the_worker_and_the_kind_over_both() -> None:
    config = {
        "consumer.override.bootstrap.servers": "two:9092",
        "consumer.override.isolation.level": "read_committed",
        "producer.override.client.id": "writer",
    }
    consumer = WORKER.consumer("orders", config)
    assert consumer.wire == {"bootstrap.servers": "two:9092", "client.id": "reader"}
    assert consumer.fetch.max_wait_ms == 77
    assert consumer.fetch.isolation_level == consumer.isolation_level == "read_committed"
    producer = WORKER.producer(config)
    assert producer.wire == {"bootstrap.servers": "one:9092", "client.id": "writer"}
    assert (producer.compression, producer.acks) == ("lz4", -1)


def test_a_sink_has_a_group_of_its_own_which_can_be_overridden() -> None:
    assert WORKER.consumer("orders", {}).group == "connect-orders"
    assert WORKER.consumer("orders", {"consumer.override.group.id": "mine"}).group == "mine"


def test_a_wrong_value_names_the_connectors_property() -> None:
    with pytest.raises(ConfigException) as mistake:
        WORKER.consumer("orders", {"consumer.override.auto.offset.reset": "middle"})
    assert mistake.value.name == "consumer.override.auto.offset.reset"


def test_settings_of_a_membership_have_no_effect_and_are_named() -> None:
    config = {
        "consumer.override.session.timeout.ms": "1000",
        "consumer.override.client.id": "x",
        "consumer.override.fetch.min.bytes": "5",
        "producer.override.linger.ms": "5",
        "file": "x",
    }
    assert without_effect(config) == ["consumer.override.session.timeout.ms", "producer.override.linger.ms"]


def test_no_value_of_a_setting_is_shown() -> None:
    settings = WorkerProperties({"bootstrap.servers": "one:9092", "sasl.password": "geheim"})
    assert "geheim" not in repr(settings) + repr(settings.consumer("orders", {})) + repr(settings.producer({}))
