from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.config.unknown_properties import unknown_properties
from penstock.connect.connector import ConnectError, RetriableError, WrittenRows
from penstock.connect.connectors.mirror import definition, settings
from penstock.connect.connectors.mirror.checkpoint import MirrorCheckpointConnector
from penstock.connect.connectors.mirror.heartbeat import MirrorHeartbeatConnector
from penstock.connect.connectors.mirror.settings import Filter, MirrorSettings
from penstock.connect.connectors.mirror.source import MirrorSourceConnector, sync_points
from penstock.core.ids import TopicPartition

NOWHERE = "127.0.0.1:1"
CONFIG = {"source.cluster.alias": "a", "target.cluster.alias": "b", "source.cluster.bootstrap.servers": NOWHERE}


def parsed(**more: str) -> MirrorSettings:
    return MirrorSettings.parse(definition.SOURCE, {**CONFIG, **{name.replace("_", "."): more[name] for name in more}})


def test_topics_are_chosen_by_expressions_and_never_in_a_circle() -> None:
    mirror = parsed(topics="orders.*, payments", topics_exclude="orders-old")
    names = ["orders", "orders-new", "orders-old", "payments", "payments2", "b.orders", "heartbeats", "c.heartbeats"]
    assert [name for name in names if mirror.replicates(mirror.topics, name)] == [
        *("orders", "orders-new", "payments", "heartbeats", "c.heartbeats")
    ]


def test_defaults_are_those_of_mirror_maker() -> None:
    mirror = parsed()
    names = ["orders", "orders.replica", "__consumer_offsets", "mm2-offset-syncs.b.internal", "b.heartbeats"]
    assert [name for name in names if mirror.replicates(mirror.topics, name)] == ["orders"]


def test_heartbeats_can_be_left_out() -> None:
    mirror = parsed(topics="orders", heartbeats_replication_enabled="false")
    assert not mirror.replicates(mirror.topics, "heartbeats")


def test_an_empty_list_of_topics_takes_none() -> None:
    assert not Filter([], []).accepts("")
    assert not Filter([], []).accepts("orders")


def test_offset_syncs_are_named_after_the_other_cluster() -> None:
    assert parsed().offset_syncs_topic == "mm2-offset-syncs.b.internal"
    on_target = MirrorSettings.parse(definition.SOURCE, {**CONFIG, "offset-syncs.topic.location": "target"})
    assert on_target.offset_syncs_topic == "mm2-offset-syncs.a.internal"


def test_settings_of_clients_are_taken_from_the_nearest_prefix() -> None:
    config = {
        **CONFIG,
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.client.id": "all",
        "consumer.client.id": "consumers",
        "source.consumer.client.id": "this",
        "source.consumer.isolation.level": "read_committed",
        "consumer.auto.offset.reset": "latest",
        "consumer.override.client.id": "the worker's",
    }
    mirror = MirrorSettings.parse(definition.SOURCE, config)
    consumer = mirror.consumer("mirror")
    assert consumer.wire == {
        "bootstrap.servers": NOWHERE,
        "security.protocol": "SASL_PLAINTEXT",
        "client.id": "this",
    }
    assert (consumer.isolation_level, consumer.reset) == ("read_committed", "latest")
    assert mirror.source.wire("admin", {})["client.id"] == "all"


def test_records_go_to_the_target_cluster_as_bytes() -> None:
    config = {**CONFIG, "target.cluster.bootstrap.servers": "far:9092", "producer.override.client.id": "mine"}
    full = MirrorSourceConnector.completed({**config, "target.producer.client.id": "theirs"})
    for kind in ("producer", "consumer", "admin"):
        assert full[f"{kind}.override.bootstrap.servers"] == "far:9092"
    assert full["producer.override.client.id"] == "mine"
    assert full["value.converter"] == "org.apache.kafka.connect.converters.ByteArrayConverter"
    assert "producer.override.alias" not in full
    assert MirrorSourceConnector.completed({"value.converter": "other"})["value.converter"] == "other"


