"""Properties of workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.herder.distributed import DistributedSettings
from penstock.connect.plugins import Plugins
from penstock.connect.worker import DEFAULTS, STANDALONE_DEFAULTS
from penstock.connect.worker_config import Mode, WorkerConfig, parse_worker_config, read_worker_file

PLUGINS = Plugins()
STANDALONE = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "false",
    "offset.storage.file.filename": "/tmp/connect.offsets",
    "offset.flush.interval.ms": "10000",
}
DISTRIBUTED = {
    **{name: value for name, value in STANDALONE.items() if not name.startswith("offset.storage")},
    "group.id": "connect-cluster",
    "offset.storage.topic": "connect-offsets",
    "offset.storage.replication.factor": "1",
    "config.storage.topic": "connect-configs",
    "config.storage.replication.factor": "1",
    "status.storage.topic": "connect-status",
    "status.storage.replication.factor": "1",
    "offset.storage.cleanup.policy": "compact",
    "producer.acks": "all",
    "exactly.once.source.support": "ENABLED",
}


def parsed(mode: Mode = "distributed", /, **changes: str | None) -> WorkerConfig:
    given = {**(DISTRIBUTED if mode == "distributed" else STANDALONE)}
    merged = {**given, **{name.replace("__", "."): value for name, value in changes.items()}}
    return parse_worker_config(mode, {name: value for name, value in merged.items() if value is not None}, PLUGINS)


def test_the_files_that_kafka_ships_are_taken_as_they_are() -> None:
    standalone, distributed = parsed("standalone"), parsed()
    assert list(standalone.warnings) == []
    assert list(distributed.warnings) == []
    assert standalone.values["offset.storage.file.filename"] == "/tmp/connect.offsets"
    assert distributed.values["offset.storage.partitions"] == 25
    assert distributed.defaults().exactly_once_source
    assert not standalone.defaults().exactly_once_source
    assert standalone.converter("value") == (STANDALONE["value.converter"], {"schemas.enable": "false"})


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(ConfigException) as caught:
        parsed(
            group__id=None,
            key__converter="Nope",
            offset__storage__partitions="0",
            listeners="8083",
            connector__client__config__override__policy="Some",
            metric__reporters="com.example.Reporter",
        )
    assert sorted(str(caught.value).splitlines()) == [
        "Invalid value 0 for configuration offset.storage.partitions: Value must be at least 1",
        "Invalid value 8083 for configuration listeners: expected http://HOST:PORT or https://HOST:PORT; no host: all"
        " interfaces",
        "Invalid value Nope for configuration key.converter: Class Nope could not be found.",
        "Invalid value Some for configuration connector.client.config.override.policy: expected one of All, None,"
        " Principal, Allowlist",
        'Missing required configuration "group.id" which has no default value.',
        "metric.reporters: not supported; metrics are served for Prometheus, with --metrics",
    ]


def test_a_distributed_worker_reads_its_settings_by_the_same_definition() -> None:
    settings = DistributedSettings.parse(parsed(status__storage__partitions="-1").properties)
    assert (settings.configs.partitions, settings.offsets.partitions, settings.statuses.partitions) == (1, 25, -1)
    assert (settings.group_id, settings.offsets.name) == ("connect-cluster", "connect-offsets")
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (10_000, 3_000)
    for name, value in (("group.id", ""), ("config.storage.replication.factor", "0"), ("session.timeout.ms", "soon")):
        with pytest.raises(ConfigException) as caught:
            DistributedSettings.parse({**DISTRIBUTED, name: value})
        with pytest.raises(ConfigException) as of_worker:
            parsed(**{name.replace(".", "__"): value})
        assert str(caught.value) == str(of_worker.value).splitlines()[0]


def test_properties_of_converters_are_checked() -> None:
    parsed().check_converters(PLUGINS)
    with pytest.raises(ConfigException) as caught:
        parsed(value__converter__schemas__enable="perhaps").check_converters(PLUGINS)
    assert str(caught.value) == (
        "value.converter.schemas.enable: Invalid value perhaps for configuration schemas.enable: Expected value to be"
        " either true or false"
    )


def test_what_has_no_effect_is_named() -> None:
    found = parsed(plugin__path="/usr/share/java", gruop__id="x", sasl__mechanism="PLAIN", client__id="c")
    assert list(found.warnings) == [
        "plugin.path: without effect; plugins are Python packages with an entry point of the group penstock.connectors",
        "The configuration 'gruop.id' was supplied but isn't a known config.",
    ]


def test_a_policy_may_be_named_by_its_class() -> None:
    policy = "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy"
    assert parsed(connector__client__config__override__policy=policy).defaults().override_policy == "Principal"


def test_secrets_of_a_worker_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_PASSWORD", "s3cret")
    provider = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    found = parsed(**provider, ssl__key__password="${env:WORKER_PASSWORD}")
    assert found.properties["ssl.key.password"] == "s3cret"
    assert found.providers().resolve_text("${env:WORKER_PASSWORD}") == "s3cret"


def test_a_file_is_read_and_a_bad_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("# a worker\nbootstrap.servers = localhost:9092\n")
    assert read_worker_file(file) == {"bootstrap.servers": "localhost:9092"}
    with pytest.raises(ConfigException, match=r"nowhere\.properties: No such file or directory"):
        read_worker_file(tmp_path / "nowhere.properties")


@pytest.mark.parametrize(("mode", "defaults"), [("distributed", DEFAULTS), ("standalone", STANDALONE_DEFAULTS)])
def test_a_worker_without_a_file_is_complete(mode: Mode, defaults: Mapping[str, str]) -> None:
    made = parse_worker_config(mode, {**defaults, "bootstrap.servers": "localhost:9092"}, PLUGINS)
    assert list(made.warnings) == []
