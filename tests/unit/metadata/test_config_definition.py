"""The tables and how a value's text is read. Expectations were taken from Apache Kafka 4.3.1's own validators."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.metadata import broker_config_definitions
from penstock.metadata.broker_config_definitions import BROKER_CONFIGS, WITHOUT_EFFECT
from penstock.metadata.config_definition import (
    ConfigDefinition,
    ConfigError,
    ConfigType,
    ConfigValue,
    definition_of,
    names_without_effect,
)
from penstock.metadata.topic_config_definitions import BROKER_SYNONYMS, TOPIC_CONFIGS
from penstock.metadata.unsupported_broker_configs import NAMES_WITHOUT_EFFECT, refusal

EVERY_DEFINITION = [*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()]


@pytest.mark.parametrize("definition", EVERY_DEFINITION, ids=lambda definition: definition.name)
def test_every_default_is_a_value_that_the_definition_accepts(definition: ConfigDefinition) -> None:
    value = definition.default_value()
    assert (value is None) == (definition.default is None)
    assert definition.doc.endswith(".")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cleanup.policy", "", ()),
        ("cleanup.policy", "delete,compact", ("delete", "compact")),
        ("cleanup.policy", " delete , compact ", ("delete", "compact")),
        ("retention.ms", " 5 ", 5),
        ("retention.ms", "-1", -1),
        ("retention.bytes", "-5", -5),
        ("segment.bytes", "+2000000", 2_000_000),
        ("preallocate", "TRUE", True),
        ("preallocate", " false ", False),
        ("min.cleanable.dirty.ratio", ".5", 0.5),
        ("min.cleanable.dirty.ratio", "1", 1.0),
        ("compression.gzip.level", "-1", -1),
        ("compression.zstd.level", "-131072", -131072),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:1", ("0:1", "1:1")),
        ("leader.replication.throttled.replicas", "", ()),
        ("flush.messages", "9223372036854775807", 2**63 - 1),
    ],
)
def test_what_kafka_accepts_is_accepted(name: str, text: str, value: ConfigValue) -> None:
    assert TOPIC_CONFIGS[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "Delete"),
        ("cleanup.policy", "delete,"),
        ("retention.ms", "-2"),
        ("retention.ms", "1e3"),
        ("retention.ms", "9223372036854775808"),
        ("retention.ms", "9" * 5000),
        ("segment.bytes", "3000000000"),
        ("segment.bytes", "100"),
        ("segment.bytes", "0x10"),
        ("max.message.bytes", "1.0"),
        ("max.message.bytes", "1_000"),
        ("max.message.bytes", ""),
        ("max.message.bytes", "\u0661\u0662"),
        ("preallocate", "1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.type", "ZSTD"),
        ("compression.type", "none"),
        ("message.timestamp.type", "createtime"),
        ("leader.replication.throttled.replicas", "x"),
    ],
)
def test_what_kafka_refuses_is_refused_with_the_key_in_the_message(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=name):
        TOPIC_CONFIGS[name].parse(text)


def test_choices_that_ignore_case() -> None:
    assert BROKER_CONFIGS["group.consumer.migration.policy"].parse("upgrade") == "upgrade"
    with pytest.raises(ConfigError, match="BIDIRECTIONAL"):
        BROKER_CONFIGS["group.consumer.migration.policy"].parse("sideways")


def test_a_refused_password_is_not_repeated_in_the_message() -> None:
    definition = ConfigDefinition("secret", ConfigType.PASSWORD, None, "A secret.", choices=("never",))
    with pytest.raises(ConfigError) as caught:
        definition.parse("hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("retension.ms", "retention.ms"), ("segment_bytes", "segment.bytes"), ("CLEANUP.POLICY", "cleanup.policy")],
)
def test_an_unknown_name_is_answered_with_the_nearest_known_one(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {nearest}"):
        definition_of("topic", name, TOPIC_CONFIGS)


def test_a_name_that_resembles_nothing_is_refused_without_a_guess_and_without_repeating_all_of_it() -> None:
    with pytest.raises(ConfigError) as caught:
        definition_of("topic", "z" * 30_000, TOPIC_CONFIGS)
    assert "did you mean" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_every_topic_setting_inherits_from_broker_settings_that_exist() -> None:
    assert BROKER_SYNONYMS.keys() <= TOPIC_CONFIGS.keys()
    for synonyms in BROKER_SYNONYMS.values():
        for synonym in synonyms:
            assert synonym.name in BROKER_CONFIGS


def test_a_topic_setting_and_its_broker_setting_have_the_same_default() -> None:
    for name, synonyms in BROKER_SYNONYMS.items():
        in_broker_unit = [
            (value * synonym.factor if isinstance(value, int) and synonym.factor > 1 else value)
            for synonym in synonyms
            if (value := BROKER_CONFIGS[synonym.name].default_value()) is not None
        ]
        assert in_broker_unit == [TOPIC_CONFIGS[name].default_value()]


def test_a_name_belongs_to_one_table_only() -> None:
    assert not NAMES_WITHOUT_EFFECT & BROKER_CONFIGS.keys()
    assert not [name for name in (*BROKER_CONFIGS, *NAMES_WITHOUT_EFFECT) if refusal(name)]


@pytest.mark.parametrize("name", ["preallocate", "local.retention.ms", "unclean.leader.election.enable"])
def test_what_has_no_effect_yet_is_data(name: str) -> None:
    assert names_without_effect([name, "flush.ms", "retention.ms", "cleanup.policy"], TOPIC_CONFIGS) == [name]
    assert name in str(BROKER_CONFIGS[WITHOUT_EFFECT].default).split(",")


def test_a_setting_has_an_effect_if_and_only_if_the_broker_reads_it() -> None:
    """Giving a setting its effect means flipping `has_effect`, and nobody can forget it."""
    source = Path(broker_config_definitions.__file__).parents[1]
    code = "\n".join(
        file.read_text() for part in ("broker", "log", "coordinator") for file in (source / part).rglob("*.py")
    )
    # Read through a property of TopicConfig, or only to validate batches until it has its effect.
    through_a_property = {"cleanup.policy", "internal.segment.bytes", "message.timestamp.type", "segment.bytes"}
    for name, definition in TOPIC_CONFIGS.items():
        if name not in through_a_property:
            is_read = re.search(rf"\.{name.replace('.', '_')}\b", code) is not None
            assert is_read == definition.has_effect, name


def test_a_broker_setting_and_the_topic_setting_behind_it_agree() -> None:
    for name, synonyms in BROKER_SYNONYMS.items():
        for synonym in synonyms:
            assert BROKER_CONFIGS[synonym.name].has_effect == TOPIC_CONFIGS[name].has_effect, synonym.name


def test_the_tables_do_not_pull_heavy_modules_into_the_broker() -> None:
    program = (
        "import sys, penstock.metadata.broker_config, penstock.metadata.topics;"
        "print([name for name in ('asyncio', 'random', 'difflib', 'socket') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
