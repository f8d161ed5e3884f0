"""`penstock topic` against a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import uuid4

import pytest

from tests.integration.cli.conftest import Command, only_line


def described(penstock: Command, topic: str) -> dict[str, object]:
    finished = penstock("topic", "describe", topic, "--json")
    assert finished.returncode == 0, finished.stderr
    (description,) = json.loads(finished.stdout)
    assert isinstance(description, dict)
    return description


def test_a_topic_from_creation_to_deletion(penstock: Command) -> None:
    topic = f"cli-{uuid4().hex}"
    created = penstock(
        "topic", "create", "--topic", topic, "--partitions", "3", "--replication-factor", "1",
        "--config", "flush.ms=86400000",
    )  # fmt: skip
    assert (created.returncode, created.stderr) == (0, b"")
    assert topic in penstock("topic", "list").stdout.decode().splitlines()
    assert topic in json.loads(penstock("topic", "list", "--json").stdout)

    before = described(penstock, topic)
    assert before["configs"] == {"flush.ms": "86400000"}
    assert before["replication_factor"] == 1
    partitions = before["partitions"]
    assert isinstance(partitions, list)
    assert [partition["partition"] for partition in partitions] == [0, 1, 2]
    assert all(partition["leader"] in partition["isr"] == partition["replicas"] for partition in partitions)

    altered = penstock(
        "topic", "alter", topic, "--partitions", "5", "--config", "max.message.bytes=2000000",
        "--delete-config", "flush.ms",
    )  # fmt: skip
    assert (altered.returncode, altered.stderr) == (0, b"")
    after = described(penstock, topic)
    assert after["configs"] == {"max.message.bytes": "2000000"}
    assert isinstance(after["partitions"], list)
    assert len(after["partitions"]) == 5
    assert after["topic_id"] == before["topic_id"]

    assert penstock("topic", "delete", topic).returncode == 0
    assert topic not in penstock("topic", "list").stdout.decode().splitlines()


def test_describe_writes_the_lines_of_kafka_topics(penstock: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    first, *rest = penstock("topic", "describe", topic).stdout.decode().splitlines()
    assert first.startswith(f"Topic: {topic}\tTopicId: ")
    assert "\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: " in first
    assert [line.split("\t")[2] for line in rest] == ["Partition: 0", "Partition: 1"]


def test_settings_without_effect_are_said(penstock: Command, broker_name: str) -> None:
    """Kafka's clients may set them; a person is told that they do nothing yet. Apache Kafka has none of them."""
    if broker_name != "penstock":
        pytest.skip("Apache Kafka has no setting without effect")
    topic = f"cli-{uuid4().hex}"
    said = "penstock: settings without effect in this version of the broker: "
    created = penstock(
        "topic", "create", topic, "--config", "preallocate=true", "--config", "local.retention.ms=1000",
        "--config", "flush.messages=1", "--config", "retention.ms=1000",
    )  # fmt: skip
    assert created.returncode == 0
    assert only_line(created.stderr) == f"{said}local.retention.ms, preallocate"
    altered = penstock("topic", "alter", topic, "--config", "unclean.leader.election.enable=true")
    assert only_line(altered.stderr) == f"{said}unclean.leader.election.enable"
    assert only_line(penstock("topic", "describe", topic).stderr) == (
        f"{said}local.retention.ms, preallocate, unclean.leader.election.enable"
    )
    assert described(penstock, topic)["configs_without_effect"] == [
        "local.retention.ms",
        "preallocate",
        "unclean.leader.election.enable",
    ]


def test_describe_shows_what_a_topic_holds(penstock: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    assert penstock("produce", topic, "-p", "0", stdin=b"a\nb\nc\n").returncode == 0
    description = described(penstock, topic)
    partitions = description["partitions"]
    assert isinstance(partitions, list)
    first, second = partitions
    assert (first["start_offset"], first["end_offset"], first["records"]) == (0, 3, 3)
    assert (second["start_offset"], second["end_offset"], second["records"], second["size_bytes"]) == (0, 0, 0, 0)
    assert first["size_bytes"] > 60
    assert (description["records"], description["size_bytes"]) == (3, first["size_bytes"])
    _topic, line, _other = penstock("topic", "describe", topic).stdout.decode().splitlines()
    assert line.split("\t")[6:] == [
        "Elr: ",
        "LastKnownElr: ",
        "StartOffset: 0",
        "EndOffset: 3",
        "Records: 3",
        f"Bytes: {first['size_bytes']}",
    ]


def test_creating_twice_fails_unless_that_is_allowed(penstock: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    again = penstock("topic", "create", topic)
    assert again.returncode == 1
    assert "already exists" in only_line(again.stderr)
    allowed = penstock("topic", "create", topic, "--if-not-exists", "--json")
    assert json.loads(allowed.stdout) == {"topic": topic, "created": False}
    assert allowed.returncode == 0


@pytest.mark.parametrize("words", [("describe",), ("delete",), ("alter", "--partitions", "2")])
def test_an_unknown_topic_has_its_own_exit_code_and_the_nearest_name(
    penstock: Command, new_topic: Callable[..., str], words: tuple[str, ...]
) -> None:
    topic = new_topic()
    finished = penstock("topic", *words, topic + "x")
    assert finished.returncode == 4
    assert only_line(finished.stderr) == f"penstock: topic '{topic}x' does not exist; did you mean '{topic}'?"


@pytest.mark.parametrize("words", [("delete",), ("alter", "--partitions", "2")])
def test_a_missing_topic_is_no_failure_where_that_is_allowed(penstock: Command, words: tuple[str, ...]) -> None:
    assert penstock("topic", *words, f"cli-{uuid4().hex}", "--if-exists").returncode == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("bad/name",), "bad/name"),
        (("cli-t", "--config", "no.such.setting=1"), "no.such.setting"),
        (("cli-t", "--config", "retention.ms=soon"), "retention.ms"),
        (("cli-t", "--replication-factor", "3"), "INVALID_REPLICATION_FACTOR"),
    ],
)
def test_what_the_broker_refuses_is_told_with_its_reason(
    penstock: Command, words: tuple[str, ...], reason: str
) -> None:
    finished = penstock("topic", "create", *words)
    assert finished.returncode == 1
    assert reason in only_line(finished.stderr)
    assert words[0] not in penstock("topic", "list").stdout.decode().splitlines()


def test_partitions_are_never_removed(penstock: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    finished = penstock("topic", "alter", topic, "--partitions", "2")
    assert finished.returncode == 1
    assert "INVALID_PARTITIONS" in only_line(finished.stderr)


def test_an_unknown_client_property_is_wrong_usage(penstock: Command) -> None:
    finished = penstock("topic", "list", "-X", "no.such.property=1")
    assert finished.returncode == 2
    assert "no.such.property" in only_line(finished.stderr)
