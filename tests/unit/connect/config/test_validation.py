"""Checks of whole configurations. The exact answers are compared with Kafka's in tests/connect_differential/rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from penstock.connect.config.answer import Validation
from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType
from penstock.connect.config.providers import ConfigProviders
from penstock.connect.config.validation import BadRequest, validate
from penstock.connect.connector import SinkConnector, SinkWriter, Slice, SourceConnector, SourceRows
from penstock.connect.converters.kinds import HEADER_KINDS
from penstock.connect.converters.kinds import KINDS as CONVERTERS
from penstock.connect.plugins import Plugins, Tables
from penstock.connect.transforms.kinds import KINDS as TRANSFORMS
from penstock.connect.transforms.kinds import PREDICATE_KINDS


class Source(SourceConnector):
    version = "1"
    definition = ConfigDef((ConfigKey("password", ConfigType.PASSWORD, None), ConfigKey("port", ConfigType.INT, "1")))
    exactly_once = "its system forgets what it has sent"

    @classmethod
    def check(cls, config: Mapping[str, str]) -> Sequence[ConfigException]:
        if "host" not in config:
            return ()
        # As drivers do, it repeats a part of the value only.
        return [ConfigException(f"no route to {config['host'].removeprefix('x')}", "host")]

    def plan(self, offsets: Any) -> Sequence[Slice]:
        return ()

    def read(self, slice_: Slice) -> Any:
        return iter(tuple[SourceRows, ...]())


class Sink(SinkConnector):
    version = "1"
    definition = ConfigDef(())

    def open_writer(self, task: int, guarantee: Any) -> SinkWriter:
        raise AssertionError("not in these tests")


PLUGINS = Plugins(
    Tables(
        {"x.Source": f"{__name__}:Source", "x.Sink": f"{__name__}:Sink"},
        CONVERTERS,
        HEADER_KINDS,
        TRANSFORMS,
        PREDICATE_KINDS,
    )
)


def check(config: Mapping[str, str], worker: WorkerDefaults | None = None, resolve: Any = None) -> Validation:
    full = {"name": "a", "connector.class": "x.Source", **config}
    return validate(PLUGINS, full, worker or WorkerDefaults(), resolve or (lambda text: text))


def errors(validation: Validation) -> dict[str, list[str]]:
    return {value.name: value.errors for _key, value in validation.entries if value.errors}


def test_all_mistakes_are_named_at_once() -> None:
    found = check({"tasks.max": "x", "port": "far", "errors.tolerance": "some", "name": " "})
    assert errors(found) == {
        "name": ["Invalid value  for configuration name: String may not be empty"],
        "tasks.max": [
            "Invalid value x for configuration tasks.max: Not a number of type INT",
            "Invalid value null for configuration tasks.max: Value must be non-null",
        ],
        "errors.tolerance": ["Invalid value some for configuration errors.tolerance: String must be one of: none, all"],
        "port": ["Invalid value far for configuration port: Not a number of type INT"],
    }
    assert found.as_json()["error_count"] == 5
    assert found.message().startswith("Connector configuration is invalid and contains the following 5 error(s):\n")


def test_what_is_misspelled_or_without_effect_is_named() -> None:
    found = check(
        {
            "task.max": "1",
            "colour": "red",
            "key.converter.schemas.enable": "false",
            "transforms.a.type": "Filter",
            "consumer.override.auto.commit.interval.ms": "5",
        }
    )
    assert not found.errors
    assert found.as_json()["penstock.warnings"] == [
        "task.max: unknown property; did you mean 'tasks.max'?",
        "colour: unknown property",
        "key.converter.schemas.enable: ignored, because the configuration does not set key.converter",
        "transforms.a.type: ignored, because 'a' is not in transforms",
        "consumer.override.auto.commit.interval.ms: has no effect, because connectors here use no such client",
    ]
    assert "penstock.warnings" not in check({}).as_json()


def test_a_predicate_that_is_not_declared_is_named() -> None:
    config = {"transforms": "t", "transforms.t.type": "Filter", "transforms.t.predicate": "p"}
    assert check(config).warnings == ["transforms.t.predicate: no predicate is called 'p'; declare it in predicates"]
    declared = {"predicates": "p", "predicates.p.type": "RecordIsTombstone"}
    assert check({**config, **declared}).warnings == []


def test_the_connector_is_asked_about_configurations_that_parse() -> None:
    assert errors(check({"host": "nowhere"})) == {"host": ["no route to nowhere"]}
    assert "host" not in errors(check({"host": "nowhere", "port": "far"}))


def test_passwords_are_hidden() -> None:
    shown = {
        each["value"]["name"]: each["value"]["value"] for each in check({"password": "s3cret"}).as_json()["configs"]
    }
    assert shown["password"] == "[hidden]"


def test_secrets_are_checked_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_PORT", "s3cret-port")
    monkeypatch.setenv("SECRET_HOST", "s3cret-host")
    providers = ConfigProviders({"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"})
    wrong = check({"port": "${env:SECRET_PORT}"}, resolve=providers.resolve_text)
    assert errors(wrong) == {
        "port": ["Invalid value ${env:SECRET_PORT} for configuration port: Not a number of type INT"]
    }
    asked = check({"host": "x${env:SECRET_HOST}"}, resolve=providers.resolve_text)
    assert errors(asked) == {"host": ["no route to ${env:SECRET_HOST}"]}
    missing = check({"port": "${env:NOT_SET}"}, resolve=providers.resolve_text)
    assert errors(missing) == {"port": ["cannot resolve '${env:NOT_SET}': the environment variable NOT_SET is not set"]}
    for each in (wrong, asked, missing):
        assert "s3cret" not in str(each.as_json())


def test_exactly_once_needs_a_worker_and_a_source_that_have_it() -> None:
    required = {"exactly.once.support": "required"}
    assert "does not have exactly-once source support enabled" in errors(check(required))["exactly.once.support"][0]
    refused = errors(check(required, WorkerDefaults(exactly_once_source=True)))
    assert refused["exactly.once.support"][0].endswith(": its system forgets what it has sent")


def test_a_guarantee_that_the_sink_cannot_keep_is_refused() -> None:
    config = {"connector.class": "x.Sink", "topics": "t", "guarantee": "exactly_once"}
    assert errors(check(config)) == {
        "guarantee": ["x.Sink cannot keep exactly_once; it can keep at_most_once, at_least_once"]
    }
    assert not check({**config, "guarantee": "at_most_once"}).errors


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ("All", []),
        ("None", ["producer.override.acks", "producer.override.sasl.mechanism"]),
        ("Principal", ["producer.override.acks"]),
        ("Allowlist", ["producer.override.sasl.mechanism"]),
    ],
)
def test_the_policy_decides_about_overrides(policy: str, refused: list[str]) -> None:
    config = {"producer.override.acks": "all", "producer.override.sasl.mechanism": "PLAIN"}
    found = errors(check(config, WorkerDefaults(override_policy=policy, override_allowlist=("acks",))))
    assert list(found) == refused
    for name, (text,) in found.items():
        setting = name.removeprefix("producer.override.")
        assert text == (
            f"The '{policy}' policy does not allow '{setting}' to be overridden in the connector configuration."
        )


def test_topic_creation_is_checked_before_the_connector_starts() -> None:
    assert not check({"topic.creation.groups": "g"}).errors
    found = errors(
        check(
            {
                "topic.creation.groups": "g",
                "topic.creation.default.partitions": "0",
                "topic.creation.default.cleanup.policy": "compact",
                "topic.creation.g.include": "a(",
            }
        )
    )
    assert found["topic.creation.default.replication.factor"] == [
        'Missing required configuration "topic.creation.default.replication.factor" which has no default value.'
    ]
    assert "larger than 0" in found["topic.creation.default.partitions"][0]
    assert "Invalid regex" in found["topic.creation.g.include"][0]
    assert len(found) == 3


def test_topic_creation_that_the_worker_does_not_allow_is_named() -> None:
    found = check({"topic.creation.groups": "g"}, WorkerDefaults(topic_creation_enabled=False))
    assert found.warnings == [
        "topic.creation.groups: has no effect, because the worker has topic.creation.enable=false"
    ]


def test_another_version_of_a_plugin_is_refused() -> None:
    assert (
        "version 1 of this plugin only"
        in errors(check({"connector.plugin.version": "2"}))["connector.plugin.version"][0]
    )
    assert not check({"connector.plugin.version": "1"}).errors


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (None, "contains no connector type"),
        ("Nope", "which name matches Nope, available connectors are: x.Sink, x.Source"),
    ],
)
def test_without_a_class_nothing_can_be_checked(name: str | None, text: str) -> None:
    config = {"name": "a"} if name is None else {"connector.class": name}
    with pytest.raises(BadRequest, match=text):
        validate(PLUGINS, config, WorkerDefaults())