def test_properties_of_clients_are_known() -> None:
    assert unknown_properties(CONFIG, ["source.cluster.alias", "target.cluster.alias"], settings.PREFIXES) == []


def mistakes(config: Mapping[str, str]) -> dict[str | None, str]:
    return {mistake.name: str(mistake) for mistake in MirrorSourceConnector.check(config)}


def test_a_source_cluster_that_does_not_answer_is_named_with_its_property(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_REACHABLE_TIMEOUT_S", 0.1)
    (name, text), *others = mistakes(CONFIG).items()
    assert name == "source.cluster.bootstrap.servers"
    assert text.startswith("Invalid value 127.0.0.1:1 for configuration source.cluster.bootstrap.servers: ")
    assert "\n" not in text
    assert others == []


def test_a_source_cluster_that_goes_away_is_tried_again() -> None:
    mirror = MirrorSourceConnector("mirror", {**CONFIG, "source.cluster.default.api.timeout.ms": "50"})
    try:
        with pytest.raises(RetriableError, match=r"source cluster 'a' \(source\.cluster\.bootstrap\.servers\)"):
            mirror.plan({})
    finally:
        mirror.stop()


def test_aliases_must_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_REACHABLE_TIMEOUT_S", 0.1)
    assert "target.cluster.alias" in mistakes({**CONFIG, "target.cluster.alias": "a"})


def test_a_wrong_setting_of_a_client_is_named_with_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_REACHABLE_TIMEOUT_S", 0.1)
    assert "source.cluster.security.protocol" in mistakes({**CONFIG, "source.cluster.security.protocol": "NONE"})
    assert "source.consumer.isolation.level" in mistakes({**CONFIG, "source.consumer.isolation.level": "some"})


def test_the_source_cluster_is_required() -> None:
    assert mistakes({"source.cluster.alias": "a"}) == {
        "source.cluster.bootstrap.servers": 'Missing required configuration "source.cluster.bootstrap.servers" which'
        " has no default value."
    }
    assert MirrorHeartbeatConnector.check({"source.cluster.alias": "a"}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topics", "orders,["),
        ("topics.exclude", "*"),
        ("config.properties.exclude", "("),
        ("replication.policy.class", "com.example.Policy"),
        ("replication.factor", "0"),
        ("offset-syncs.topic.location", "both"),
        ("sync.topic.acls.enabled", "maybe"),
    ],
)
def test_a_wrong_value_is_one_line_with_its_property(name: str, value: str) -> None:
    with pytest.raises(ConfigException, match=name) as refused:
        MirrorSourceConnector("mirror", {**CONFIG, name: value})
    assert refused.value.name == name
    assert "\n" not in str(refused.value)


def test_syncs_of_a_slice_are_its_ends_and_one_in_every_lag() -> None:
    partition = TopicPartition("a.orders", 0)
    written = [WrittenRows(partition, 100, np.arange(5)), WrittenRows(partition, 200, np.arange(7, 13))]
    assert sync_points(written, 4) == [(0, 100), (4, 104), (10, 203), (12, 205)]
    assert sync_points(written[:1], 100) == [(0, 100), (4, 104)]
    assert sync_points([WrittenRows(partition, 7, np.arange(1))], 100) == [(0, 7)]


def test_offsets_that_a_person_sets_are_checked() -> None:
    partition = {"cluster": "a", "partition": 0, "topic": "orders"}
    MirrorSourceConnector.check_offsets({}, [(partition, {"offset": 3}), (partition, None)])
    for wrong in ({"offset": -1}, {"offset": "3"}, {"offset": True}, {}):
        with pytest.raises(ConnectError, match="'offset'"):
            MirrorSourceConnector.check_offsets({}, [(partition, wrong)])
    for missing in partition:
        with pytest.raises(ConnectError, match=missing):
            MirrorSourceConnector.check_offsets({}, [({**partition, missing: None}, {"offset": 3})])
    with pytest.raises(ConnectError, match="must be 0"):
        MirrorCheckpointConnector.check_offsets(
            {}, [({"group": "g", "topic": "a.orders", "partition": 0}, {"offset": 3})]
        )
